"""Penalties far above the other costs: what is called optimal is what its own duals prove."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.backends.scaling import MAX_COST, size_of_costs
from alloc.backends.weak_duality import WeakDuality
from alloc.formulation import ArrayModel
from alloc.objectives import Sense

RATIOS = [1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8]
"""Penalties over the other costs. With the largest cost as the unit, the seven programs of a ratio
were off by up to 6e-3 at 1e4, 0.7 at 1e6, and 30 times their value at 1e8."""
CLOSE = 1e-6
ROWS = 40
"""Demands, each with a slack."""


def covering(seed: int, ratio: float, columns: int = 120, rows: int = ROWS) -> ArrayModel:
    """Return demands that ordinary columns cover within limits, or slacks with a penalty."""
    rng = np.random.default_rng(seed)
    caps = rows // 2
    covers = rng.uniform(0.2, 3.0, (rows, columns)) * (rng.random((rows, columns)) < 0.12)
    covers[np.arange(rows), rng.integers(columns, size=rows)] = 1.0
    takes = rng.uniform(0.2, 2.0, (caps, columns)) * (rng.random((caps, columns)) < 0.15)
    point = rng.uniform(0.0, 2.0, columns) * (rng.random(columns) < 0.4)
    need = covers @ point * rng.uniform(0.8, 1.0, rows)
    room = takes @ point * rng.uniform(1.0, 1.2, caps)
    slacks = np.vstack([np.eye(rows), np.zeros((caps, rows))])
    size = columns + rows
    return ArrayModel(
        "min",
        np.concatenate([rng.uniform(0.2, 3.0, columns), ratio * rng.uniform(0.5, 2.0, rows)]),
        sparse.csr_array(np.hstack([np.vstack([covers, -takes]), slacks])),
        np.concatenate([need, -room]),
        np.full(rows + caps, np.inf),
        np.zeros(size),
        np.concatenate([np.full(columns, 10.0), 2.0 * need + 1.0]),
        np.zeros(size, dtype=bool),
    )


def with_need(model: ArrayModel, rng: np.random.Generator) -> ArrayModel:
    """Return the program with other demands, as the next block of a plan has them."""
    lower = model.row_lower
    other = lower * rng.uniform(0.9, 1.1, len(lower))
    return replace(model, cost=model.cost.copy(), row_lower=np.where(lower > 0, other, lower))


def require_proved(program: LinearProgram, model: ArrayModel) -> float:
    """Solve; fail if the duals prove less than is claimed; return the value."""
    found = program.solve()
    assert found is not None
    proved = WeakDuality(model).bound(found.duals)
    assert proved == pytest.approx(found.value, rel=CLOSE)
    assert model.cost @ found.values == pytest.approx(found.value, rel=CLOSE)
    return found.value


@pytest.mark.parametrize("columns", [120, 8], ids=["few slacks", "mostly slacks"])
@pytest.mark.parametrize("ratio", RATIOS)
def test_a_claim_is_proved_by_its_duals(ratio: float, columns: int) -> None:
    for seed in range(7):
        model = covering(seed, ratio, columns=columns)
        program = LinearProgram(model, presolve=False, method="simplex")
        rng = np.random.default_rng(seed)
        rows = np.arange(len(model.row_lower))
        for _ in range(4):
            require_proved(program, model)
            model = with_need(model, rng)
            program.set_row_bounds(rows, model.row_lower, model.row_upper)


@pytest.mark.parametrize("ratio", RATIOS)
def test_slacks_that_nobody_needs_cost_nothing(ratio: float) -> None:
    """The optimum is that of the program without them, however dear they are."""
    for seed in range(4):
        model = covering(seed, ratio)
        own = np.arange(len(model.cost)) < len(model.cost) - ROWS
        without = replace(
            model, cost=np.where(own, model.cost, 0.0), upper=np.where(own, model.upper, 0.0)
        )
        expected = require_proved(LinearProgram(without), without)
        assert require_proved(LinearProgram(model), model) == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("ratio", RATIOS)
def test_penalties_that_grow_between_solves(ratio: float, sense: Sense) -> None:
    """A master begins with slacks, gets columns from solve to solve, and its penalties rise."""
    sign = 1.0 if sense == "min" else -1.0
    for seed in range(4):
        model = covering(seed, 1.0)
        columns = model.matrix.tocsc()
        size = len(model.cost)
        slacks, own = np.arange(size - ROWS, size), np.arange(size - ROWS)
        program = LinearProgram(sense=sense, presolve=False)
        program.add_rows(model.row_lower, model.row_upper)
        order = np.concatenate([slacks, own])
        model = replace(
            model,
            sense=sense,
            cost=sign * model.cost[order],
            matrix=columns[:, order].tocsr(),
            lower=model.lower[order],
            upper=model.upper[order],
        )
        for part in (slice(0, 2 * ROWS), slice(2 * ROWS, size)):
            entries = model.matrix.tocsc()[:, part].tocsc()
            program.add_columns(
                model.cost[part],
                model.lower[part],
                model.upper[part],
                entries.indptr[:-1],
                entries.indices,
                entries.data,
            )
            assert program.solve() is not None
        rng, penalty = np.random.default_rng(seed), np.arange(ROWS)
        for factor in (1.0, ratio**0.5, ratio, ratio):
            dearer = with_need(model, rng)
            dearer.cost[penalty] = factor * model.cost[penalty]
            program.set_costs(penalty, dearer.cost[penalty])
            program.set_row_bounds(np.arange(program.num_rows), dearer.row_lower, dearer.row_upper)
            require_proved(program, dearer)


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_model_is_not_claimed_to_cost_more_than_it_does(ratio: float) -> None:
    """The value that HiGHS calls optimal is also the bound: at 1e4 six of forty were false."""
    for seed in range(20):
        model = covering(seed, ratio)
        raw = highs.solve(model, SolverOptions(time_limit_s=20.0))
        assert raw.status == "optimal"
        assert raw.bound == pytest.approx(require_proved(LinearProgram(model), model), rel=CLOSE)


@pytest.mark.parametrize("factor", [1e-12, 1e-6, 1e6, 1e12])
def test_costs_that_all_change(factor: float) -> None:
    """In a currency that is set after a solve, the tolerance stays a part of the usual costs."""
    for seed in range(4):
        model = covering(seed, 1e3)
        program = LinearProgram(model, presolve=False, method="simplex")
        first = require_proved(program, model)
        rng = np.random.default_rng(seed)
        other = replace(model, cost=factor * rng.permutation(model.cost))
        for after, expected in ((other, None), (replace(model, cost=factor * model.cost), first)):
            program.set_costs(np.arange(len(after.cost)), after.cost)
            value = require_proved(program, after)
            assert expected is None or value == pytest.approx(factor * expected, rel=CLOSE)


def test_the_size_of_costs_is_that_of_the_ordinary_ones() -> None:
    """Neither of the penalties, be they nine of ten, nor of the few that break ties."""
    usual = np.random.default_rng(0).uniform(1.0, 3.0, 100)
    assert 1.0 <= size_of_costs(usual) <= 3.0
    assert 1.0 <= size_of_costs(np.concatenate([usual, np.full(800, 1e7)])) <= 3.0
    assert 1.0 <= size_of_costs(np.concatenate([-usual, np.full(9, 1e-9), np.zeros(999)])) <= 3.0
    assert size_of_costs(np.array([1.0, 1e12])) == 1e12 / MAX_COST
    assert size_of_costs(np.zeros(3)) == size_of_costs(np.zeros(0)) == 0.0
