"""Hosts as tasks of one demand see them: how many fit on each, and who is filled first.

Hosts in the same state are alike to all tasks, so what a state is to them is worked out once; and
whatever the order is, only the hosts that changed are put into another place of it. So a gang takes
time for the hosts that it fills, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from alloc.solving.placement.terms import Counts

Key = tuple[float, float]
"""What decides which host is filled first: the least."""
State = tuple[int, ...]
"""GPU type of a host, by number, and what is free there of each resource."""
Measure = Callable[[Sequence[State]], Iterable[tuple[int, Key]]]
"""Tells of states how many tasks fit, and the key."""


class States:
    """The states that hosts are met in, each by a number."""

    def __init__(self) -> None:
        self.rows: list[State] = []
        self._index: dict[State, int] = {}
        self._after: dict[tuple[int, ...], dict[tuple[int, int], int]] = {}

    def number(self, state: State) -> int:
        """Return the number of a state."""
        if state not in self._index:
            self._index[state] = len(self.rows)
            self.rows.append(state)
        return self._index[state]

    def after(self, demand: tuple[int, ...]) -> Callable[[int, int], int]:
        """Return what makes of a state the one after so many tasks of a demand have come."""
        known = self._after.setdefault(demand, {})

        def after(state: int, tasks: int) -> int:
            found = known.get((state, tasks))
            if found is None:
                kind, *free = self.rows[state]
                left = [a - tasks * b for a, b in zip(free, demand, strict=True)]
                found = known[state, tasks] = self.number((kind, *left))
            return found

        return after


@dataclass(frozen=True)
class Domains:
    """Places that may hold a gang whole.

    Parameters
    ----------
    of_host
        The place of each host; the last one is that of hosts outside any, which holds no gang.
    hosts
        The hosts of each place, ascending.
    left
        What is free in each, all resources added up.
    """

    of_host: list[int]
    hosts: tuple[list[int], ...]
    left: Counts

    @staticmethod
    def of(of_host: list[int], hosts: tuple[list[int], ...], free: Counts) -> Domains:
        """Return places (`places_of`) with what is free there, from what is free on each host.

        Parameters
        ----------
        of_host, hosts
            As `places_of` returns them.
        free
            What is free on each host, all resources added up, shape (hosts,).
        """
        left = np.zeros(len(hosts), dtype=np.int64)
        np.add.at(left, np.array(of_host), free)
        return Domains(of_host, hosts, left)


def places_of(domain: Counts) -> tuple[list[int], tuple[list[int], ...]]:
    """Return the place of each host, and the hosts of each place.

    Parameters
    ----------
    domain
        Number of the place of each host, -1 outside any, shape (hosts,).
    """
    number = int(domain.max(initial=-1)) + 1
    place = np.where(domain < 0, number, domain)
    ends = np.cumsum(np.bincount(place, minlength=number + 1))
    hosts = np.split(np.argsort(place, kind="stable"), ends[:-1])
    return place.tolist(), tuple(own.tolist() for own in hosts)


class HostQueue:
    """Hosts by a key, and as they come under the same.

    Whoever is taken out, or waits under another key now, is passed over where it stood before.

    Parameters
    ----------
    hosts
        Key of each host, hosts ascending.
    """

    def __init__(self, hosts: Mapping[int, Key]) -> None:
        self._key = dict(hosts)
        self._heaps: dict[Key, list[int]] = {}
        for h, key in hosts.items():
            self._heaps.setdefault(key, []).append(h)
        self._keys = sorted(self._heaps)

    def put(self, h: int, key: Key) -> None:
        """Let a host wait under a key.

        Parameters
        ----------
        h
            Number of the host.
        key
            Its key; the least is filled first.
        """
        if self._key.get(h) == key:
            return
        self._key[h] = key
        heap = self._heaps.get(key)
        if heap is None:
            heap = self._heaps[key] = []
            insort(self._keys, key)
        heappush(heap, h)

    def drop(self, h: int) -> None:
        """Take a host out, if it waits."""
        self._key.pop(h, None)

    def pop(self) -> int:
        """Take the first host out.

        Raises
        ------
        IndexError
            If none waits.
        """
        while True:
            h = self._head(self._keys[0])
            if h is not None:
                return self._taken(h)

    def pop_upto(self, key: Key) -> int | None:
        """Take out the first of those that wait under the greatest key up to some, if any do."""
        for own in reversed(self._keys[: bisect_right(self._keys, key)]):
            h = self._head(own)
            if h is not None:
                return self._taken(h)
        return None

    def _taken(self, h: int) -> int:
        heappop(self._heaps[self._key.pop(h)])
        return h

    def _head(self, key: Key) -> int | None:
        """Return the first host under a key; without any, forget the key."""
        heap = self._heaps[key]
        while heap:
            if self._key.get(heap[0]) == key:
                return heap[0]
            heappop(heap)
        del self._heaps[key]
        del self._keys[bisect_left(self._keys, key)]
        return None


class SeenHosts:
    """Hosts as tasks of one demand see them, up to some change of hosts.

    Parameters
    ----------
    measure
        Tells how many tasks fit on hosts of a state, and who is filled first.
    states
        The states by number.
    state
        State of each host; the caller changes it, and says so by `look_again`.
    at_most
        Tells how many tasks a host may take whatever its state, if there is such a limit.
    """

    def __init__(
        self,
        measure: Measure,
        states: States,
        state: list[int],
        at_most: Callable[[int], int] | None = None,
    ) -> None:
        self._measure, self._states, self._state = measure, states, state
        self._at_most = at_most
        self._known: dict[int, tuple[int, Key]] = {}
        self._learn(state)
        self.room = [self._known[own][0] for own in state]
        if at_most is not None:
            self.room = [min(room, at_most(h)) for h, room in enumerate(self.room)]
        self._views: list[_View] = []

    def room_in(self, domains: Domains) -> Counts:
        """Return how many tasks fit in each place."""
        return self._view(domains).room

    def queue_of(self, domains: Domains, place: int) -> HostQueue:
        """Return the hosts of a place that have room.

        Parameters
        ----------
        domains
            The places.
        place
            Number of the place among them.
        """
        queues = self._view(domains).queues
        if place not in queues:
            hosts = domains.hosts[place]
            queues[place] = HostQueue(
                {h: self._known[self._state[h]][1] for h in hosts if self.room[h]}
            )
        return queues[place]

    def look_again(self, hosts: Iterable[int]) -> None:
        """Take note of hosts that may have changed."""
        state, room, known, at_most = self._state, self.room, self._known, self._at_most
        for h in dict.fromkeys(hosts):
            found = known.get(state[h])
            if found is None:
                self._learn([state[h]])
                found = known[state[h]]
            now, key = found
            if at_most is not None:
                now = min(now, at_most(h))
            before = room[h]
            if not before and not now:
                continue
            room[h] = now
            for view in self._views:
                place = view.domains.of_host[h]
                if now != before and place < len(view.room):
                    view.room[place] += now - before
                queue = view.queues.get(place)
                if queue is not None:
                    if now:
                        queue.put(h, key)
                    else:
                        queue.drop(h)

    def _learn(self, states: Iterable[int]) -> None:
        new = [state for state in dict.fromkeys(states) if state not in self._known]
        if new:
            rows = [self._states.rows[state] for state in new]
            self._known.update(zip(new, self._measure(rows), strict=True))

    def _view(self, domains: Domains) -> _View:
        for view in self._views:
            if view.domains is domains:
                return view
        room = np.zeros(len(domains.hosts), dtype=np.int64)
        np.add.at(room, np.array(domains.of_host), np.array(self.room))
        self._views.append(_View(domains, room[:-1]))
        return self._views[-1]


@dataclass(frozen=True)
class _View:
    """The room in places that may hold a gang, and the hosts of those that were looked into."""

    domains: Domains
    room: Counts
    queues: dict[int, HostQueue] = field(default_factory=dict)
