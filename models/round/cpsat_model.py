"""F1 in CP-SAT."""

from __future__ import annotations

from functools import partial

import numpy as np
from ortools.sat.python import cp_model

from alloc.clock import check_time
from alloc.formulation import BuiltModel, CpSatModel
from alloc.models.host_conflicts import Conflict
from alloc.models.round.data import RoundData, built_model, round_data
from alloc.problems.allocation.instance import Instance

_LARGEST_COEFFICIENT = 10**9
"""Utilities are scaled to integers up to this: nine digits survive, and sums stay in 64 bits."""


def cp_sat_model(data: RoundData) -> CpSatModel:
    """Return the CP-SAT model of a round."""
    model = cp_model.CpModel()
    x = []
    for k in range(data.num_classes):
        check_time()
        columns = range(data.first[k], data.first[k + 1])
        row = [model.new_int_var(0, int(data.count[k]), f"x[{k},{c}]") for c in columns]
        if row:
            model.add(sum(row) <= int(data.count[k]))  # (C1)
        x += row
    for r, capacity in enumerate(data.rows.capacity):
        touching = np.flatnonzero(data.use[:, r])
        if touching.size:
            weights = data.use[touching, r].astype(int).tolist()
            terms = [x[i] for i in touching]
            model.add(cp_model.LinearExpr.weighted_sum(terms, weights) <= int(capacity))  # (C2)
    conflicts, switches = data.conflict_rows
    y = [model.new_bool_var(f"y[{k}]") for k in range(switches)]
    for conflict in conflicts:
        check_time()
        runs = sum(x[i] for i in conflict.columns)
        switched = sum(factor * y[k] for k, factor in conflict.switches)
        model.add(runs + switched <= conflict.limit)  # (C3)
    peak = float(data.utility.max(initial=0.0))
    scale = _LARGEST_COEFFICIENT / peak if peak > 0 else 1.0
    # Rounded up, so that the scaled optimum is never below the true one.
    coefficients = np.ceil(data.utility * scale).astype(int).tolist()
    model.maximize(cp_model.LinearExpr.weighted_sum(x, coefficients))
    return CpSatModel(model, (*x, *y), "max", scale)


def build_cpsat(
    instance: Instance, objective: str, conflicts: tuple[Conflict, ...] = ()
) -> BuiltModel:
    """Build the first slot of an instance as a CP-SAT model; see `build_arrays`.

    Parameters
    ----------
    instance
        Needs a slot; the jobs that have arrived at 0 take part.
    objective
        Name of an objective of a round.
    conflicts
        What the hosts do not hold together, as far as it is known.
    """
    data = round_data(instance, objective, conflicts)
    return built_model(data, cp_sat_model(data), partial(build_cpsat, instance, objective))
