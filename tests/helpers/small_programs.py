"""Small programs whose optimum is found by trying every point."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from alloc.backends import SolverOptions
from alloc.formulation import Array, ArrayModel

EXACT = SolverOptions(time_limit_s=20.0, gap=0.0)
SIZES = [1e-300, 1e-12, 1e-9, 1e-3, 1.0, 7.3, 1e6, 1e12, 1e200]


def random_program(seed: int, *, integer: bool = True, size: float = 1.0) -> ArrayModel:
    """A packing with a covering row, some columns without an upper limit."""
    rng = np.random.default_rng(seed)
    columns, rows = int(rng.integers(3, 8)), int(rng.integers(2, 5))
    matrix = rng.integers(0, 9, (rows, columns)).astype(float)
    matrix[0] = rng.integers(1, 9, columns)
    upper = np.where(rng.random(columns) < 0.3, np.inf, 3.0)
    limit = np.full(rows, 17.0)
    low = np.full(rows, -np.inf)
    low[0] = 2.0
    return ArrayModel(
        "max" if seed % 2 else "min",
        size * rng.uniform(0.3, 2.0, columns),
        sparse.csr_array(matrix),
        low,
        limit,
        np.zeros(columns),
        upper,
        np.full(columns, integer),
    )


def mixed_program(seed: int) -> ArrayModel:
    """A program of small whole numbers of both signs, maybe infeasible, its costs in any unit."""
    rng = np.random.default_rng(seed)
    columns, rows = int(rng.integers(1, 8)), int(rng.integers(0, 5))
    matrix = rng.integers(-6, 7, (rows, columns)) * (rng.random((rows, columns)) < 0.7)
    lower = rng.integers(-2, 1, columns)
    upper = lower + rng.integers(0, 4, columns)
    activity = matrix @ rng.integers(lower, upper + 1)  # of a point, which the rows mostly keep
    slack = rng.integers(0, 5, rows) - (6 if rng.random() < 0.1 else 0)
    kind = rng.integers(0, 4, rows)  # at most, at least, equal, between
    low = np.where(kind == 0, -np.inf, np.where(kind == 2, activity, activity - slack))
    high = np.where(kind == 1, np.inf, np.where(kind == 2, activity, activity + slack))
    cost = [
        rng.integers(-5, 6, columns).astype(float),
        rng.normal(size=columns),
        rng.normal(size=columns) * 10.0 ** rng.integers(-4, 5, columns),
        rng.integers(1, 4, columns) * (1.0 + 1e-7 * rng.integers(0, 3, columns)),
        np.zeros(columns),
    ][int(rng.choice(5, p=[0.3, 0.3, 0.2, 0.15, 0.05]))]
    size = 10.0 ** rng.integers(-9, 13)
    return ArrayModel(
        "max" if seed % 2 else "min",
        size * cost,
        sparse.csr_array(matrix.astype(float)),
        np.minimum(low, high),
        high,
        lower.astype(float),
        upper.astype(float),
        np.ones(columns, dtype=bool),
        size * float(rng.choice([0.0, 0.0, 1.0, -3.0])),
    )


def solutions_of(model: ArrayModel) -> Array:
    """Return every solution of a program with limits on all columns, shape (solutions, columns)."""
    ranges = [np.arange(a, b + 1) for a, b in zip(model.lower, model.upper, strict=True)]
    points = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges))
    rows = points @ model.matrix.toarray().T
    kept = ((rows >= model.row_lower) & (rows <= model.row_upper)).all(axis=1)
    return np.asarray(points[kept], dtype=float)


def best_of_all(model: ArrayModel) -> float:
    """Return the optimum by trying every point: the first row limits every column to 17."""
    most = np.minimum(model.upper, np.floor(17.0 / model.matrix.toarray()[0])).astype(int)
    points = np.stack(np.meshgrid(*(np.arange(m + 1) for m in most), indexing="ij"), axis=-1)
    points = points.reshape(-1, len(most))
    rows = points @ model.matrix.toarray().T
    kept = ((rows >= model.row_lower) & (rows <= model.row_upper)).all(axis=1)
    values = points[kept] @ model.cost
    return float(values.max() if model.sense == "max" else values.min())
