"""`HostPool`: the ledger of free capacity."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.problems.allocation.solution import TaskPlacement
from alloc.topology import Topology
from alloc.topology.gpu_fit import gpu_memory_mib, tasks_on_gpu
from alloc.topology.slices import CutGpus
from alloc.topology.topology import HOST
from alloc.units import MILLI, RESOURCES
from alloc.workload import Configuration, TaskGroup

Rule = Literal["best_fit", "least_loaded", "first_fit"]

_NUM_BASE = len(RESOURCES)
"""GPU, CPU and memory come first: the rules go by them, and a resource that nobody asks for changes
nothing."""


class HostPool:
    """Free capacity of the hosts of a topology, with tasks placed and released.

    Parameters
    ----------
    topology
        The cluster; all of it is free at first.

    Attributes
    ----------
    free
        Free capacity, shape (hosts, resources). The GPU column counts whole free GPUs only; what is
        left on GPUs that are shared is in `open_gpus`. The column of a cluster resource
        (`alloc.resources`) shows on every host what is left of it in the cluster.
    open_gpus
        For each host with shared GPUs, the free milli-GPU by GPU position.
    open_memory
        For each host with shared GPUs, the GPU memory that tasks have asked for, MiB, by position.
    cut
        The GPUs that are cut into MIG instances.
    known_tasks
        The placements that `task` was asked for, by what it was asked for.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.free: npt.NDArray[np.int64] = topology.capacity.copy()
        self.open_gpus: dict[int, dict[int, int]] = {}
        self.open_memory: dict[int, dict[int, int]] = {}
        self.cut = CutGpus(topology.gpu_types)
        self._cluster = topology.cluster_columns
        self._is_named = len(topology.resource_names) > _NUM_BASE
        self._type_mask: dict[str, npt.NDArray[np.bool_]] = {}
        self.known_tasks: dict[tuple[object, ...], TaskPlacement] = {}

    def reset(self) -> None:
        """Free all hosts."""
        self.free[:] = self.topology.capacity
        self.open_gpus.clear()
        self.open_memory.clear()
        self.cut.clear()

    def place(
        self,
        configuration: Configuration,
        rule: Rule = "best_fit",
        *,
        required: str | None = None,
        within: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[TaskPlacement, ...] | None:
        """Place all tasks of a configuration (a gang) and take their capacity, or do nothing.

        Parameters
        ----------
        configuration
            What to place. Its GPU type and its ``within`` level are honoured.
        rule
            ``best_fit``: the hosts left with the least room; ``least_loaded``: spread over the
            emptiest hosts; ``first_fit``: the first hosts in order.
        required
            Level of which one domain must hold all tasks (`PlacementRules.required`), or None.
        within
            The hosts to choose from, shape (hosts,), or None for all.

        Returns
        -------
        tuple of TaskPlacement or None
            Where the tasks are, or None when the rule finds no room.
        """
        if self._is_named or len(configuration.demand) > _NUM_BASE:
            configuration = self.on_axis(configuration)
            if not self.cluster_has(configuration):
                return None
        for hosts in self._candidates(configuration, required):
            if within is not None:
                hosts = within if hosts is None else hosts & within
            placed = self._place_on(configuration, hosts, rule)
            if placed is not None:
                return placed
        return None

    def on_axis(self, configuration: Configuration) -> Configuration:
        """Return a configuration with the resources of the topology; an `Instance`'s has them.

        Raises
        ------
        InstanceError
            If it asks for what the topology does not know.
        """
        if len(configuration.demand) == self.free.shape[1]:
            return configuration
        names = self.topology.resource_names[_NUM_BASE:]
        unknown = {name for group in configuration.tasks for name in group.resources} - {*names}
        if unknown:
            raise InstanceError(
                f'{configuration.label} asks for "{min(unknown)}", which is not in topology '
                f'"{self.topology.name}"{nearest(min(unknown), names, "; name it there.")}'
            )
        return configuration.with_resources(names)

    def free_in_all(self) -> npt.NDArray[np.int64]:
        """Return what is free in the whole cluster, shape (resources,)."""
        free: npt.NDArray[np.int64] = self.free.sum(axis=0)
        free[list(self._cluster)] = self.free[0, list(self._cluster)]
        return free

    def cluster_has(self, configuration: Configuration) -> bool:
        """Return whether what is left of the cluster's own resources is enough for a gang.

        Hosts by themselves do not tell: each shows all that is left.
        """
        return all(configuration.demand[r] <= self.free[0, r] for r in self._cluster)

    def take(self, configuration: Configuration, tasks: Iterable[TaskPlacement]) -> None:
        """Take the capacity of tasks already placed.

        Parameters
        ----------
        configuration
            What each task asks for, by its role.
        tasks
            Where they stand; whether there is room is not looked at.
        """
        self._add(configuration, tasks, -1)

    def release(self, configuration: Configuration, tasks: Iterable[TaskPlacement]) -> None:
        """Give back the capacity of placed tasks.

        Parameters
        ----------
        configuration
            What each task asks for, by its role.
        tasks
            Placements that were taken before.
        """
        self._add(configuration, tasks, +1)

    def fits(self, configuration: Configuration, tasks: Iterable[TaskPlacement]) -> bool:
        """Return whether tasks fit, as they are placed, on the hosts they name.

        Parameters
        ----------
        configuration
            What each task asks for, by its role.
        tasks
            Where they would stand.
        """
        tasks = tuple(tasks)
        self._add(configuration, tasks, -1)
        touched = [self.topology.host_index[task.host] for task in tasks]
        fit = bool((self.free[touched] >= 0).all()) and all(map(self._gpus_fit, touched))
        self._add(configuration, tasks, +1)
        return fit

    def _gpus_fit(self, h: int) -> bool:
        """Return whether what shares the GPUs of a host fits on them."""
        shared, cut = self.open_gpus.get(h, {}), self.cut.on_host.get(h, {})
        memory = gpu_memory_mib(self.topology.gpu_types[h]) or 0
        return (
            all(left >= 0 for left in shared.values())
            and all(asked <= memory for asked in self.open_memory.get(h, {}).values())
            and shared.keys().isdisjoint(cut)
            and self.cut.sound(h)
        )

    def _add(self, configuration: Configuration, tasks: Iterable[TaskPlacement], sign: int) -> None:
        index = self.topology.host_index
        if len(configuration.tasks) == 1:
            (group,) = configuration.tasks
            for task in tasks:
                if task.role != group.role:
                    raise KeyError(task.role)
                self._add_tasks(index[task.host], group, task, sign)
            return
        groups = {group.role: group for group in configuration.tasks}
        for task in tasks:
            self._add_tasks(index[task.host], groups[task.role], task, sign)

    def _add_tasks(self, h: int, group: TaskGroup, task: TaskPlacement, sign: int) -> None:
        """Add the demand of tasks of a group on one host, `sign` times."""
        gpu, cpu, memory = group.gpu_milli, group.cpu_milli, group.memory_mib
        free, count = self.free, sign * task.count
        # Item by item and only where needed: a stream of jobs passes here a million times.
        if cpu:
            free[h, 1] += cpu * count
        if memory:
            free[h, 2] += memory * count
        for r, amount in _named(group) if self._is_named else ():
            if amount:
                free[slice(None) if r in self._cluster else h, r] += amount * count
        if group.mig_profile is not None:
            for g, start in zip(task.gpus, task.starts, strict=True):
                opened = self.cut.add(h, g, group.mig_profile, start, -sign)
                free[h, 0] -= MILLI * opened
        elif task.gpus and group.shares_gpu:
            for g in task.gpus:
                self._share(h, g, sign * gpu)
            if group.gpu_memory_mib:
                self._share_memory(h, task.gpus, sign * group.gpu_memory_mib)
        elif gpu and not group.shares_gpu:
            free[h, 0] += gpu * count

    def _share(self, h: int, g: int, amount: int) -> None:
        """Add free milli-GPU (negative: take it) on a shared GPU, opening and closing it."""
        shared = self.open_gpus.setdefault(h, {})
        if g not in shared:
            self.free[h, 0] -= MILLI
            shared[g] = MILLI
        shared[g] += amount
        if shared[g] == MILLI:
            del shared[g]
            self.free[h, 0] += MILLI

    def _share_memory(self, h: int, gpus: Iterable[int], amount: int) -> None:
        """Give back GPU memory of shared GPUs (negative: take it)."""
        asked = self.open_memory.setdefault(h, {})
        for g in gpus:
            asked[g] = asked.get(g, 0) - amount
            if not asked[g]:
                del asked[g]

    def _candidates(
        self, configuration: Configuration, required: str | None = None
    ) -> Iterable[npt.NDArray[np.bool_] | None]:
        """Yield host masks to try in turn; None means all hosts."""
        mask = None
        if configuration.gpu_type is not None:
            mask = self.hosts_of_type(configuration.gpu_type)
        levels = [level for level in (configuration.within, required) if level is not None]
        if not levels:
            yield mask
            return
        table = self.topology.domain_of_host
        for level in levels:
            if level not in table:
                raise InstanceError(
                    f'level "{level}" is not in topology "{self.topology.name}"; '
                    f"its levels are {', '.join(table)}."
                )
        # Domains nest: one of the innermost level lies in one of each outer level, or in none.
        domain = table[max(levels, key=(*self.topology.levels, HOST).index)]
        demand = np.array(configuration.demand)
        inside = np.all([table[level] >= 0 for level in levels], axis=0)
        inside = inside if mask is None else mask & inside
        count = int(domain.max()) + 1
        free = np.zeros((count, self.free.shape[1]), dtype=np.int64)
        np.add.at(free, domain[inside], self.free[inside])
        roomy = np.flatnonzero((free >= demand).all(axis=1))
        # The domain with the least room that may do: the others keep theirs for larger gangs.
        for k in roomy[np.argsort(free[roomy, :_NUM_BASE].sum(axis=1), kind="stable")]:
            yield inside & (domain == k)

    def hosts_of_type(self, gpu_type: str) -> npt.NDArray[np.bool_]:
        """Return which hosts have GPUs of a type, shape (hosts,)."""
        if gpu_type not in self._type_mask:
            self._type_mask[gpu_type] = np.array(
                [t == gpu_type for t in self.topology.gpu_types], dtype=bool
            )
        return self._type_mask[gpu_type]

    def _place_on(
        self, configuration: Configuration, hosts: npt.NDArray[np.bool_] | None, rule: Rule
    ) -> tuple[TaskPlacement, ...] | None:
        # Groups that need GPUs go first: the others can use what GPU hosts have left.
        groups = sorted(configuration.tasks, key=lambda group: group.demand, reverse=True)
        placed: list[TaskPlacement] = []
        for group in groups:
            chosen = self._choose(group, hosts, rule)
            if chosen is None:
                self._add(configuration, placed, +1)
                return None
            for h, count in chosen:
                gpus, starts = self._positions(h, group, count)
                task = self.task(h, group.role, count, gpus, starts)
                self._add_tasks(h, group, task, -1)
                placed.append(task)
        return tuple(placed)

    def _positions(
        self, h: int, group: TaskGroup, count: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the GPU and, with MIG, the start of each of `count` tasks placed on a host."""
        if group.mig_profile is not None:
            return self.cut.choose(h, group.mig_profile, count, self._unused(h))
        return (self.share_gpus(h, group, count) if group.shares_gpu else ()), ()

    def _unused(self, h: int) -> Iterable[int]:
        """Yield the positions of GPUs of a host that are neither shared nor cut."""
        num_gpus = self.topology.host_type(self.topology.hosts[h]).num_gpus
        busy = self.open_gpus.get(h, {}).keys() | self.cut.on_host.get(h, {}).keys()
        return (g for g in range(num_gpus) if g not in busy)

    def task(
        self,
        h: int,
        role: str,
        count: int,
        gpus: tuple[int, ...] = (),
        starts: tuple[int, ...] = (),
    ) -> TaskPlacement:
        """Return the placement of tasks; equal ones are one object, as there are so many.

        Parameters
        ----------
        h
            Position of the host in the topology.
        role
            Role of the tasks.
        count
            Tasks on the host, 1 or more.
        gpus
            Position on the host of the GPU of each task, if it shares one.
        starts
            First memory slice of each task's MIG instance, if it has one.
        """
        key = (h, role, count, gpus, starts)
        task = self.known_tasks.get(key)
        if task is None:
            task = TaskPlacement(self.topology.hosts[h].id, role, count, gpus, starts)
            self.known_tasks[key] = task
        return task

    def room(self, group: TaskGroup) -> npt.NDArray[np.int64]:
        """Return how many tasks of a group fit on each host, at most its count, shape (hosts,)."""
        room = np.full(len(self.free), group.count, dtype=np.int64)
        gpu, cpu, memory = group.gpu_milli, group.cpu_milli, group.memory_mib
        if cpu:
            np.minimum(room, self.free[:, 1] // cpu, out=room)
        if memory:
            np.minimum(room, self.free[:, 2] // memory, out=room)
        for r, amount in _named(group) if self._is_named else ():
            if amount:
                np.minimum(room, self.free[:, r] // amount, out=room)
        if group.mig_profile is not None:
            on_gpus = self.free[:, 0] // MILLI * self.cut.most(group.mig_profile)
            on_gpus += self.cut.rooms(group.mig_profile)
            np.minimum(room, on_gpus, out=room)
        elif group.shares_gpu:
            on_gpus = self.free[:, 0] // MILLI * self._on_fresh_gpu(group)
            for h, shared in self.open_gpus.items():
                on_gpus[h] += sum(self._on_gpu(h, g, group, left) for g, left in shared.items())
            np.minimum(room, on_gpus, out=room)
        elif gpu:
            np.minimum(room, self.free[:, 0] // gpu, out=room)
            if group.gpu_memory_mib:
                np.minimum(room, room * (self._on_fresh_gpu(group) > 0), out=room)
        return np.maximum(room, 0, out=room)

    def _on_fresh_gpu(self, group: TaskGroup) -> npt.NDArray[np.int64]:
        """Return how many sharing tasks one empty GPU of each host holds, shape (hosts,)."""
        types = self.topology.gpu_types
        by_type = {t: tasks_on_gpu(t, group) for t in set(types)}
        return np.array([by_type[t] for t in types], dtype=np.int64)

    def _on_gpu(self, h: int, g: int, group: TaskGroup, left: int) -> int:
        """Return how many sharing tasks fit on an open GPU with so much free milli-GPU."""
        used = self.open_memory.get(h, {}).get(g, 0) if group.gpu_memory_mib else 0
        return tasks_on_gpu(self.topology.gpu_types[h], group, left, used)

    def share_gpus(self, h: int, group: TaskGroup, count: int) -> tuple[int, ...]:
        """Choose a GPU for each of `count` sharing tasks on host h: the fullest that has room.

        Parameters
        ----------
        h
            Position of the host in the topology.
        group
            Tasks with less than one GPU each.
        count
            How many of them, at most as many as the host has room for.
        """
        shared = dict(self.open_gpus.get(h, {}))
        room = {g: self._on_gpu(h, g, group, left) for g, left in shared.items()}
        unused = iter(self._unused(h))
        chosen: list[int] = []
        for _ in range(count):
            fitting = [(left, g) for g, left in shared.items() if room[g] > 0]
            if fitting:
                g = min(fitting)[1]
            else:
                g = next(unused)
                shared[g] = MILLI
                room[g] = int(self._on_fresh_gpu(group)[h])
            shared[g] -= group.gpu_milli
            room[g] -= 1
            chosen.append(g)
        return tuple(chosen)

    def _choose(
        self, group: TaskGroup, hosts: npt.NDArray[np.bool_] | None, rule: Rule
    ) -> Sequence[tuple[int, int]] | None:
        """Return (host, count) pairs for one task group, or None when the hosts lack room."""
        room = self.room(group)
        if hosts is not None:
            room = np.where(hosts, room, 0)
        if rule == "best_fit":
            whole = np.flatnonzero(room >= group.count)
            if whole.size:
                return ((_fullest(whole, self.free), group.count),)
        if int(room.sum()) < group.count:
            return None
        open_hosts = np.flatnonzero(room)
        if rule == "best_fit":
            open_hosts = _best_fit_order(open_hosts, room, group, self.free)
        elif rule == "least_loaded":
            return _spread(open_hosts, room, group, self.free)
        chosen: list[tuple[int, int]] = []
        left = group.count
        for h in open_hosts:
            count = min(left, int(room[h]))
            chosen.append((int(h), count))
            left -= count
            if not left:
                break
        return chosen


def _named(group: TaskGroup) -> Iterable[tuple[int, int]]:
    """Return the columns of named resources, and what one task takes of each."""
    return enumerate(group.demand[_NUM_BASE:], _NUM_BASE)


def _fullest(hosts: npt.NDArray[np.int64], free: npt.NDArray[np.int64]) -> int:
    """Return the host with the least room, the first of equals.

    GPUs count first, so that tasks without GPUs keep away from free ones, then CPU, then memory.
    """
    for resource in range(_NUM_BASE):
        if hosts.size == 1:
            break
        left = free[hosts, resource]
        hosts = hosts[left == left.min()]
    return int(hosts[0])


def _best_fit_order(
    open_hosts: npt.NDArray[np.int64],
    room: npt.NDArray[np.int64],
    group: TaskGroup,
    free: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Order hosts for a group that no host can take whole: the roomiest first.

    GPUs left on a host count first, so that tasks without GPUs keep away from free GPUs.
    """
    left = free[open_hosts]
    if group.gpu_milli:
        return open_hosts[np.lexsort((left[:, 1], left[:, 0], -room[open_hosts]))]
    return open_hosts[np.lexsort((left[:, 1], -room[open_hosts], left[:, 0]))]


def _spread(
    open_hosts: npt.NDArray[np.int64],
    room: npt.NDArray[np.int64],
    group: TaskGroup,
    free: npt.NDArray[np.int64],
) -> Sequence[tuple[int, int]]:
    """Deal tasks out one by one to the host with the most free capacity that has room."""
    heap = [(-int(free[h, :_NUM_BASE].sum()), int(h)) for h in open_hosts]
    heapq.heapify(heap)
    counts: dict[int, int] = {}
    size = sum(group.demand[:_NUM_BASE])
    for _ in range(group.count):
        load, h = heapq.heappop(heap)
        counts[h] = counts.get(h, 0) + 1
        if counts[h] < room[h]:
            heapq.heappush(heap, (load + size, h))
    return sorted(counts.items())
