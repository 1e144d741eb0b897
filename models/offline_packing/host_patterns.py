"""Host patterns: which jobs stand together on one host, the pricing problem, and the master."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, hstack

from alloc.formulation import Array, ArrayModel
from alloc.model_builder import ModelBuilder
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

    Parameters
    ----------
    data
        The numbered problem.
    c
        Position of the class of hosts.
    worth
        What a job of each kind is worth on it, less its prices, shape (kinds,).
    gpu_patterns
        Requests of each share on one GPU, of those known so far.

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


def master(data: PackingData) -> ArrayModel:
    """Return the choice of a pattern for every host, before there are patterns.

    Columns: d_k, the jobs of kind k that patterns hold beyond those there are; dropping them costs
    what they are worth, so that patterns need not match the copies exactly. Rows: copies of each
    kind, hosts of each class. `pattern_entries` has the columns z_p, the hosts of its class that
    carry pattern p.
    """
    builder = ModelBuilder("copies", "hosts")
    spare = builder.columns(len(data.jobs), cost=-data.value)
    builder.rows("copies", len(spare), [(spare, spare, -1.0)], upper=data.copies)
    builder.rows("hosts", len(data.hosts), [], upper=data.hosts)
    return builder.model("max")


def pattern_entries(
    data: PackingData, c: int, pattern: HostPattern
) -> tuple[float, list[int], list[float]]:
    """Return the worth, the rows and the values of the column of a pattern on a class of hosts.

    Parameters
    ----------
    data
        The numbered problem.
    c
        Position of the class of hosts.
    pattern
        Each kind of job on a host, with their number.
    """
    worth = sum(float(data.value[k]) * number for k, number in pattern)
    rows = [*(k for k, _ in pattern), len(data.jobs) + c]
    return worth, rows, [*(float(number) for _, number in pattern), 1.0]
