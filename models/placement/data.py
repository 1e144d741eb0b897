"""The numbers of a placement problem: task groups, hosts, and where tasks run now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from operator import itemgetter

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.topology.gpu_fit import type_admits
from alloc.workload import TaskGroup

Counts = npt.NDArray[np.int64]


_Allowed = tuple[str | None, tuple[int, ...], int]
"""GPU type, demand and GPU memory of a task."""


@dataclass(frozen=True)
class Group:
    """A task group of one configuration of one job.

    Parameters
    ----------
    job
        Position of the job in the instance.
    configuration
        Position of the configuration in the job.
    tasks
        The group.
    """

    job: int
    configuration: int
    tasks: TaskGroup


@dataclass(frozen=True)
class PlacementData:
    """An instance as arrays over task groups (rows) and hosts (columns).

    Parameters
    ----------
    instance
        The problem.
    groups
        Every task group of every configuration of every job, in order.
    demand
        What one task takes of its host, shape (groups, resources), on the axis of the topology. Of
        the cluster's own resources that is nothing: they are limits on what runs, wherever it
        stands (`alloc.models.placement.facts.Facts.quotas`).
    count
        Tasks in each group, shape (groups,).
    job_of, configuration_of
        Job and configuration of each group, shape (groups,).
    initial
        Tasks of each group that run on each host now, shape (groups, hosts).
    """

    instance: Instance
    groups: tuple[Group, ...]
    demand: Counts
    count: Counts
    job_of: Counts
    configuration_of: Counts
    initial: csr_array

    @staticmethod
    def of(instance: Instance) -> PlacementData:
        """Gather the numbers of an instance.

        Raises
        ------
        UnsupportedFeatureError
            If a task shares a GPU or holds a MIG slice: hosts then pack GPU by GPU.
        """
        groups = tuple(
            Group(j, c, tasks)
            for j, job in enumerate(instance.jobs)
            for c, configuration in enumerate(job.configurations)
            for tasks in configuration.tasks
        )
        for group in groups:
            if group.tasks.shares_gpu or group.tasks.mig_profile:
                raise UnsupportedFeatureError(
                    f'job "{instance.jobs[group.job].id}": its {group.tasks.role} tasks share GPUs '
                    "or hold MIG slices, and this formulation counts whole GPUs per host; use "
                    'the formulation "sharing".'
                )
        return PlacementData(
            instance,
            groups,
            demand=_demand_on_hosts(instance, groups),
            count=np.array([g.tasks.count for g in groups]),
            job_of=np.array([g.job for g in groups]),
            configuration_of=np.array([g.configuration for g in groups]),
            initial=_initial(instance, groups),
        )

    @cached_property
    def index(self) -> dict[tuple[int, int, str], int]:
        """Row of each group by job, configuration and role."""
        return {(g.job, g.configuration, g.tasks.role): k for k, g in enumerate(self.groups)}

    def allowed_key(self, k: int) -> _Allowed:
        """Return what decides which hosts admit a group: equal keys, equal rows of `allowed`."""
        group = self.groups[k]
        configuration = self.instance.jobs[group.job].configurations[group.configuration]
        return (configuration.gpu_type, group.tasks.demand, group.tasks.gpu_memory_mib)

    @cached_property
    def _allowed_rows(self) -> dict[_Allowed, npt.NDArray[np.bool_]]:
        return {}

    def allowed_on(self, k: int) -> npt.NDArray[np.bool_]:
        """Return the row of `allowed` of one group, without the others, shape (hosts,)."""
        rows, key = self._allowed_rows, self.allowed_key(k)
        if key not in rows:
            topology, tasks = self.instance.topology, self.groups[k].tasks
            types = np.array([str(t) for t in topology.gpu_types])
            large_enough = np.all(topology.capacity >= np.array(key[1]), axis=1)
            of_type = np.full(len(types), True) if key[0] is None else types == key[0]
            by_type = {t: type_admits(t, tasks) for t in set(topology.gpu_types)}
            roomy = np.array([by_type[t] for t in topology.gpu_types])
            rows[key] = large_enough & of_type & roomy
        return rows[key]

    @cached_property
    def allowed(self) -> npt.NDArray[np.bool_]:
        """Whether size, GPU type and GPU memory admit a task on a host, shape (groups, hosts)."""
        fits = np.ones((len(self.groups), self.instance.topology.num_hosts), dtype=bool)
        for k in range(len(self.groups)):
            fits[k] = self.allowed_on(k)
        return fits

    @cached_property
    def running(self) -> dict[int, Assignment]:
        """What each running job runs, by position of the job."""
        return {self.instance.job_index[a.job]: a for a in self.instance.running}

    def levels_required(self, job: int, configuration: int) -> tuple[str, ...]:
        """Return the levels of which one domain must hold the whole job, each once.

        Parameters
        ----------
        job
            Position of the job.
        configuration
            Position of the configuration among those of the job.
        """
        its = self.instance.jobs[job]
        named = (its.placement.required, its.configurations[configuration].within)
        return tuple(dict.fromkeys(level for level in named if level is not None))

    def counts(self, allocation: Allocation) -> Counts:
        """Return the tasks of each group on each host, shape (groups, hosts)."""
        matrix = _fill(self.instance, self.index, allocation.assignments, len(self.groups))
        return np.asarray(matrix.toarray(), dtype=np.int64)

    def allocation(self, counts: Counts | csr_array) -> Allocation:
        """Return the allocation of counts, shape (groups, hosts); jobs without tasks do not run.

        Jobs that stand as they ran have the very assignment that they had.
        """
        matrix = csr_array(counts)
        changed = csr_array(matrix - self.initial)
        changed.eliminate_zeros()
        moved = set(self.job_of[np.flatnonzero(np.diff(changed.indptr))].tolist())
        found = {j: a for j, a in self.running.items() if a.tasks and j not in moved}
        hosts, ends = self.instance.topology.hosts, matrix.indptr.tolist()
        tasks: dict[tuple[int, int], list[TaskPlacement]] = {}
        for k in np.flatnonzero(np.diff(matrix.indptr)).tolist():
            group = self.groups[k]
            if group.job in found:
                continue
            inside = slice(ends[k], ends[k + 1])
            for h, number in zip(
                matrix.indices[inside].tolist(), matrix.data[inside].tolist(), strict=True
            ):
                if number:
                    placed = TaskPlacement(hosts[h].id, group.tasks.role, int(number))
                    tasks.setdefault((group.job, group.configuration), []).append(placed)
        made = [
            (j, Assignment(self.instance.jobs[j].id, c, tuple(own)))
            for (j, c), own in sorted(tasks.items())
        ]
        kept = [(j, found[j]) for j in sorted(found)]
        return Allocation(tuple(a for _, a in merge(kept, made, key=itemgetter(0))))


def _demand_on_hosts(instance: Instance, groups: tuple[Group, ...]) -> Counts:
    # Few demands are many groups'.
    number: dict[tuple[int, ...], int] = {}
    rows = [number.setdefault(g.tasks.demand, len(number)) for g in groups]
    table = np.array(list(number), dtype=np.int64).reshape(-1, len(instance.resource_names))
    demand = table[rows]
    demand[:, list(instance.topology.cluster_columns)] = 0
    return demand


def _initial(instance: Instance, groups: tuple[Group, ...]) -> csr_array:
    index = {(g.job, g.configuration, g.tasks.role): k for k, g in enumerate(groups)}
    return _fill(instance, index, instance.running, len(groups))


def _fill(
    instance: Instance,
    index: dict[tuple[int, int, str], int],
    assignments: tuple[Assignment, ...],
    num_groups: int,
) -> csr_array:
    rows, columns, numbers = [], [], []
    for a in assignments:
        j = instance.job_index[a.job]
        for task in a.tasks:
            rows.append(index[j, a.configuration, task.role])
            columns.append(instance.topology.host_index[task.host])
            numbers.append(task.count)
    shape = (num_groups, instance.topology.num_hosts)
    return csr_array(
        (np.array(numbers, dtype=np.int64), (np.array(rows, dtype=np.int64), columns)), shape=shape
    )
