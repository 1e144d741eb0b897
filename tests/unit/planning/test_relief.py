"""Relief: jobs leave pools that cannot have the hosts that these require."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from pools import FILLER, GANG, SHORT

from alloc.backends.linear_program import LinearProgram
from alloc.models.right_sizing.data import SizingData
from alloc.planning.buffers import Knowledge, is_enough
from alloc.planning.capacity import required_by_formula
from alloc.planning.iteration_solves import IterationSolves
from alloc.planning.pools import operations_of
from alloc.planning.quick_needs import QuickNeeds
from alloc.planning.relief import relieved
from alloc.planning.replay import ReplaySettings
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
from alloc.problems.right_sizing.plan import Share
from alloc.result import Limits, Result
from alloc.topology import HostType
from alloc.verification.right_sizing import verify_plan

GOAL = ServiceGoal("wait", 0.5, 0.95)
A100 = HostType("a", 8, "a100")
RATES = {"train": (1.0, 1.5), "tune": (8.0, 12.0)}


def room_and_cloud(hosts: int, failures: int = 0) -> PlanningProblem:
    """A machine room for so many hosts, and a cloud at several times the price."""
    return PlanningProblem(
        name="full",
        currency="EUR",
        num_quarters=2,
        offers=(
            HostOffer("reserve", A100, "reserved", 1e4, ("hall",), rack_units=6.0),
            HostOffer("rent", A100, "on_demand", 20.0, ("cloud",)),
        ),
        sites=(Site("hall", 6.0 * hosts), Site("cloud")),
        classes=(
            JobClass("train", (JobOption("a100", 8, 4.0),), goal=GOAL),
            JobClass("tune", (JobOption("a100", 1, 2.0),), goal=GOAL),
        ),
        scenarios=(Scenario("only", 1.0, RATES),),
        failures=failures,
    )


def plan_with(at_home: dict[tuple[str, int], float], hosts: int) -> Plan:
    """Return a plan in which parts of classes run in the room, by class and quarter."""
    shares = []
    for (name, quarter), part in at_home.items():
        for site, rate in (("hall", part), ("cloud", 1 - part)):
            if rate:
                jobs = rate * RATES[name][quarter]
                shares.append(Share("only", quarter, 0, name, 0, site, False, jobs))
    orders = tuple(Order("reserve", "hall", quarter, hosts) for quarter in range(2))
    return Plan(orders=orders, shares=tuple(shares))


def as_result(problem: PlanningProblem, plan: Plan) -> Result[Plan]:
    """Return a result that holds a plan, as of a solve that its time ended."""
    found = solve_plan(problem, Limits(seconds=20.0))
    certificate = found.certificate.replace(limit="time")
    return found.replace(solution=plan, certificate=certificate)


def settled_cost(problem: PlanningProblem, like: Result[Plan], plan: Plan) -> float:
    """Return what a plan costs with the hosts it requires; infinite if it cannot have them."""
    found = settled(problem, Knowledge(), like, 20.0, plan)
    if found is None or not is_enough(
        Knowledge(), operations_of(problem, found.require_solution())
    ):
        return math.inf
    return account(problem, found.require_solution()).costs.total


PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)


@pytest.mark.long
@pytest.mark.parametrize("at_home", [1.0, 0.9])
@pytest.mark.parametrize(("hosts", "failures"), [(4, 0), (6, 0), (6, 1)])
def test_jobs_that_a_full_room_has_no_hosts_for_go_to_the_cloud(
    hosts: int, failures: int, at_home: float
) -> None:
    """Held against all plans in which quarters of the classes run in the room."""
    problem = with_shared_pools(room_and_cloud(hosts, failures))
    places = list(itertools.product(RATES, range(2)))
    given = plan_with(dict.fromkeys(places, at_home), hosts)
    like = as_result(problem, given)
    assert settled_cost(problem, like, given) == math.inf
    found = relieved(problem, Knowledge(), given, 20.0)
    assert found is not None
    for name, quarter in places:
        there = [s for s in found.shares if (s.job_class, s.quarter) == (name, quarter)]
        assert math.fsum(s.jobs_per_hour for s in there) == pytest.approx(RATES[name][quarter])
    cost = settled_cost(problem, like, found)
    every = itertools.product(PARTS, repeat=len(places))
    # What the room cannot hold is not known of the plan itself: most of all plans are cheap to try.
    best = min(
        settled_cost(problem, like, plan_with(dict(zip(places, parts, strict=True)), hosts))
        for parts in itertools.islice(every, 0, None, 7)
    )
    assert cost <= 1.1 * best


def test_where_pools_can_have_what_they_require_jobs_stay() -> None:
    problem = with_shared_pools(room_and_cloud(40))
    given = plan_with(dict.fromkeys(itertools.product(RATES, range(2)), 1.0), 40)
    assert relieved(problem, Knowledge(), given, 20.0) is None


def test_no_time_is_no_relief() -> None:
    problem = with_shared_pools(room_and_cloud(4))
    given = plan_with(dict.fromkeys(itertools.product(RATES, range(2)), 1.0), 4)
    assert relieved(problem, Knowledge(), given, 1e-9) is None


def test_an_interrupt_of_the_linear_program_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = with_shared_pools(room_and_cloud(4))
    given = plan_with(dict.fromkeys(itertools.product(RATES, range(2)), 1.0), 4)

    def interrupted(program: LinearProgram, *asked: object, **more: object) -> None:
        program.interrupted = True

    monkeypatch.setattr(LinearProgram, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        relieved(problem, Knowledge(), given, 20.0)


@pytest.mark.parametrize("loads", [(12.0, 20.0, 40.0), (5.0, 90.0, 64.0), (60.0, 8.0, 300.0)])
def test_quick_needs_are_what_the_formula_says(loads: tuple[float, float, float]) -> None:
    """Of the jobs they were corrected by exactly, of others within a twentieth."""
    classes = (SHORT, FILLER, GANG)
    problem = PlanningProblem(
        name="quick",
        currency="EUR",
        num_quarters=1,
        offers=(HostOffer("host", A100, "on_demand", 20.0),),
        sites=(Site("hall"),),
        classes=classes,
        scenarios=(Scenario("1", 1.0, {c.name: (100.0,) for c in classes}),),
        pool_gpus=1e6,
    )
    rates = [load / c.options[0].gpu_hours for load, c in zip(loads, classes, strict=True)]
    shares = tuple(
        Share("1", 0, 0, c.name, 0, "hall", False, rate)
        for c, rate in zip(classes, rates, strict=True)
    )
    plan = Plan(orders=(), shares=shares)
    (operation,) = operations_of(problem, plan)
    needs = QuickNeeds(SizingData(problem), plan)
    exact = required_by_formula(operation)
    assert needs.needs[operation.pool][0] == pytest.approx(exact, rel=0.1)
    needs.correct({(operation.pool, operation.regime): exact})
    assert needs.needs[operation.pool][0] == pytest.approx(exact)
    (mode,) = (i for i in needs.modes_of[operation.pool] if needs.gpus[i] == 1)
    for part in (0.5, 2.0, 4.0):
        more = (dataclasses.replace(shares[0], jobs_per_hour=part * rates[0]), *shares[1:])
        (other,) = operations_of(problem, dataclasses.replace(plan, shares=more))
        found = needs.need(operation.pool, np.array([0]), {mode: np.array([part * rates[0]])})
        assert found[0] == pytest.approx(required_by_formula(other), rel=0.05)


def test_a_plan_of_a_full_room_is_settled_with_what_pools_require() -> None:
    """Without relief it would be replayed though it lacks capacity."""
    asked = room_and_cloud(4)
    problem = with_shared_pools(asked)
    given = plan_with(dict.fromkeys(itertools.product(RATES, range(2)), 1.0), 4)
    late = as_result(problem, given)
    solves = IterationSolves(
        asked, problem, Knowledge(), lambda *asked: late, ReplaySettings(), None
    )
    found = solves.settled(late)
    assert found is not None
    assert found.is_enough
    assert not verify_plan(problem, found.result.require_solution())
    assert found.result.certificate.bound == -math.inf
    # And there is no need of a solve that would move other jobs.
    again, result = solves.in_places_of(late)
    assert (again, result.solution) == (problem, found.result.solution)
