"""Quadratic assignment in CP-SAT, for small n."""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from alloc.clock import check_time
from alloc.formulation import BuiltModel, CpSatModel
from alloc.problems.quadratic_assignment import Array, QuadraticAssignment

_LARGEST_COEFFICIENT = 10**9
"""Costs are scaled to integers up to this; whole numbers stay as they are while sums are exact."""

_LARGEST_EXACT = 2.0**53
"""Up to here every whole number is a float of its own."""

_MAX_SCALE = 1e300
"""Largest factor, so that costs of almost nothing give no infinite one."""


def build_cpsat(problem: QuadraticAssignment, objective: str = "cost") -> BuiltModel:
    """Return the model of one permutation.

    Parameters
    ----------
    problem
        Flows and distances of at most a few dozen facilities.
    objective
        `cost`, the only one of the family.
    """
    model = cp_model.CpModel()
    n = problem.size
    place = [model.new_int_var(0, n - 1, f"p[{i}]") for i in range(n)]
    model.add_all_different(place)
    largest = float(np.abs(problem.flow).max() * np.abs(problem.distance).max())
    whole = problem.integral and largest * n * n <= _LARGEST_EXACT
    scale = 1.0 if whole else _scale(largest)
    terms: list[Any] = []
    rounded = 0.0
    for i in range(n):
        for k in range(i, n):
            check_time()
            exact = _pair_costs(problem, i, k) * scale
            table = np.rint(exact).astype(np.int64)
            # Also of pairs that pay next to nothing: many of them add up.
            rounded += float(np.abs(exact - table).max())
            low, high = int(table.min()), int(table.max())
            if low == high == 0:
                continue
            paid = model.new_int_var(low, high, f"paid[{i},{k}]")
            index = place[i] if i == k else place[i] * n + place[k]
            model.add_element(index, table.reshape(-1).tolist(), paid)
            terms.append(paid)
    model.minimize(sum(terms))
    return BuiltModel(
        CpSatModel(model, tuple(place), "min", scale, 0.0, rounded / scale),
        lambda values: np.rint(values).astype(np.int64),
    )


def _pair_costs(problem: QuadraticAssignment, i: int, k: int) -> Array:
    """Return what two facilities pay each other, by their locations; one pays itself by its own."""
    if i == k:
        return np.asarray(problem.flow[i, i] * np.diagonal(problem.distance))
    there, back = problem.flow[i, k], problem.flow[k, i]
    return np.asarray(there * problem.distance + back * problem.distance.T)


def _scale(largest: float) -> float:
    return min(_LARGEST_COEFFICIENT / largest, _MAX_SCALE) if largest > 0 else 1.0
