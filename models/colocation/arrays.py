"""Co-location as sparse arrays."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy import sparse

from alloc.clock import check_time
from alloc.formulation import ArrayModel, BuiltModel
from alloc.models.colocation.data import Bundles
from alloc.problems.colocation import ColocationProblem


def build_arrays(problem: ColocationProblem, objective: str = "speed") -> BuiltModel:
    """Return the model of all bundles.

    Parameters
    ----------
    problem
        The jobs, and how fast they run side by side.
    objective
        `speed`, the only one of the family.
    """
    data = Bundles.of(problem)
    entries: list[tuple[int, int, float]] = []
    for b, bundle in enumerate(data.bundles):
        check_time()
        entries += ((t, b, float(n)) for t, n in Counter(bundle).items())
        entries.append((len(data.members), b, 1.0))
    row, column, value = zip(*entries, strict=True) if entries else ((), (), ())
    limit = np.array([*map(len, data.members), problem.num_gpus], dtype=float)
    model = ArrayModel(
        sense="max",
        cost=data.worth,
        matrix=sparse.csr_array((value, (row, column)), shape=(len(limit), len(data.bundles))),
        row_lower=np.full(len(limit), -np.inf),
        row_upper=limit,
        lower=np.zeros(len(data.bundles)),
        upper=np.array([data.limit(b) for b in range(len(data.bundles))], dtype=float),
        integer=np.ones(len(data.bundles), dtype=bool),
        rows={"C1_jobs": slice(0, len(limit) - 1), "C2_gpus": slice(len(limit) - 1, len(limit))},
    )
    return BuiltModel(model, data.packing)
