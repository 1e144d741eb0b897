"""The facts of a placement problem: what the three models write down."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.models.placement.classes import classes_of, deal, must_run
from alloc.models.placement.data import Counts, PlacementData
from alloc.objectives import WeightedSum
from alloc.objectives.locality import levels_counted
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.workload import Configuration, Job, Slice

NOT_LINEAR = ("mean_bandwidth", "all_to_all_bandwidth", "all_to_all_mean_bandwidth")
"""Objectives that no model writes down."""


@dataclass(frozen=True)
class Way:
    """A configuration that the jobs of a class may run in.

    Parameters
    ----------
    job_class
        Position of the class k.
    configuration
        Position of the configuration c.
    rows
        Positions of its task groups in `Facts.rows`.
    inside
        Levels of which one domain must hold each gang.
    """

    job_class: int
    configuration: int
    rows: tuple[int, ...]
    inside: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A task group of a way: its tasks are counted host by host.

    Parameters
    ----------
    way
        Position of the way.
    group
        Position of the group in `PlacementData.groups`, for the first job of the class.
    count
        Tasks of one gang.
    ruled
        Whether slices and spreads count it.
    """

    way: int
    group: int
    count: int
    ruled: bool


class Facts:
    """Sets and parameters of F4, with equal jobs as classes.

    Parameters
    ----------
    instance
        The problem.
    levels
        The level of the goal to optimise and those to hold.

    Raises
    ------
    UnsupportedFeatureError
        If no model can write an objective down.
    """

    def __init__(self, instance: Instance, levels: tuple[WeightedSum, ...]) -> None:
        self.instance = instance
        self.data = PlacementData.of(instance)
        self.terms = {term.name for level in levels for _, term in level.terms}
        for name in NOT_LINEAR:
            if name in self.terms:
                raise UnsupportedFeatureError(
                    f"{name} is not linear in where tasks stand, so no model of placement has "
                    "it; take bottleneck_bandwidth or domains_spanned, or hold the answer "
                    "against it afterwards."
                )
        self.classes = classes_of(self.data, self._looked_at_singly())
        self.ways, self.rows = self._lay_out()

    def _looked_at_singly(self) -> list[int]:
        spans = "domains_spanned" in self.terms
        joined = "bottleneck_bandwidth" in self.terms
        return [
            j
            for j, job in enumerate(self.instance.jobs)
            if (spans and num_tasks(job) > 1) or (joined and num_gpus(job) > 1)
        ]

    def _lay_out(self) -> tuple[tuple[Way, ...], tuple[Row, ...]]:
        ways: list[Way] = []
        rows: list[Row] = []
        for k, members in enumerate(self.classes):
            job = self.instance.jobs[members[0]]
            for c, configuration in enumerate(job.configurations):
                if not self._may_run(members[0], c):
                    continue
                ruled = {group.role for group in configuration.ruled_groups}
                own = []
                for group in configuration.tasks:
                    own.append(len(rows))
                    at = self.data.index[members[0], c, group.role]
                    rows.append(Row(len(ways), at, group.count, group.role in ruled))
                inside = self.data.levels_required(members[0], c)
                ways.append(Way(k, c, tuple(own), inside))
        return tuple(ways), tuple(rows)

    def _may_run(self, j: int, c: int) -> bool:
        # A running job that is not malleable keeps its configuration.
        job, running = self.instance.jobs[j], self.data.running.get(j)
        if running is None or job.elasticity == "malleable":
            return True
        return running.configuration == c

    def job(self, k: int) -> Job:
        """Return the first job of a class."""
        return self.instance.jobs[self.classes[k][0]]

    def configuration(self, way: Way) -> Configuration:
        """Return the configuration of a way."""
        return self.job(way.job_class).configurations[way.configuration]

    @cached_property
    def ways_by_class(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the ways of each class."""
        found: list[list[int]] = [[] for _ in self.classes]
        for v, way in enumerate(self.ways):
            found[way.job_class].append(v)
        return tuple(map(tuple, found))

    def size(self, k: int) -> int:
        """Return the number of jobs N_k of a class."""
        return len(self.classes[k])

    def must(self, k: int) -> bool:
        """Return whether the jobs of a class have to go on running."""
        j = self.classes[k][0]
        return must_run(self.instance, self.instance.jobs[j], running=j in self.data.running)

    def pinned(self, k: int) -> bool:
        """Return whether the tasks of a class have to stay on their hosts."""
        return self.must(k) and not self.job(k).preemptible

    @cached_property
    def demand(self) -> Counts:
        """Demand of one task of each row, shape (rows, resources)."""
        return self.data.demand[[row.group for row in self.rows]].reshape(len(self.rows), -1)

    @cached_property
    def upper(self) -> Counts:
        """Most tasks of each row on each host by itself, shape (rows, hosts)."""
        capacity = self.instance.topology.capacity
        most = np.zeros((len(self.rows), len(capacity)), dtype=np.int64)
        for i, row in enumerate(self.rows):
            way = self.ways[row.way]
            k = way.job_class
            rules = self.job(k).placement
            most[i] = row.count * self.size(k)
            for r in np.flatnonzero(self.demand[i]):
                np.minimum(most[i], capacity[:, r] // self.demand[i, r], out=most[i])
            most[i, ~self.data.allowed[row.group]] = 0
            slices = rules.slices if row.ruled else ()
            for level in (*way.inside, *(cut.level for cut in slices)):
                most[i, self.domain(level) < 0] = 0
            for affinity in self.instance.affinities:
                if affinity.kind == "together" and self.job(k).id in affinity.jobs:
                    most[i, self.domain(affinity.level) < 0] = 0
            if row.ruled:
                for limit in rules.spread:
                    if limit.level == HOST:
                        np.minimum(most[i], limit.most, out=most[i])
        return most

    def domain(self, level: str) -> Counts:
        """Return the domain of each host at a level, -1 outside any, shape (hosts,)."""
        return self.instance.topology.domain_of_host[level]

    def slices(self, row: Row) -> tuple[Slice, ...]:
        """Return the slices that count a row."""
        return self.job(self.ways[row.way].job_class).placement.slices if row.ruled else ()

    def gpus(self, way: Way) -> int:
        """Return the GPUs of one gang."""
        return self.configuration(way).demand[0] // MILLI

    def levels_spanned(self, k: int) -> tuple[str, ...]:
        """Return the levels at which the domains of a class are counted; none for single tasks."""
        job = self.job(k)
        return () if num_tasks(job) < 2 else levels_counted(self.instance, job)

    @cached_property
    def initial(self) -> dict[tuple[int, str, int], int]:
        """Tasks of a class by role and host that run there now, above 0."""
        found: dict[tuple[int, str, int], int] = {}
        index = self.instance.topology.host_index
        class_of = {j: k for k, members in enumerate(self.classes) for j in members}
        for j, running in self.data.running.items():
            for task in running.tasks:
                key = (class_of[j], task.role, index[task.host])
                found[key] = found.get(key, 0) + task.count
        return found

    @cached_property
    def watches_moves(self) -> bool:
        """Whether moves count: in the goal or against a budget."""
        limited = self.instance.allowed_moves.budget is not None
        return limited or bool(self.terms & {"moves", "moved_gb"})

    def quotas(self) -> list[tuple[str, list[tuple[int, int]], int]]:
        """Return the limits on what runs: name, (way, amount), most.

        On the GPU of each tenant and cohort, milli-GPU, and on each of the cluster's own resources.
        """
        found = []
        cohorts: dict[str, list[str]] = {}
        quota = {t.name: t.gpu_quota_milli for t in self.instance.tenants}
        for tenant in self.instance.tenants:
            most = tenant.gpu_quota_milli + tenant.borrowing_milli
            found.append((f"tenant {tenant.name}", {tenant.name}, most))
            if tenant.cohort is not None:
                cohorts.setdefault(tenant.cohort, []).append(tenant.name)
        for cohort, names in cohorts.items():
            found.append((f"cohort {cohort}", set(names), sum(quota[n] for n in names)))
        limits = [
            (
                name,
                [
                    (v, self.configuration(way).demand[0])
                    for v, way in enumerate(self.ways)
                    if self.job(way.job_class).tenant in owners
                    and self.configuration(way).demand[0]
                ],
                most,
            )
            for name, owners, most in found
        ]
        topology = self.instance.topology
        for r in topology.cluster_columns:
            amounts = [self.configuration(way).demand[r] for way in self.ways]
            uses = [(v, amount) for v, amount in enumerate(amounts) if amount]
            if uses:
                limits.append((topology.resource_names[r], uses, int(topology.totals[r])))
        return limits

    def allocation(self, x: npt.NDArray[np.float64], y: Counts) -> Allocation:
        """Return the allocation of gangs per way, shape (ways,), and tasks, shape (rows, hosts).

        Parameters
        ----------
        x
            Gangs of each way, shape (ways,), integers up to rounding.
        y
            Tasks of each row on each host, shape (rows, hosts).
        """
        counts = np.zeros((len(self.data.groups), self.instance.topology.num_hosts), dtype=np.int64)
        for k, ways in enumerate(self.ways_by_class):
            waiting = list(self.classes[k])
            for v in ways:
                way, gangs = self.ways[v], round(float(x[v]))
                if not gangs:
                    continue
                total = {g: y[i] for g, i in enumerate(way.rows)}
                domain = self.domain(self._innermost(way.inside)) if way.inside else None
                dealt = deal(self.data, waiting, way.configuration, total, gangs, domain)
                for j, own in dealt.items():
                    waiting.remove(j)
                    roles = self.instance.jobs[j].configurations[way.configuration].tasks
                    for g, where in own.items():
                        at = self.data.index[j, way.configuration, roles[g].role]
                        for h, n in where.items():
                            counts[at, h] += n
        return self._with_reasons(self.data.allocation(counts))

    def _with_reasons(self, allocation: Allocation) -> Allocation:
        placed = allocation.configuration_of
        unplaced = {
            job.id: "no hosts were found for it as a gang, or the goal gains nothing from it"
            for job in self.instance.jobs
            if job.id not in placed
        }
        return Allocation(allocation.assignments, unplaced)

    def _innermost(self, levels: tuple[str, ...]) -> str:
        known = (*self.instance.topology.levels, HOST)
        return max(levels, key=known.index)

    def gathered(self, allocation: Allocation) -> tuple[npt.NDArray[np.float64], Counts]:
        """Return gangs per way and tasks per row and host of an allocation, the way back."""
        counts = self.data.counts(allocation)
        x = np.zeros(len(self.ways))
        y = np.zeros((len(self.rows), counts.shape[1]), dtype=np.int64)
        placed = allocation.configuration_of
        for v, way in enumerate(self.ways):
            for j in self.classes[way.job_class]:
                job = self.instance.jobs[j]
                if placed.get(job.id) != way.configuration:
                    continue
                x[v] += 1
                tasks = job.configurations[way.configuration].tasks
                for i, group in zip(way.rows, tasks, strict=True):
                    y[i] += counts[self.data.index[j, way.configuration, group.role]]
        return x, y


def num_tasks(job: Job) -> int:
    """Return the most tasks that a job may run."""
    return max(sum(group.count for group in c.tasks) for c in job.configurations)


def num_gpus(job: Job) -> int:
    """Return the most GPUs that a job may hold."""
    return max(c.demand[0] for c in job.configurations) // MILLI
