"""The exact dynamic program of F1 for one resource: an oracle of another kind than enumeration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.models.round.data import RoundData

Array = npt.NDArray[np.float64]

_MAX_CELLS = 2 * 10**8
"""Largest table that is built, jobs times capacity units: 400 MB of choices."""


def solve_one_resource(data: RoundData) -> tuple[float, Array]:
    """Solve a round with a single capacity row exactly.

    ``f_j(b) = max(f_{j-1}(b), max_c f_{j-1}(b - a_jc) + u_jc)`` over jobs j and capacity b, in
    units of the greatest common divisor of the demands: O(J B C) time (Kellerer, Pferschy,
    Pisinger 2004, section 11.5).

    Parameters
    ----------
    data
        The round.

    Returns
    -------
    value : float
        The optimum.
    x : ndarray
        An optimal solution, shape (N,).

    Raises
    ------
    UnsupportedFeatureError
        If more than one row can bind, or the table would be too large.
    """
    binding = _binding_rows(data)
    if len(binding) > 1:
        names = ", ".join(data.rows.names[r] for r in binding)
        raise UnsupportedFeatureError(
            f"the dynamic program takes one scarce resource, here are {len(binding)} ({names}); "
            "use backend highs."
        )
    x = np.zeros(len(data.utility))
    if len(binding) == 0:
        demand = np.zeros(len(data.utility), dtype=np.int64)
        size = 0
    else:
        row = data.use[:, binding[0]].astype(np.int64)
        unit = int(np.gcd.reduce(row[row > 0]))
        demand = row // unit
        size = int(data.rows.capacity[binding[0]]) // unit
    num_jobs = int(data.count.sum())
    if num_jobs * (size + 1) > _MAX_CELLS:
        raise UnsupportedFeatureError(
            f"the dynamic program needs {num_jobs} x {size + 1} cells, more than {_MAX_CELLS}; "
            "use backend highs."
        )
    value = np.zeros(size + 1)
    choice = np.full((num_jobs, size + 1), -1, dtype=np.int32)
    class_of_job = np.repeat(np.arange(data.num_classes), data.count)
    for j, k in enumerate(class_of_job):
        before = value.copy()
        for column in range(data.first[k], data.first[k + 1]):
            need = demand[column]
            candidate = before[: size + 1 - need] + data.utility[column]
            better = candidate > value[need:]
            value[need:][better] = candidate[better]
            choice[j, need:][better] = column
    b = size
    for j in reversed(range(num_jobs)):
        column = choice[j, b]
        if column >= 0:
            x[column] += 1
            b -= demand[column]
    return float(data.utility @ x), x


def _binding_rows(data: RoundData) -> npt.NDArray[np.int64]:
    """Return the rows that the largest demands of all jobs together would exceed."""
    largest = np.zeros(len(data.rows.names))
    for k in range(data.num_classes):
        columns = data.use[data.first[k] : data.first[k + 1]]
        if len(columns):
            largest += data.count[k] * columns.max(axis=0)
    return np.flatnonzero(largest > data.rows.capacity)
