"""F1 as sparse arrays (matrix form)."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse

from alloc.formulation import ArrayModel, BuiltModel
from alloc.models.host_conflicts import Conflict, conflict_matrix
from alloc.models.round.data import RoundData, built_model, round_data
from alloc.problems.allocation.instance import Instance


def array_model(data: RoundData) -> ArrayModel:
    """Return the integer program of a round."""
    num_columns = len(data.utility)
    conflicts, switches = data.conflict_rows
    # Row by row: every column is in the row of its class, and in those of what it uses.
    row, column = np.nonzero(data.use.T)
    ends = num_columns + np.cumsum(np.bincount(row, minlength=len(data.rows.capacity)))
    matrix = sparse.csr_array(
        (
            np.concatenate([np.ones(num_columns), data.use.T[row, column]]),
            np.concatenate([np.arange(num_columns), column]),
            np.concatenate([data.first, ends]),
        ),
        shape=(data.num_classes + len(data.rows.capacity), num_columns),
    )
    if conflicts:
        matrix.resize((matrix.shape[0], num_columns + switches))
        block = conflict_matrix(conflicts, num_columns, switches)
        matrix = sparse.vstack([matrix, block], format="csr")
    num_rows = matrix.shape[0]
    capacity_end = num_rows - len(conflicts)
    upper = np.repeat(data.count, np.diff(data.first)).astype(float)
    limits = [float(row.limit) for row in conflicts]
    return ArrayModel(
        sense="max",
        cost=np.append(data.utility, np.zeros(switches)),
        matrix=matrix,
        row_lower=np.full(num_rows, -np.inf),
        row_upper=np.concatenate([data.count.astype(float), data.rows.capacity, limits]),
        lower=np.zeros(num_columns + switches),
        upper=np.append(upper, np.ones(switches)),
        integer=np.ones(num_columns + switches, dtype=bool),
        rows={
            "C1_one_configuration": slice(0, data.num_classes),
            "C2_capacity": slice(data.num_classes, capacity_end),
            "C3_hosts": slice(capacity_end, num_rows),
        },
    )


def build_arrays(
    instance: Instance, objective: str, conflicts: tuple[Conflict, ...] = ()
) -> BuiltModel:
    """Build the first slot of an instance as arrays, with what its hosts do not hold together.

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
    return built_model(data, array_model(data), partial(build_arrays, instance, objective))
