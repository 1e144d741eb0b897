"""Quadratic assignment in CP-SAT, for small n."""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from alloc.formulation import BuiltModel, CpSatModel
from alloc.problems.quadratic_assignment import QuadraticAssignment

_LARGEST_COEFFICIENT = 10**9
"""Costs are scaled to integers up to this; whole numbers stay as they are while sums are exact."""

_LARGEST_EXACT = 2.0**53
"""Up to here every whole number is a float of its own."""

_MAX_SCALE = 1e300
"""Largest factor, so that costs of almost nothing give no infinite one."""


def build_cpsat(problem: QuadraticAssignment, objective: str = "cost") -> BuiltModel:
    """Return the model of one permutation."""
    model = cp_model.CpModel()
    n = problem.size
    place = [model.new_int_var(0, n - 1, f"p[{i}]") for i in range(n)]
    model.add_all_different(place)
    largest = float(np.abs(problem.flow).max() * np.abs(problem.distance).max())
    whole = problem.integral and largest * n * n <= _LARGEST_EXACT
    scale = 1.0 if whole else _scale(largest)
    terms: list[Any] = []
    for i in range(n):
        for k in range(i, n):
            table = _pair_costs(problem, i, k, scale)
            low, high = int(table.min()), int(table.max())
            if low == high == 0:
                continue
            paid = model.new_int_var(low, high, f"paid[{i},{k}]")
            index = place[i] if i == k else place[i] * n + place[k]
            flat = np.diagonal(table) if i == k else table.reshape(-1)
            model.add_element(index, flat.tolist(), paid)
            terms.append(paid)
    model.minimize(sum(terms))
    slack = 0.0 if whole else 0.5 * len(terms) / scale
    return BuiltModel(
        CpSatModel(model, tuple(place), "min", scale, 0.0, slack),
        lambda values: np.rint(values).astype(np.int64),
    )


def _pair_costs(problem: QuadraticAssignment, i: int, k: int, scale: float) -> Any:
    """Return what two facilities pay each other, by their locations, in whole numbers."""
    cost = problem.flow[i, k] * problem.distance
    if i != k:
        cost = cost + problem.flow[k, i] * problem.distance.T
    return np.rint(cost * scale).astype(np.int64)


def _scale(largest: float) -> float:
    return min(_LARGEST_COEFFICIENT / largest, _MAX_SCALE) if largest > 0 else 1.0
