"""Small programs whose optimum is found by trying every point."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from alloc.backends import SolverOptions
from alloc.formulation import ArrayModel

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


def best_of_all(model: ArrayModel) -> float:
    """Return the optimum by trying every point: the first row limits every column to 17."""
    most = np.minimum(model.upper, np.floor(17.0 / model.matrix.toarray()[0])).astype(int)
    points = np.stack(np.meshgrid(*(np.arange(m + 1) for m in most), indexing="ij"), axis=-1)
    points = points.reshape(-1, len(most))
    rows = points @ model.matrix.toarray().T
    kept = ((rows >= model.row_lower) & (rows <= model.row_upper)).all(axis=1)
    values = points[kept] @ model.cost
    return float(values.max() if model.sense == "max" else values.min())
