"""Settling: a plan whose jobs stay gets the hosts that its pools require, and no others."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict

import pytest
from planning_worlds import small_pools
from pools import FILLER, GANG, QUICK, SHORT, pool, problem

from alloc.backends import highs
from alloc.formulation import RawResult
from alloc.planning import buffers, capacity
from alloc.planning.buffers import Knowledge, is_enough, learn
from alloc.planning.capacity import formula_gpus, required_by_formula
from alloc.planning.iteration_solves import IterationSolves
from alloc.planning.loop import plan_and_replay
from alloc.planning.pools import Pool, operations_of, tightest
from alloc.planning.replay import ReplaySettings, replay
from alloc.planning.report import solve_plan
from alloc.planning.settling import settled
from alloc.planning.tightenings import with_shared_pools
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    Order,
    Plan,
    PlanningProblem,
    Scenario,
    ServiceGoal,
    Site,
)
from alloc.problems.right_sizing.accounting import account
from alloc.problems.right_sizing.demand import MarginKey
from alloc.result import Limits, Result
from alloc.topology import HostType
from alloc.verification.right_sizing import verify_plan

EXACT = Limits(seconds=20.0, gap=1e-6)
GOAL = ServiceGoal("wait", 0.1, 0.95)


def planned(asked: PlanningProblem) -> tuple[PlanningProblem, Result[Plan]]:
    """Return a problem without headroom for the size of pools, and its plan: too few hosts."""
    shared = with_shared_pools(asked)
    return shared, solve_plan(shared, EXACT)


def has_all(asked: PlanningProblem, knowledge: Knowledge, plan: Plan) -> bool:
    return is_enough(knowledge, operations_of(asked, plan))


@pytest.mark.parametrize(("failures", "correction"), [(0, 1.0), (0, 2.0), (1, 1.0)])
def test_a_settled_plan_has_the_fewest_hosts_with_what_is_required(
    failures: int, correction: float
) -> None:
    """Held against every number of hosts around it; jobs are where they were."""
    shared, first = planned(small_pools(failures=failures))
    knowledge = Knowledge()
    for operation in operations_of(shared, first.require_solution()):
        knowledge.correct(operation.pool, correction)
    found = settled(shared, knowledge, first, 20.0)
    assert found is not None
    plan = found.require_solution()
    assert set(plan.shares) == set(first.require_solution().shares)
    assert has_all(shared, knowledge, plan)
    assert not has_all(shared, knowledge, first.require_solution())
    places = sorted(
        {(offer.name, t) for offer in shared.offers for t in range(shared.num_quarters)}
    )
    best = math.inf
    ordered = {(order.offer, order.quarter): order.count for order in plan.orders}
    around = [range(max(ordered.get(at, 0) - 1, 0), ordered.get(at, 0) + 2) for at in places]
    for counts in itertools.product(*around):
        orders = tuple(
            Order(offer, "hall", t, count)
            for (offer, t), count in zip(places, counts, strict=True)
            if count
        )
        other = dataclasses.replace(plan, orders=orders)
        if not verify_plan(shared, other) and has_all(shared, knowledge, other):
            best = min(best, account(shared, other).costs.total)
    assert found.certificate.objective == pytest.approx(best, rel=2e-3)
    assert found.certificate.bound == -math.inf


def spot_world(most: int, part: float) -> PlanningProblem:
    """Spot hosts at a tenth of the price, of which there are few in one future."""
    a100 = HostType("a", 8, "a100")
    return PlanningProblem(
        name="spot",
        currency="EUR",
        num_quarters=1,
        offers=(
            HostOffer("firm", a100, "on_demand", 20.0),
            HostOffer("spot", a100, "spot", 2.0, most_hosts=most),
        ),
        sites=(Site("cloud"),),
        classes=(
            JobClass("train", (JobOption("a100", 8, 4.0),), goal=GOAL, interruptible=True),
            JobClass("tune", (JobOption("a100", 1, 2.0),), goal=GOAL),
        ),
        scenarios=(
            Scenario("much", 0.5, {"train": (1.0,), "tune": (3.0,)}, (1.0,)),
            Scenario("little", 0.5, {"train": (1.0,), "tune": (3.0,)}, (part,)),
        ),
    )


def test_where_spot_hosts_are_too_few_a_part_of_the_jobs_goes_to_firm_ones() -> None:
    shared, first = planned(spot_world(8, 0.75))
    found = settled(shared, Knowledge(), first, 20.0)
    assert found is not None
    plan, before = found.require_solution(), first.require_solution()
    assert not verify_plan(shared, plan)
    rates: list[dict[tuple[str, str], float]] = []
    for one in (before, plan):
        rates.append(defaultdict(float))
        for share in one.shares:
            rates[-1][share.scenario, share.job_class] += share.jobs_per_hour
    assert rates[1] == pytest.approx(rates[0])

    def on_spot(one: Plan) -> float:
        return sum(share.jobs_per_hour for share in one.shares if share.spot)

    assert 0 < on_spot(plan) < on_spot(before)
    spot = [one for one in operations_of(shared, plan) if one.pool.spot]
    # By the square root of the load: the formula says so within a few GPUs.
    assert all(Knowledge().missing(one) <= 4.0 for one in spot)
    firm = [one for one in operations_of(shared, plan) if not one.pool.spot]
    assert firm
    assert all(Knowledge().missing(one) <= 0.5 for one in firm)


def test_what_breaks_another_limit_is_no_plan() -> None:
    shared, first = planned(small_pools())
    cost = first.certificate.objective
    assert cost is not None
    knowledge = Knowledge()
    for operation in operations_of(shared, first.require_solution()):
        knowledge.correct(operation.pool, 2.0)
    assert settled(shared.replace(budget=1.01 * cost), knowledge, first, 20.0) is None


def test_a_plan_for_which_there_is_no_more_time_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan that lacks capacity would be replayed for nothing."""
    shared, first = planned(small_pools())
    clock = [0.0]
    # The plan is not what was asked for: some pool goes on lacking.
    monkeypatch.setattr("alloc.planning.iteration_solves.raise_buffers", lambda *known: True)
    monkeypatch.setattr("alloc.planning.iteration_solves.time.monotonic", lambda: clock[0])

    def solve(asked: PlanningProblem, _: object, seconds: float | None) -> Result[Plan]:
        assert seconds is not None
        clock[0] += 9.9
        return first

    knowledge = Knowledge()
    solves = IterationSolves(small_pools(), shared, knowledge, solve, ReplaySettings(), 10.0)
    _, result = solves.cheapest(first, 0)
    every = tightest(operations_of(shared, result.require_solution()), 2)
    assert is_enough(knowledge, every)
    assert not is_enough(knowledge, tightest(operations_of(shared, first.require_solution()), 2))
    late = first.replace(certificate=first.certificate.replace(limit="time"))
    asked, result = solves.in_places_of(late)
    assert asked == shared
    assert set(result.require_solution().shares) == set(first.require_solution().shares)


