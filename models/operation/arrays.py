"""The aggregated model of operation as sparse arrays; the package's page has its mathematics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.formulation import ArrayModel
from alloc.model_builder import ModelBuilder
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
    upper[splits] = data.max_nodes[node_type[splits]]
    upper[nodes] = data.nodes_of[owner[nodes]]
    builder = ModelBuilder()
    builder.columns(len(kind), upper, cost=cost)
    _add_rows(builder, data, kind, owner, node_type, gpus, rest)
    model = builder.model("min")
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


def _add_rows(
    builder: ModelBuilder,
    data: OperationData,
    kind: Whole,
    owner: Whole,
    node_type: Whole,
    gpus: Whole,
    rest: Whole,
) -> None:
    # Remainders and slots of type v have the rows start[v] + size - 1, size = 1 .. G_v - 1.
    start = np.concatenate([[0], np.cumsum(data.gpus - 1)])
    sizes = int(start[-1])
    lead, follow, split = (np.flatnonzero(kind == k) for k in (LEAD, FOLLOW, SPLIT))
    jobs, nodes = np.flatnonzero(kind <= WAIT), np.flatnonzero(kind == NODES)
    leaves, again = lead[rest[lead] > 0], split[rest[split] > gpus[split]]

    def row(columns: Whole, size: Whole) -> Whole:
        return np.asarray(start[node_type[columns]] + size[columns] - 1, dtype=np.int64)

    builder.rows("A1_jobs", data.num_jobs, [(owner[jobs], jobs, 1.0)], 1.0, 1.0)
    builder.rows(
        "A2_remainders",
        sizes,
        [
            (row(leaves, rest), leaves, 1.0),
            (row(split, rest), split, -1.0),
            (row(again, rest - gpus), again, 1.0),
        ],
        0.0,
        0.0,
    )
    builder.rows(
        "A3_slots",
        sizes,
        [(row(follow, gpus), follow, 1.0), (row(split, gpus), split, -1.0)],
        -np.inf if data.falls_never else 0.0,
        0.0,
    )
    builder.rows(
        "A4_nodes",
        data.num_types,
        [(node_type[lead], lead, 1.0), (node_type[nodes], nodes, -1.0)],
        upper=0.0,
    )
    builder.rows("A5_pools", len(data.nodes_of), [(owner[nodes], nodes, 1.0)], upper=data.nodes_of)
    if data.problem.power_cap_w is not None:
        drawn = data.power_w[node_type[lead], gpus[lead] + rest[lead]]
        builder.row("A6_power", [(lead, drawn)], upper=float(data.problem.power_cap_w))
