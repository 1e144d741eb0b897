"""Rules that place a gang task by task: the host of each is the best by a score.

Parameters
----------
free
    What is free on each host.
request
    The gang to place, with its rules.
level, levels
    Levels of the topology, or ``"host"``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.problems.allocation.solution import TaskPlacement
from alloc.schedulers.placement.free_hosts import Counts, FreeHosts, Mask
from alloc.schedulers.placement.policy import PlacementPolicy, Request
from alloc.workload import Slice, TaskGroup


class TaskRule(PlacementPolicy):
    """A rule that puts the tasks of a gang on hosts one by one, all or none.

    Groups that ask for the most GPUs go first. Levels are honoured in a way common to all these
    rules, whose papers know none: a required level, and a preferred one as long as it is possible,
    confine the gang to one domain after the other, the one with the least free GPUs first; slices
    go one by one to the tightest domain that holds them; hosts in domains at the limit of a spread
    are left out.
    """

    @abstractmethod
    def pick(
        self, free: FreeHosts, group: TaskGroup, hosts: Counts, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Return the host for one task, and the GPU if the rule says which.

        Parameters
        ----------
        free
            Free capacity.
        group
            The task's group.
        hosts
            Positions of the hosts that it fits on, in increasing order, at least one.
        rng
            For rules that draw.
        """

    def place(
        self, free: FreeHosts, request: Request, rng: np.random.Generator
    ) -> tuple[TaskPlacement, ...] | None:
        """Place a gang and take its capacity, or do nothing; see `PlacementPolicy.place`."""
        for level in (*request.required, *request.rules.levels):
            domain_of(free, level)  # names a level that there is not
        groups = sorted(request.configuration.tasks, key=lambda g: g.demand, reverse=True)
        for home in self.homes(free, request):
            gang = _Gang(self, free, request, rng)
            if all(gang.place_group(group, home) for group in groups):
                return gang.placements()
            gang.undo()
        return None

    def homes(self, free: FreeHosts, request: Request) -> Iterator[Mask | None]:
        """Yield the hosts that a gang is confined to, one try after the other; None: all hosts.

        A single domain of the preferred level is tried before anything wider.

        Parameters
        ----------
        free
            What is free on each host.
        request
            The gang to place, with its rules.
        """
        preferred = request.rules.preferred
        if preferred is not None and preferred not in request.required:
            yield from single_domains(free, request, (*request.required, preferred))
        if request.required:
            yield from single_domains(free, request, request.required)
        else:
            yield None


