"""Fronts of cost and goals, energy or carbon."""

from __future__ import annotations

import dataclasses

import pytest
from planning_worlds import small_pools as problem

from alloc.errors import InstanceError
from alloc.instances.stored_planning import load_stored_planning
from alloc.planning.fronts import in_energy, pareto
from alloc.planning.report import PlanReport, plan
from alloc.problems.right_sizing import ServiceGoal, Site, Tightening
from alloc.problems.right_sizing.accounting import account
from alloc.problems.right_sizing.bands import bands_of
from alloc.result import Limits

EXACT = Limits(seconds=20.0, gap=1e-6)
INF = float("inf")


@pytest.fixture(scope="module")
def base() -> PlanReport:
    return plan(problem(), limits=EXACT)


@pytest.mark.parametrize("axis", ["goals", "energy", "carbon"])
def test_fronts_fall_and_each_point_is_certified(axis: str, base: PlanReport) -> None:
    front = pareto(problem(), axis, points=3, factors=(0.5, 1.0, 3.0), limits=EXACT)  # type: ignore[arg-type]
    planned = [point for point in front.points if point.result.solution is not None]
    assert len(planned) >= 2
    costs = [point.cost for point in planned]
    assert costs == sorted(costs, reverse=True)
    for point in planned:
        assert point.result.certificate.bound <= point.cost
        assert point.value <= point.limit * (1 + 1e-6)
    cheapest = base.result.certificate.objective
    if axis == "goals":
        assert next(p.cost for p in planned if p.limit == 1.0) == pytest.approx(cheapest)
    else:
        assert planned[-1].cost == pytest.approx(cheapest)


def test_looser_caps_never_cost_more_where_each_future_has_its_own_worst_quarter() -> None:
    """The cheapest plan stood at its worst future's energy, below plans with tighter caps."""
    tiny = load_stored_planning("planning-tiny")
    one = tiny.scenarios[0]
    futures = tuple(
        dataclasses.replace(
            one,
            name=name,
            probability=0.5,
            arrivals={k: (early * r[0], late * r[1]) for k, r in one.arrivals.items()},
        )
        for name, early, late in (("early", 1.6, 0.3), ("late", 0.3, 1.6))
    )
    front = pareto(tiny.replace(scenarios=futures, budget=None), "energy", points=3, limits=EXACT)
    planned = [point for point in front.points if point.result.solution is not None]
    assert len(planned) >= 2
    assert [point.cost for point in planned] == sorted((p.cost for p in planned), reverse=True)
    assert all(point.value < point.limit for point in planned)


def test_energy_counts_as_carbon_without_changing_any_cost(base: PlanReport) -> None:
    """The front of energy is drawn on a problem in other units, at the same prices."""
    priced = problem(carbon_price_per_kg=0.2)
    found = plan(priced, limits=EXACT).result.require_solution()
    as_energy = in_energy(priced)
    assert account(as_energy, found).costs.total == pytest.approx(
        account(priced, found).costs.total
    )
    kwh, kg = account(as_energy, found).carbon_kg, account(priced, found).carbon_kg
    assert kwh == pytest.approx(kg / 0.3)


def test_a_front_of_energy_keeps_the_bands_of_the_hours() -> None:
    """With a price on carbon, hours put together anew by the joint price cost something else."""
    priced = load_stored_planning("planning-small/02")
    assert priced.carbon_price_per_kg > 0
    before, after = bands_of(priced), bands_of(in_energy(priced))
    assert after.of_hour.tolist() == before.of_hour.tolist()
    assert after.arrivals == pytest.approx(before.arrivals)
    assert after.energy_price == pytest.approx(
        before.energy_price + priced.carbon_price_per_kg * before.carbon
    )


def test_fronts_refuse_what_they_cannot_draw() -> None:
    with pytest.raises(InstanceError, match='unknown axis "energie"; did you mean "energy"'):
        pareto(problem(), "energie")  # type: ignore[arg-type]
    without = problem(classes=tuple(dataclasses.replace(c, goal=None) for c in problem().classes))
    with pytest.raises(InstanceError, match="no class has a goal"):
        pareto(without, "goals")
    with pytest.raises(InstanceError, match="caps carbon, which a front of energy would leave out"):
        pareto(problem(carbon_caps_kg=(1e6, 1e6)), "energy")


def test_a_factor_below_any_run_time_is_left_out() -> None:
    hurried = problem(
        classes=(
            dataclasses.replace(problem().classes[0], goal=ServiceGoal("jct", 8.0, 0.9)),
            problem().classes[1],
        )
    )
    front = pareto(hurried, "goals", factors=(0.1, 1.0), limits=EXACT)
    assert [point.limit for point in front.points] == [1.0]


def test_margins_are_kept_in_the_same_hours_where_energy_is_counted() -> None:
    """Where carbon is counted no more, hours of clean and of dirty energy are alike."""
    clean = Site("hall", energy_price_per_kwh=(0.1,), carbon_kg_per_kwh=(0.3,) * 8 + (0.1,) * 16)
    kept = Tightening("tune", "a100", "hall", margin=8.0, bands=(1.0, 0.5))
    carbon = problem(sites=(clean,), tightening=(kept,))
    assert bands_of(carbon).count == 2
    (counted,) = in_energy(carbon).tightening
    assert counted == dataclasses.replace(kept, bands=(1.0,))
    front = pareto(carbon, "energy", points=2, limits=EXACT)
    assert front.points[-1].result.certificate.status == "optimal"
