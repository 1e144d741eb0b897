"""The least loaded host: where DL2 puts the next task.

Parameters
----------
host
    Position of a host.
state
    What is free on a host, and its load.
demand
    What one task, or one bundle, asks for, in the order of the resources.
count
    How often, 1 or more.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.solution import TaskPlacement
from alloc.schedulers.ladder import SERVER, WORKER
from alloc.topology import Topology
from alloc.units import RESOURCES

Row = tuple[int, ...]

_NUM_BASE = len(RESOURCES)
_ROLES = (SERVER, WORKER)
_STATES_A_HOST = 8
"""States remembered from one round to the next, for each host. Hosts pass through a few each, again
and again, where tasks are alike; where no two are, they would fill the memory."""


_LOAD_DIGITS = 12
"""Decimals that count of a load: equal loads must be equal numbers for the tie to go to the first
host, and they are sums of fractions with rounding errors of some 1e-16."""


class HostState:
    """A host of some capacity with so much of it free; hosts that are alike share one.

    Parameters
    ----------
    capacity, free
        GPU, CPU and memory.
    first
        What follows in the order of hosts by one unit of load, as a power of 2 above their number.

    Attributes
    ----------
    rank
        The load in the last of its decimals, times `first`. The load is the used fraction of the
        GPUs plus that of the CPUs.
    after
        The state once a demand is taken, or None if it misfits, for demands already met.
    """

    __slots__ = ("after", "capacity", "free", "rank")

    def __init__(self, capacity: Row, free: Row, first: int) -> None:
        self.capacity, self.free = capacity, free
        used = sum((capacity[r] - free[r]) / max(capacity[r], 1) for r in (0, 1))
        self.rank = round(used * 10**_LOAD_DIGITS) * first
        self.after: dict[Row, HostState | None] = {}


class LeastLoaded:
    """Free capacity of hosts in a round, given out on the least loaded one.

    The load of a host is the sum of the used fractions of its GPUs and of its CPUs, ties go to the
    first host, and what does not fit there does not fit. It is asked for every task: hosts are kept
    in a heap, and what a demand makes of a host is worked out once for all that are in its state.

    It knows GPU, CPU and memory: jobs that ask for more are not given out task by task.

    Parameters
    ----------
    topology
        The cluster; all of it is free at first.
    """

    def __init__(self, topology: Topology) -> None:
        self._all: npt.NDArray[np.int64] = topology.capacity[:, :_NUM_BASE]
        self._capacity: list[Row] = [tuple(row) for row in self._all.tolist()]
        self._states: dict[tuple[Row, Row], HostState] = {}
        self._names = [host.id for host in topology.hosts]
        # Placements met before, by twice the host (plus 1 for workers) and their number; and, of
        # single tasks, by the first of these.
        self._placements: dict[tuple[int, int], TaskPlacement] = {}
        self._alone: list[TaskPlacement | None] = [None] * (2 * len(self._capacity))
        self._empty: list[HostState] = []
        # Hosts are ordered by the rank of their state plus their position, one number for both.
        self._first = 1 << len(self._capacity).bit_length()
        self.reset()

    def reset(self) -> None:
        """Free all hosts."""
        if not self._empty or len(self._states) > _STATES_A_HOST * len(self._capacity):
            self._states.clear()
            self._empty = [self._state(row, row) for row in self._capacity]
        self._at = self._empty.copy()
        # Of the entries of a host, the one with its rank counts.
        self._heap = list(range(len(self._at)))
        self._changed: list[int] = []

    def read(self, free: npt.NDArray[np.int64], hosts: Iterable[int] | None = None) -> None:
        """Take over what is free in a pool.

        Parameters
        ----------
        free
            Shape (hosts, resources).
        hosts
            The hosts that may have changed since it was last read, or None for all.
        """
        if hosts is None:
            self.reset()
            hosts = np.flatnonzero((free[:, :_NUM_BASE] != self._all).any(axis=1)).tolist()
        for h in hosts:
            self._set(h, self._state(self._capacity[h], tuple(free[h, :_NUM_BASE].tolist())))

    def write(self, free: npt.NDArray[np.int64]) -> None:
        """Enter in a pool what was taken and put back since it was last read or written."""
        for h in self._changed:
            free[h, :_NUM_BASE] = self._at[h].free
        self._changed.clear()

    def state(self, host: int) -> HostState:
        """Return the state of a host."""
        return self._at[host]

    def after(self, state: HostState, demand: Row) -> HostState | None:
        """Return the state of a host once a demand is taken, or None if it misfits."""
        try:
            return state.after[demand]
        except KeyError:
            return self._after(state, demand)

    def enter(self, host: int, state: HostState) -> None:
        """Enter the state of a host from which demands were taken."""
        self._set(host, state)
        self._changed.append(host)

    def take(self, host: int, demand: Row) -> bool:
        """Take a demand from a given host if it fits there; return whether it does."""
        after = self._after(self._at[host], demand)
        if after is None:
            return False
        self.enter(host, after)
        return True

    def occupy(self, host: int, demand: Row, count: int = 1) -> None:
        """Take a demand so many times from a host, though it misfits; below 0: put it back."""
        state = self._at[host]
        free = tuple(have - count * d for have, d in zip(state.free, demand, strict=False))
        self._set(host, self._state(state.capacity, free))
        self._changed.append(host)

    def give(self, demand: Row) -> int | None:
        """Take a demand from the least loaded host and return that host; None if it misfits."""
        # As `give_up_to`, for the one task that rules ask for most.
        heap, at, mask = self._heap, self._at, self._first - 1
        while True:
            entry = heap[0]
            h = entry & mask
            state = at[h]
            if state.rank + h == entry:
                break
            heapq.heappop(heap)
        try:
            after = state.after[demand]
        except KeyError:
            after = self._after(state, demand)
        if after is None:
            return None
        at[h] = after
        heapq.heapreplace(heap, after.rank + h)
        self._changed.append(h)
        return h

    def give_all(self, demand: Row, count: int) -> list[int] | None:
        """Take a demand so many times, each from the least loaded host by then; all or nothing."""
        if count == 1:
            host = self.give(demand)
            return None if host is None else [host]
        hosts = self.give_up_to(demand, count)
        if len(hosts) == count:
            return hosts
        for host in hosts:
            self.occupy(host, demand, -1)
        return None

    def give_up_to(self, demand: Row, count: int) -> list[int]:
        """Take a demand at most so many times, until it misfits; return the hosts in order."""
        heap, at, mask = self._heap, self._at, self._first - 1
        hosts: list[int] = []
        while len(hosts) < count:
            entry = heap[0]
            h = entry & mask
            state = at[h]
            if state.rank + h != entry:
                heapq.heappop(heap)
                continue
            try:
                after = state.after[demand]
            except KeyError:
                after = self._after(state, demand)
            if after is None:
                break
            at[h] = after
            heapq.heapreplace(heap, after.rank + h)
            hosts.append(h)
        self._changed += hosts
        return hosts

    def give_in_turn(self, demands: Sequence[Row]) -> list[int]:
        """Take demands one after the other, until one misfits; return the hosts in order."""
        # As `give_up_to`, for the few first tasks of each job; one loop for both was slower.
        heap, at, mask = self._heap, self._at, self._first - 1
        hosts: list[int] = []
        for demand in demands:
            entry = heap[0]
            h = entry & mask
            state = at[h]
            while state.rank + h != entry:
                heapq.heappop(heap)
                entry = heap[0]
                h = entry & mask
                state = at[h]
            after = state.after.get(demand) or self._after(state, demand)
            if after is None:
                break
            at[h] = after
            heapq.heapreplace(heap, after.rank + h)
            hosts.append(h)
        self._changed += hosts
        return hosts

    def placed(
        self, workers_on: Sequence[int], servers_on: Sequence[int]
    ) -> tuple[TaskPlacement, ...]:
        """Return tasks on hosts in the order of hosts and roles, "ps" before "worker".

        Parameters
        ----------
        workers_on, servers_on
            Position of the host of each worker and of each PS, in any order.
        """
        if len(workers_on) == len(servers_on) == 1:
            first, second = 2 * servers_on[0], 2 * workers_on[0] + 1
            if second < first:
                first, second = second, first
            one = self._alone[first] or self._placement(first, 1)
            return one, self._alone[second] or self._placement(second, 1)
        counts: dict[int, int] = {}
        for k in [*(2 * h for h in servers_on), *(2 * h + 1 for h in workers_on)]:
            counts[k] = counts.get(k, 0) + 1
        its, known = sorted(counts.items()), self._placements
        return tuple([known.get(item) or self._placement(*item) for item in its])

    def _placement(self, key: int, count: int) -> TaskPlacement:
        """Return tasks on a host that were not met before, by their key."""
        task = TaskPlacement(self._names[key // 2], _ROLES[key % 2], count)
        self._placements[key, count] = task
        if count == 1:
            self._alone[key] = task
        return task

    def _set(self, host: int, state: HostState) -> None:
        self._at[host] = state
        heapq.heappush(self._heap, state.rank + host)

    def _state(self, capacity: Row, free: Row) -> HostState:
        state = self._states.get((capacity, free))
        if state is None:
            state = self._states[capacity, free] = HostState(capacity, free, self._first)
        return state

    def _after(self, state: HostState, demand: Row) -> HostState | None:
        """Return the state of a host once a demand is taken, or None if it misfits."""
        if demand not in state.after:
            base = demand[:_NUM_BASE]
            free = tuple(have - need for have, need in zip(state.free, base, strict=True))
            # What is not asked for cannot be short.
            fits = not any(rest < 0 < need for rest, need in zip(free, base, strict=True))
            state.after[demand] = self._state(state.capacity, free) if fits else None
        return state.after[demand]
