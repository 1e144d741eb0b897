"""Whether many gangs stand on the empty cluster together: an exact test, and where they then stand.

Gangs that are tied to one domain try every domain. For each choice all tasks are packed host by
host, as those of a single gang are (`alloc.packing.alone`): equal tasks of all gangs are counted,
not told apart, and are dealt out to the gangs at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alloc.packing.alone import HostContents, Steps, Undecided, cover
from alloc.problems.allocation.solution import TaskPlacement
from alloc.topology import Topology
from alloc.workload import Configuration, TaskGroup

MAX_STEPS = 1_000_000
"""Steps of a search, most of them comparisons of two vectors: about a second. A dozen gangs of some
kinds on as many hosts take a hundredth of it; what takes more is left undecided."""

Shape = tuple[object, ...]
"""All that decides where a task may stand, beside what its gang is tied to."""
Domain = tuple[str, int]
"""A level, and the position of one of its domains."""


def shape_of_task(group: TaskGroup) -> Shape:
    """Return what makes tasks of two groups the same to the hosts."""
    return (group.demand, group.gpu_memory_mib, group.mig_profile)


def place_together(
    topology: Topology, gangs: Sequence[Configuration], steps: Steps | None = None
) -> list[tuple[TaskPlacement, ...]] | None:
    """Place gangs on the empty cluster, all of them; None if they fit there in no way.

    Parameters
    ----------
    topology
        The cluster.
    gangs
        The configurations in which they run; levels that they are tied to are in the topology.
    steps
        The steps that the search may take, shared with other searches; None for `MAX_STEPS`.

    Raises
    ------
    Undecided
        If there are not enough steps, or a gang holds MIG slices, which the search does not know.
    """
    if any(group.mig_profile is not None for gang in gangs for group in gang.tasks):
        raise Undecided
    asked = sum((np.array(gang.demand) for gang in gangs), np.zeros(1, dtype=np.int64))
    if gangs and (asked > topology.totals).any():
        return None
    steps = Steps(MAX_STEPS) if steps is None else steps
    for domains in _choices_of_domains(topology, gangs, steps):
        placed = _place_in(topology, gangs, domains, steps)
        if placed is not None:
            return placed
    return None


def _choices_of_domains(
    topology: Topology, gangs: Sequence[Configuration], steps: Steps
) -> Iterator[list[Domain | None]]:
    """Yield for every gang the domain that holds it, None where it is free, in every way.

    Equal gangs take domains in rising order, and no domain is given more than it has in all.
    """
    chosen: list[Domain | None] = [None] * len(gangs)
    tied = [i for i, gang in enumerate(gangs) if gang.within is not None]
    tied.sort(key=lambda i: (gangs[i].demand, gangs.index(gangs[i])), reverse=True)
    left: dict[Domain, np.ndarray] = {}
    for level in {gang.within for gang in gangs if gang.within is not None}:
        domain = topology.domain_of_host[level]
        for k in np.unique(domain[domain >= 0]).tolist():
            left[level, k] = topology.sum_over(domain == k)

    def extend(position: int) -> Iterator[list[Domain | None]]:
        steps.take()
        if position == len(tied):
            yield chosen
            return
        gang = gangs[tied[position]]
        before = tied[position - 1] if position else None
        same = before is not None and gangs[before] == gang
        need = np.array(gang.demand)
        for place in [place for place in left if place[0] == gang.within]:
            after_it = not same or before is None or place >= (chosen[before] or place)
            if not after_it or (need > left[place]).any():
                continue
            chosen[tied[position]] = place
            left[place] = left[place] - need
            yield from extend(position + 1)
            left[place] = left[place] + need

    return extend(0)


@dataclass
class _Kind:
    """Tasks of one shape that may stand on the same hosts."""

    group: TaskGroup
    hosts: np.ndarray
    members: list[tuple[int, TaskGroup]]


def _place_in(
    topology: Topology,
    gangs: Sequence[Configuration],
    domains: Sequence[Domain | None],
    steps: Steps,
) -> list[tuple[TaskPlacement, ...]] | None:
    """Place gangs in the domains chosen for them; None if they fit there in no way."""
    kinds: dict[tuple[Shape, str | None, Domain | None], _Kind] = {}
    for i, (gang, domain) in enumerate(zip(gangs, domains, strict=True)):
        for group in gang.tasks:
            key = (shape_of_task(group), gang.gpu_type, domain)
            if key not in kinds:
                kinds[key] = _Kind(group, _hosts(topology, gang.gpu_type, domain), [])
            kinds[key].members.append((i, group))
    each = list(kinds.values())
    total = tuple(sum(group.count for _, group in kind.members) for kind in each)
    groups = [replace(kind.group, count=n) for kind, n in zip(each, total, strict=True)]
    contents: dict[tuple[str, tuple[bool, ...]], HostContents] = {}
    keys = []
    for h, host in enumerate(topology.hosts):
        of_type = topology.host_type(host)
        allowed = tuple(bool(kind.hosts[h]) for kind in each)
        keys.append((of_type.name, allowed))
        if keys[-1] not in contents:
            row = topology.capacity[h].tolist()
            contents[keys[-1]] = HostContents(of_type, row, groups, allowed, steps)
    # Equal hosts one after the other: what they hold leaves few different rests.
    order = sorted(range(len(keys)), key=lambda h: keys[h])
    chosen = cover(total, [contents[keys[h]].largest for h in order], steps)
    if chosen is None:
        return None
    placed: list[list[TaskPlacement]] = [[] for _ in gangs]
    waiting = [[[i, group.count] for i, group in kind.members] for kind in each]
    roles = [[group.role for _, group in kind.members] for kind in each]
    for h, counts in zip(order, chosen, strict=False):
        positions = contents[keys[h]].positions(counts)
        for k, count in enumerate(counts):
            given = 0
            while given < count:
                i, wanted = waiting[k][0]
                number = min(wanted, count - given)
                gpus = positions.get(k, ())[given : given + number]
                placed[i].append(TaskPlacement(topology.hosts[h].id, roles[k][0], number, gpus))
                given += number
                waiting[k][0][1] -= number
                if number == wanted:
                    waiting[k].pop(0)
                    roles[k].pop(0)
    return [tuple(tasks) for tasks in placed]


def _hosts(topology: Topology, gpu_type: str | None, domain: Domain | None) -> np.ndarray:
    """Return which hosts are of a GPU type and in a domain."""
    able = np.array([gpu_type in (None, own) for own in topology.gpu_types], dtype=bool)
    if domain is not None:
        able &= topology.domain_of_host[domain[0]] == domain[1]
    return able
