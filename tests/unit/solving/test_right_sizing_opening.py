"""What the relaxation learns of open pools, by the demand of each block, and of waivers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from alloc.instances.planning import generate_planning
from alloc.models.right_sizing import SizingData
from alloc.result import Limits
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing.blocks import BlockSolver, Task
from alloc.solving.right_sizing.decomposition import Decomposition
from alloc.solving.right_sizing.method import right_size
from alloc.solving.right_sizing.opening_rows import OpeningRows
from alloc.solving.right_sizing.relaxation import Relaxation


def strengthened(seed: int) -> tuple[Relaxation, BlockSolver]:
    """Return a relaxation with these rows, of demand that grows fast, and its blocks without."""
    problem = generate_planning("grows", num_host_types=3, num_sites=2, num_quarters=3, growth=0.5,
                                num_classes=5, num_scenarios=3, failures=1, seed=seed)  # fmt: skip
    problem = problem.replace(epsilon=0.4 if seed % 2 else 0.0)
    state = Relaxation(SizingData(problem), Settings(60.0), 1e-7)
    plain = BlockSolver(state.block_data)
    with state.values:
        state.keep_optimum(*state.relax(None, 60, 1e-9, 60.0))
        state.strengthen(1e-8, 60.0)
    assert len(state.block_data.opening.rows)
    return state, plain


@pytest.mark.parametrize("seed", range(4))
def test_no_cut_is_above_what_a_block_costs_without_these_rows(seed: int) -> None:
    """At first stages drawn at random, pools open or closed as their hosts have it."""
    state, plain = strengthened(seed)
    rng = np.random.default_rng(seed)
    first, tight = state.first, 0
    for _ in range(20):
        wish = np.zeros(len(first.cost))
        orders = first.order[first.order >= 0]
        wish[orders] = rng.integers(0, 9, len(orders)) * (rng.random(len(orders)) < 0.5)
        linked, waived = state.setting.points(state.completing.complete(wish))
        cuts = state.pool.values(linked, waived).max(axis=0)
        for w, t in state.tasks:
            value = plain.solve((w, t), linked[t], float(waived[w])).value
            assert cuts[w, t] <= value + 1e-6 * max(1.0, abs(value))
            tight += cuts[w, t] > 0.9 * value > 0
    assert tight


@pytest.mark.parametrize("seed", range(2))
def test_slopes_and_values_of_cuts_say_the_same(seed: int) -> None:
    state, _ = strengthened(seed)
    (scenarios, quarters), pool = state.setting.shape, state.pool
    rng = np.random.default_rng(seed)
    linked = rng.random((quarters, state.setting.linked.shape[1]))
    waived = rng.random(scenarios)
    values = pool.values(linked, waived)
    every = np.arange(len(pool))
    for w, t in state.tasks:
        own = pool.alpha[:, w, t] + pool.slopes(every, w, t) @ linked[t]
        np.testing.assert_allclose(own + pool.gamma[:, w, t] * waived[w], values[:, w, t])


def test_where_no_row_is_broken_the_relaxation_is_closed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before there are rows it is closed roughly only."""
    monkeypatch.setattr(OpeningRows, "broken", lambda *_: None)
    problem = generate_planning("loose", num_host_types=3, num_sites=2, num_quarters=3,
                                num_classes=5, num_scenarios=3, failures=1, seed=1)  # fmt: skip
    closely, roughly = (Relaxation(SizingData(problem), Settings(60.0), 1e-7) for _ in range(2))
    with closely.values, roughly.values:
        wanted = closely.relax(None, 60, 1e-9, 60.0)
        found = roughly.relax(None, 60, 5e-1, 60.0)
        assert wanted is not None
        assert found is not None
        assert found[0] < wanted[0] * (1 - 1e-5)
        roughly.keep_optimum(*found)
        roughly.strengthen(1e-8, 60.0)
    assert roughly.linear_bound == pytest.approx(wanted[0], rel=1e-6)


