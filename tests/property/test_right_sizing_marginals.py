"""Marginal values of right-sizing: each is what one unit more saves, not the bound of a dual."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from planning_strategies import problems

from alloc.backends import SolverOptions, highs
from alloc.errors import InstanceError
from alloc.instances.stored_planning import load_stored_planning
from alloc.models.right_sizing import SizingData, extensive
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    Owned,
    PlanningProblem,
    Scenario,
    Site,
)
from alloc.problems.right_sizing.headroom import reference_gpus, with_margins_by_hour
from alloc.problems.right_sizing.repairs import apply_repairs
from alloc.result import Limits, Repair, Sensitivity
from alloc.solving.right_sizing import marginals
from alloc.solving.right_sizing.method import right_size
from alloc.topology import HostType

METHODS: tuple[Any, ...] = ("extensive", "decomposition")
MORE = 1.01


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


def with_host(problem: PlanningProblem, offer: str, site: str) -> PlanningProblem:
    one = Owned(offer, site, 1, problem.num_quarters)
    return replace(problem, owned=(*problem.owned, one))


def with_one_more(problem: PlanningProblem, value: Sensitivity) -> PlanningProblem:
    """Return the problem with one unit more of what a marginal value is about."""
    if value.kind == "demand":
        return with_demand(problem, value.name, MORE)
    if value.kind == "host":
        return with_host(problem, value.name, value.unit.split('"')[1])
    amount = Repair(value.kind, value.name, 1.0, value.unit, "", quarter=value.period)
    return apply_repairs(problem, [amount])


@pytest.mark.long
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
)
@given(st.data())
def test_marginal_values_are_what_one_unit_more_saves(data):
    """Each of them, by both methods, against the relaxation of the changed problem from nothing."""
    try:
        drawn = data.draw(problems())
    except InstanceError:
        assume(False)
        raise
    # With more demand pools would be taken to be larger, and hours fall into other bands.
    hourly = replace(drawn, pool_gpus=reference_gpus(drawn) or 1.0, bands=168)
    problem = with_margins_by_hour(hourly, drawn)
    base = relaxed(problem)
    assume(base < float("inf"))
    slack = 2e-6 * max(1.0, abs(base))
    for method in METHODS:
        result = right_size(problem, method=method, limits=Limits(seconds=20, gap=0.5))
        assume(result.solution is not None)
        for value in result.sensitivities:
            assert value.is_exact
            more = relaxed(with_one_more(problem, value))
            if value.value is None:
                assert more == float("inf")
            else:
                assert more - base == pytest.approx(value.value, abs=slack, rel=1e-5), value
            if value.kind == "host" and value.value is not None:
                for group in SizingData(problem).host_groups:
                    offer, site = problem.offers[group.offer], problem.sites[group.site]
                    if offer.name == value.name:
                        other = relaxed(with_host(problem, offer.name, site.name))
                        assert base - other <= -value.value + slack


def test_where_a_class_cannot_grow_the_value_says_so():
    """Eight GPUs, all of them needed: no plan serves 1 % more, and none is priced."""
    only = HostOffer("old", HostType("four", 4, "a"), "purchase", 100.0, most_hosts=0)
    problem = one_class(offers=(only,), owned=(Owned("old", "room", 2, 4),))
    for method in METHODS:
        (value,) = (
            v for v in right_size(problem, method=method).sensitivities if v.kind == "demand"
        )
        assert (value.value, value.is_exact) == (None, True)


@pytest.mark.parametrize("method", METHODS)
def test_a_reservation_that_is_not_used_costs_its_fee(method):
    """Its dual value is 0, for the first bit of a host; a whole one is paid whether it works."""
    reserve = HostOffer("reserve", HostType("four", 4, "a"), "reserved", 900.0, service_quarters=1)
    rent = HostOffer("rent", HostType("four", 4, "a"), "on_demand", 1.0)
    found = right_size(one_class(offers=(reserve, rent), owned=()), method=method).sensitivities
    (value,) = (v for v in found if v.kind == "host")
    assert value.value == pytest.approx(900.0 - 100.0)


def test_of_a_large_problem_values_are_estimates_with_what_is_proved(monkeypatch):
    """Where the relaxation is not solved again, the range has the true value in it."""
    monkeypatch.setattr(marginals, "_MAX_COLUMNS", 0)
    problem = load_stored_planning("planning-budget")
    base, checked = relaxed(problem), 0
    for value in right_size(problem, method="decomposition", limits=Limits(gap=1e-3)).sensitivities:
        assert not value.is_exact
        if value.kind == "demand":
            continue
        change = relaxed(with_one_more(problem, value)) - base
        assert value.lower is not None
        assert change >= value.lower - 1e-6 * base
        if value.upper is not None:
            assert change <= value.upper + 1e-6 * base
        checked += 1
    assert checked > 5


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
    found = right_size(one_class(), method=method).sensitivities
    values = {(value.kind, value.name): -value.value for value in found}
    assert values["host", "old"] == pytest.approx(4 * 100 * 0.5)
    assert values["demand", "work"] == pytest.approx(-0.08 * 100 * 0.5)


@pytest.mark.parametrize("method", METHODS)
def test_demand_is_worth_what_serving_it_costs(method):
    """Not what slack costs, though all work goes one way that has a bound."""
    found = right_size(one_class(owned=()), method=method).sensitivities
    values = {(value.kind, value.name): -value.value for value in found}
    assert values["demand", "work"] == pytest.approx(-0.08 * 100 * 0.5)
