"""What an allocation makes of the hosts, as arrays: the ground of the placement objectives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.units import MILLI
from alloc.workload import TaskGroup

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Placed:
    """The placed tasks of an allocation, one entry for each `TaskPlacement`.

    Parameters
    ----------
    instance
        The problem.
    host
        Position of the host, shape (n,).
    count
        Tasks, shape (n,).
    job
        Position of the job, shape (n,).
    group
        Position of the task group in `groups`, shape (n,).
    groups
        The task groups that occur.
    tasks
        The placements themselves, length n.
    """

    instance: Instance
    host: Counts
    count: Counts
    job: Counts
    group: Counts
    groups: tuple[TaskGroup, ...]
    tasks: tuple[TaskPlacement, ...]

    @staticmethod
    def of(instance: Instance, allocation: Allocation) -> Placed:
        """Gather the placed tasks of an allocation.

        Parameters
        ----------
        instance
            The problem.
        allocation
            A decision of one round.
        """
        host_index, job_index = instance.topology.host_index, instance.job_index
        number: dict[int, dict[str, int]] = {}
        groups: list[TaskGroup] = []
        host: list[int] = []
        count: list[int] = []
        job: list[int] = []
        group: list[int] = []
        tasks: list[TaskPlacement] = []
        for a in allocation.assignments:
            j = job_index[a.job]
            configuration = instance.jobs[j].configurations[a.configuration]
            roles = number.get(id(configuration))
            if roles is None:
                first = len(groups)
                groups += configuration.tasks
                roles = {g.role: first + k for k, g in enumerate(configuration.tasks)}
                number[id(configuration)] = roles
            for task in a.tasks:
                host.append(host_index[task.host])
                count.append(task.count)
                job.append(j)
                group.append(roles[task.role])
                tasks.append(task)
        hosts, counts, jobs, kinds = (
            np.array(column, dtype=np.int64) for column in (host, count, job, group)
        )
        return Placed(instance, hosts, counts, jobs, kinds, tuple(groups), tuple(tasks))

    @cached_property
    def uses_gpu(self) -> npt.NDArray[np.bool_]:
        """Whether the tasks hold GPUs, shares or MIG slices, shape (n,)."""
        return np.array([g.uses_gpu for g in self.groups], dtype=bool)[self.group]

    @cached_property
    def gpus(self) -> Counts:
        """GPUs that each entry's tasks stand on, a share counted as one, shape (n,)."""
        each = [max(g.gpu_milli // MILLI, int(g.uses_gpu)) for g in self.groups]
        return np.array(each, dtype=np.int64)[self.group] * self.count

    @cached_property
    def used(self) -> Counts:
        """What tasks use of each host, shape (hosts, resources), as `Topology.capacity`.

        Of the cluster's own resources a task uses nothing of its host.
        """
        used: Counts = np.zeros_like(self.instance.topology.capacity)
        demand = np.array([g.demand for g in self.groups], dtype=np.int64)
        amounts = demand.reshape(-1, used.shape[1])[self.group] * self.count[:, None]
        amounts[:, list(self.instance.topology.cluster_columns)] = 0
        np.add.at(used, self.host, amounts)
        return used

    @cached_property
    def hosts_used(self) -> npt.NDArray[np.bool_]:
        """Whether any task stands on each host, shape (hosts,)."""
        return np.bincount(self.host, minlength=self.instance.topology.num_hosts) > 0

    @cached_property
    def gpu_hosts_used(self) -> npt.NDArray[np.bool_]:
        """Whether a task with a GPU stands on each host, shape (hosts,)."""
        hosts = self.host[self.uses_gpu]
        return np.bincount(hosts, minlength=self.instance.topology.num_hosts) > 0

    @cached_property
    def free_gpus(self) -> Counts:
        """Free share of every GPU, milli-GPU, shape (hosts, most GPUs of a host).

        GPUs that are shared or cut into slices stand at their positions; whole GPUs, which have
        none, take the others from the first on. A GPU cut into slices counts as taken, and a
        position that a host does not have as 0.
        """
        topology = self.instance.topology
        number = topology.capacity[:, 0] // MILLI
        width = max(1, int(number.max()))
        position = np.arange(width)
        free = np.where(position < number[:, None], MILLI, 0).astype(np.int64)
        divided = np.zeros(free.shape, dtype=bool)
        whole = np.zeros(len(number), dtype=np.int64)
        each = np.array([g.gpu_milli // MILLI for g in self.groups], dtype=np.int64)
        np.add.at(whole, self.host, each[self.group] * self.count)
        partly = [g.shares_gpu or g.mig_profile is not None for g in self.groups]
        for at in np.flatnonzero(np.array(partly, dtype=bool)[self.group]):
            task, its, h = self.tasks[at], self.groups[self.group[at]], self.host[at]
            for g in task.gpus:
                free[h, g] -= MILLI if its.mig_profile is not None else its.gpu_milli
                divided[h, g] = True
        undivided = (position < number[:, None]) & ~divided
        free[undivided & (np.cumsum(undivided, axis=1) <= whole[:, None])] = 0
        return np.maximum(free, 0)


def moved_tasks_by_role(instance: Instance, allocation: Allocation) -> dict[str, dict[str, int]]:
    """Return for each running job how many tasks of each role left their host.

    Tasks of a role are alike: it is the sum over hosts of those that a host has less of. A job
    that is stopped moves all its tasks.

    Parameters
    ----------
    instance
        The jobs, and in `running` where they stand now.
    allocation
        Where they stand in the coming slot.
    """
    now = {a.job: a for a in allocation.assignments}
    return {before.job: _left(before, now.get(before.job)) for before in instance.running}


def moved_tasks(instance: Instance, allocation: Allocation) -> dict[str, int]:
    """Return for each running job how many of its tasks left their host.

    Tasks of a role are alike: it is the sum over hosts and roles of those a host has less of. A
    job that is stopped moves all its tasks.

    Parameters
    ----------
    instance
        The problem, with what runs.
    allocation
        A decision of one round.
    """
    now = {a.job: a for a in allocation.assignments}
    moved = dict.fromkeys((before.job for before in instance.running), 0)
    for before in instance.running:
        after = now.get(before.job)
        if after is not before:
            moved[before.job] = sum(_left(before, after).values())
    return moved


def _left(before: Assignment, after: Assignment | None) -> dict[str, int]:
    """Return by role how many tasks hosts have less of."""
    if after is not None and after.tasks == before.tasks:
        return {}
    held = _held(after)
    left: dict[str, int] = {}
    for (host, role), n in _held(before).items():
        less = n - held.get((host, role), 0)
        if less > 0:
            left[role] = left.get(role, 0) + less
    return left


def _held(assignment: Assignment | None) -> dict[tuple[str, str], int]:
    held: dict[tuple[str, str], int] = {}
    for task in () if assignment is None else assignment.tasks:
        held[task.host, task.role] = held.get((task.host, task.role), 0) + task.count
    return held
