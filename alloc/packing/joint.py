"""Placing many gangs at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import permutations

import numpy as np

from alloc.packing.pool import HostPool
from alloc.problems.allocation.solution import TaskPlacement
from alloc.topology import Topology
from alloc.workload import Configuration, TaskGroup

_FEW_GANGS, _FEW_HOSTS = 4, 64
"""Up to which every order of the gangs is tried: 24 of them, a millisecond each."""

_Member = tuple[int, int, int, str]
"""A task group of a gang: less its number of tasks, the gang, its position there, and its role."""


def place_jointly(
    topology: Topology,
    requests: Sequence[tuple[Configuration, Sequence[TaskPlacement] | None]],
    pool: HostPool | None = None,
) -> list[tuple[TaskPlacement, ...] | None]:
    """Place many gangs at once on the empty cluster.

    Gangs that name the hosts they are on stay there as far as those fit. Of the others, gangs tied
    to one domain go first, the largest before the smaller; then all remaining task groups, the most
    demanding first, so that tasks without GPUs take only what GPU tasks leave. Groups of equal
    demand are dealt out together in one sweep over the hosts.

    Parameters
    ----------
    topology
        The cluster.
    requests
        For each gang, its configuration and the hosts to keep, or None.
    pool
        All free hosts, which know placements met before; None: new ones.

    Returns
    -------
    list
        For each gang, its placement, or None where the rules find no room.
    """
    pool = pool or HostPool(topology)
    placed: list[tuple[TaskPlacement, ...] | None] = [None] * len(requests)
    waiting: list[int] = []
    for i, (configuration, keep) in enumerate(requests):
        if keep and pool.fits(configuration, keep):
            pool.take(configuration, keep)
            placed[i] = tuple(keep)
        else:
            waiting.append(i)
    columns = topology.cluster_columns
    # Gangs of one kind are one object, as a rule, and looked at once.
    kinds = {id(requests[i][0]): requests[i][0] for i in waiting}
    first = {key for key, kind in kinds.items() if _goes_first(kind, columns)}
    tied = [i for i in waiting if id(requests[i][0]) in first]
    for i in sorted(tied, key=lambda i: requests[i][0].demand, reverse=True):
        placed[i] = pool.place(requests[i][0])
    free = waiting
    if tied:
        tied_set = set(tied)
        free = [i for i in waiting if i not in tied_set]
    swept = _sweep(pool, [requests[i][0] for i in free])
    for i, tasks in zip(free, swept, strict=True):
        placed[i] = tasks
    few = len(requests) <= _FEW_GANGS and topology.num_hosts <= _FEW_HOSTS
    if few and None in placed and not any(keep for _, keep in requests):
        return _one_by_one(topology, [configuration for configuration, _ in requests]) or placed
    return placed


def _one_by_one(
    topology: Topology, configurations: Sequence[Configuration]
) -> list[tuple[TaskPlacement, ...] | None] | None:
    """Place a few gangs one after the other, in the first order in which all find room."""
    for order in permutations(range(len(configurations))):
        pool = HostPool(topology)
        placed: list[tuple[TaskPlacement, ...] | None] = [None] * len(configurations)
        for i in order:
            placed[i] = pool.place(configurations[i])
            if placed[i] is None:
                break
        else:
            return placed
    return None


def _goes_first(configuration: Configuration, cluster: Sequence[int]) -> bool:
    """Return whether a gang is placed by itself: the sweep looks at one host after the other."""
    return (
        configuration.within is not None
        or any(group.shares_gpu or group.mig_profile for group in configuration.tasks)
        or any(configuration.demand[r] for r in cluster)
    )


def _sweep(
    pool: HostPool, configurations: Sequence[Configuration]
) -> list[tuple[TaskPlacement, ...] | None]:
    """Place untied gangs, groups of equal demand in one sweep; gangs that miss go one by one."""
    of_one: dict[int, list[int]] = {}
    for i, one in enumerate(map(id, configurations)):
        own = of_one.get(one)
        if own is None:
            of_one[one] = [i]
        else:
            own.append(i)
    # Of each demand, the groups of which gangs: the most tasks first, then the first gang.
    kinds: dict[tuple[tuple[int, ...], str | None], list[_Member]] = {}
    samples: dict[tuple[tuple[int, ...], str | None], TaskGroup] = {}
    for same in of_one.values():
        configuration = configurations[same[0]]
        for g, group in enumerate(configuration.tasks):
            key = (group.demand, configuration.gpu_type)
            samples.setdefault(key, group)
            kinds.setdefault(key, []).extend([(-group.count, i, g, group.role) for i in same])
    tasks: list[list[TaskPlacement]] = [[] for _ in configurations]
    missed: set[int] = set()
    # Typed groups first: they have fewer hosts to go to. Then the most demanding.
    for kind in sorted(kinds, key=lambda k: (k[1] is not None, k[0]), reverse=True):
        kinds[kind].sort()
        missed |= _deal(pool, kind[1], samples[kind], kinds[kind], tasks)
    for i in missed:
        if tasks[i]:
            pool.release(configurations[i], tasks[i])
    result: list[tuple[TaskPlacement, ...] | None] = list(map(tuple, tasks))
    for i in sorted(missed, key=lambda i: configurations[i].demand, reverse=True):
        result[i] = pool.place(configurations[i])
    return result


def _deal(
    pool: HostPool,
    gpu_type: str | None,
    sample: TaskGroup,
    members: Sequence[_Member],
    tasks: list[list[TaskPlacement]],
) -> set[int]:
    """Deal task groups of one demand out over the hosts in order; return the gangs that missed."""
    wanted = -sum([member[0] for member in members])
    room = pool.room(dataclasses.replace(sample, count=wanted))
    if gpu_type is not None:
        room = np.where(pool.hosts_of_type(gpu_type), room, 0)
    # Hosts with fewer free GPUs first: CPU tasks fill them up and leave GPU hosts whole.
    order = np.lexsort((np.arange(len(room)), pool.free[:, 0]))
    order = order[room[order] > 0]
    missed: set[int] = set()
    open_hosts, rooms, full = order.tolist(), room[order].tolist(), len(order)
    known = pool.known_tasks
    position, here = 0, rooms[0] if full else 0
    for less, i, _, role in members:
        left = -less
        while left and position < full:
            host = open_hosts[position]
            if left < here:
                count = left
                here -= left
            else:
                count = here
                position += 1
                here = rooms[position] if position < full else 0
            tasks[i].append(known.get((host, role, count, (), ())) or pool.task(host, role, count))
            left -= count
        if left:
            missed.add(i)
    taken = room[order]
    taken[position + 1 :] = 0
    if position < full:
        taken[position] -= here
    pool.free[order] -= taken[:, None] * np.array(sample.demand, dtype=np.int64)
    return missed
