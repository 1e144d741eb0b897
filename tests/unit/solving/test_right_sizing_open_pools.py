"""What a relaxation knows of spare hosts: of pools that are owned, that stay, and of full sites."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planning_worlds import A100, world

from alloc.backends import SolverOptions, highs
from alloc.instances.planning import generate_planning
from alloc.models.right_sizing import SizingData, extensive
from alloc.problems.right_sizing import HostOffer, Owned, PlanningProblem
from alloc.result import Limits
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing.decomposition import Decomposition
from alloc.solving.right_sizing.max_counted import max_counted, room_of_sites
from alloc.solving.right_sizing.method import right_size
from alloc.solving.right_sizing.relaxation import Relaxation
from alloc.solving.right_sizing.state import linear_relaxation


def relaxed(problem: PlanningProblem) -> float:
    found = highs.solve(linear_relaxation(extensive(SizingData(problem)).model), SolverOptions(30))
    assert found.objective is not None
    return found.objective


def generated(seed: int, **changes: Any) -> PlanningProblem:
    sizes: dict[str, Any] = {
        "num_host_types": 3,
        "num_sites": 2,
        "num_quarters": 3,
        "num_classes": 5,
    }
    return generate_planning("open", **{**sizes, "num_scenarios": 3, **changes}, seed=seed)


@pytest.mark.parametrize("failures", [1, 2])
def test_of_hosts_that_are_owned_the_relaxation_keeps_the_spare_ones(failures: int) -> None:
    """With nothing to order it costs what it does without those hosts, each paid for all the same.

    Were all of them of use in a pool that is open a little, it would cost less.
    """
    old = HostOffer("old", A100, "purchase", 1.0, ("north",), most_hosts=0)
    plain = world(offers=(old, world().offers[1]))
    spare = replace(plain, owned=(Owned("old", "north", 4, 2),), failures=failures)
    without = replace(plain, owned=(Owned("old", "north", 4 - failures, 2),))
    assert relaxed(spare) == pytest.approx(relaxed(without), rel=1e-6)
    assert relaxed(spare) > relaxed(replace(spare, failures=0)) * (1 + 1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_no_plan_counts_more_hosts_than_its_sites_have_room_for(seed: int) -> None:
    """And the room is less than what the demand could ask for, or there would be no point."""
    problem = generated(seed, failures=1)
    data = SizingData(problem)
    search = Decomposition(data, Settings(60.0), 1e-4)
    first, counted = search.relaxation.first, max_counted(data, search.relaxation.first)
    of_use = -first.matrix[first.switch[first.open >= 0], first.open[first.open >= 0]]
    assert (counted < np.asarray(of_use)).any()
    plan = right_size(problem, limits=Limits(gap=1e-3)).solution
    assert plan is not None
    completing = search.relaxation.completing
    values = completing.complete(completing.from_plan(plan))
    assert (values[first.counted] <= room_of_sites(data) + 1e-9).all()
    np.testing.assert_array_equal(search.candidates.limits, counted)


@pytest.mark.parametrize("seed", range(6))
def test_both_methods_agree_where_hosts_are_owned_and_stay(seed: int) -> None:
    """Purchases stay to the end, so their pools stay open; what is owned may retire."""
    problem = generated(seed, failures=1 + seed % 2)
    offer, site = next(
        (offer.name, site.name)
        for offer in problem.offers
        for site in problem.sites
        if offer.terms == "purchase" and offer.at(site.name)
    )
    problem = problem.replace(owned=(Owned(offer, site, 3, 1 + seed % 3),))
    one, two = (
        right_size(problem, method=method, limits=Limits(gap=1e-5)).certificate
        for method in ("extensive", "decomposition")
    )
    assert two.objective == pytest.approx(one.objective, rel=3e-5)
    assert max(one.bound, two.bound) <= min(one.objective, two.objective) * (1 + 1e-7)


def test_cuts_that_are_dropped_come_back_where_they_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = generated(5, failures=1, num_scenarios=6)
    bounds, cuts = [], []
    for many in (10**9, 0):
        monkeypatch.setattr("alloc.solving.right_sizing.master._MANY_CUTS", many)
        monkeypatch.setattr("alloc.solving.right_sizing.master._MAX_SLACK", 1)
        state = Relaxation(SizingData(problem), Settings(60.0), 1e-7)
        with state.values:
            found = state.relax(None, 200, 1e-9, 60.0)
        assert found is not None
        bounds.append(found[0])
        cuts.append(len(state.master.cuts))
        rows, of_cuts = state.master.duals()
        assert (len(rows), len(of_cuts)) == (state.master.rows, cuts[-1])
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-8)
    assert cuts[1] < cuts[0]


def test_a_bound_is_not_the_tolerance_of_a_solver() -> None:
    """Where plans cost a billionth of what work usually costs, a claim of as much says nothing."""
    state = Relaxation(SizingData(world()), Settings(60.0), 1e-7)
    state.setting.cost = np.abs(state.setting.cost)
    state.raise_bound(9e-10)
    assert state.bound == 0.0
    state.raise_bound(2.0)
    assert 2.0 * (1 - 1e-9) <= state.bound < 2.0


def test_a_plan_that_costs_next_to_nothing_has_no_false_bound() -> None:
    """All hosts are owned, and energy costs a millionth of a millionth of what it does."""
    base = world(failures=1)
    north = replace(base.sites[0], rack_units=None, power_kw=None, energy_price_per_kwh=(2e-13,))
    problem = replace(base, sites=(north, base.sites[1]), owned=(Owned("buy", "north", 40, 2),))
    one, two = (
        right_size(problem, method=method, limits=Limits(seconds=4, gap=1e-6)).certificate
        for method in ("extensive", "decomposition")
    )
    assert 0 < min(one.objective, two.objective) < 1e-5
    assert max(one.bound, two.bound) <= min(one.objective, two.objective) * (1 + 1e-6)
