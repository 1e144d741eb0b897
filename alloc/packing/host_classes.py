"""Host classes: hosts on which equally much is free, taken together."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter, itemgetter

from alloc.problems.allocation.solution import TaskPlacement
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
    rows
        The stands of each number of tasks, host by host, as far as they were met.
    """

    __slots__ = ("among", "code", "count", "each", "num_known", "parts", "role", "rows", "whole")

    def __init__(self, group: TaskGroup, code: int, among: int) -> None:
        self.each: Row = (group.gpu_milli, group.cpu_milli, group.memory_mib)
        self.count = group.count
        self.role = group.role
        self.code = code
        self.among = among
        self.whole: list[HostClass] = []
        self.parts: list[tuple[Row, int, HostClass]] = []
        self.num_known = 0
        self.rows: dict[int, list[Stand | None]] = {}

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
    name
        Id of the host.

    Attributes
    ----------
    bit
        The host as a bit.
    taken, given
        Codes of the tasks, when they are taken from a host and given back.
    task
        The same for people.
    alone, tasks
        The placement of a gang that is nothing but this.
    """

    __slots__ = ("alone", "ask", "bit", "count", "given", "host", "taken", "task", "tasks")

    def __init__(self, ask: Ask, host: int, count: int, name: str) -> None:
        self.ask = ask
        self.host = host
        self.count = count
        self.task = TaskPlacement(name, ask.role, count)
        self.tasks = (self.task,)
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
        self._names = [host.id for host in topology.hosts]
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
                    h = (hosts & -hosts).bit_length() - 1
                    row = ask.rows.get(ask.count) or self._row(ask, ask.count)
                    stand = row[h] or self._stand(row, ask, h, ask.count)
                    after = own.after.get(stand.taken) or self._after(own, stand, -1)
                    own.hosts ^= stand.bit
                    after.hosts |= stand.bit
                    at[h] = after
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
        chosen: list[tuple[int, int, HostClass | None]] = []
        rooms, last = 0, None
        for rank, room, own in ask.parts:
            hosts = own.hosts & among
            if not hosts:
                continue
            if rank == last:  # of equals the first in the order of hosts
                chosen[-1] = (room, chosen[-1][1] | hosts, None)
            elif rooms >= left:
                break
            else:
                chosen.append((room, hosts, own))
                last = rank
            rooms += room * hosts.bit_count()
        if rooms < left:
            return False
        for room, hosts, one in chosen:
            if one is not None and left >= room:
                # As many hosts of the class as take all that they have room for.
                many = min(left // room, hosts.bit_count())
                rest = self._fill(ask, room, one, hosts, many, stands)
                left -= room * many
                hosts = rest
            while hosts and left:
                first = hosts & -hosts
                hosts ^= first
                count = min(room, left)
                self._fill(ask, count, self._at[first.bit_length() - 1], first, 1, stands)
                left -= count
            if not left:
                return True
        raise AssertionError("there is room for all tasks")

    def _fill(
        self, ask: Ask, count: int, own: HostClass, hosts: int, many: int, stands: list[Stand]
    ) -> int:
        """Place so many tasks on each of the first of some hosts of a class; return the others."""
        row = ask.rows.get(count) or self._row(ask, count)
        at, rest, after = self._at, hosts, own.after.get(ask.code + count)
        for _ in range(many):
            first = rest & -rest
            rest ^= first
            h = first.bit_length() - 1
            stand = row[h] or self._stand(row, ask, h, count)
            if after is None:
                after = self._after(own, stand, -1)
            at[h] = after
            stands.append(stand)
        if after is not None:
            own.hosts ^= hosts ^ rest
            after.hosts |= hosts ^ rest
        return rest

    def _row(self, ask: Ask, count: int) -> list[Stand | None]:
        """Return the stands of so many tasks, none of them met."""
        row = ask.rows[count] = [None] * len(self._at)
        return row

    def _stand(self, row: list[Stand | None], ask: Ask, h: int, count: int) -> Stand:
        """Return a stand that was not met before."""
        stand = row[h] = Stand(ask, h, count, self._names[h])
        return stand

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
