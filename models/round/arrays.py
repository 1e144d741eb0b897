"""F1 as sparse arrays (matrix form)."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from alloc.formulation import ArrayModel, BuiltModel
from alloc.models.round.data import RoundData, round_data
from alloc.problems.allocation.instance import Instance


def array_model(data: RoundData) -> ArrayModel:
    """Return the integer program of a round."""
    num_columns = len(data.utility)
    one = sparse.csr_array(
        (np.ones(num_columns), np.arange(num_columns), data.first),
        shape=(data.num_classes, num_columns),
    )
    matrix = sparse.vstack([one, sparse.csr_array(data.use.T)], format="csr")
    num_rows = matrix.shape[0]
    return ArrayModel(
        sense="max",
        cost=data.utility,
        matrix=matrix,
        row_lower=np.full(num_rows, -np.inf),
        row_upper=np.concatenate([data.count.astype(float), data.rows.capacity]),
        lower=np.zeros(num_columns),
        upper=np.repeat(data.count, np.diff(data.first)).astype(float),
        integer=np.ones(num_columns, dtype=bool),
        rows={
            "C1_one_configuration": slice(0, data.num_classes),
            "C2_capacity": slice(data.num_classes, num_rows),
        },
    )


def build_arrays(instance: Instance, objective: str) -> BuiltModel:
    """Draw the first slot of an instance as arrays."""
    data = round_data(instance, objective)
    return BuiltModel(array_model(data), data.allocation, start=data.values)
