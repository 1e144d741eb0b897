"""Buddy sizes: where first-fit decreasing is optimal, and no search is needed.

Sizes are *divisible* when, sorted, each divides the next: GPUs per task of 1, 2, 4, 8. When the
capacities of the hosts are multiples of the largest size as well, first-fit decreasing has no
waste: while tasks of size s are placed, the free room on every host is a multiple of s, so a task
is turned away only when every host is full. Hence

- the most GPUs possible are placed: either every task finds a host, or every GPU is in use;
- as few hosts as possible are used: all hosts but the last are full, the largest first.

E. G. Coffman, M. R. Garey, D. S. Johnson, "Bin packing with divisible item sizes", Journal of
Complexity 3 (1987), theorems 1 and 3.

GPUs must be all that binds: `buddies_of` accepts an instance only if on every host the CPU and
memory beside its GPUs suffice whatever tasks fill them, no job asks for domains, types or
neighbours, and every job is a single task or stands wherever there is room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.units import MILLI, RESOURCES
from alloc.workload import NO_RULES

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Buddies:
    """An instance in which only GPUs bind and their sizes are divisible.

    Parameters
    ----------
    instance
        The problem.
    sizes
        GPUs of one task of each job, shape (jobs,).
    counts
        Tasks of each job, shape (jobs,).
    capacity
        GPUs of each host, shape (hosts,).
    """

    instance: Instance
    sizes: Counts
    counts: Counts
    capacity: Counts


def are_divisible(sizes: Sequence[int], capacities: Sequence[int] = ()) -> bool:
    """Return whether each size divides the next larger one, and the largest every capacity.

    Parameters
    ----------
    sizes
        GPUs per task, each more than 0, in any order; none are not divisible.
    capacities
        GPUs per host, in the same unit.
    """
    ordered = sorted(set(sizes))
    nested = all(b % a == 0 for a, b in pairwise(ordered))
    return bool(ordered) and nested and all(c % ordered[-1] == 0 for c in capacities)


def buddies_of(instance: Instance) -> Buddies | None:
    """Return the instance as buddies, or None where the theorem does not hold."""
    if instance.running or instance.affinities or instance.tenants:
        return None
    topology = instance.topology
    sizes, counts = [], []
    needs = np.zeros(2)  # CPU and memory of a task per GPU, at most
    for job in instance.jobs:
        if len(job.configurations) != 1 or job.placement != NO_RULES:
            return None
        configuration = job.configurations[0]
        if len(configuration.tasks) != 1 or configuration.within or configuration.gpu_type:
            return None
        group = configuration.tasks[0]
        if group.gpu_milli < MILLI or group.gpu_memory_mib or group.resources:
            return None
        size = group.gpu_milli // MILLI
        sizes.append(size)
        counts.append(group.count)
        needs = np.maximum(needs, np.array([group.cpu_milli, group.memory_mib]) / size)
    gpus = topology.capacity[:, 0] // MILLI
    with_gpus = gpus > 0
    beside = topology.capacity[with_gpus, 1 : len(RESOURCES)]
    if not are_divisible(sizes, gpus[with_gpus].tolist()):
        return None
    if (beside < np.outer(gpus[with_gpus], needs)).any():
        return None
    return Buddies(instance, np.array(sizes), np.array(counts), gpus)


def pack_buddies(buddies: Buddies) -> Allocation:
    """Return first-fit decreasing: the most GPUs placed, on the fewest hosts.

    Gangs start whole or not at all. When some must wait, the GPUs left idle are fewer than the
    smallest gang that waits asks for; with gangs of one task there are none.
    """
    instance = buddies.instance
    hosts = instance.topology.hosts
    # The largest hosts first, so that few are used; every capacity is a multiple of every size.
    order = np.argsort(-buddies.capacity, kind="stable")
    free = buddies.capacity[order].copy()
    first = 0  # hosts before it are full
    left = int(free.sum())
    placed: dict[int, list[TaskPlacement]] = {}
    jobs = np.lexsort((np.arange(len(buddies.sizes)), -buddies.sizes))
    for j in jobs:
        size, count = int(buddies.sizes[j]), int(buddies.counts[j])
        if size * count > left:
            continue
        left -= size * count
        role = instance.jobs[j].configurations[0].tasks[0].role
        tasks = placed[int(j)] = []
        while count:
            here = min(count, int(free[first]) // size)
            if here:
                tasks.append(TaskPlacement(hosts[order[first]].id, role, here))
                free[first] -= here * size
                count -= here
            if not free[first] or count:
                first += 1
    return Allocation(
        tuple(Assignment(instance.jobs[j].id, 0, tuple(t)) for j, t in sorted(placed.items()))
    )


def buddy_optimum(instance: Instance) -> Allocation | None:
    """Return an allocation with the most GPUs placed and, for that, on the fewest hosts.

    None where neither theorem holds: no buddies, or gangs that wait although GPUs are idle.
    """
    buddies = buddies_of(instance)
    if buddies is None:
        return None
    allocation = pack_buddies(buddies)
    asked = int((buddies.sizes * buddies.counts).sum())
    placed = sum(
        instance.job(a.job).configurations[0].demand[0] // MILLI for a in allocation.assignments
    )
    return allocation if placed == min(asked, int(buddies.capacity.sum())) else None
