"""Free capacity host by host and GPU by GPU, as arrays that placement rules score."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.packing import HostPool
from alloc.topology import Topology
from alloc.topology.gpu_fit import gpu_memory_mib
from alloc.topology.topology import HOST
from alloc.units import MILLI, RESOURCES
from alloc.workload import TaskGroup

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class FreeHosts:
    """The free CPU, memory and GPUs of every host, with tasks placed and released.

    `alloc.packing.HostPool` keeps the same ledger for the simulator; here the free share of every
    single GPU is an array entry, so that a rule scores all hosts in a few array operations.

    Parameters
    ----------
    topology
        The cluster; all of it is free at first.

    Attributes
    ----------
    cpu, memory
        Free CPU (milli-cores) and memory (MiB), shape (hosts,).
    named
        What is free of the other resources, shape (hosts, names); of those of the cluster
        (`alloc.resources`) every host shows all that is left.
    gpus
        Free milli-GPU by position on the host, shape (hosts, most GPUs of a host); 0 where a host
        has no GPU.
    num_gpus
        GPUs of each host, shape (hosts,).
    whole
        GPUs of each host that are free entirely, shape (hosts,).
    roomiest
        Largest free share of any one GPU, milli-GPU, shape (hosts,).
    left
        Free milli-GPU of each host in all, shape (hosts,).
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.num_gpus: Counts = topology.capacity[:, 0] // MILLI
        width = max(1, int(self.num_gpus.max()))
        exists = np.arange(width) < self.num_gpus[:, None]
        self.cpu: Counts = topology.capacity[:, 1].copy()
        self.memory: Counts = topology.capacity[:, 2].copy()
        self.named: Counts = topology.capacity[:, len(RESOURCES) :].copy()
        self._cluster = [r - len(RESOURCES) for r in topology.cluster_columns]
        self.gpus: Counts = np.where(exists, MILLI, 0).astype(np.int64)
        self._types: dict[str | None, Mask] = {}
        self._domains: dict[str, Counts] = {}
        self._sum_up()

    @staticmethod
    def of_pool(pool: HostPool) -> FreeHosts:
        """Return what is free in a simulator's pool.

        Whole GPUs have no positions there; the ones in use take the first positions not shared and
        not cut into MIG slices.
        """
        free = FreeHosts(pool.topology)
        free.cpu[:] = pool.free[:, 1]
        free.memory[:] = pool.free[:, 2]
        free.named[:] = pool.free[:, len(RESOURCES) :]
        whole = pool.free[:, 0] // MILLI
        position = np.arange(free.gpus.shape[1])
        used = (free.num_gpus - whole)[:, None]
        free.gpus = np.where((position >= used) & (position < free.num_gpus[:, None]), MILLI, 0)
        cut = pool.cut.on_host
        for h in {*pool.open_gpus, *cut}:
            shared = pool.open_gpus.get(h, {})
            apart = {*shared, *cut.get(h, ())}
            others = [g for g in range(int(free.num_gpus[h])) if g not in apart]
            row = np.zeros(free.gpus.shape[1], dtype=np.int64)
            row[list(shared)] = list(shared.values())
            row[others[len(others) - int(whole[h]) :]] = MILLI
            free.gpus[h] = row
        for h, asked in pool.open_memory.items():
            for g, memory in asked.items():
                free.gpu_memory[h, g] -= memory
        free._sum_up()
        return free

    def _sum_up(self) -> None:
        self.whole: Counts = (self.gpus == MILLI).sum(axis=1)
        self.roomiest: Counts = self.gpus.max(axis=1)
        self.left: Counts = self.gpus.sum(axis=1)

    def of_type(self, gpu_type: str | None) -> Mask:
        """Return which hosts have GPUs of a type, all for None; shape (hosts,)."""
        if gpu_type not in self._types:
            types = self.topology.gpu_types
            self._types[gpu_type] = np.array(
                [gpu_type is None or kind == gpu_type for kind in types], dtype=bool
            )
        return self._types[gpu_type]

    def domains(self, level: str) -> Counts:
        """Return a domain number per host, shape (hosts,); hosts outside any domain have -1."""
        if level not in self._domains:
            found = self.topology.domain_of_host[level]
            if level == HOST:
                self._domains[level] = found
            else:
                inside = found >= 0
                numbers = np.full(len(found), -1, dtype=np.int64)
                numbers[inside] = np.unique(found[inside], return_inverse=True)[1]
                self._domains[level] = numbers
        return self._domains[level]

    def fits(self, group: TaskGroup, gpu_type: str | None = None) -> Mask:
        """Return on which hosts one task of a group fits, shape (hosts,).

        Raises
        ------
        UnsupportedFeatureError
            If the tasks hold MIG slices: these rules know whole GPUs and shares only.
        """
        _refuse_mig(group)
        fit = self.cpu >= group.cpu_milli
        if group.memory_mib:
            fit &= self.memory >= group.memory_mib
        for k, amount in self._named_by(group):
            fit &= self.named[:, k] >= amount
        if group.shares_gpu:
            fit &= self.roomiest >= group.gpu_milli
            if group.gpu_memory_mib:
                fit &= self.holds(np.arange(len(fit)), group).any(axis=1)
        elif group.gpu_milli:
            fit &= self.whole >= group.gpu_milli // MILLI
            if group.gpu_memory_mib:
                fit &= self._memory_of_type >= group.gpu_memory_mib
        if gpu_type is not None:
            fit &= self.of_type(gpu_type)
        return fit

    def _named_by(self, group: TaskGroup) -> list[tuple[int, int]]:
        """Return the columns of `named` that a task asks for, with the amounts."""
        if not group.resources:
            return []
        return [(k, n) for k, n in enumerate(group.demand[len(RESOURCES) :]) if n]

    def fits_besides_gpus(self, h: int, group: TaskGroup) -> bool:
        """Return whether a host has all that one task asks for but GPUs."""
        return bool(
            self.cpu[h] >= group.cpu_milli
            and self.memory[h] >= group.memory_mib
            and all(self.named[h, k] >= amount for k, amount in self._named_by(group))
        )

    def in_all(self) -> Counts:
        """Return what is free in the whole cluster, shape (resources,)."""
        named = self.named.sum(axis=0)
        named[self._cluster] = self.named[0, self._cluster]
        return np.array([self.left.sum(), self.cpu.sum(), self.memory.sum(), *named])

    def holds(self, hosts: Counts, group: TaskGroup) -> Mask:
        """Return which GPUs of some hosts have room for a task that shares, (hosts, GPUs)."""
        room = self.gpus[hosts] >= group.gpu_milli
        if group.gpu_memory_mib:
            room &= self.gpu_memory[hosts] >= group.gpu_memory_mib
        return room

    def room(self, group: TaskGroup, gpu_type: str | None = None) -> Counts:
        """Return how many tasks of a group fit on each host, at most its count, shape (hosts,)."""
        room = np.full(len(self.cpu), group.count, dtype=np.int64)
        if group.cpu_milli:
            np.minimum(room, self.cpu // group.cpu_milli, out=room)
        if group.memory_mib:
            np.minimum(room, self.memory // group.memory_mib, out=room)
        for k, amount in self._named_by(group):
            np.minimum(room, self.named[:, k] // amount, out=room)
        if group.shares_gpu:
            np.minimum(room, (self.gpus // group.gpu_milli).sum(axis=1), out=room)
        elif group.gpu_milli:
            np.minimum(room, self.whole * MILLI // group.gpu_milli, out=room)
        room[~self.fits(group, gpu_type)] = 0
        return room

    @cached_property
    def _memory_of_type(self) -> Counts:
        """Memory of one GPU of each host, MiB; 0 where nobody knows."""
        sizes = [gpu_memory_mib(kind) or 0 for kind in self.topology.gpu_types]
        return np.array(sizes, dtype=np.int64)

    @cached_property
    def gpu_memory(self) -> Counts:
        """Memory of each GPU that sharing tasks have not asked for, MiB, shape (hosts, GPUs)."""
        return np.repeat(self._memory_of_type[:, None], self.gpus.shape[1], axis=1)

    def tightest_gpu(self, h: int, group: TaskGroup) -> int:
        """Return the GPU of a host with the least room that holds a share, the first of equals."""
        room = self.holds(np.array([h]), group)[0]
        return int(np.where(room, self.gpus[h], MILLI + 1).argmin())

    def take(
        self, h: int, group: TaskGroup, gpus: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """Place one task and return the positions of its GPUs.

        Parameters
        ----------
        h
            Position of the host.
        group
            Task group of the task, which fits there.
        gpus
            Positions of its GPUs; by default the tightest for a share, and the first that are free
            for whole GPUs.
        """
        if gpus is None:
            gpus = ()
            if group.shares_gpu:
                gpus = (self.tightest_gpu(h, group),)
            elif group.gpu_milli:
                free = np.flatnonzero(self.gpus[h] == MILLI)
                gpus = tuple(free[: group.gpu_milli // MILLI].tolist())
        self._add(h, group, gpus, -1)
        return gpus

    def give(self, h: int, group: TaskGroup, gpus: Iterable[int]) -> None:
        """Release one task that holds those GPUs."""
        self._add(h, group, tuple(gpus), +1)

    def _add(self, h: int, group: TaskGroup, gpus: tuple[int, ...], sign: int) -> None:
        self.cpu[h] += sign * group.cpu_milli
        self.memory[h] += sign * group.memory_mib
        for k, amount in self._named_by(group):
            self.named[slice(None) if k in self._cluster else h, k] += sign * amount
        if not gpus:
            return
        row = self.gpus[h]
        each = min(group.gpu_milli, MILLI)
        for g in gpus:
            row[g] += sign * each
        if group.gpu_memory_mib and group.shares_gpu:
            self.gpu_memory[h, list(gpus)] += sign * group.gpu_memory_mib
        self.whole[h] = np.count_nonzero(row == MILLI)
        self.roomiest[h] = row.max()
        self.left[h] += sign * each * len(gpus)


def _refuse_mig(group: TaskGroup) -> None:
    if group.mig_profile is not None:
        raise UnsupportedFeatureError(
            f'task group "{group.role}" asks for the MIG slice "{group.mig_profile}"; placement '
            "heuristics know whole GPUs and shares of them: solve the instance with the "
            "formulation for GPU sharing instead."
        )
