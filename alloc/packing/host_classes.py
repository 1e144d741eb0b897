"""Host classes: hosts on which equally much is free, taken together."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
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
        Their bits in one number. The first host has the highest: so it is found at once.
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
    num_hosts
        Hosts of the cluster, all of which it may stand on if they are as many.

    Attributes
    ----------
    is_anywhere
        Whether it may stand on every host.
    whole
        The classes with room for all tasks on each host, from the least room to the most.
    parts
        Those with room for some, by rank: room for so many tasks, and the classes of that rank.
    ranked
        The same, each with its rank.
    num_known
        How many classes were looked at.
    rows
        The stands of each number of tasks, by bit of their host, as far as they were met.
    row
        Those of all its tasks.
    taken
        Code of all its tasks.
    """

    __slots__ = (
        "among",
        "code",
        "count",
        "each",
        "is_anywhere",
        "num_known",
        "parts",
        "ranked",
        "role",
        "row",
        "rows",
        "taken",
        "whole",
    )

    def __init__(self, group: TaskGroup, code: int, among: int, num_hosts: int) -> None:
        self.each: Row = (group.gpu_milli, group.cpu_milli, group.memory_mib)
        self.count = group.count
        self.role = group.role
        self.code = code
        self.among = among
        self.is_anywhere = among == (1 << num_hosts) - 1
        self.taken = code + group.count
        self.whole: list[HostClass] = []
        self.parts: list[tuple[int, list[HostClass]]] = []
        self.ranked: list[tuple[Row, int, HostClass]] = []
        self.num_known = 0
        self.row: list[Stand | None] = [None] * (num_hosts + 1)
        self.rows: dict[int, list[Stand | None]] = {group.count: self.row}

    def room(self, free: Row) -> int:
        """Return how many tasks fit on a host with so much free, at most all."""
        fits = [have // need for have, need in zip(free, self.each, strict=True) if need]
        return min([self.count, *fits])

    def forget(self) -> None:
        """Forget all classes."""
        self.whole.clear()
        self.parts.clear()
        self.ranked.clear()
        self.num_known = 0


class Stand:
    """Tasks of one group on one host.

    Parameters
    ----------
    ask
        The group.
    at
        Number of the host's bit, from 1.
    count
        Number of tasks.
    host
        Position of the host.
    name
        Its id.
    index
        Its position among all stands.

    Attributes
    ----------
    bit
        The host as a bit.
    taken, given
        Codes of the tasks, when they are taken from a host and given back.
    task
        The same for people.
    alone
        The placement of a gang that is nothing but this.
    """

    __slots__ = ("alone", "ask", "at", "bit", "count", "given", "host", "index", "taken", "task")

    def __init__(self, ask: Ask, at: int, count: int, host: int, name: str, index: int) -> None:
        self.ask = ask
        self.at = at
        self.host = host
        self.count = count
        self.task = TaskPlacement(name, ask.role, count)
        self.index = index
        self.bit = 1 << at - 1
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
        self._num_hosts = topology.num_hosts
        # By the number of the host's bit, as everything here; 0 stands for none.
        self._names = ["", *[host.id for host in reversed(topology.hosts)]]
        rows: list[Row] = [(gpu, cpu, memory) for gpu, cpu, memory in topology.capacity.tolist()]
        self._classes: dict[Row, HostClass] = {}
        # In the order in which they came up.
        self._all: list[HostClass] = []
        first, *others = [self._class(row) for row in rows]
        self._at = [first, *reversed(others), first]
        self._of_type: dict[str, int] = {}
        for at, gpu_type in enumerate(reversed(topology.gpu_types), start=1):
            self._at[at].hosts |= 1 << at - 1
            if gpu_type is not None:
                self._of_type[gpu_type] = self._of_type.get(gpu_type, 0) | 1 << at - 1
        self._asks: dict[tuple[TaskGroup, int], Ask] = {}
        self.stands: list[Stand] = []
        """All stands that were ever met."""
        self._max_classes = 2 * len(rows) + 64  # no more than one a host has hosts
        self.free_gpu = sum(row[0] for row in rows)
        """Free GPU of all hosts, milli-GPU."""

    def free(self, host: int) -> Row:
        """Return what is free on the host at a position."""
        return self._at[self._num_hosts - host].free

    def gang(self, configuration: Configuration) -> Gang | None:
        """Return a configuration as this places it, or None if it asks for more than it knows.

        It knows whole GPUs, CPU and memory, on any hosts or on those with one GPU type.
        """
        groups = configuration.tasks
        if configuration.within is not None or len(configuration.demand) != _NUM_BASE:
            return None
        if any(g.shares_gpu or g.gpu_memory_mib or g.mig_profile is not None for g in groups):
            return None
        among = (1 << self._num_hosts) - 1
        if configuration.gpu_type is not None:
            among = self._of_type.get(configuration.gpu_type, 0)
        asks = []
        # As `HostPool` does: groups that need GPUs go first.
        for k in sorted(range(len(groups)), key=lambda k: groups[k].demand, reverse=True):
            key = groups[k], among
            if key not in self._asks:
                code = _CODES * (len(self._asks) + 1)
                self._asks[key] = Ask(groups[k], code, among, self._num_hosts)
            asks.append(self._asks[key])
        return configuration.demand[0], tuple(asks)

    def place(self, gang: Gang) -> Placed | None:
        """Place a gang by best fit and take its capacity, or return None and do nothing."""
        gpu, asks = gang
        if gpu > self.free_gpu:
            return None
        stands: list[Stand] = []
        for ask in asks:
            if ask.num_known < len(self._all):
                self._learn(ask)
            for own in ask.whole:
                hosts = own.hosts if ask.is_anywhere else own.hosts & ask.among
                if hosts:
                    at = hosts.bit_length()
                    stand = ask.row[at] or self._stand(ask.row, ask, at, ask.count)
                    after = own.after.get(ask.taken) or self._after(own, stand, -1)
                    own.hosts ^= stand.bit
                    after.hosts |= stand.bit
                    self._at[at] = after
                    if len(asks) == 1:
                        self.free_gpu -= gpu
                        return stand.alone
                    stands.append(stand)
                    break
            else:
                if not self._spread(ask, stands):
                    self._give_back(stands)
                    return None
        self.free_gpu -= gpu
        return tuple(stands)

    def release(self, gang: Gang, placed: Placed) -> None:
        """Give back the capacity of a placed gang.

        Parameters
        ----------
        gang
            The gang, as it was given to `place`.
        placed
            Where `place` put it.
        """
        self.free_gpu += gang[0]
        if len(placed) > 1:
            self._give_back(placed)
            return
        (stand,) = placed
        at = stand.at
        own = self._at[at]
        after = own.after.get(stand.given) or self._after(own, stand, 1)
        own.hosts ^= stand.bit
        after.hosts |= stand.bit
        self._at[at] = after

    def _give_back(self, placed: Iterable[Stand]) -> None:
        classes = self._at
        # Most hosts of a gang are of one class, and go to one: those are moved together.
        own = after = classes[0]
        given = moved = 0
        for stand in placed:
            at = stand.at
            if classes[at] is not own or stand.given != given:
                own.hosts ^= moved
                after.hosts |= moved
                own, given, moved = classes[at], stand.given, 0
                after = own.after.get(given) or self._after(own, stand, 1)
            moved |= stand.bit
            classes[at] = after
        own.hosts ^= moved
        after.hosts |= moved

    def _spread(self, ask: Ask, stands: list[Stand]) -> bool:
        """Place the tasks of a group that no host holds whole, the roomiest hosts first."""
        left, rooms = ask.count, 0
        chosen: list[tuple[int, int, int, HostClass | None]] = []
        for room, equals in ask.parts:
            hosts, one = 0, None
            for own in equals:
                own_hosts = own.hosts if ask.is_anywhere else own.hosts & ask.among
                if own_hosts:
                    one = None if hosts else own
                    hosts |= own_hosts
            if hosts:
                num_hosts = hosts.bit_count()
                chosen.append((room, hosts, num_hosts, one))
                rooms += room * num_hosts
                if rooms >= left:
                    break
        else:
            return False
        classes = self._at
        for room, hosts, num_hosts, one in chosen:
            # As many hosts as take all that they have room for.
            many = min(left // room, num_hosts)
            left -= room * many
            if one is None:  # of equals the first in the order of hosts
                for _ in range(many):
                    at = hosts.bit_length()
                    hosts ^= self._stand_on(ask, at, room, stands).bit
            elif many:
                row, rest = ask.rows.get(room) or self._row(ask, room), hosts
                after = one.after.get(ask.code + room)
                for _ in range(many):
                    at = rest.bit_length()
                    stand = row[at] or self._stand(row, ask, at, room)
                    if after is None:
                        after = self._after(one, stand, -1)
                    rest ^= stand.bit
                    classes[at] = after
                    stands.append(stand)
                assert after is not None
                one.hosts ^= hosts ^ rest
                after.hosts |= hosts ^ rest
                hosts = rest
            if left and hosts:  # the last of all
                self._stand_on(ask, hosts.bit_length(), left, stands)
        return True

    def _stand_on(self, ask: Ask, at: int, count: int, stands: list[Stand]) -> Stand:
        """Place so many tasks on one host; return where they stand."""
        row, own = ask.rows.get(count) or self._row(ask, count), self._at[at]
        stand = row[at] or self._stand(row, ask, at, count)
        after = own.after.get(stand.taken) or self._after(own, stand, -1)
        own.hosts ^= stand.bit
        after.hosts |= stand.bit
        self._at[at] = after
        stands.append(stand)
        return stand

    def _row(self, ask: Ask, count: int) -> list[Stand | None]:
        """Return the stands of so many tasks, none of them met."""
        row = ask.rows[count] = [None] * len(self._at)
        return row

    def _stand(self, row: list[Stand | None], ask: Ask, at: int, count: int) -> Stand:
        """Return a stand that was not met before."""
        host = self._num_hosts - at
        stand = row[at] = Stand(ask, at, count, host, self._names[at], len(self.stands))
        self.stands.append(stand)
        return stand

    def _learn(self, ask: Ask) -> None:
        """Look at the classes that came up since the last time."""
        if len(self._all) > self._max_classes:
            self._forget()
        gpu, count = ask.each[0], ask.count
        for own in self._all[ask.num_known :]:
            free, room = own.free, ask.room(own.free)
            if room == count:
                ask.whole.append(own)
            elif room > 0:
                # GPUs left on a host count first for tasks without GPUs: they keep away from them.
                rank = (-room, free[0], free[1]) if gpu else (free[0], -room, free[1])
                ask.ranked.append((rank, room, own))
        ask.whole.sort(key=attrgetter("free"))
        ask.ranked.sort(key=itemgetter(0))
        ask.parts = [
            (room, [own for *_, own in equals])
            for (_, room), equals in groupby(ask.ranked, key=itemgetter(0, 1))
        ]
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
        for ask in self._asks.values():
            ask.forget()
