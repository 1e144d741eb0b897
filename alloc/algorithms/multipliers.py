"""Minimising a convex piecewise linear dual function by cutting planes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.formulation import Array

_FREE = np.array([np.inf])
DualFunction = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True)
class DualMinimum:
    """What the cutting planes found.

    Parameters
    ----------
    multipliers
        The best multipliers, 0 or more.
    value
        The dual function there: an upper bound on the maximisation it relaxes.
    gap
        How far `value` may be above the dual optimum.
    evaluations
        Number of evaluations.
    """

    multipliers: Array
    value: float
    gap: float
    evaluations: int


_CLOSE = 1e-7
"""Relative distance between the best value and the cutting-plane model at which the search stops:
what rounding leaves of it."""


def minimise_dual(
    function: DualFunction,
    upper: Array,
    *,
    max_evaluations: int = 200,
    is_over: Callable[[], bool] | None = None,
) -> DualMinimum:
    """Minimise a convex piecewise linear function over a box by Kelley's cutting planes.

    Every evaluation is a valid bound, so the loop may stop at any time. Every second query is moved
    half way back to the best point known (in-out separation, Ben-Ameur and Neto 2007): plain Kelley
    jumps between far corners while it has few cuts.

    Parameters
    ----------
    function
        Returns the value and a subgradient at given multipliers.
    upper
        Upper limits of the multipliers, shape (R,); the lower ones are 0.
    max_evaluations
        Stop after so many evaluations.
    is_over
        Asked after each evaluation whether to stop there, or None.
    """
    size = len(upper)
    model = LinearProgram()
    columns = np.arange(size + 1)
    none = np.zeros(size + 1, dtype=int)
    model.add_columns(
        (columns == size).astype(float),
        np.append(np.zeros(size), -np.inf),
        np.append(upper, np.inf),
        none,
        [],
        [],
    )
    best = np.zeros(size)
    best_value = np.inf
    query = best
    model_value = -np.inf
    for evaluation in range(1, max_evaluations + 1):
        value, gradient = function(query)
        if value < best_value:
            best, best_value = query, value
        if is_over is not None and is_over():
            break
        # theta >= value + gradient (lambda - query)
        cut = np.append(-gradient, 1.0)
        model.add_rows(np.array([value - gradient @ query]), _FREE, [0], columns, cut)
        found = model.solve()
        if found is None:
            # The best point known is a bound, whatever becomes of the next.
            break
        point = found.values
        model_value = max(model_value, float(point[size]))
        if best_value - model_value <= _CLOSE * abs(best_value):
            break
        query = np.clip(point[:size], 0.0, upper)
        if evaluation % 2:
            query = 0.5 * (query + best)
    return DualMinimum(best, best_value, max(best_value - model_value, 0.0), evaluation)
