"""Between host patterns and allocations: who stands on which host, on which GPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from alloc.models.offline_packing.data import PackingData
from alloc.models.offline_packing.host_patterns import HostPattern, pattern_of
from alloc.packing import HostPool, Rule
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.units import MILLI

_RANDOM_STARTS = 3
"""Allocations in random orders: each brings other patterns to the first column generation, and
takes as long as a whole greedy pass."""


def contents_of(data: PackingData, allocation: Allocation) -> list[tuple[int, HostPattern]]:
    """Return the class and the pattern of every host that an allocation uses.

    Parameters
    ----------
    data
        Jobs and hosts in classes.
    allocation
        An allocation of them; jobs outside the classes do not count.
    """
    kind_of = {j: k for k, jobs in enumerate(data.jobs) for j in jobs}
    class_of = {h: c for c, hosts in enumerate(data.members) for h in hosts}
    index = data.instance.topology.host_index
    held: dict[int, np.ndarray] = {}
    for a in allocation.assignments:
        kind = kind_of.get(data.instance.job_index[a.job])
        for task in a.tasks if kind is not None else ():
            h = index[task.host]
            counts = held.setdefault(h, np.zeros(len(data.jobs), dtype=np.int64))
            counts[kind] += 1
    return [(class_of[h], pattern_of(counts)) for h, counts in held.items()]


def allocation_of(data: PackingData, chosen: Sequence[tuple[int, HostPattern, int]]) -> Allocation:
    """Return an allocation with so many hosts of each class carrying each pattern.

    Jobs of a kind go to hosts in order until none is left. What patterns hold beyond that stays
    empty, and is filled at the end with the jobs that are left over, those without GPUs included,
    the largest first, each where it fits most tightly. Shares stand on the last GPUs of a host.

    Parameters
    ----------
    data
        Jobs and hosts in classes.
    chosen
        Class of hosts, pattern, and hosts that carry it, 0 or more.
    """
    pool = HostPool(data.instance.topology)
    waiting = [deque(jobs) for jobs in data.jobs]
    hosts = [deque(members) for members in data.members]
    placed: list[Assignment] = []
    for c, pattern, number in sorted(chosen, key=lambda item: -_value(data, item[1])):
        for _ in range(number):
            here = [
                (kind, waiting[kind].popleft())
                for kind, count in pattern
                for _ in range(min(count, len(waiting[kind])))
            ]
            for kind, j in _fill_host(data, pool, hosts[c].popleft(), here, placed):
                waiting[kind].appendleft(j)
    rest = {j for jobs in waiting for j in jobs} | _without_gpus(data)
    jobs = data.instance.jobs
    largest_first = sorted(rest, key=lambda j: jobs[j].configurations[0].demand, reverse=True)
    _fill_up(data, pool, largest_first, placed)
    return Allocation(tuple(placed))


def greedy_packings(data: PackingData, rng: np.random.Generator) -> list[Allocation]:
    """Return allocations to start from: by size, and in random orders.

    The most demanding jobs first by best fit packs well; first-fit in random orders gives many
    different hosts, which is what column generation lacks at the start.

    Parameters
    ----------
    data
        Jobs and hosts in classes.
    rng
        Decides the random orders.
    """
    jobs = [j for jobs in data.jobs for j in jobs]
    demand = [data.instance.jobs[j].configurations[0].demand for j in jobs]
    largest_first = [j for _, j in sorted(zip(demand, jobs, strict=True), reverse=True)]
    starts = [_packed(data, largest_first, "best_fit")]
    for _ in range(_RANDOM_STARTS):
        starts.append(_packed(data, [jobs[k] for k in rng.permutation(len(jobs))], "first_fit"))
    return starts


def _packed(data: PackingData, order: Iterable[int], rule: Rule) -> Allocation:
    placed: list[Assignment] = []
    _fill_up(data, HostPool(data.instance.topology), order, placed, rule)
    return Allocation(tuple(placed))


def _value(data: PackingData, pattern: HostPattern) -> float:
    return float(sum(data.value[k] * number for k, number in pattern))


def _without_gpus(data: PackingData) -> set[int]:
    known = {j for jobs in data.jobs for j in jobs}
    return set(range(len(data.instance.jobs))) - known


def _fill_host(
    data: PackingData,
    pool: HostPool,
    h: int,
    here: Sequence[tuple[int, int]],
    placed: list[Assignment],
) -> list[tuple[int, int]]:
    """Place jobs, as (kind, position), on an empty host; return those that do not go in."""
    num_gpus = int(data.instance.topology.capacity[h, 0]) // MILLI
    whole = sum(int(data.num_gpus[k]) for k, _ in here if data.share[k] == MILLI)
    sharing = [(k, j) for k, j in here if data.share[k] < MILLI]
    gpus = pack_shares([int(data.share[k]) for k, _ in sharing], num_gpus - whole)
    if gpus is None:
        return list(here)
    position = {j: num_gpus - 1 - gpu for (_, j), gpu in zip(sharing, gpus, strict=True)}
    for k, j in here:
        _place(data, pool, j, h, (position[j],) if data.share[k] < MILLI else (), placed)
    return []


def _place(
    data: PackingData, pool: HostPool, j: int, h: int, gpus: tuple[int, ...], out: list[Assignment]
) -> None:
    job, topology = data.instance.jobs[j], data.instance.topology
    for c, configuration in enumerate(job.configurations):
        if configuration.gpu_type in (None, topology.gpu_types[h]):
            tasks = (TaskPlacement(topology.hosts[h].id, configuration.tasks[0].role, 1, gpus),)
            pool.take(configuration, tasks)
            out.append(Assignment(job.id, c, tasks))
            return


def _fill_up(
    data: PackingData,
    pool: HostPool,
    order: Iterable[int],
    out: list[Assignment],
    rule: Rule = "best_fit",
) -> None:
    """Place jobs one by one where there is room."""
    jobs = data.instance.jobs
    refused: set[int] = set()
    for j in order:
        job = jobs[j]
        if id(job.configurations) in refused:
            continue
        for c, configuration in enumerate(job.configurations):
            tasks = pool.place(configuration, rule)
            if tasks is not None:
                out.append(Assignment(job.id, c, tasks))
                break
        else:
            refused.add(id(job.configurations))


def pack_shares(shares: Sequence[int], num_gpus: int) -> list[int] | None:
    """Return a GPU for each share so that none holds more than 1,000, or None if there is no way.

    Exact: the largest share first, on each different free amount in turn (tightest first), with
    states that led nowhere remembered.

    Parameters
    ----------
    shares
        Milli-GPU.
    num_gpus
        GPUs, numbered from 0.
    """
    order = sorted(range(len(shares)), key=lambda i: -shares[i])
    free = [MILLI] * num_gpus
    gpus = [0] * len(shares)
    dead: set[tuple[int, tuple[int, ...]]] = set()

    def search(at: int) -> bool:
        if at == len(order):
            return True
        state = (at, tuple(sorted(free)))
        if state in dead:
            return False
        size = shares[order[at]]
        tried: set[int] = set()
        for g in sorted(range(num_gpus), key=lambda g: free[g]):
            if free[g] >= size and free[g] not in tried:
                tried.add(free[g])
                free[g] -= size
                gpus[order[at]] = g
                if search(at + 1):
                    return True
                free[g] += size
        dead.add(state)
        return False

    return gpus if search(0) else None