class _Gang:
    """A gang while its tasks are placed one by one, to be undone if one finds no room."""

    def __init__(
        self, rule: TaskRule, free: FreeHosts, request: Request, rng: np.random.Generator
    ) -> None:
        self._rule = rule
        self._free = free
        self._gpu_type = request.configuration.gpu_type
        self._ruled = request.configuration.ruled_groups
        self._rules = request.rules
        self._rng = rng
        self._placed: list[tuple[int, TaskGroup, tuple[int, ...]]] = []
        self._standing = {
            limit.level: np.zeros(free.topology.num_hosts + 1, dtype=np.int64)
            for limit in request.rules.spread
        }

    def place_group(self, group: TaskGroup, home: Mask | None) -> bool:
        cuts = self._rules.slices if group in self._ruled else ()
        return self._place(group, group.count, home, cuts)

    def _place(
        self, group: TaskGroup, count: int, home: Mask | None, cuts: Sequence[Slice]
    ) -> bool:
        """Place so many tasks on the hosts of a home; leave nothing behind on failure."""
        before = len(self._placed)
        if cuts:
            slices = range(count // cuts[0].size)
            placed = all(self._place_slice(group, home, cuts) for _ in slices)
        else:
            placed = all(self._place_task(group, home) for _ in range(count))
        if not placed:
            self.undo(before)
        return placed

    def _place_slice(self, group: TaskGroup, home: Mask | None, cuts: Sequence[Slice]) -> bool:
        """Place one slice in the tightest domain that holds it."""
        cut = cuts[0]
        room = self._free.room(group, self._gpu_type)
        if home is not None:
            room = np.where(home, room, 0)
        return any(
            self._place(group, cut.size, domain if home is None else domain & home, cuts[1:])
            for domain in _domains_by_room(self._free, cut.level, room, cut.size)
        )

    def _place_task(self, group: TaskGroup, home: Mask | None) -> bool:
        free = self._free
        fit = free.fits(group, self._gpu_type)
        if home is not None:
            fit &= home
        if group in self._ruled:
            for limit in self._rules.spread:
                fit &= self._standing[limit.level][domain_of(free, limit.level)] < limit.most
        hosts = np.flatnonzero(fit)
        if not hosts.size:
            return False
        h, gpu = self._rule.pick(free, group, hosts, self._rng)
        gpus = None if gpu is None else (gpu,)
        self._placed.append((h, group, free.take(h, group, gpus)))
        self._count(h, group, +1)
        return True

    def _count(self, h: int, group: TaskGroup, sign: int) -> None:
        if group in self._ruled:
            for level, standing in self._standing.items():
                domain = domain_of(self._free, level)[h]
                if domain >= 0:
                    standing[domain] += sign

    def undo(self, keep: int = 0) -> None:
        while len(self._placed) > keep:
            h, group, gpus = self._placed.pop()
            self._free.give(h, group, gpus)
            self._count(h, group, -1)

    def placements(self) -> tuple[TaskPlacement, ...]:
        return merge(self._free, self._placed)


def merge(
    free: FreeHosts, placed: Sequence[tuple[int, TaskGroup, tuple[int, ...]]]
) -> tuple[TaskPlacement, ...]:
    """Return the placements of tasks given as (host, group, GPUs), one per host and role.

    Parameters
    ----------
    placed
        Position of the host, group and GPUs of each task, in the order in which they were placed.
    """
    if len(placed) == 1:
        h, group, gpus = placed[0]
        host = free.topology.hosts[h].id
        return (TaskPlacement(host, group.role, 1, gpus if group.shares_gpu else ()),)
    counts: dict[tuple[int, str], int] = {}
    shares: dict[tuple[int, str], list[int]] = {}
    for h, group, gpus in placed:
        key = (h, group.role)
        counts[key] = counts.get(key, 0) + 1
        if group.shares_gpu:
            shares.setdefault(key, []).extend(gpus)
    hosts = free.topology.hosts
    return tuple(
        TaskPlacement(hosts[h].id, role, count, tuple(shares.get((h, role), ())))
        for (h, role), count in counts.items()
    )


def domain_of(free: FreeHosts, level: str) -> Counts:
    """Return a domain number per host; -1 outside any domain of the level.

    Raises
    ------
    InstanceError
        If the topology has no such level.
    """
    known = free.topology.domain_of_host
    if level not in known:
        raise InstanceError(
            f'level "{level}" is not in topology "{free.topology.name}"'
            f"{nearest(level, known, ';')} its levels are {', '.join(known)}."
        )
    return free.domains(level)


def single_domains(free: FreeHosts, request: Request, levels: Sequence[str]) -> Iterator[Mask]:
    """Yield the hosts of each domain that lies in one domain of every one of the levels.

    Domains with the least free GPUs come first (then CPU, then memory); those that lack room for
    the gang as a whole are left out.
    """
    inside = free.of_type(request.configuration.gpu_type).copy()
    number = np.zeros(len(inside), dtype=np.int64)
    for level in levels:
        domain = domain_of(free, level)
        inside &= domain >= 0
        number = number * (len(inside) + 1) + domain
    number[inside] = np.unique(number[inside], return_inverse=True)[1]
    hosts = np.flatnonzero(inside)
    if not hosts.size:
        return
    count = int(number[hosts].max()) + 1
    totals = [
        np.bincount(number[hosts], weights=amount[hosts], minlength=count)
        for amount in (free.left, free.cpu, free.memory, *free.named.T)
    ]
    enough = np.ones(count, dtype=bool)
    for total, needed in zip(totals, request.configuration.demand, strict=True):
        enough &= total >= needed
    order = np.lexsort((totals[2], totals[1], totals[0]))
    for k in order[enough[order]]:
        yield inside & (number == k)


def _domains_by_room(free: FreeHosts, level: str, room: Counts, least: int) -> Iterator[Mask]:
    """Yield the domains of a level with room for so many tasks, the one with least room first."""
    domain = domain_of(free, level)
    hosts = np.flatnonzero((domain >= 0) & (room > 0))
    if not hosts.size:
        return
    total = np.bincount(domain[hosts], weights=room[hosts])
    order = np.argsort(total, kind="stable")
    for k in order[total[order] >= least]:
        yield domain == k