def test_goals_hold_though_no_solve_gives_pools_what_they_require(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each solve takes all the time that there is, and is as short of hosts as the first."""
    _, first = planned(small_pools())
    first = first.replace(certificate=first.certificate.replace(limit="time"))
    clock = [0.0]
    monkeypatch.setattr("alloc.planning.iteration_solves.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("alloc.planning.iteration_solves.raise_buffers", lambda *known: True)

    def solve(asked: PlanningProblem, _: object, seconds: float | None) -> Result[Plan]:
        assert seconds is not None
        clock[0] += seconds
        return first

    settings = ReplaySettings(jobs=100, replications=2)
    ended = plan_and_replay(small_pools(), solve, settings, seconds=10.0)
    assert ended.iterations[0].missed
    assert ended.outcome == "holds"
    # Jobs stay where they are in all plans.
    places = {
        frozenset((s.job_class, s.option, s.site, s.spot) for s in one.result.solution.shares)
        for one in ended.iterations
        if one.result.solution is not None
    }
    assert len(places) == 1
    # The same plan again is no reason for another iteration.
    assert [one.holds for one in ended.iterations] == [False, False, True, True]
    assert "no bound is proved of it" in ended.sentence
    assert not verify_plan(ended.answer.problem, ended.result.require_solution())


def test_a_pool_that_kept_its_goals_is_measured_once_until_all_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is known of it would not fall until then, whatever was measured."""
    holding = pool(6, (SHORT, 12.0), (FILLER, 8.0))
    missing = pool(2, (SHORT, 15.5), gpu_type="h100")
    replayed = [(one, replay(one, QUICK, draw=1)) for one in (holding, missing)]
    assert [all(m.holds for m in found) for _, found in replayed] == [True, False]
    asked = [MarginKey(frozenset({"short"}), gpu, "hall", False) for gpu in ("a100", "h100")]
    looked_at: list[Pool] = []

    def noted(calls: object, settings: ReplaySettings) -> list[float]:
        looked_at.extend(regimes[0].operation.pool for _, regimes in calls)  # type: ignore
        return capacity.measured_ratios(calls, settings)  # type: ignore[arg-type]

    monkeypatch.setattr(buffers, "measured_ratios", noted)
    knowledge, each = Knowledge(), (holding, missing)
    learn(knowledge, problem(), asked, each, replayed, QUICK)
    assert set(looked_at) == {holding.pool, missing.pool}
    before = knowledge.corrections[holding.pool]
    looked_at.clear()
    learn(knowledge, problem(), asked, each, replayed, QUICK)
    assert looked_at == [missing.pool]
    assert knowledge.corrections[holding.pool] == before
    knowledge.held = True
    looked_at.clear()
    learn(knowledge, problem(), asked, each, replayed, QUICK)
    assert set(looked_at) == {holding.pool, missing.pool}


@pytest.mark.parametrize("loads", [(12.0, 20.0, 40.0), (0.5, 90.0, 1.0), (60.0, 0.1, 300.0)])
def test_what_a_pool_requires_is_the_most_that_a_class_does(
    loads: tuple[float, float, float],
) -> None:
    """Classes that keep their goals with what another requires are looked into no further."""
    mixed = pool(1, *zip((SHORT, FILLER, GANG), loads, strict=True))
    most = max(formula_gpus(mixed.streams, one) for one in (SHORT, FILLER, GANG))
    assert required_by_formula(mixed) == pytest.approx(most, rel=2e-3)


@pytest.mark.parametrize("dearer", [1e-9, 1.0, 1e12])
def test_pools_have_what_they_require_however_little_of_the_cost_is_prices(dearer: float) -> None:
    """What hosts draw and their upkeep is money that a host costs, too."""
    asked = small_pools()
    offers = tuple(dataclasses.replace(offer, price=dearer * offer.price) for offer in asked.offers)
    shared, first = planned(asked.replace(offers=offers))
    knowledge = Knowledge()
    for operation in operations_of(shared, first.require_solution()):
        knowledge.correct(operation.pool, 3.0)
    found = settled(shared, knowledge, first, 20.0)
    assert found is not None
    assert has_all(shared, knowledge, found.require_solution())


@pytest.mark.parametrize("jobs", [1e-9, 1e-3, 1.0, 1e3])
def test_rentals_of_next_to_no_load_are_no_round_off(jobs: float) -> None:
    asked = spot_world(1_000_000, 1.0)
    offers = (asked.offers[0],)
    scenarios = tuple(
        dataclasses.replace(one, arrivals={"train": (jobs,), "tune": (3 * jobs,)})
        for one in asked.scenarios
    )
    # Without goals a pool requires the load alone, and no gang: next to nothing is rented.
    classes = tuple(dataclasses.replace(one, goal=None) for one in asked.classes)
    shared, first = planned(asked.replace(offers=offers, scenarios=scenarios, classes=classes))
    found = settled(shared, Knowledge(), first, 20.0)
    assert found is not None
    assert found.certificate.objective == pytest.approx(first.certificate.objective, rel=1e-4)


def test_an_interrupt_while_hosts_are_sought_keeps_the_plan_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The solver of the program returns at Ctrl-C as at the end of its time."""
    shared, first = planned(small_pools())
    late = first.replace(certificate=first.certificate.replace(limit="time"))
    knowledge = Knowledge()
    solves = IterationSolves(
        small_pools(), shared, knowledge, lambda *asked: late, ReplaySettings(), None
    )
    solves.of(shared, None)
    solve = highs.solve

    def interrupted(*asked: object) -> RawResult:
        return dataclasses.replace(solve(*asked), limit="interrupt")  # type: ignore[arg-type]

    monkeypatch.setattr("alloc.planning.hosts_program.highs.solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solves.in_places_of(late)
    assert solves.best() == (shared, late)


def test_a_settled_plan_that_holds_gives_back_hosts_once_and_ends_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, first = planned(small_pools())
    first = first.replace(certificate=first.certificate.replace(limit="time"))
    clock, given_back = [0.0], []
    monkeypatch.setattr("alloc.planning.iteration_solves.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("alloc.planning.iteration_solves.raise_buffers", lambda *known: True)
    monkeypatch.setattr("alloc.planning.loop.lessened", lambda *known: given_back.append(known[2]))

    def solve(asked: PlanningProblem, _: object, seconds: float | None) -> Result[Plan]:
        assert seconds is not None
        clock[0] += 4 * seconds  # it is late after the first
        return first

    def with_more(shared: PlanningProblem, knowledge: Knowledge, *asked: object) -> Result[Plan]:
        found = settled(shared, knowledge, first, 20.0)
        assert found is not None
        plan = found.require_solution()
        orders = tuple(dataclasses.replace(o, count=o.count + 1) for o in plan.orders)
        plan = dataclasses.replace(plan, orders=orders)
        certificate = found.certificate.replace(objective=account(shared, plan).costs.total)
        return found.replace(solution=plan, certificate=certificate)

    monkeypatch.setattr("alloc.planning.iteration_solves.settled", with_more)
    ended = plan_and_replay(
        small_pools(), solve, ReplaySettings(jobs=100, replications=2), seconds=10.0
    )
    assert [one.holds for one in ended.iterations] == [False, True]
    assert given_back == [ended.answer.result]
