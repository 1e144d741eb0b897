"""Host classes: hosts on which equally much is free, taken together."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter, itemgetter

from alloc.topology import Topology
from alloc.units import RESOURCES
from alloc.workload import Configuration, TaskGroup

Row = tuple[int, int, int]
"""GPU, CPU and memory."""

_NUM_BASE = len(RESOURCES)
_CODES = 1 << 32
"""Numbers of tasks of a group on one host, at most: each has a code of its own."""


class HostClass:
    """Hosts on which equally much is free.

    Parameters
    ----------
    free
        What is free on each of them.

    Attributes
    ----------
    hosts
        Their positions, as the bits of a number: so the first is found at once.
    after
        The class of a host once tasks are taken from it or given back, by the code of the tasks.
    """

    __slots__ = ("after", "free", "hosts")

    def __init__(self, free: Row) -> None:
        self.free = free
        self.hosts = 0
        self.after: dict[int, HostClass] = {}


class Ask:
    """A task group, and what is known of the classes that have room for it.

    Parameters
    ----------
    group
        The tasks.
    code
        Tells it from other groups; less than its amounts are apart.
    among
        The hosts that it may stand on, as bits.

    Attributes
    ----------
    whole
        The classes with room for all tasks on each host, from the least room to the most.
    parts
        Those with room for some: rank, room for so many tasks, and class, by rank.
    num_known
        How many classes were looked at.
    known
        The stands of the group met so far, by host and number of tasks.
    """

    __slots__ = ("among", "code", "count", "each", "known", "num_known", "parts", "role", "whole")

    def __init__(self, group: TaskGroup, code: int, among: int) -> None:
        self.each: Row = (group.gpu_milli, group.cpu_milli, group.memory_mib)
        self.count = group.count
        self.role = group.role
        self.code = code
        self.among = among
        self.whole: list[HostClass] = []
        self.parts: list[tuple[Row, int, HostClass]] = []
        self.num_known = 0
        self.known: dict[tuple[int, int], Stand] = {}

    def stand(self, host: int, count: int) -> Stand:
        """Return the stand of so many tasks on a host: always the same one."""
        found = self.known.get((host, count))
        if found is None:
            found = self.known[host, count] = Stand(self, host, count)
        return found

    def room(self, free: Row) -> int:
        """Return how many tasks fit on a host with so much free, at most all."""
        fits = [have // need for have, need in zip(free, self.each, strict=True) if need]
        return min([self.count, *fits])

    def forget(self) -> None:
        """Forget all classes."""
        self.whole.clear()
        self.parts.clear()
        self.num_known = 0


class Stand:
    """Tasks of one group on one host.

    Parameters
    ----------
    ask
        The group.
    host
        Position of the host.
    count
        Number of tasks.

    Attributes
    ----------
    bit
        The host as a bit.
    taken, given
        Codes of the tasks, when they are taken from a host and given back.
    alone
        The placement of a gang that is nothing but this.
    """

    __slots__ = ("alone", "ask", "bit", "count", "given", "host", "taken")

    def __init__(self, ask: Ask, host: int, count: int) -> None:
        self.ask = ask
        self.host = host
        self.count = count
        self.bit = 1 << host
        self.taken = ask.code + count
        self.given = -self.taken
        self.alone: Placed = (self,)


Gang = tuple[int, tuple[Ask, ...]]
"""What all tasks ask for, milli-GPU, and the task groups in the order of placing."""

Placed = tuple[Stand, ...]
"""Where the tasks of a gang are."""


class HostClasses:
    """Free capacity of hosts, of which those with equally much free are one class.

    Gangs of whole GPUs are placed by best fit exactly as by `HostPool`, at a cost that grows with
    the number of classes in place of that of hosts: a host looks like thousands of others where
    tasks are alike.

    Parameters
    ----------
    topology
        The cluster, without named resources; all of it is free at first.
    """

    def __init__(self, topology: Topology) -> None:
        rows: list[Row] = [(gpu, cpu, memory) for gpu, cpu, memory in topology.capacity.tolist()]
        self._classes: dict[Row, HostClass] = {}
        # In the order in which they came up.
        self._all: list[HostClass] = []
        self._at = [self._class(row) for row in rows]
        self._of_type: dict[str, int] = {}
        for h, (own, gpu_type) in enumerate(zip(self._at, topology.gpu_types, strict=True)):
            own.hosts |= 1 << h
            if gpu_type is not None:
                self._of_type[gpu_type] = self._of_type.get(gpu_type, 0) | 1 << h
        self._asks: list[Ask] = []
        self._max_classes = 2 * len(rows) + 64  # no more than one a host has hosts
        self.free_gpu = sum(row[0] for row in rows)
        """Free GPU of all hosts, milli-GPU."""

    def free(self, host: int) -> Row:
        """Return what is free on the host at a position."""
        return self._at[host].free

    def gang(self, configuration: Configuration) -> Gang | None:
        """Return a configuration as this places it, or None if it asks for more than it knows.

        It knows whole GPUs, CPU and memory, on any hosts or on those with one GPU type.
        """
        groups = configuration.tasks
        if configuration.within is not None or len(configuration.demand) != _NUM_BASE:
            return None
        if any(g.shares_gpu or g.gpu_memory_mib or g.mig_profile is not None for g in groups):
            return None
        among = (1 << len(self._at)) - 1
        if configuration.gpu_type is not None:
            among = self._of_type.get(configuration.gpu_type, 0)
        asks = []
        # As `HostPool` does: groups that need GPUs go first.
        for k in sorted(range(len(groups)), key=lambda k: groups[k].demand, reverse=True):
            asks.append(Ask(groups[k], _CODES * (len(self._asks) + 1), among))
            self._asks.append(asks[-1])
        return configuration.demand[0], tuple(asks)

    def place(self, gang: Gang) -> Placed | None:
        """Place a gang by best fit and take its capacity, or return None and do nothing."""
        gpu, asks = gang
        if gpu > self.free_gpu:
            return None
        if len(self._all) > self._max_classes:
            self._forget()
        stands: list[Stand] = []
        at = self._at
        for ask in asks:
            if ask.num_known < len(self._all):
                self._learn(ask)
            among = ask.among
            for own in ask.whole:
                hosts = own.hosts & among
                if hosts:
                    stand = ask.stand((hosts & -hosts).bit_length() - 1, ask.count)
                    after = own.after.get(stand.taken) or self._after(own, stand, -1)
                    own.hosts ^= stand.bit
                    after.hosts |= stand.bit
                    at[stand.host] = after
                    stands.append(stand)
                    break
            else:
                if not self._spread(ask, stands):
                    self._give_back(stands)
                    return None
        self.free_gpu -= gpu
        return stands[0].alone if len(stands) == 1 else tuple(stands)

    def release(self, gang: Gang, placed: Placed) -> None:
        """Give back the capacity of a placed gang."""
        self._give_back(placed)
        self.free_gpu += gang[0]

    def _give_back(self, placed: Iterable[Stand]) -> None:
        at = self._at
        for stand in placed:
            own = at[stand.host]
            after = own.after.get(stand.given) or self._after(own, stand, 1)
            own.hosts ^= stand.bit
            after.hosts |= stand.bit
            at[stand.host] = after

    def _spread(self, ask: Ask, stands: list[Stand]) -> bool:
        """Place the tasks of a group that no host holds whole, the roomiest hosts first."""
        among, left = ask.among, ask.count
        chosen: list[tuple[int, int]] = []
        rooms, last = 0, None
        for rank, room, own in ask.parts:
            hosts = own.hosts & among
            if not hosts:
                continue
            if rank == last:  # of equals the first in the order of hosts
                chosen[-1] = (room, chosen[-1][1] | hosts)
            elif rooms >= left:
                break
            else:
                chosen.append((room, hosts))
                last = rank
            rooms += room * hosts.bit_count()
        if rooms < left:
            return False
        at = self._at
        for room, hosts in chosen:
            while hosts:
                stand = ask.stand((hosts & -hosts).bit_length() - 1, min(room, left))
                own = at[stand.host]
                after = own.after.get(stand.taken) or self._after(own, stand, -1)
                hosts ^= stand.bit
                own.hosts ^= stand.bit
                after.hosts |= stand.bit
                at[stand.host] = after
                stands.append(stand)
                left -= stand.count
                if not left:
                    return True
        raise AssertionError("there is room for all tasks")

    def _learn(self, ask: Ask) -> None:
        """Look at the classes that came up since the last time."""
        gpu, count = ask.each[0], ask.count
        for own in self._all[ask.num_known :]:
            free, room = own.free, ask.room(own.free)
            if room == count:
                ask.whole.append(own)
            elif room > 0:
                # GPUs left on a host count first for tasks without GPUs: they keep away from them.
                rank = (-room, free[0], free[1]) if gpu else (free[0], -room, free[1])
                ask.parts.append((rank, room, own))
        ask.whole.sort(key=attrgetter("free"))
        ask.parts.sort(key=itemgetter(0))
        ask.num_known = len(self._all)

    def _after(self, own: HostClass, stand: Stand, sign: int) -> HostClass:
        """Return the class of a host once tasks are given back to it, or taken (-1)."""
        many = sign * stand.count
        gpu, cpu, memory = (a + many * d for a, d in zip(own.free, stand.ask.each, strict=True))
        after = self._class((gpu, cpu, memory))
        own.after[stand.given if sign > 0 else stand.taken] = after
        return after

    def _class(self, free: Row) -> HostClass:
        own = self._classes.get(free)
        if own is None:
            own = self._classes[free] = HostClass(free)
            self._all.append(own)
        return own

    def _forget(self) -> None:
        """Drop the classes without hosts: where no two tasks are alike they would pile up."""
        self._all = [own for own in self._all if own.hosts]
        self._classes = {own.free: own for own in self._all}
        for own in self._all:
            own.after.clear()
        for ask in self._asks:
            ask.forget()