def test_a_few_scenarios_a_step_close_the_same_relaxation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The duals of two of twelve scenarios serve all; before it ends, each has had its word."""
    problem = generate_planning("many", num_host_types=3, num_sites=2, num_quarters=2,
                                num_classes=5, num_scenarios=12, failures=1, seed=5)  # fmt: skip
    bounds, solved = [], []
    for divisor in (1, 10):
        monkeypatch.setattr("alloc.solving.right_sizing.relaxation._OF_SCENARIOS", divisor)
        state = Relaxation(SizingData(problem), Settings(60.0), 1e-7)
        blocks = 0
        solve = state.values.solve

        def counted(tasks: list[Task], *rest: Any, solve: Any = solve) -> Any:
            nonlocal blocks
            blocks += len(tasks)
            return solve(tasks, *rest)

        monkeypatch.setattr(state.values, "solve", counted)
        with state.values:
            relaxed = state.relax(None, 200, 1e-9, 60.0)
        assert relaxed is not None
        bounds.append(relaxed[0])
        solved.append(blocks)
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-8)
    assert solved[1] < solved[0]


def test_cuts_from_a_position_on_say_what_they_say_among_all() -> None:
    state, _ = strengthened(1)
    linked, waived = state.setting.points(state.relaxed_point)
    every = state.pool.values(linked, waived)
    for since in (0, 3, len(state.pool)):
        np.testing.assert_array_equal(state.pool.values(linked, waived, since), every[since:])


def test_a_search_from_a_plan_begins_around_it() -> None:
    """It needs no other plan to return, and its cuts are those around the plan."""
    problem = generate_planning("known", num_host_types=3, num_sites=2, num_quarters=2,
                                num_classes=5, num_scenarios=3, failures=1, seed=5)  # fmt: skip
    known = right_size(problem, method="decomposition", limits=Limits(gap=1e-4))
    again = right_size(
        problem, method="decomposition", limits=Limits(gap=1e-4), start=known.solution
    )
    said = [line.split("  ")[-1].split(":")[0] for line in again.log]
    assert said[0] == "start"
    assert "first" not in said
    assert again.certificate.objective == pytest.approx(known.certificate.objective, rel=2e-4)


def test_growing_demand_is_answered_as_by_one_program() -> None:
    problem = generate_planning("grows", num_host_types=3, num_sites=2, num_quarters=3, growth=0.5,
                                num_classes=5, num_scenarios=3, failures=1, seed=7)  # fmt: skip
    one, two = (
        right_size(problem, method=method, limits=Limits(gap=1e-5)).certificate
        for method in ("extensive", "decomposition")
    )
    assert two.objective == pytest.approx(one.objective, rel=3e-5)
    assert max(one.bound, two.bound) <= min(one.objective, two.objective) * (1 + 1e-7)


def test_the_largest_sets_of_scenarios_that_may_be_waived() -> None:
    problem = generate_planning("waived", num_host_types=2, num_sites=2, num_quarters=1,
                                num_classes=2, num_scenarios=3, seed=1)  # fmt: skip
    chances = (0.5, 0.3, 0.2)
    scenarios = tuple(
        replace(scenario, probability=chance)
        for scenario, chance in zip(problem.scenarios, chances, strict=True)
    )

    def sets(epsilon: float) -> list[list[float]]:
        data = SizingData(problem.replace(scenarios=scenarios, epsilon=epsilon))
        return [waived.tolist() for waived in Decomposition(data, Settings(60.0), 1e-4)._waivers()]

    assert sets(0.0) == []
    assert sets(0.1) == [[0.0, 0.0, 0.0]]
    assert sets(0.3) == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert sets(0.5) == [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]


def test_a_plan_that_waives_is_proved_as_by_one_program() -> None:
    problem = generate_planning("waived", num_host_types=3, num_sites=2, num_quarters=2,
                                num_classes=5, num_scenarios=4, epsilon=0.5, seed=3)  # fmt: skip
    one, two = (
        right_size(problem, method=method, limits=Limits(gap=1e-5)).certificate
        for method in ("extensive", "decomposition")
    )
    assert two.objective == pytest.approx(one.objective, rel=3e-5)
    assert max(one.bound, two.bound) <= min(one.objective, two.objective) * (1 + 1e-7)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_what_the_relaxation_has_open_in_good_part_makes_a_plan(seed: int) -> None:
    """A late search begins there; the plan of a small problem is less than a fifth too dear."""
    problem = generate_planning("late", num_host_types=3, num_sites=2, num_quarters=3,
                                num_classes=5, num_scenarios=3, failures=1, seed=seed)  # fmt: skip
    optimum = right_size(problem, limits=Limits(gap=1e-4)).certificate
    search = Decomposition(SizingData(problem), Settings(60.0), 1e-4)
    state = search.relaxation
    with state.values:
        state.keep_optimum(*state.relax(state.start(), 60, 1e-6, 60.0))
        state.strengthen(1e-6, 60.0)
        assert search._dive_at_relaxation()
    cost = state.cost * state.unit
    assert optimum.bound * (1 - 1e-5) <= cost <= 1.2 * optimum.objective


@pytest.mark.long
def test_rented_hosts_that_serve_one_class_at_a_time_make_the_bound_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no bound is above the optimum; rows of sets are left out for the comparison."""
    problem = generate_planning("sets", num_host_types=3, num_sites=2, num_quarters=3, growth=0.5,
                                num_classes=8, num_scenarios=3, failures=2, seed=4)  # fmt: skip
    bounds = []
    for count in (0, 3):
        monkeypatch.setattr("alloc.solving.right_sizing.opening_rows._MAX_SETS", count)
        state = Relaxation(SizingData(problem), Settings(60.0), 1e-7)
        with state.values:
            state.keep_optimum(*state.relax(None, 60, 1e-9, 60.0))
            state.strengthen(1e-8, 60.0)
        bounds.append(state.linear_bound * state.unit)
    best = right_size(problem, method="extensive", limits=Limits(gap=1e-6)).certificate
    assert bounds[0] < bounds[1] * (1 - 1e-6)
    assert bounds[1] <= best.objective * (1 + 1e-7)
