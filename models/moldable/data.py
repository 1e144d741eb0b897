"""The data of F3: for each job the ways it can run, and for each way the placements on hosts.

Capacity is a list of rows - a resource of a host, a resource of the cluster, the quota of a tenant
- and a placement takes amounts of some of them from the start of the job to its end. So all models
see one thing: which placement does each job take, and when does it start?
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.clock import check_time
from alloc.errors import UnsupportedFeatureError
from alloc.formulation import ProvedInfeasible
from alloc.models.capacity import (
    CapacityRows,
    burden_on_hosts,
    capacity_rows,
    fitting_configurations,
    pareto_front,
    quotas_of,
    use_order,
)
from alloc.models.malleable.costs import Target, target_of
from alloc.objectives import Held
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, TaskPlacement
from alloc.topology import Topology
from alloc.workload import Configuration, Job
from alloc.workload.configuration import Gang

Array = npt.NDArray[np.float64]
Use = tuple[tuple[int, int], ...]
"""Rows, and the amount that is taken of each."""

_MAX_PLACEMENTS = 300
"""Placements of one configuration that are listed. A gang on one host has one for each host; only
gangs over several hosts have more, and of these the models take no more in any useful time."""
_ON_SLOT = 1e-9
"""Moments this close to a slot's start, in slots, are that start: times are float products."""
_ROUNDING = 1e-12
"""Relative lateness that counts as none: limits and completions are float sums."""


@dataclass(frozen=True)
class Placement:
    """One way to put a configuration on hosts.

    Parameters
    ----------
    tasks
        The tasks on their hosts.
    use
        What they take of the rows.
    """

    tasks: tuple[TaskPlacement, ...]
    use: Use


@dataclass(frozen=True)
class Way:
    """A configuration in which a job can run, and where.

    Parameters
    ----------
    configuration
        Position in the job's configurations.
    run_s
        From start to completion, seconds.
    hold_s
        From start to the end of its run, seconds: in slots, the least multiple that is enough.
    placements
        The placements that are listed.
    load
        What it takes of each of the pooled rows, whatever the placement, shape (R,).
    """

    configuration: int
    run_s: float
    hold_s: float
    placements: tuple[Placement, ...]
    load: Array


@dataclass(frozen=True)
class MoldableData:
    """An instance of F3.

    Parameters
    ----------
    instance
        The instance.
    target
        What is asked of the completions, seconds for slots.
    release
        Earliest start of each job, seconds, shape (J,): its arrival or the next slot.
    deadline
        Latest completion of each job, seconds, infinite if there is none, shape (J,).
    ways
        The ways to run each job, in the order of the jobs.
    rows
        Names of the rows that placements use.
    capacity
        Their capacities.
    host_of_row
        Position of the host that each belongs to, or -1.
    pool
        The pooled rows: what the whole cluster, or all hosts of a GPU type, offer.
    is_complete
        Whether every placement is listed, so that what a model proves holds for the instance.
    """

    instance: Instance
    target: Target
    release: Array
    deadline: Array
    ways: tuple[tuple[Way, ...], ...]
    rows: tuple[str, ...]
    capacity: tuple[int, ...]
    host_of_row: tuple[int, ...]
    pool: CapacityRows
    is_complete: bool

    @property
    def num_jobs(self) -> int:
        """Number of jobs J."""
        return len(self.ways)

    @cached_property
    def earliest_end(self) -> Array:
        """Earliest completion of each job, alone on the cluster, seconds, shape (J,)."""
        shortest = np.array([min(way.run_s for way in ways) for ways in self.ways])
        return np.asarray(self.release + shortest)

    @cached_property
    def end_of_all(self) -> float:
        """A time by which an optimal schedule is over: all jobs one after the other, seconds.

        No objective gains by a later completion, so a job never waits where nothing runs.
        """
        longest = math.fsum(max(way.hold_s for way in ways) for ways in self.ways)
        return float(self.release.max()) + longest

    @cached_property
    def rows_of_hosts(self) -> tuple[dict[str, frozenset[int]], frozenset[int]]:
        """The rows of each host, by its id, and those of no host: the cluster's and quotas."""
        hosts = self.instance.topology.hosts
        found: dict[int, set[int]] = {h: set() for h in range(-1, len(hosts))}
        for row, h in enumerate(self.host_of_row):
            found[h].add(row)
        own = {host.id: frozenset(found[h]) for h, host in enumerate(hosts)}
        return own, frozenset(found[-1])

    def run(self, j: int, w: int, p: int, start_s: float) -> Run:
        """Return the run of a job that starts at a time in a way and placement.

        Parameters
        ----------
        j
            Position of the job.
        w
            Position of the way among those of the job.
        p
            Position of the placement among those of the way.
        start_s
            When it starts, seconds; a multiple of the slot if there is one.
        """
        job, way = self.instance.jobs[j], self.ways[j][w]
        tasks = way.placements[p].tasks
        return Run(job.id, way.configuration, start_s, self.end_of_run(way, start_s), tasks)

    def end_of_run(self, way: Way, start_s: float) -> float:
        """Return when a run ends that starts at a time, seconds.

        Parameters
        ----------
        way
            The way in which the job runs.
        start_s
            When it starts, seconds; a multiple of the slot if there is one.
        """
        end_s, slot_s = start_s + way.hold_s, self.instance.slot_s
        if slot_s is not None:
            return round(end_s / slot_s) * slot_s
        # Sums round; a run that ends a bit early leaves work over.
        while end_s - start_s < way.run_s:
            end_s = math.nextafter(end_s, math.inf)
        return end_s

    def on_grid(self, moment_s: float) -> float:
        """Return the first moment from then on at which a job may start, seconds."""
        slot_s = self.instance.slot_s
        return moment_s if slot_s is None else _slots(moment_s, slot_s) * slot_s


