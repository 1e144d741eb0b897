"""Host patterns: which jobs stand together on one host, the pricing problem, and the master."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array, csr_array, hstack

from alloc.formulation import Array, ArrayModel
from alloc.models.offline_packing.data import Counts, PackingData
from alloc.models.offline_packing.gpu_patterns import CORE, GIB, Pattern

HostPattern = tuple[tuple[int, int], ...]
"""Kinds on a host with their numbers, by increasing kind; each 1 or more."""


def pattern_of(counts: Counts) -> HostPattern:
    """Return the pattern with those counts per kind, shape (K,)."""
    return tuple((int(k), int(counts[k])) for k in np.flatnonzero(counts))


def pricing(
    data: PackingData, c: int, worth: Array, gpu_patterns: Sequence[Pattern]
) -> tuple[ArrayModel, Counts]:
    """Return the knapsack of the most valuable content of one host of a class.

    ``max sum_k worth_k n_k`` subject to CPU, memory, GPUs, and places for shares on GPUs that carry
    known patterns: columns n_k for the kinds that are worth anything here, then the GPUs of each
    pattern; all integer. GPUs with patterns that are not in the list are left out, so this is a
    heuristic for the master; the proved bound does not use it.

    Returns
    -------
    ArrayModel, array
        The model, and the kind of each of its first columns.
    """
    kinds = np.flatnonzero((worth > 1e-9) & (data.most[c] > 0))
    n = len(kinds)
    table = np.array(gpu_patterns, dtype=float).reshape(len(gpu_patterns), len(data.shares))
    sharing = data.share_index[kinds] >= 0
    whole = np.where(sharing, 0, data.num_gpus[kinds])
    head = np.array([data.cpu[kinds] / CORE, data.memory[kinds] / GIB, whole])
    places = np.zeros((len(data.shares), n))
    places[data.share_index[kinds[sharing]], np.flatnonzero(sharing)] = 1.0
    carried = np.vstack([np.zeros((2, len(table))), np.ones((1, len(table))), -table.T])
    matrix = csr_array(hstack([csr_array(np.vstack([head, places])), csr_array(carried)]))
    gpus, cpu, memory = data.size[c].tolist()
    limit = np.concatenate([[cpu / CORE, memory / GIB, gpus], np.zeros(len(data.shares))])
    columns = n + len(table)
    upper = np.concatenate(
        [np.minimum(data.most[c, kinds], data.copies[kinds]), np.full(len(table), data.size[c, 0])]
    )
    model = ArrayModel(
        "max",
        np.concatenate([worth[kinds], np.zeros(len(table))]),
        matrix,
        np.full(len(limit), -np.inf),
        limit,
        np.zeros(columns),
        upper.astype(float),
        np.ones(columns, dtype=bool),
    )
    return model, kinds


def master(
    data: PackingData, patterns: Sequence[tuple[int, HostPattern]], *, integer: bool
) -> ArrayModel:
    """Return the choice of a pattern for every host.

    Columns: z_p, the hosts of its class that carry pattern p, then d_k, the jobs of kind k that
    patterns hold beyond those there are; dropping them costs what they are worth, so that patterns
    need not match the copies exactly. Rows: copies of each kind, hosts of each class.
    """
    num_kinds, num_classes = len(data.jobs), len(data.members)
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    worth = np.zeros(len(patterns))
    for p, (c, pattern) in enumerate(patterns):
        for k, number in pattern:
            rows.append(k)
            columns.append(p)
            values.append(number)
            worth[p] += data.value[k] * number
        rows.append(num_kinds + c)
        columns.append(p)
        values.append(1.0)
    rows += range(num_kinds)
    columns += range(len(patterns), len(patterns) + num_kinds)
    values += [-1.0] * num_kinds
    size = len(patterns) + num_kinds
    matrix = csr_array(
        coo_array((np.array(values), (rows, columns)), shape=(num_kinds + num_classes, size))
    )
    limit = np.concatenate([data.copies, data.hosts]).astype(float)
    return ArrayModel(
        "max",
        np.concatenate([worth, -data.value]),
        matrix,
        np.full(len(limit), -np.inf),
        limit,
        np.zeros(size),
        np.full(size, np.inf),
        np.full(size, integer),
        rows={"copies": slice(0, num_kinds), "hosts": slice(num_kinds, num_kinds + num_classes)},
    )
