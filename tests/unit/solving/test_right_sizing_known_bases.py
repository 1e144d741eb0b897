"""Blocks that start from the nearest basis cost what they do from none, and are proved to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from alloc.instances.planning import generate_planning
from alloc.models.right_sizing import SizingData
from alloc.models.right_sizing.data import Array
from alloc.problems.right_sizing import PlanningProblem
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing import known_bases
from alloc.solving.right_sizing.blocks import BlockSolver, Task, with_raised_penalty
from alloc.solving.right_sizing.known_bases import KnownBases
from alloc.solving.right_sizing.relaxation import Relaxation


def problem(seed: int, money: float = 1.0) -> PlanningProblem:
    drawn = generate_planning("known", num_host_types=3, num_sites=2, num_quarters=3, growth=0.5,
                              num_classes=5, num_scenarios=4, failures=1, seed=seed)  # fmt: skip
    return drawn.replace(offers=tuple(replace(o, price=o.price * money) for o in drawn.offers))


def points(state: Relaxation, seed: int, count: int) -> list[tuple[Task, Array, float]]:
    """Return blocks at first stages drawn at random: many want more than there is."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        wish = np.zeros(len(state.first.cost))
        orders = state.first.order[state.first.order >= 0]
        wish[orders] = rng.integers(0, 9, len(orders)) * (rng.random(len(orders)) < 0.5)
        linked, waived = state.setting.points(state.completing.complete(wish))
        w, t = state.tasks[rng.integers(len(state.tasks))]
        found.append(((w, t), linked[t], float(waived[w])))
    return found


def proved_value(solver: BlockSolver, task: Task, linked: Array, waived: float) -> float:
    """Return what the duals of a block's optimum prove, whatever HiGHS's tolerances are."""
    data, (w, t) = solver.data, task
    dual = solver.solve(task, linked, waived).dual
    right = data.right[w, t] - data.first_stage @ linked - waived * data.waived[w, t]
    right[data.opening.rows] -= data.opening.share[w, t] * linked[data.opening.columns]
    upper = data.fixed_upper.copy()
    upper[data.varying] = data.upper[w, t]
    reduced = np.minimum(data.cost - data.matrix.T @ dual, 0.0)
    bounded = np.isfinite(upper)
    assert reduced[~bounded].min(initial=0.0) >= -1e-6 * data.cost.max()
    return float(dual @ right + reduced[bounded] @ upper[bounded])


@pytest.mark.parametrize("money", [1e-9, 1.0, 1e12])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_cost_the_same_from_the_nearest_basis_as_from_none(seed: int, money: float) -> None:
    state = Relaxation(SizingData(problem(seed, money)), Settings(60.0), 1e-6)
    warm = BlockSolver(state.block_data)
    for task, linked, waived in points(state, seed, 25):
        found = warm.solve(task, linked, waived)
        alone = BlockSolver(state.block_data).solve(task, linked, waived)
        assert found.value == pytest.approx(alone.value, rel=1e-6, abs=1e-9)
        assert found.slack == pytest.approx(alone.slack, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("money", [1e-9, 1.0, 1e12])
@pytest.mark.parametrize("seed", range(3))
def test_duals_prove_what_a_block_costs_beside_penalties(seed: int, money: float) -> None:
    """With penalties as the largest costs 0.2 % was missing: of the usual ones 1e-7 was much."""
    state = Relaxation(SizingData(problem(seed, money)), Settings(60.0), 1e-6)
    solver = BlockSolver(state.block_data)
    for task, linked, waived in points(state, seed, 25):
        value = solver.solve(task, linked, waived).value
        proved = proved_value(solver, task, linked, waived)
        assert proved == pytest.approx(value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_solver_that_gets_more_rows_or_dearer_slack_is_one_made_with_them(seed: int) -> None:
    state = Relaxation(SizingData(problem(seed)), Settings(60.0), 1e-7)
    grown = BlockSolver(state.block_data)
    before = points(state, seed, 10)
    for block in before:
        grown.solve(*block)
    with state.values:
        answer = state.relax(None, 60, 1e-9, 60.0)
        assert answer is not None
        state.keep_optimum(*answer)
        state.strengthen(1e-8, 60.0)
    rows = len(state.block_data.opening.rows)
    assert rows
    grown.change(state.block_data)
    penalised = with_raised_penalty(state.block_data)
    for data in (state.block_data, penalised):
        if data is penalised:
            grown.change(data)
        fresh = BlockSolver(data)
        for task, linked, waived in points(state, seed + 100, 10):
            found, wanted = (s.solve(task, linked, waived) for s in (grown, fresh))
            assert found.value == pytest.approx(wanted.value, rel=1e-6, abs=1e-9)
            assert len(found.dual) == len(wanted.dual)


def test_the_nearest_basis_saves_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a block takes dozens of them; a tiny one takes two or three from any basis."""
    larger = generate_planning("larger", num_host_types=6, num_sites=2, num_quarters=4,
                               num_classes=12, num_scenarios=6, failures=1, seed=1)  # fmt: skip
    state = Relaxation(SizingData(larger), Settings(60.0), 1e-6)
    blocks = points(state, 1, 120)

    def iterations() -> int:
        solver, taken = BlockSolver(state.block_data), 0
        for block in blocks:
            solver.solve(*block)
            taken += solver.program.iterations
        return taken

    nearest = iterations()
    monkeypatch.setattr(KnownBases, "nearest", lambda *_: None)
    assert nearest < 0.5 * iterations()


def test_the_nearest_basis_is_the_one_whose_duals_say_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_bases, "_MAX_KNOWN", 5)
    rng = np.random.default_rng(0)
    known: Any = KnownBases(2)  # numbers stand for bases
    kept: list[tuple[int, Array, Array]] = []
    assert known.nearest(np.ones(2), np.ones(3)) is None
    for number in range(12):
        dual, reduced = rng.random(4 if number >= 6 else 2), np.round(rng.normal(size=3), 1)
        if number == 6:
            known.add_rows(2)
            kept = [(name, np.append(old, [0.0, 0.0]), charge) for name, old, charge in kept]
        known.add(number, dual, reduced)
        kept = [*kept, (number, dual, np.minimum(reduced, 0.0))][-5:]
        for _ in range(3):
            right, upper = rng.random(len(dual)), rng.random(3)
            worth = {n: d @ right + c[c < 0] @ upper[c < 0] for n, d, c in kept}
            best = max(worth, key=lambda name: worth[name])
            found = known.nearest(right, upper)
            # Right after a solve the solver stands at the last one.
            assert found == best or (found is None and best == number)