def moldable_data(
    instance: Instance, objective: str, held: Sequence[Held] = (), *, whole: bool = False
) -> MoldableData:
    """Return an instance of F3 as data.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    held
        Earlier levels of the goal.
    whole
        Whether every placement must be listed, as models need it.

    Raises
    ------
    UnsupportedFeatureError
        If jobs run already or share GPUs; with `whole`, if a gang has too many placements.
    ProvedInfeasible
        If a job has no way to run, or misses its deadline or the horizon even alone.
    """
    _require_modelled(instance)
    target, latest = target_of(instance.jobs, objective, held, 1.0)
    quotas = quotas_of(instance)
    pool = capacity_rows(instance.topology, [job.configurations for job in instance.jobs], quotas)
    table = _Rows(instance, quotas)
    ways = []
    for job in instance.jobs:
        check_time()
        ways.append(_ways(instance, job, pool, table, whole))
    slot_s = instance.slot_s
    release = np.array(
        [
            j.arrival_s if slot_s is None else _slots(j.arrival_s, slot_s) * slot_s
            for j in instance.jobs
        ]
    )
    horizon = math.inf if instance.horizon_s is None else instance.horizon_s
    own = [math.inf if job.deadline_s is None else job.deadline_s for job in instance.jobs]
    deadline = np.minimum(np.minimum(own, horizon), latest)
    data = MoldableData(
        instance,
        target,
        release,
        deadline,
        tuple(ways),
        tuple(table.names),
        tuple(table.capacity),
        tuple(table.host_of_row),
        pool,
        table.is_complete,
    )
    _require_in_time(data)
    # What is late by rounding alone is in time: for every bound and model alike.
    return replace(data, deadline=np.maximum(data.deadline, data.earliest_end))


def _slots(moment_s: float, slot_s: float) -> int:
    return math.ceil(moment_s / slot_s - _ON_SLOT)


def _require_modelled(instance: Instance) -> None:
    if instance.running:
        raise UnsupportedFeatureError(
            f'job "{instance.running[0].job}": runs when the instance starts, and family '
            '"moldable" starts on an idle cluster; take family "malleable", or leave running out.'
        )
    seen: set[int] = set()
    for job in instance.jobs:
        if id(job.configurations) in seen:
            continue
        seen.add(id(job.configurations))
        if any(group.shares_gpu for c in job.configurations for group in c.tasks):
            raise UnsupportedFeatureError(
                f'job "{job.id}": has tasks that share a GPU, and family "moldable" knows whole '
                'GPUs only; round gpu_milli to a multiple of 1000, or take family "malleable".'
            )


