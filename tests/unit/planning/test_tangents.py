"""Buffers beside slopes: what a pool keeps where other loads come than those of the plan."""

from __future__ import annotations

import pytest
from pools import FILLER, GANG, job_class, pool, problem

from alloc.planning.buffers import Knowledge, fit
from alloc.planning.capacity import reserved_gpus
from alloc.planning.pools import Operation
from alloc.planning.tightened_problems import (
    keys_of,
    tightened,
    with_slopes,
)
from alloc.problems.right_sizing import PlanningProblem, Scenario, ServiceGoal
from alloc.problems.right_sizing.demand import MarginKey
from alloc.problems.right_sizing.headroom import margins, tightening_factors

# It asks for far more than the twentieth that the model keeps idle anyway.
EAGER = job_class("short", 4, 2.0, ServiceGoal("wait", 0.05, 0.97))


def quarters(count: int) -> PlanningProblem:
    arrivals = {name: (1.0,) * count for name in ("short", "filler", "gang")}
    scenarios = (Scenario("1", 1.0, arrivals),)
    return problem().replace(num_quarters=count, scenarios=scenarios)


def kept_for(asked: PlanningProblem, names: set[str], quarter: int) -> float:
    """Return the buffer that the a100 pool keeps where jobs of some classes come."""
    return max(
        (
            gpus[quarter]
            for key, gpus in margins(asked).items()
            if key.gpu_type == "a100" and key.job_classes <= names
        ),
        default=0.0,
    )


def set_aside(asked: PlanningProblem, operation: Operation, quarter: int = 0) -> float:
    names = {stream.job_class.name for stream in operation.streams}
    return reserved_gpus(asked, operation) + kept_for(asked, names, quarter)


@pytest.mark.parametrize("ratio", [1.0, 2.0])
@pytest.mark.parametrize("loads", [(30.0, 0.0), (90.0, 0.0), (20.0, 100.0), (150.0, 40.0)])
def test_a_pool_keeps_enough_for_any_load_of_the_same_mix(
    loads: tuple[float, float], ratio: float
) -> None:
    """Required capacity is concave in the load: its tangent is nowhere too little."""
    sizes = [(kind, load) for kind, load in zip((EAGER, GANG), loads, strict=True) if load]
    plan = pool(60, *sizes)
    knowledge = Knowledge(corrections={plan.pool: ratio})
    sloped = with_slopes(problem(), knowledge, [plan])
    fit(knowledge, sloped, [plan])
    asked = tightened(sloped, knowledge, keys_of([plan]))
    required = knowledge.required(plan)
    # At the load of the plan it is just what is required.
    assert set_aside(asked, plan) == pytest.approx(required, rel=2e-3)
    for times in (0.3, 0.6, 1.5, 3.0):
        other = plan.times(times)
        assert set_aside(asked, other) >= knowledge.required(other) * (1 - 2e-3)
    # Without the slope it would be too little for three times the load.
    fit(knowledge, problem(), [plan])
    asked = tightened(problem(), knowledge, keys_of([plan]))
    more = plan.times(3.0)
    assert set_aside(asked, more) < knowledge.required(more) * (1 - 5e-3)


def test_the_slope_is_that_of_the_largest_load_and_of_no_pool_without_a_goal() -> None:
    """At smaller loads it is steeper: there the buffer says the rest, and asks for no more."""
    large, small = pool(60, (EAGER, 200.0)), pool(8, (EAGER, 20.0), quarter=1)
    aimless = pool(9, (FILLER, 40.0), gpu_type="h100")
    knowledge = Knowledge()
    sloped = with_slopes(quarters(2), knowledge, [small, large, aimless])
    factors = tightening_factors(sloped)
    assert factors.keys() == {("short", "a100", "hall", False)}
    assert 1.0 < factors["short", "a100", "hall", False] < 1.2
    fit(knowledge, sloped, [small, large])
    asked = tightened(sloped, knowledge, keys_of([small, large]))
    for quarter, operation in enumerate((large, small)):
        required = knowledge.required(operation)
        assert set_aside(asked, operation, quarter) == pytest.approx(required, rel=2e-3)


def test_where_nobody_comes_a_few_jobs_of_a_large_gang_find_room() -> None:
    """A buffer for a large load is less than the gang; a small load brings hardly more."""
    plan = [pool(40, (GANG, 250.0), quarter=1)]
    knowledge = Knowledge(corrections={plan[0].pool: 0.1})
    fit(knowledge, quarters(2), plan)
    gang = MarginKey(frozenset({"gang"}), "a100", "hall", False)
    few = pool(0, (GANG, 0.5))
    used, unused = (knowledge.buffers[gang, quarter] for quarter in (1, 0))
    assert used < knowledge.required(few) - reserved_gpus(quarters(2), few)
    assert unused + reserved_gpus(quarters(2), few) >= knowledge.required(few) - 0.5
