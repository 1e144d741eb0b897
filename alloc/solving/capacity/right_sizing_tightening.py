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

import highspy
import numpy as np

from alloc.backends import SolverOptions
from alloc.backends.highs import highs_model, quiet_solver
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.data import Array, Ints
from alloc.solving.capacity.right_sizing_state import linear_relaxation

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
    solver = quiet_solver(SolverOptions(time_limit_s=max(seconds, 0.1)))
    solver.passModel(highs_model(linear_relaxation(model)))
    used = np.flatnonzero(model.cost)
    limit = most_cost + _MARGIN * max(1.0, abs(most_cost))
    solver.addRow(-np.inf, limit, len(used), used.astype(np.int32), model.cost[used])
    count = len(model.cost)
    solver.changeColsCost(count, np.arange(count, dtype=np.int32), np.zeros(count))
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    found, ends = limits.copy(), time.perf_counter() + seconds
    for i, column in enumerate(columns.tolist()):
        if time.perf_counter() > ends:
            break
        solver.changeColCost(column, 1.0)
        solver.run()
        if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            value = float(solver.getInfo().objective_function_value)
            found[i] = min(found[i], value * (1 + _MARGIN) + _MARGIN)
        solver.changeColCost(column, 0.0)
    return found