def _require_in_time(data: MoldableData) -> None:
    late = np.flatnonzero(data.earliest_end > data.deadline * (1 + _ROUNDING))
    if len(late):
        j = int(late[0])
        more = f" (and {len(late) - 1} more jobs)" if len(late) > 1 else ""
        raise ProvedInfeasible(
            f'job "{data.instance.jobs[j].id}" completes at {data.earliest_end[j]:g} s at the '
            f"earliest, alone on the cluster, but must by {data.deadline[j]:g} s{more}; move its "
            "deadline or the horizon"
        )


class _Rows:
    """The rows, numbered as placements use them, and the placements of each configuration."""

    def __init__(self, instance: Instance, quotas: dict[str, int]) -> None:
        self.topology, self.quotas = instance.topology, quotas
        self.names: list[str] = []
        self.capacity: list[int] = []
        self.host_of_row: list[int] = []
        self.is_complete = True
        self._number: dict[tuple[int, int] | str, int] = {}
        self._listed: dict[tuple[Gang, str | None], tuple[Placement, ...]] = {}
        self._cluster = set(instance.topology.cluster_columns)

    def placements(self, configuration: Configuration, tenant: str | None) -> tuple[Placement, ...]:
        """Return the placements of a configuration of a tenant's job."""
        tenant = tenant if tenant in self.quotas else None
        key = (configuration.gang, tenant)
        if key not in self._listed:
            found = [
                Placement(
                    self._tasks(configuration, counts), self._use(configuration, counts, tenant)
                )
                for counts in self._counts(configuration)
            ]
            self._listed[key] = tuple(found)
        return self._listed[key]

    def _counts(self, configuration: Configuration) -> list[dict[tuple[int, int], int]]:
        """Return how many tasks of each group stand on each host, for each placement."""
        found = []
        every = _splits(self.topology, configuration)
        for counts in every:
            found.append(counts)
            if len(found) > _MAX_PLACEMENTS:
                self.is_complete = False
                return list(_in_turn(self.topology, configuration))
        return found

    def _tasks(
        self, configuration: Configuration, counts: dict[tuple[int, int], int]
    ) -> tuple[TaskPlacement, ...]:
        hosts = self.topology.hosts
        return tuple(
            TaskPlacement(hosts[h].id, configuration.tasks[g].role, count)
            for (g, h), count in counts.items()
        )

    def _use(
        self,
        configuration: Configuration,
        counts: dict[tuple[int, int], int],
        tenant: str | None,
    ) -> Use:
        amounts: dict[int, int] = {}
        for (g, h), count in counts.items():
            for r, amount in enumerate(configuration.tasks[g].demand):
                if amount:
                    row = self._row(-1 if r in self._cluster else h, r)
                    amounts[row] = amounts.get(row, 0) + count * amount
        if tenant is not None and configuration.demand[0]:
            amounts[self._quota(tenant)] = configuration.demand[0]
        return tuple(sorted(amounts.items()))

    def _row(self, h: int, r: int) -> int:
        if (h, r) not in self._number:
            name, topology = self.topology.resource_names[r], self.topology
            has = topology.totals[r] if h < 0 else topology.capacity[h, r]
            where = "the cluster" if h < 0 else topology.hosts[h].id
            self._number[h, r] = self._add(f"{name} of {where}", int(has), h)
        return self._number[h, r]

    def _quota(self, tenant: str) -> int:
        if tenant not in self._number:
            self._number[tenant] = self._add(f"quota of {tenant}", self.quotas[tenant], -1)
        return self._number[tenant]

    def _add(self, name: str, capacity: int, h: int) -> int:
        self.names.append(name)
        self.capacity.append(capacity)
        self.host_of_row.append(h)
        return len(self.names) - 1


