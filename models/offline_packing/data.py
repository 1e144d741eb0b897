"""The numbers of offline packing: classes of equal hosts and kinds of equal jobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.units import MILLI
from alloc.workload import NO_RULES, Job, TaskGroup

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PackingData:
    """An instance of single tasks as classes of hosts (C) and kinds of jobs (K).

    Parameters
    ----------
    instance
        The problem.
    members
        Positions of the hosts of each class; classes differ in size or GPU type.
    size
        GPUs, CPU (milli-cores) and memory (MiB) of a host of each class, shape (C, 3).
    jobs
        Positions of the jobs of each kind, in order; every job asks for GPUs.
    num_gpus
        GPUs of a task, shape (K,).
    share
        What it takes of each, milli-GPU, shape (K,): 1,000 for whole GPUs.
    cpu, memory
        CPU (milli-cores) and memory (MiB) of a task, shape (K,).
    most
        Most tasks of a kind on one host of a class, shape (C, K); 0 where it may not run.
    """

    instance: Instance
    members: tuple[tuple[int, ...], ...]
    size: Counts
    jobs: tuple[tuple[int, ...], ...]
    num_gpus: Counts
    share: Counts
    cpu: Counts
    memory: Counts
    most: Counts

    @staticmethod
    def of(instance: Instance) -> PackingData:
        """Gather the numbers of an instance; jobs without GPUs are left out.

        Raises
        ------
        UnsupportedFeatureError
            If a job is more than one task, holds a MIG slice, has rules of placement, or asks for
            different things in different configurations; or the instance has quotas, affinities or
            running jobs that may not be stopped.
        """
        _refuse(instance)
        topology = instance.topology
        classes: dict[tuple[object, ...], list[int]] = {}
        for h, (row, kind) in enumerate(
            zip(topology.capacity[:, :3].tolist(), topology.gpu_types, strict=True)
        ):
            if row[0]:
                classes.setdefault((*row, kind), []).append(h)
        kinds: dict[tuple[object, ...], list[int]] = {}
        for j, job in enumerate(instance.jobs):
            group = _only_task(job)
            if group.gpu_milli:
                types = tuple(sorted({c.gpu_type or "" for c in job.configurations}))
                kinds.setdefault((*group.demand[:3], types), []).append(j)
        first = [_only_task(instance.jobs[jobs[0]]) for jobs in kinds.values()]
        demand = np.array([group.demand[:3] for group in first], dtype=np.int64).reshape(-1, 3)
        size = np.array([key[:3] for key in classes], dtype=np.int64).reshape(-1, 3)
        size[:, 0] //= MILLI
        data = PackingData(
            instance,
            tuple(tuple(hosts) for hosts in classes.values()),
            size,
            tuple(tuple(jobs) for jobs in kinds.values()),
            num_gpus=-(-demand[:, 0] // MILLI),
            share=np.minimum(demand[:, 0], MILLI),
            cpu=demand[:, 1],
            memory=demand[:, 2],
            most=np.zeros((len(classes), len(kinds)), dtype=np.int64),
        )
        data.most[:] = data._most_on_empty()
        for k, jobs in enumerate(data.jobs):
            runs_on = {c.gpu_type for c in instance.jobs[jobs[0]].configurations}
            for c, hosts in enumerate(data.members):
                if runs_on.isdisjoint((None, topology.gpu_types[hosts[0]])):
                    data.most[c, k] = 0
        return data

    def _most_on_empty(self) -> Counts:
        """Return how many tasks of each kind an empty host of each class holds, shape (C, K)."""
        gpus, cpu, memory = (self.size[:, r][:, None] for r in range(3))
        most = np.where(
            self.share < MILLI, gpus * (MILLI // self.share), gpus // np.maximum(self.num_gpus, 1)
        )
        for amount, each in ((cpu, self.cpu), (memory, self.memory)):
            most = np.where(each > 0, np.minimum(most, amount // np.maximum(each, 1)), most)
        return np.asarray(most, dtype=np.int64)

    @cached_property
    def hosts(self) -> Counts:
        """Hosts in each class, shape (C,)."""
        return np.array([len(members) for members in self.members], dtype=np.int64)

    @cached_property
    def copies(self) -> Counts:
        """Jobs of each kind, shape (K,)."""
        return np.array([len(jobs) for jobs in self.jobs], dtype=np.int64)

    @cached_property
    def value(self) -> npt.NDArray[np.float64]:
        """GPUs that a job of each kind holds, shape (K,)."""
        return self.num_gpus * self.share / MILLI

    @cached_property
    def shares(self) -> Counts:
        """The different shares below a whole GPU, milli-GPU, increasing, shape (S,)."""
        return np.unique(self.share[self.share < MILLI])

    @cached_property
    def share_index(self) -> Counts:
        """Position in `shares` of each kind's share, -1 for whole GPUs, shape (K,)."""
        index = np.searchsorted(self.shares, self.share)
        return np.where(self.share < MILLI, index, -1)


def _only_task(job: Job) -> TaskGroup:
    return job.configurations[0].tasks[0]


def _refuse(instance: Instance) -> None:
    if instance.tenants or instance.affinities or instance.moves is not None:
        raise UnsupportedFeatureError(
            f'instance "{instance.name}": offline packing knows no quotas, affinities or moves; '
            "use a formulation for placement."
        )
    seen: set[int] = set()
    for job in instance.jobs:
        if id(job.configurations) in seen and job.placement is NO_RULES:
            continue
        seen.add(id(job.configurations))
        groups = {configuration.tasks for configuration in job.configurations}
        task = _only_task(job)
        if len(groups) > 1 or len(job.configurations[0].tasks) > 1 or task.count > 1:
            raise UnsupportedFeatureError(
                f'job "{job.id}": runs {job.configurations[0].label}; offline packing takes jobs '
                "of a single task, the same in every configuration."
            )
        unknown = task.mig_profile is not None or task.gpu_memory_mib or task.resources
        if unknown or job.placement != NO_RULES:
            raise UnsupportedFeatureError(
                f'job "{job.id}": asks for a MIG slice, GPU memory, named resources or placement '
                "rules, which offline packing does not know; use a formulation for placement or "
                "sharing."
            )
