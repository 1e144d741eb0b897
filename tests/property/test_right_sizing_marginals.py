"""Marginal values of right-sizing: each is the slope of the relaxation, never that of a bound."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from planning_strategies import problems

from alloc.backends import SolverOptions, highs
from alloc.capacity import (
    HostOffer,
    JobClass,
    JobOption,
    Owned,
    PlanningProblem,
    Scenario,
    Site,
)
from alloc.capacity.headroom import reference_gpus
from alloc.errors import InstanceError
from alloc.models.right_sizing import SizingData, extensive
from alloc.solving.capacity.right_sizing import right_size
from alloc.topology import HostType

METHODS = ("extensive", "decomposition")
STEP = 1e-3


def relaxed(problem: PlanningProblem) -> float:
    """Return the optimum with hosts in fractions, infinite if there is none."""
    model = extensive(SizingData(problem)).model
    free = replace(model, integer=np.zeros(len(model.cost), dtype=bool))
    found = highs.solve(free, SolverOptions(30.0)).objective
    return float("inf") if found is None else found


def with_demand(problem: PlanningProblem, name: str, factor: float) -> PlanningProblem:
    return replace(
        problem,
        scenarios=tuple(
            replace(
                s,
                arrivals={
                    c: tuple(a * factor for a in v) if c == name else v
                    for c, v in s.arrivals.items()
                },
            )
            for s in problem.scenarios
        ),
    )


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
)
@given(st.data())
def test_marginal_values_are_slopes_on_both_sides(data):
    """What one more saves is no less than a step more saves, no more than a step less costs."""
    try:
        drawn = data.draw(problems())
    except InstanceError:
        assume(False)
        raise
    # Pools taken to be of another size, scenarios to be waived, and margins are no slopes.
    problem = replace(
        drawn,
        failures=0,
        epsilon=0.0,
        pool_gpus=reference_gpus(drawn) or 1.0,
        tightening=tuple(replace(part, margin=0.0) for part in drawn.tightening),
    )
    base = relaxed(problem)
    assume(base < float("inf"))
    slack = 1e-5 * max(1.0, abs(base))
    for method in METHODS:
        result = right_size(problem, method=method, gap=1e-7, time_limit_s=20)
        for value in result.marginals:
            if value.kind == "demand":
                more = relaxed(with_demand(problem, value.name, 1 + STEP))
                less = relaxed(with_demand(problem, value.name, 1 - STEP))
                per_step = value.saving * 100 * STEP
                assert base - more <= per_step + slack
                assert per_step <= less - base + slack
            if value.kind == "host":
                site = value.unit.split('"')[1]
                given_one = Owned(value.name, site, 1, problem.num_quarters)
                more = relaxed(replace(problem, owned=(*problem.owned, given_one)))
                assert base - more <= value.saving + slack


def one_class(**changes) -> PlanningProblem:
    """Work for two GPUs, on a host that is owned or rented."""
    four = HostType("four", 4, "a")
    problem = PlanningProblem(
        "one class",
        "EUR",
        1,
        (
            HostOffer("old", four, "purchase", 100.0, most_hosts=0),
            HostOffer("rent", HostType("one", 1, "a"), "on_demand", 0.5),
        ),
        (Site("room"),),
        (JobClass("work", (JobOption("a", 1, 4.0),)),),
        (Scenario("s", 1.0, {"work": (2.0,)}),),
        (Owned("old", "room", 1, 4),),
        quarter_hours=100.0,
        utilisation=1.0,
        pool_gpus=8.0,
    )
    return replace(problem, **changes)


@pytest.mark.parametrize("method", METHODS)
def test_a_host_that_is_no_longer_sold_has_its_value(method):
    """Eight GPUs are busy; each GPU of a host saves renting one: 100 h at 0.5."""
    found = right_size(one_class(), method=method).marginals
    values = {(value.kind, value.name): value.saving for value in found}
    assert values["host", "old"] == pytest.approx(4 * 100 * 0.5)
    assert values["demand", "work"] == pytest.approx(-0.08 * 100 * 0.5)


@pytest.mark.parametrize("method", METHODS)
def test_demand_is_worth_what_serving_it_costs(method):
    """Not what an emergency costs, though all work goes one way that has a bound."""
    found = right_size(one_class(owned=()), method=method).marginals
    values = {(value.kind, value.name): value.saving for value in found}
    assert values["demand", "work"] == pytest.approx(-0.08 * 100 * 0.5)