def _ways(
    instance: Instance, job: Job, pool: CapacityRows, table: _Rows, whole: bool
) -> tuple[Way, ...]:
    owner = job.tenant if job.tenant in table.quotas else None
    load = pool.use(job.configurations, owner)
    fitting = fitting_configurations(instance.topology, pool, job.configurations, load)
    rate = np.array([c.rate for c in job.configurations])
    order = use_order(burden_on_hosts([job.configurations[c] for c in fitting], load[fitting]))
    ways = []
    # What has done work before pays for its restart.
    restart_s = job.restart_cost_s if job.work_done > 0 else 0.0
    for c in fitting[pareto_front(order, rate[fitting])].tolist():
        placements = table.placements(job.configurations[c], job.tenant)
        if whole and not table.is_complete:
            raise UnsupportedFeatureError(
                f'job "{job.id}": configuration {c} can be put on hosts in more than '
                f'{_MAX_PLACEMENTS} ways, which the models of family "moldable" do not list; set '
                'within="host" or take backend "auto".'
            )
        run_s = restart_s + job.work_left / job.configurations[c].rate
        slot_s = instance.slot_s
        hold_s = run_s if slot_s is None else max(_slots(run_s, slot_s), 1) * slot_s
        if placements:
            ways.append(Way(c, run_s, hold_s, placements, load[c]))
    if not ways:
        raise ProvedInfeasible(
            f'job "{job.id}" exceeds the cluster or its quota in each of its configurations; raise '
            "the capacity or shrink the job"
        )
    return tuple(ways)


def _splits(
    topology: Topology, configuration: Configuration
) -> Iterator[dict[tuple[int, int], int]]:
    """Yield every way to put the tasks of a configuration on the empty hosts."""
    for hosts in _domains(topology, configuration):
        free = {h: topology.capacity[h].copy() for h in hosts}
        for h in hosts:
            free[h][list(topology.cluster_columns)] = np.iinfo(np.int64).max // 2
        yield from _deal(
            topology, configuration, hosts, 0, 0, configuration.tasks[0].count, free, {}
        )


def _deal(
    topology: Topology,
    configuration: Configuration,
    hosts: Sequence[int],
    g: int,
    at: int,
    left: int,
    free: dict[int, npt.NDArray[np.int64]],
    counts: dict[tuple[int, int], int],
) -> Iterator[dict[tuple[int, int], int]]:
    """Yield the ways to put what is left of group g on the hosts from a position on."""
    groups = configuration.tasks
    if not left:
        if g + 1 == len(groups):
            yield dict(counts)
        else:
            yield from _deal(
                topology, configuration, hosts, g + 1, 0, groups[g + 1].count, free, counts
            )
        return
    if at == len(hosts):
        return
    h, demand = hosts[at], np.array(groups[g].demand)
    needed = demand > 0
    room = left
    if needed.any():
        room = min(left, int((free[h][needed] // demand[needed]).min()))
    # Tasks that ask for nothing stand on the first host: where they stand makes no difference.
    for count in range(room, -1 if needed.any() else room - 1, -1):
        if count:
            counts[g, h] = count
            free[h] -= count * demand
        yield from _deal(topology, configuration, hosts, g, at + 1, left - count, free, counts)
        if count:
            del counts[g, h]
            free[h] += count * demand


def _in_turn(
    topology: Topology, configuration: Configuration
) -> Iterator[dict[tuple[int, int], int]]:
    """Yield a placement from each host on: the hosts are filled up in turn."""
    for hosts in _domains(topology, configuration):
        for first in range(len(hosts)):
            turned = [*hosts[first:], *hosts[:first]]
            free = {h: topology.capacity[h].copy() for h in hosts}
            for h in hosts:
                free[h][list(topology.cluster_columns)] = np.iinfo(np.int64).max // 2
            found = _deal(
                topology, configuration, turned, 0, 0, configuration.tasks[0].count, free, {}
            )
            filled = next(found, None)
            if filled is not None:
                yield filled


def _domains(topology: Topology, configuration: Configuration) -> Iterator[list[int]]:
    """Yield the hosts of each domain that may hold the whole gang."""
    kind = configuration.gpu_type
    able = [h for h, own in enumerate(topology.gpu_types) if kind in (None, own)]
    if configuration.within is None:
        yield able
        return
    domain = topology.domain_of_host[configuration.within]
    for k in sorted({int(domain[h]) for h in able if domain[h] >= 0}):
        yield [h for h in able if domain[h] == k]
