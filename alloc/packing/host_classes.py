"""Host classes: hosts on which equally much is free, taken together."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from alloc.topology import Topology
from alloc.units import RESOURCES
from alloc.workload import Configuration

Row = tuple[int, int, int]
"""GPU, CPU and memory."""

Placed = list[tuple[int, int, int]]
"""Position of the group, of the host, and number of tasks on it."""

_NUM_BASE = len(RESOURCES)


@dataclass(frozen=True, slots=True)
class PlainGang:
    """A gang that asks for whole GPUs, CPU and memory, on any hosts or those with one GPU type.

    Parameters
    ----------
    groups
        For each task group, in the order of placing: its position in the configuration, the number
        of tasks, and what one of them asks for: GPU, CPU and memory.
    gpu_milli
        What all tasks ask for, milli-GPU.
    gpu_type
        GPU type that the hosts must have, or None.
    """

    groups: tuple[tuple[int, int, Row], ...]
    gpu_milli: int
    gpu_type: str | None


def plain_gang(configuration: Configuration) -> PlainGang | None:
    """Return a configuration as a plain gang, or None if it asks for more than one may."""
    groups = configuration.tasks
    if configuration.within is not None or len(configuration.demand) != _NUM_BASE:
        return None
    if any(g.shares_gpu or g.gpu_memory_mib or g.mig_profile is not None for g in groups):
        return None
    # As `HostPool` does: groups that need GPUs go first.
    order = sorted(range(len(groups)), key=lambda k: groups[k].demand, reverse=True)
    return PlainGang(
        tuple(
            (k, groups[k].count, (groups[k].gpu_milli, groups[k].cpu_milli, groups[k].memory_mib))
            for k in order
        ),
        configuration.demand[0],
        configuration.gpu_type,
    )


class HostClasses:
    """Free capacity of hosts, of which those with equally much free are one class.

    Plain gangs are placed by best fit exactly as by `HostPool`, at a cost that grows with the
    number of classes in place of that of hosts: a host looks like thousands of others where tasks
    are alike. The hosts of a class are the bits of a number, so that the first is found at once.

    Parameters
    ----------
    topology
        The cluster, without named resources; all of it is free at first.
    """

    def __init__(self, topology: Topology) -> None:
        self._at: list[Row] = [(gpu, cpu, mem) for gpu, cpu, mem in topology.capacity.tolist()]
        self._hosts: dict[Row, int] = {}
        for h, free in enumerate(self._at):
            self._hosts[free] = self._hosts.get(free, 0) | 1 << h
        # The classes that have hosts, from the least room to the most.
        self._order = sorted(self._hosts)
        self._of_type: dict[str | None, int] = {None: (1 << len(self._at)) - 1}
        for h, gpu_type in enumerate(topology.gpu_types):
            if gpu_type is not None:
                self._of_type[gpu_type] = self._of_type.get(gpu_type, 0) | 1 << h
        self.free_gpu = sum(free[0] for free in self._at)
        """Free GPU of all hosts, milli-GPU."""

    def free(self, host: int) -> Row:
        """Return what is free on the host at a position."""
        return self._at[host]

    def place(self, gang: PlainGang) -> Placed | None:
        """Place a gang by best fit and take its capacity, or return None and do nothing."""
        if gang.gpu_milli > self.free_gpu:
            return None
        among = self._of_type.get(gang.gpu_type, 0)
        placed: Placed = []
        for k, count, each in gang.groups:
            gpu, cpu, memory = each
            need = (gpu * count, cpu * count, memory * count)
            h = self._fullest(need, among)
            if h >= 0:
                self._add(h, need, -1)
                placed.append((k, h, count))
                continue
            chosen = self._spread(count, each, among)
            if chosen is None:
                self.release(gang, placed)
                return None
            for h, n in chosen:
                self._add(h, each, -n)
                placed.append((k, h, n))
        return placed

    def release(self, gang: PlainGang, placed: Placed) -> None:
        """Give back the capacity of a placed gang."""
        for k, h, n in placed:
            for own, _, each in gang.groups:
                if own == k:
                    self._add(h, each, n)

    def _fullest(self, need: Row, among: int) -> int:
        """Return the host with the least room that holds all, the first of equals, or -1."""
        order = self._order
        _, cpu, memory = need
        for i in range(bisect_left(order, need), len(order)):
            free = order[i]
            # The first GPUs come first in the order: what follows has as many.
            if free[1] >= cpu and free[2] >= memory:
                hosts = self._hosts[free] & among
                if hosts:
                    return (hosts & -hosts).bit_length() - 1
        return -1

    def _spread(self, count: int, each: Row, among: int) -> Sequence[tuple[int, int]] | None:
        """Return hosts and numbers of tasks, the roomiest first, or None if the hosts lack room.

        GPUs left on a host count first for tasks without GPUs, so that these keep away from them.
        """
        gpu, cpu, memory = each
        by_rank: dict[Row, int] = {}
        rooms = 0
        for i in range(bisect_left(self._order, each), len(self._order)):
            free = self._order[i]
            hosts = self._hosts[free] & among
            if not hosts:
                continue
            room = min(
                count,
                free[0] // gpu if gpu else count,
                free[1] // cpu if cpu else count,
                free[2] // memory if memory else count,
            )
            if room:
                rank = (-room, free[0], free[1]) if gpu else (free[0], -room, free[1])
                by_rank[rank] = by_rank.get(rank, 0) | hosts
                rooms += room * hosts.bit_count()
        if rooms < count:
            return None
        chosen: list[tuple[int, int]] = []
        left = count
        for rank in sorted(by_rank):
            hosts, room = by_rank[rank], -rank[0 if gpu else 1]
            while hosts:
                first = hosts & -hosts
                hosts ^= first
                chosen.append((first.bit_length() - 1, min(room, left)))
                left -= room
                if left <= 0:
                    return chosen
        raise AssertionError("there is room for all tasks")

    def _add(self, h: int, each: Row, count: int) -> None:
        """Move a host to the class with so many times a demand more free on it."""
        before = self._at[h]
        after = (
            before[0] + each[0] * count,
            before[1] + each[1] * count,
            before[2] + each[2] * count,
        )
        bit = 1 << h
        rest = self._hosts[before] ^ bit
        if rest:
            self._hosts[before] = rest
        else:
            del self._hosts[before]
            del self._order[bisect_left(self._order, before)]
        hosts = self._hosts.get(after, 0)
        if not hosts:
            insort(self._order, after)
        self._hosts[after] = hosts | bit
        self._at[h] = after
        self.free_gpu += each[0] * count
