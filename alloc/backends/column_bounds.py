"""Finite bounds for columns that have none.

HiGHS' presolve of integer programs can crash the process or outrun its time limit where a column
is unbounded. A bound is derived in two ways: no feasible solution has more (rows), or some optimal
solution has no more, because less costs no more and no row asks for more (dominance).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from alloc.formulation import Array, ArrayModel

_PASSES = 4
"""A bound derived for one column may give the next one; chains in the models here are short."""
_HUGE = 1e15
"""A bound beyond this is none: HiGHS refuses entries of that size."""
_MARGIN = 1e-9
"""Relative rounding of the sums that a bound of a continuous column is derived from."""


def bounded(model: ArrayModel) -> ArrayModel:
    """Return the program with a finite bound wherever one can be derived.

    The optimum is the same; of several optimal solutions some may be lost.
    """
    if np.isfinite(model.lower).all() and np.isfinite(model.upper).all():
        return model
    lower, upper = model.lower.copy(), model.upper.copy()
    # One sign convention: minimise, and bound columns from above; from below by reflection.
    cost = model.cost if model.sense == "min" else -model.cost
    matrix = model.matrix.tocsc()
    for _ in range(_PASSES):
        before = int(np.isinf(lower).sum() + np.isinf(upper).sum())
        if not before:
            break
        rows = (model.row_lower, model.row_upper)
        upper = _bounded_above(cost, matrix, rows, lower, upper, model.integer)
        lower = -_bounded_above(-cost, -matrix, rows, -upper, -lower, model.integer)
        if int(np.isinf(lower).sum() + np.isinf(upper).sum()) == before:
            break
    return replace(model, lower=lower, upper=upper)


def _bounded_above(
    cost: Array, matrix: Any, rows: tuple[Array, Array], lower: Array, upper: Array, integer: Any
) -> Array:
    """Return the upper bounds, with one for columns that had none where it can be derived."""
    open_ended = np.flatnonzero(np.isposinf(upper) & np.isfinite(lower))
    if not len(open_ended):
        return upper
    least, unknown = _least_activity(matrix, lower, upper)
    most, unknown_max = (-each for each in _least_activity(-matrix, lower, upper))
    found = upper.copy()
    for j in open_ended.tolist():
        at = slice(matrix.indptr[j], matrix.indptr[j + 1])
        value, row = matrix.data[at], matrix.indices[at]
        positive = value > 0
        low, high = rows[0][row], rows[1][row]
        # Without this column, whose own part is at its lower bound in one and open in the other.
        others_least = least[row] - np.where(positive, value * lower[j], 0.0)
        others_max = most[row] - np.where(positive, 0.0, value * lower[j])
        known_least = unknown[row] - ~positive == 0
        known_max = -unknown_max[row] - positive == 0
        # No feasible solution has more.
        holds = np.where(positive, np.isfinite(high) & known_least, np.isfinite(low) & known_max)
        limit = np.where(positive, high - others_least, low - others_max) / value
        feasible = float(limit[holds].min(initial=np.inf))
        # No row asks for more, and less costs no more.
        asks = np.where(positive, np.isfinite(low), np.isfinite(high))
        known = np.where(positive, known_least, known_max)
        need = np.inf
        if cost[j] >= 0 and known[asks].all():
            asked = np.where(positive, low - others_least, high - others_max) / value
            need = float(asked[asks].max(initial=lower[j]))
        found[j] = _rounded(feasible, need, float(lower[j]), bool(integer[j]))
    return found


def _rounded(feasible: float, need: float, lower: float, integer: bool) -> float:
    """Return the smaller of two bounds, outward."""
    if integer:
        bound = min(np.floor(feasible + 1e-6), np.ceil(need - 1e-6))
    else:
        bound = min(feasible, need)
        bound += _MARGIN * (1.0 + abs(bound)) if np.isfinite(bound) else 0.0
    return float(max(bound, lower)) if bound < _HUGE else np.inf


def _least_activity(matrix: Any, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return each row's least sum over the finite bounds, and how many infinite ones it has."""
    coordinates = matrix.tocoo()
    row, column, value = coordinates.row, coordinates.col, coordinates.data
    part = value * np.where(value > 0, lower[column], upper[column])
    finite = np.isfinite(part)
    count = matrix.shape[0]
    least: Array = np.zeros(count)
    np.add.at(least, row[finite], part[finite])
    infinite: Array = np.zeros(count)
    np.add.at(infinite, row[~finite], 1.0)
    return least, infinite
