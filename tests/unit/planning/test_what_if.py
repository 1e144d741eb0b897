"""What a change makes of a plan: no more is said than is proved."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from planning_worlds import small_pools as problem

from alloc.errors import InstanceError
from alloc.planning.changes import Budget, Demand, NoMore
from alloc.planning.differences import CostChange, WhatIf, cost_change, what_if
from alloc.planning.documents import encode_what_if
from alloc.planning.loop import Iteration, Replayed
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import PlanReport, plan
from alloc.problems.right_sizing import JobClass, JobOption, Scenario, ServiceGoal, Tightening
from alloc.result import Limits

EXACT = Limits(seconds=20.0, gap=1e-6)
INF = float("inf")
REPLAY = ReplaySettings(jobs=20, replications=2, regimes=1)


@pytest.fixture(scope="module")
def base() -> PlanReport:
    return plan(problem(), limits=EXACT)


@pytest.fixture(scope="module")
def replayed() -> PlanReport:
    return plan(problem(), limits=EXACT, replay=REPLAY)


def test_a_what_if_of_replays_proves_nothing_of_buffers_that_differ(base: PlanReport) -> None:
    """The bound of one is about its buffers: the other plan may be none of those at all."""
    plain = what_if(problem(), [Demand(1.5)], base=base, limits=EXACT)
    assert base.certified_problem == base.problem
    assert plain.cost is not None
    assert "proved" in plain.cost.sentence
    result = plain.changed.result
    kept = (Tightening("train", "a100", "hall", margin=40.0),)
    iterations = tuple(
        Iteration(plain.changed.problem.replace(tightening=tightening), one, ())
        for tightening, one in (((), base.result), (kept, result))
    )
    buffered = PlanReport(plain.changed.problem, result, Replayed(iterations, "holds", "so."))
    cost = WhatIf(("more",), base, buffered).cost
    assert cost is not None
    assert cost.found == plain.cost.found
    assert (cost.at_least, cost.at_most) == (-math.inf, math.inf)
    assert "nothing is proved: each plan keeps capacity buffers" in cost.sentence
    cost = WhatIf(("more",), buffered, base).cost
    assert cost is not None
    assert math.isinf(cost.at_most)


def test_a_what_if_proves_the_range_of_the_difference(base: PlanReport) -> None:
    told: list[str] = []
    found = what_if(problem(), [Demand(1.5)], base=base, limits=EXACT, progress=told.append)
    assert found.changes == ("+50 % all jobs",)
    cost = found.cost
    assert cost is not None
    assert 0 < cost.at_least <= cost.found <= cost.at_most
    assert cost.sentence.startswith("costs ")
    assert sum(after - before for before, after in found.costs.values()) == pytest.approx(
        cost.found
    )
    assert found.hosts
    for before, after in found.hosts.values():
        assert before != after
    assert any("+50 % all jobs" in line for line in told)


@pytest.mark.parametrize(
    ("at_least", "at_most", "sentence"),
    [
        (0.0, 0.0, "does not change the cost, proved"),
        (-0.2, 0.3, "changes the cost by less than 1 EUR, proved"),
        (56_738.7, 56_739.2, "costs 56,739 EUR more, proved"),
        (48_655.0, 48_747.0, "costs 48,655 to 48,747 EUR more, proved"),
        (-0.4, 203.0, "costs at most 203 EUR more, proved"),
        (-203.0, 0.4, "saves at most 203 EUR, proved"),
        (-9_575.0, -9_498.0, "saves 9,498 to 9,575 EUR, proved"),
        (-77.0, 12.0, "changes the cost by -77 to +12 EUR: within the gap of the two solves, so "
         "solve with a smaller gap to know the sign"),
        (-INF, 203.0, "costs at most 203 EUR more, proved"),
        (-INF, -203.0, "saves at least 203 EUR, proved"),
        (203.0, INF, "costs at least 203 EUR more, proved"),
        (-203.0, INF, "saves at most 203 EUR, proved"),
    ],
)  # fmt: skip
def test_what_is_proved_of_a_cost_is_said_to_a_whole_unit(
    at_least: float, at_most: float, sentence: str
) -> None:
    """Two ends that round alike are one number, not a range from it to itself."""
    assert CostChange(at_least, at_least, at_most).in_words("EUR") == sentence


def test_a_what_if_without_a_proved_bound_is_said_and_written(base: PlanReport) -> None:
    """A solve that ends before its relaxation has a plan and no bound, which JSON cannot say."""
    unproved = dataclasses.replace(
        base.result, certificate=dataclasses.replace(base.result.certificate, bound=-INF)
    )
    report = dataclasses.replace(base, result=unproved)
    found = WhatIf(("more jobs",), report, dataclasses.replace(report))
    assert found.cost is not None
    assert found.cost.sentence == (
        "changes the cost found by +0, of which nothing is proved: give more time"
    )
    written = json.loads(json.dumps(encode_what_if(found), allow_nan=False))
    assert written["cost"]["at_least"] is None
    assert written["cost"]["at_most"] is None
    assert written["cost"]["found"] == 0.0


def test_a_change_that_is_none_does_not_change_the_cost(base: PlanReport) -> None:
    """Two solves of one problem would only be proved equal to their gaps."""
    found = what_if(problem(), [Budget(None)], base=base, limits=EXACT)
    assert found.changed is base
    assert found.cost is not None
    assert found.cost.sentence == "does not change the cost, proved"


def test_what_ifs_know_their_sign_or_say_that_they_do_not(base: PlanReport) -> None:
    saves = what_if(problem(), [Demand(0.5)], base=base, limits=EXACT).cost
    assert saves is not None
    assert saves.sentence.startswith("saves ")
    same = cost_change(base.result, base.result)
    assert same is not None
    assert abs(same.found) < 1e-9
    exact = dataclasses.replace(same, at_least=0.0, at_most=0.0)
    assert exact.sentence == "does not change the cost, proved"
    wide = dataclasses.replace(
        base.result,
        certificate=dataclasses.replace(
            base.result.certificate, bound=base.result.certificate.objective * 0.9
        ),
    )
    unknown = cost_change(wide, wide)
    assert unknown is not None
    assert "smaller gap" in unknown.sentence


def test_a_what_if_without_a_plan_has_no_cost(base: PlanReport) -> None:
    found = what_if(problem(), [Budget(1.0)], base=base, limits=EXACT)
    assert found.changed.result.certificate.status == "infeasible"
    assert found.cost is None
    assert found.hosts[("a100-host", "hall")][1] == (0, 0)


@pytest.mark.long
def test_another_policy_is_a_what_if_too(replayed: PlanReport) -> None:
    other = dataclasses.replace(REPLAY, scheduler="srtf")
    found = what_if(problem(), base=replayed, limits=EXACT, replay=REPLAY, changed_replay=other)
    assert found.changes == ("policy srtf",)
    assert found.changed.replayed is not None
    with pytest.raises(InstanceError, match="nothing is changed"):
        what_if(problem(), limits=EXACT, replay=REPLAY, changed_replay=REPLAY)


def test_no_longer_selling_a_type_moves_the_work(base: PlanReport) -> None:
    found = what_if(problem(), [NoMore("a100-host")], base=base, limits=EXACT)
    after = found.changed.result.require_solution()
    assert {order.offer for order in after.orders} == {"h100-host"}


def test_more_jobs_never_make_a_what_if_cheaper() -> None:
    """Pools stay as large as the base's load makes them; by itself a larger load makes larger ones.

    One job at a time finds a server of its own in a pool of one; with twice the load there are two
    servers, which keep the goal with far less for each job.
    """
    load = 1.9
    option = JobOption("a100", 1, 1.0)
    lone = problem(pool_gpus=None).replace(
        num_quarters=1,
        classes=(JobClass("work", (option,), goal=ServiceGoal("wait", 0.05, 0.95)),),
        scenarios=(Scenario("1", 1.0, {"work": (load,)}),),
    )
    base = plan(lone, limits=EXACT)
    assert base.result.certificate.objective is not None
    costs = [base.result.certificate.objective]
    by_themselves = [base.result.certificate.objective]
    for factor in (1.06, 1.2, 1.6, 2.5):
        changes = [Demand(factor)]
        found = what_if(lone, changes, base=base, limits=EXACT)
        cost = found.changed.result.certificate.objective
        alone = plan(changes[0].apply(lone), limits=EXACT).result.certificate.objective
        assert cost is not None
        assert alone is not None
        assert cost >= costs[-1] * (1 - 1e-6)
        costs.append(cost)
        by_themselves.append(alone)
    assert costs[-1] > costs[0]
    assert min(by_themselves[1:]) < by_themselves[0], "the reason for which sizes are kept"
