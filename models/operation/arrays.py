"""The aggregated model of operation as sparse arrays; the package's page has its mathematics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from alloc.formulation import Array, ArrayModel
from alloc.models.operation.data import OperationData, Whole

LEAD, FOLLOW, WAIT, SPLIT, NODES = range(5)
"""Kinds of columns: l, f, q, s, n of the page."""


@dataclass(frozen=True)
class OperationArrays:
    """The aggregated model with the meaning of its columns.

    Parameters
    ----------
    data
        The decision.
    model
        The model.
    kind
        Kind of each column, shape (columns,).
    owner
        Job of the columns of jobs, pool of n; -1 for s, shape (columns,).
    type
        Type of each column; -1 for q, shape (columns,).
    gpus
        Of l and f the GPUs of the job, of s the size of the slot, else 0, shape (columns,).
    rest
        Of l the remainder, of s the remainder that is split, else 0, shape (columns,).
    """

    data: OperationData
    model: ArrayModel
    kind: Whole
    owner: Whole
    type: Whole
    gpus: Whole
    rest: Whole

    @property
    def is_jobs(self) -> npt.NDArray[np.bool_]:
        """Which columns belong to a job."""
        return self.kind <= WAIT


def operation_arrays(data: OperationData) -> OperationArrays:
    """Return the aggregated model of a decision."""
    columns = [_leaders(data), _followers(data), _waits(data), _splits(data), _nodes(data)]
    kind = np.concatenate([np.full(len(c[0]), k) for k, c in enumerate(columns)])
    owner, node_type, gpus, rest = (
        np.concatenate([c[i] for c in columns]).astype(np.int64) for i in range(4)
    )
    cost = np.concatenate([c[4] for c in columns])
    upper = np.ones(len(kind))
    splits, nodes = kind == SPLIT, kind == NODES
    upper[splits] = data.most_nodes[node_type[splits]]
    upper[nodes] = data.nodes_of[owner[nodes]]
    matrix, low, high, rows = _rows(data, kind, owner, node_type, gpus, rest)
    model = ArrayModel(
        sense="min",
        cost=cost,
        matrix=matrix,
        row_lower=low,
        row_upper=high,
        lower=np.zeros(len(kind)),
        upper=upper,
        integer=np.ones(len(kind), dtype=bool),
        rows=rows,
    )
    return OperationArrays(data, model, kind, owner, node_type, gpus, rest)


Columns = tuple[npt.NDArray[Any], ...]
"""Owner, type, GPUs, rest and cost of some columns."""


def _leaders(data: OperationData) -> Columns:
    found: list[Columns] = []
    for v, most in enumerate(data.gpus.tolist()):
        for g in range(1, most + 1):
            jobs = np.flatnonzero(np.isfinite(data.hours[:, v, g]))
            for r in range(most - g + 1):
                cost = data.node_rate[v, g + r] * data.hours[jobs, v, g] + data.run_cost[jobs, v, g]
                found.append((jobs, *(np.full(len(jobs), k) for k in (v, g, r)), cost))
    return _joined(found)


def _followers(data: OperationData) -> Columns:
    jobs, node_type, gpus = np.nonzero(np.isfinite(data.hours))
    beside = gpus < data.gpus[node_type]
    if data.falls_never:
        # Fewer GPUs at no higher cost do as well, and leave more.
        before = np.minimum.accumulate(data.run_cost, axis=2)
        beside &= (gpus == 1) | (
            data.run_cost[jobs, node_type, gpus] < before[jobs, node_type, gpus - 1]
        )
    jobs, node_type, gpus = jobs[beside], node_type[beside], gpus[beside]
    return jobs, node_type, gpus, np.zeros(len(jobs)), data.run_cost[jobs, node_type, gpus]


def _waits(data: OperationData) -> Columns:
    jobs = np.arange(data.num_jobs)
    zero = np.zeros(len(jobs), dtype=np.int64)
    return jobs, zero - 1, zero, zero, data.wait_cost


def _splits(data: OperationData) -> Columns:
    found = [
        (v, k, r)
        for v, most in enumerate(data.gpus.tolist())
        for r in range(1, most)
        for k in range(1, r + 1)
    ]
    table = np.array(found, dtype=np.int64).reshape(-1, 3)
    nobody = np.full(len(table), -1)
    return nobody, table[:, 0], table[:, 1], table[:, 2], np.zeros(len(table))


def _nodes(data: OperationData) -> Columns:
    pool, node_type = np.nonzero(data.offers)
    zero = np.zeros(len(pool))
    return pool, node_type, zero, zero, zero


def _joined(parts: Sequence[Columns]) -> Columns:
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def _rows(
    data: OperationData, kind: Whole, owner: Whole, node_type: Whole, gpus: Whole, rest: Whole
) -> tuple[sparse.csr_array, Array, Array, dict[str, slice]]:
    num_jobs, num_types, num_pools = data.num_jobs, data.num_types, len(data.nodes_of)
    # Remainders and slots of type v have the rows start[v] + size - 1, size = 1 .. G_v - 1.
    start = np.concatenate([[0], np.cumsum(data.gpus - 1)])
    sizes = int(start[-1])
    capped = data.problem.power_cap_w is not None
    heights = (num_jobs, sizes, sizes, num_types, num_pools, int(capped))
    begins = np.concatenate([[0], np.cumsum(heights)])
    lead, follow, split = kind == LEAD, kind == FOLLOW, kind == SPLIT
    entries: list[tuple[Whole, Whole, Array]] = []

    def add(row: int, where: npt.NDArray[np.bool_], at: Whole, value: float | Array) -> None:
        columns = np.flatnonzero(where)
        values = np.broadcast_to(np.asarray(value, dtype=float), columns.shape)
        entries.append((begins[row] + at, columns, values))

    jobs = kind <= WAIT
    add(0, jobs, owner[jobs], 1.0)
    leaves = lead & (rest > 0)
    add(1, leaves, start[node_type[leaves]] + rest[leaves] - 1, 1.0)
    add(1, split, start[node_type[split]] + rest[split] - 1, -1.0)
    again = split & (rest > gpus)
    add(1, again, start[node_type[again]] + rest[again] - gpus[again] - 1, 1.0)
    add(2, follow, start[node_type[follow]] + gpus[follow] - 1, 1.0)
    add(2, split, start[node_type[split]] + gpus[split] - 1, -1.0)
    add(3, lead, node_type[lead], 1.0)
    nodes = kind == NODES
    add(3, nodes, node_type[nodes], -1.0)
    add(4, nodes, owner[nodes], 1.0)
    high = np.concatenate(
        [np.ones(num_jobs), np.zeros(2 * sizes + num_types), data.nodes_of.astype(float)]
    )
    low = np.concatenate(
        [np.ones(num_jobs), np.zeros(sizes), np.full(sizes + num_types + num_pools, -np.inf)]
    )
    if not data.falls_never:
        low[begins[2] : begins[3]] = 0.0
    if capped:
        drawn = data.power_w[node_type[lead], gpus[lead] + rest[lead]]
        add(5, lead, np.zeros(int(lead.sum()), dtype=np.int64), drawn)
        high, low = np.append(high, float(data.problem.power_cap_w or 0.0)), np.append(low, -np.inf)
    row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    shape = (len(high), len(kind))
    matrix = sparse.csr_array((value, (row, column)), shape=shape)
    names = ("A1_jobs", "A2_remainders", "A3_slots", "A4_nodes", "A5_pools", "A6_power")
    rows = {name: slice(int(begins[k]), int(begins[k + 1])) for k, name in enumerate(names)}
    return matrix, low, high, rows
