"""Tightening: how many hosts a pool can hold in any plan that is cheaper than the best known.

The big M of "open" (C7) decides how good the relaxation is. For each level of a pool and quarter
the relaxation with the row "cost at most that of the incumbent" is solved for the most hosts
counted there: no plan worth finding has more [1]_. A few hundred small linear programs that differ
in one cost cut M to a third and less.

References
----------
.. [1] A. M. Gleixner, T. Berthold, B. Mueller, S. Weltge, "Three enhancements for
   optimization-based bound tightening", Journal of Global Optimization 67, 2017.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.data import Array, Ints

_MARGIN = 1e-6


def most_in_better_plans(
    model: ArrayModel, most_cost: float, columns: Ints, limits: Array, seconds: float
) -> Array:
    """Return upper bounds on some columns in every solution that costs at most so much.

    Parameters
    ----------
    model
        A relaxation of the problem; its own integers are relaxed.
    most_cost
        Cost of the best plan known, in the model's unit.
    columns
        The columns.
    limits
        Bounds known before, shape (columns,).
    seconds
        Time after which the rest keep theirs.
    """
    program = LinearProgram(replace(model, sense="max", cost=np.zeros(len(model.cost))))
    used = np.flatnonzero(model.cost)
    limit = most_cost + _MARGIN * abs(most_cost)
    program.add_rows(np.array([-np.inf]), np.array([limit]), [0], used, model.cost[used])
    found, ends = limits.copy(), time.perf_counter() + seconds
    for i, column in enumerate(columns.tolist()):
        if time.perf_counter() > ends:
            break
        program.set_costs([column], np.ones(1))
        most = program.solve(max(ends - time.perf_counter(), 0.1))
        if most is not None:
            found[i] = min(found[i], most.value * (1 + _MARGIN) + _MARGIN)
        program.set_costs([column], np.zeros(1))
    return found
