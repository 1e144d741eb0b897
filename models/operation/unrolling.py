"""Between plans and values of the aggregated model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from alloc.formulation import Array
from alloc.models.operation.arrays import (
    FOLLOW,
    LEAD,
    NODES,
    SPLIT,
    WAIT,
    OperationArrays,
)
from alloc.models.operation.data import OperationData
from alloc.problems.operation.problem import NodePlan, OperationPlan, OperationProblem

Member = tuple[int, int]
"""A job and its GPUs."""

Filled = tuple[int, int, list[Member]]
"""A node by pool, type and members."""


def plan_of(arrays: OperationArrays, values: Array) -> OperationPlan:
    """Return a plan whose cost is at most that of an integer solution of the aggregated model.

    Parameters
    ----------
    arrays
        The aggregated model.
    values
        Values of its columns, integers up to rounding.
    """
    number = np.rint(values).astype(np.int64)
    chosen = np.flatnonzero(number > 0)
    leaders: list[tuple[int, int, int, int]] = []
    followers: dict[tuple[int, int], list[int]] = defaultdict(list)
    splits: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    pools: dict[int, list[int]] = defaultdict(list)
    for c in chosen.tolist():
        kind, owner, v = int(arrays.kind[c]), int(arrays.owner[c]), int(arrays.type[c])
        g, r = int(arrays.gpus[c]), int(arrays.rest[c])
        if kind == LEAD:
            leaders.append((v, owner, g, r))
        elif kind == FOLLOW:
            followers[v, g].append(owner)
        elif kind == SPLIT:
            splits[v, r][g] = int(number[c])
        elif kind == NODES:
            pools[v] += [owner] * int(number[c])
    filled: list[Filled] = []
    for v, job, g, r in leaders:
        members = [(job, g)]
        for size in _slots(splits, v, r):
            if followers[v, size]:
                members.append((followers[v, size].pop(), size))
        filled.append((pools[v].pop(0), v, members))
    return name_nodes(arrays.data, filled)


def _slots(splits: dict[tuple[int, int], dict[int, int]], v: int, rest: int) -> Iterator[int]:
    """Yield the slots of one remainder, taking its arcs out of the flow."""
    while rest:
        arcs = splits[v, rest]
        size = max(k for k, number in arcs.items() if number)
        arcs[size] -= 1
        yield size
        rest -= size


def name_nodes(data: OperationData, filled: Iterable[Filled]) -> OperationPlan:
    """Return the plan of filled nodes; jobs that go on keep their node where they can.

    Parameters
    ----------
    data
        The numbered problem.
    filled
        Of each node that is on: its pool, its type, and its jobs with their GPUs, by
        position.
    """
    problem = data.problem
    ordered = sorted(filled, key=lambda node: (node[0], node[1], sorted(node[2])))
    ids = [job.id for job in problem.jobs]
    free = {p: dict.fromkeys(pool.nodes) for p, pool in enumerate(problem.pools)}
    named: dict[int, str] = {}
    for stays, k, node in sorted(_stays(problem, ordered, ids), key=lambda s: (-s[0], s[1], s[2])):
        p = ordered[k][0]
        if stays and k not in named and node in free[p]:
            named[k] = node
            del free[p][node]
    for k, (p, _, _) in enumerate(ordered):
        if k not in named:
            named[k] = next(iter(free[p]))
            del free[p][named[k]]
    nodes = tuple(
        NodePlan(named[k], problem.types[v].name, tuple((ids[j], g) for j, g in sorted(members)))
        for k, (_, v, members) in enumerate(ordered)
    )
    placed = {job for node in nodes for job, _ in node.jobs}
    return OperationPlan(nodes, tuple(job for job in ids if job not in placed))


def _stays(
    problem: OperationProblem, filled: list[Filled], ids: list[str]
) -> Iterator[tuple[int, int, str]]:
    """Yield, for filled nodes and the nodes that their jobs run on now, how many would stay."""
    for k, (_, _, members) in enumerate(filled):
        count: dict[str, int] = defaultdict(int)
        for j, _ in members:
            if ids[j] in problem.running_as:
                count[problem.running_as[ids[j]].node] += 1
        yield from ((number, k, node) for node, number in count.items())


def fill(data: OperationData, plan: OperationPlan) -> list[Filled]:
    """Return the filled nodes of a plan that the checker finds sound.

    Parameters
    ----------
    data
        The numbered problem.
    plan
        A plan of this problem.
    """
    problem = data.problem
    pool_of = {node: p for p, pool in enumerate(problem.pools) for node in pool.nodes}
    return [
        (
            pool_of[node.node],
            problem.type_index[node.type],
            [(problem.job_index[job], gpus) for job, gpus in node.jobs],
        )
        for node in plan.nodes
    ]


def values_of(arrays: OperationArrays, plan: OperationPlan) -> Array:
    """Return values of the aggregated model for a plan, at most as dear as the plan.

    Followers whose way to run is left out of the model, because fewer GPUs do as well, take those.

    Parameters
    ----------
    arrays
        The aggregated model.
    plan
        A plan that the checker finds sound.
    """
    data = arrays.data
    parts = (arrays.kind, arrays.owner, arrays.type, arrays.gpus, arrays.rest)
    column = {key: c for c, key in enumerate(zip(*(p.tolist() for p in parts), strict=True))}
    values: Array = np.zeros(len(arrays.kind))
    for p, v, members in fill(data, plan):
        j, g = min(members, key=lambda m: float(data.hours[m[0], v, m[1]]))
        sizes = []
        for i, k in members:
            if i != j:
                size = next(s for s in range(k, 0, -1) if (FOLLOW, i, v, s, 0) in column)
                values[column[FOLLOW, i, v, size, 0]] = 1
                sizes.append(size)
        rest = sum(sizes)
        values[column[LEAD, j, v, g, rest]] = 1
        values[column[NODES, p, v, 0, 0]] += 1
        for size in sizes:
            values[column[SPLIT, -1, v, size, rest]] += 1
            rest -= size
    for job in plan.postponed:
        values[column[WAIT, data.problem.job_index[job], -1, 0, 0]] = 1
    return values
