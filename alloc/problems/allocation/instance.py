"""The instance: a cluster, its jobs and the rules of time."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import repeat
from operator import attrgetter, is_
from typing import Any

from alloc.errors import InstanceError, nearest
from alloc.packing import HostPool
from alloc.problems import Problem
from alloc.problems.allocation.conditions import require_moving, require_tables
from alloc.problems.allocation.job_columns import JobColumns
from alloc.problems.allocation.misfit import misfit as misfit
from alloc.problems.allocation.misfit import unfit
from alloc.problems.allocation.outages import Downtime, Outage
from alloc.problems.allocation.solution import Assignment
from alloc.problems.allocation.terms import NO_MOVES
from alloc.problems.allocation.terms import Affinity as Affinity
from alloc.problems.allocation.terms import Moves as Moves
from alloc.problems.allocation.terms import Tenant as Tenant
from alloc.topology import Topology
from alloc.topology.topology import HOST
from alloc.units import (
    MILLI,
    RESOURCES,
    require_positive,
    require_slot_length,
    require_time,
)
from alloc.workload import NO_RULES, Configuration, InterferenceTable, Job, TaskGroup

_TABLE = attrgetter("configurations")
_TASKS = attrgetter("tasks")
_STAGES, _REFUSABLE = attrgetter("stages"), attrgetter("refusable")
_PLACEMENT = attrgetter("placement")
FEATURES = (
    "placement rules",
    "MIG slices",
    "GPU memory",
    "affinities",
    "moves",
    "borrowing",
    "refusal",
    "stages",
    "outages",
    "moving GPUs",
    "interference",
)
"""What an instance may ask of a method beyond rounds and time; see `Instance.features`."""


_BUT_CONFIGURATIONS = attrgetter(*(f.name for f in fields(Job) if f.name != "configurations"))


@dataclass(frozen=True)
class Instance(Problem):
    """A scheduling instance: everything that the problem is, and nothing that is an answer.

    Parameters
    ----------
    name
        For people; part of the fingerprint.
    topology
        The cluster.
    jobs
        The jobs, at least one, ids unique.
    slot_s
        Length of a slot, seconds: decisions are taken at multiples of it and hold until the next.
        None for continuous time.
    horizon_s
        Time by which every job must be complete, seconds; ``None``: open end.
    tenants
        Tenants with quotas. A job of a tenant that is not listed has no quota.
    running
        What ran just before the start: it decides whether going on costs a restart, and what
        counts as a move. Where their hosts are said, the jobs must fit on them together; only
        with `moves` may a host be over-full, for a placement to report or to relieve.
    affinities
        Jobs that stand together or apart.
    moves
        What a placement may do to the jobs in running; ``None``: nothing, they stay where they are
        (`allowed_moves`). Rounds, schedules and the sharing of GPUs do not read it: they start
        afresh.
    outages
        When hosts are down. Of one host they do not overlap. Schedulers see a host go down when it
        does, and not before.
    move_s
        Time that a GPU takes to move from one job to another, seconds: a job or stage that takes a
        GPU whose last job was another does nothing for so long at its start. See
        `alloc.problems.allocation.executors`. For jobs that run once, in continuous time.
    interference
        How jobs slow each other down that share a GPU, by their `Job.model`: at most a table for
        each GPU type, in slots only. None: sharing costs nothing.
    description
        Where the instance comes from: generator, seed, trace, sources. Not part of the problem,
        so not part of the fingerprint.
    """

    name: str
    topology: Topology
    jobs: tuple[Job, ...]
    slot_s: float | None = None
    horizon_s: float | None = None
    tenants: tuple[Tenant, ...] = ()
    running: tuple[Assignment, ...] = ()
    affinities: tuple[Affinity, ...] = ()
    moves: Moves | None = None
    outages: tuple[Outage, ...] = ()
    move_s: float = 0.0
    interference: tuple[InterferenceTable, ...] = ()
    description: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f'instance "{self.name}"'
        if not self.jobs:
            raise InstanceError(f"{where}: has no jobs; there is nothing to allocate.")
        if any(job.stages for job in self.jobs):
            _check_stages(self)
        _share_axis(self)
        if self.slot_s is not None:
            require_slot_length(self.slot_s, where, "slot_s")
        if self.horizon_s is not None:
            require_positive(self.horizon_s, where, "horizon_s")
            require_time(self.horizon_s, where, "horizon_s")
        if len(self.job_index) != len(self.jobs):
            seen: set[str] = set()
            twice = next(j.id for j in self.jobs if j.id in seen or seen.add(j.id))  # type: ignore[func-returns-value]
            raise InstanceError(f'{where}: job "{twice}" appears twice; job ids must be unique.')
        tenants = {tenant.name for tenant in self.tenants}
        if len(tenants) != len(self.tenants):
            raise InstanceError(f"{where}: a tenant appears twice; tenant names must be unique.")
        for tenant in self.tenants:
            if tenant.gpu_quota_milli > self.topology.num_gpus * MILLI:
                raise InstanceError(
                    f'tenant "{tenant.name}": gpu_quota_milli {tenant.gpu_quota_milli} is above '
                    f"the {self.topology.num_gpus * MILLI} of the whole cluster; lower the quota "
                    "or add hosts."
                )
        _check_demands(self)
        _check_running(self, where)
        if self.moves is None and (reason := overfull(self)) is not None:
            raise InstanceError(
                f"{reason}; correct running, or give moves, which say what may be done about it."
            )
        _check_rules(self)
        _check_refusable(self)
        for outage in self.outages:
            _require_host(self, outage.host, f"{where}: an outage is of host")
        _ = self.downtime  # refuses outages that overlap
        if self.move_s:
            is_plain = self.slot_s is None and not (self.running or self.outages)
            require_moving(self.move_s, self.unfolded.jobs, where, is_plain=is_plain)
        if self.interference:
            obstacle = "outages" if self.outages else None
            obstacle = "no slots" if self.slot_s is None else obstacle
            require_tables(self.interference, self.unfolded.jobs, where, obstacle)

    @cached_property
    def downtime(self) -> Downtime:
        """The outages, looked up by host."""
        return Downtime(self.outages)

    @cached_property
    def is_immutable(self) -> bool:
        """Whether nothing in it can change: a list or an array, given for a tuple, has no hash.

        Configurations see to it themselves, and are too many to look at.
        """
        few = [f.name for f in fields(self) if f.name not in ("jobs", "description")]
        try:
            hash((*[getattr(self, name) for name in few], *map(_BUT_CONFIGURATIONS, self.jobs)))
        except TypeError:
            return False
        tables = [job.configurations for job in self.jobs]
        return {type(self.jobs), *map(type, tables)} == {tuple}

    @property
    def allowed_moves(self) -> Moves:
        """What a placement may do to the jobs that run: `moves`, without which they stay."""
        if self.moves is None:
            return NO_MOVES if self.running else Moves()
        return self.moves

    def with_moves(self, budget: int | None, evict: bool) -> Instance:
        """Return the instance with what somebody says beside it of the jobs that run.

        Parameters
        ----------
        budget
            Most of their tasks that may move, 0 or more; None: not said.
        evict
            Whether preemptible ones may be stopped. Without a word of either, all is as it was.
        """
        if budget is None and not evict:
            return self
        return self.replace(moves=Moves(budget, evict))

    @property
    def resource_names(self) -> tuple[str, ...]:
        """The axis of every vector of amounts; see `alloc.resources`."""
        return self.topology.resource_names

    @cached_property
    def job_index(self) -> dict[str, int]:
        """Position of each job id in `jobs`."""
        return {job.id: j for j, job in enumerate(self.jobs)}

    @cached_property
    def job_columns(self) -> JobColumns:
        """The fields of `jobs` as arrays."""
        return JobColumns(self.jobs)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process: it reads the columns from the jobs again."""
        return {name: value for name, value in vars(self).items() if name != "job_columns"}

    def job(self, job_id: str) -> Job:
        """Return the job with that id.

        Raises
        ------
        InstanceError
            If there is none.
        """
        if job_id not in self.job_index:
            raise InstanceError(
                f'instance "{self.name}" has no job "{job_id}"'
                f"{nearest(job_id, self.job_index, '; give the id of one of its jobs.')}"
            )
        return self.jobs[self.job_index[job_id]]

    @property
    def unfolded(self) -> Instance:
        """The instance in which each stage is a job, ``JOB/STAGE``; itself without stages.

        Schedules, simulator and checker speak of these jobs, objectives and metrics of `jobs`.
        What must end before what is in `alloc.problems.allocation.stages`.
        """
        return self if self._unfolded is None else self._unfolded

    @cached_property
    def _unfolded(self) -> Instance | None:
        # Not itself: what holds itself is only freed by the garbage collector.
        if not any(map(_STAGES, self.jobs)):
            return None
        # Who moves is a matter between jobs, which parts know nothing of.
        parts = tuple(part for job in self.jobs for part in job.parts)
        return dataclasses.replace(self, jobs=parts, move_s=0.0)

    @cached_property
    def features(self) -> Mapping[str, str]:
        """What the instance asks of a method beyond rounds and time, and who asks for it.

        Keys of `FEATURES`; values name the first job, tenant or rule concerned.
        """
        found: dict[str, str] = {}
        # A million jobs that ask for none of this are seen at a glance.
        jobs = self.jobs
        special = self.unfolded is not self or any(map(_REFUSABLE, jobs))
        special = special or not all(map(is_, map(_PLACEMENT, jobs), repeat(NO_RULES)))
        for job in jobs if special else ():
            if job.stages:
                found.setdefault("stages", f'job "{job.id}"')
            if job.placement is not NO_RULES and job.placement != NO_RULES:
                found.setdefault("placement rules", f'job "{job.id}"')
            if job.refusable:
                found.setdefault("refusal", f'job "{job.id}"')
        # Jobs share tables, and tables that differ in their rates share tasks: those are looked at
        # once. Tuples that hold the very same objects are compared without looking into these.
        known: dict[int, tuple[tuple[TaskGroup, ...], ...]] = {}
        parts = self.unfolded.jobs
        # Of each table the first of its jobs: what is entered last stays.
        last = range(len(parts) - 1, -1, -1)
        first = dict(zip(map(id, map(_TABLE, reversed(parts))), last, strict=True))
        for j in sorted(first.values()):
            job = parts[j]
            tasks = tuple(map(_TASKS, job.configurations))
            if known.get(id(tasks[0])) == tasks:
                continue
            known[id(tasks[0])] = tasks
            groups = [group for together in tasks for group in together]
            if any(group.mig_profile for group in groups):
                found.setdefault("MIG slices", f'job "{job.id}"')
            if any(group.gpu_memory_mib for group in groups):
                found.setdefault("GPU memory", f'job "{job.id}"')
        if self.affinities:
            found["affinities"] = f"jobs {', '.join(self.affinities[0].jobs[:2])}"
        if self.moves is not None:
            found["moves"] = "the running jobs"
        if self.outages:
            found["outages"] = f'host "{self.outages[0].host}"'
        if self.move_s:
            found["moving GPUs"] = "move_s"
        if self.interference:
            found["interference"] = f'GPU type "{self.interference[0].gpu_type}"'
        for tenant in self.tenants:
            if tenant.cohort is not None:
                found.setdefault("borrowing", f'tenant "{tenant.name}"')
        return found


def _check_stages(instance: Instance) -> None:
    """Refuse jobs with stages that cannot run, or that something names which takes no stages."""
    staged = {job.id for job in instance.jobs if job.stages}
    named = [
        *(("running", (assignment.job,)) for assignment in instance.running),
        *(("affinities", affinity.jobs) for affinity in instance.affinities),
    ]
    for field_, jobs in named:
        for job_id in jobs:
            if job_id in staged:
                raise InstanceError(
                    f'job "{job_id}": has stages and is named in {field_}, which speak of jobs '
                    "without stages; leave it out there, or drop its stages."
                )
    parts = Counter(part.id for job in instance.jobs for part in job.parts)
    for job in instance.jobs:
        for part in job.parts:
            if job.stages and parts[part.id] > 1:
                raise InstanceError(
                    f'job "{job.id}": its stage is called "{part.id}" in schedules, and so is '
                    "another job or stage; give one of them another id."
                )
    # Its own checks see to demands, and it has the resources that only stages ask for.
    object.__setattr__(instance, "topology", instance.unfolded.topology)


def _share_axis(instance: Instance) -> None:
    """Bring the topology and the jobs onto one axis of resources."""
    sets = {id(job.configurations): job.configurations for job in instance.jobs}
    asked = {
        name
        for configurations in sets.values()
        for configuration in configurations
        # All task groups of a configuration have the same names.
        for name in configuration.tasks[0].resources_on_axis
    }
    topology = instance.topology.with_resources(asked)
    names = topology.resource_names[len(RESOURCES) :]
    if not names:
        return
    object.__setattr__(instance, "topology", topology)
    # Jobs share configurations: so do those on the axis.
    on_axis: dict[int, Configuration] = {}
    jobs: dict[int, tuple[Configuration, ...]] = {}
    for key, configurations in sets.items():
        for configuration in configurations:
            if id(configuration) not in on_axis:
                on_axis[id(configuration)] = configuration.with_resources(names)
        aligned = tuple(on_axis[id(configuration)] for configuration in configurations)
        same = all(a is b for a, b in zip(aligned, configurations, strict=True))
        jobs[key] = configurations if same else aligned
    if any(jobs[key] is not configurations for key, configurations in sets.items()):
        changed = tuple(
            job
            if jobs[id(job.configurations)] is job.configurations
            else job.replace(configurations=jobs[id(job.configurations)])
            for job in instance.jobs
        )
        object.__setattr__(instance, "jobs", changed)


def _check_demands(instance: Instance) -> None:
    """Refuse jobs that cannot run on the empty cluster in any of their configurations."""
    # Jobs share configuration tuples, so each tuple is checked once.
    checked: dict[int, str | None] = {}
    for job in instance.jobs:
        if job.stages:
            continue
        key = id(job.configurations)
        if key not in checked:
            checked[key] = unfit(instance.topology, job.configurations)
        if (reason := checked[key]) is not None:
            raise InstanceError(
                f'job "{job.id}": fits the empty cluster in none of its configurations ({reason}); '
                "add hosts, shrink the job or drop it."
            )


def _check_running(instance: Instance, where: str) -> None:
    """Refuse running placements that name what the instance does not have, or a job twice."""
    seen: set[str] = set()
    for running in instance.running:
        if running.job not in instance.job_index:
            raise InstanceError(
                f'{where}: running names job "{running.job}", which is not in jobs'
                f"{nearest(running.job, instance.job_index, '; add the job or drop this.')}"
            )
        if running.job in seen:
            raise InstanceError(f'{where}: running names job "{running.job}" twice; keep one.')
        seen.add(running.job)
        count = len(instance.job(running.job).configurations)
        if not 0 <= running.configuration < count:
            raise InstanceError(
                f'job "{running.job}": runs in configuration {running.configuration}, but has '
                f"{count}; count them from 0."
            )
        configuration = instance.job(running.job).configurations[running.configuration]
        roles = [group.role for group in configuration.tasks]
        for task in running.tasks:
            if task.role not in roles:
                cure = nearest(task.role, roles, f"; name one of: {', '.join(roles)}.")
                raise InstanceError(
                    f'job "{running.job}": runs tasks of role "{task.role}", which its '
                    f"configuration {running.configuration} does not have{cure}"
                )
            _require_host(instance, task.host, f'job "{running.job}": runs on host')


def _require_host(instance: Instance, host: str, said: str) -> None:
    """Refuse what names a host that the topology does not have."""
    index = instance.topology.host_index
    if host not in index:
        cure = nearest(host, index, "; name one of its hosts.")
        raise InstanceError(f'{said} "{host}", which is not in the topology{cure}')


def overfull(instance: Instance) -> str | None:
    """Say which running job finds no room beside those named before it, or return None."""
    if not any(running.tasks for running in instance.running):
        return None
    pool = HostPool(instance.topology)
    for running in instance.running:
        configuration = instance.job(running.job).configurations[running.configuration]
        if not pool.fits(configuration, running.tasks):
            hosts = ", ".join(dict.fromkeys(task.host for task in running.tasks))
            return (
                f'job "{running.job}": runs on {hosts}, where the other running jobs leave no room '
                f"for its {configuration.label}"
            )
        pool.take(configuration, running.tasks)
    return None


def _check_refusable(instance: Instance) -> None:
    """Refuse jobs of which nobody can say when to refuse them, or that were accepted already."""
    running = {assignment.job for assignment in instance.running}
    for job in instance.jobs:
        if not job.refusable:
            continue
        if job.deadline_s is None and instance.horizon_s is None:
            raise InstanceError(
                f'job "{job.id}": may be refused but has no limit to miss; give it a deadline_s, '
                "or the instance a horizon_s."
            )
        if job.id in running:
            raise InstanceError(
                f'job "{job.id}": runs when the instance starts, so it was accepted, and may not '
                "be refused; leave refusable out, or take it out of running."
            )


def _check_rules(instance: Instance) -> None:
    """Refuse rules that name levels or jobs that are not there."""
    topology = instance.topology
    known = (*topology.levels, HOST)

    def require_level(level: str, where: str) -> None:
        if level not in known:
            raise InstanceError(
                f'{where}: level "{level}" is not in the topology'
                f"{nearest(level, known, '; name one of: ' + ', '.join(known) + '.')}"
            )

    for job in instance.jobs:
        if job.placement is NO_RULES:
            continue
        for level in job.placement.levels:
            require_level(level, f'job "{job.id}"')
        ranks = [known.index(rule.level) for rule in job.placement.slices]
        if sorted(set(ranks)) != ranks:
            raise InstanceError(
                f'job "{job.id}": slices per {", ".join(s.level for s in job.placement.slices)} '
                "do not nest; list them from the outer level to the inner, each level once."
            )
    for affinity in instance.affinities:
        require_level(affinity.level, f'affinity "{affinity.kind}"')
        for job_id in affinity.jobs:
            if job_id not in instance.job_index:
                cure = nearest(job_id, instance.job_index, "; name one of the jobs.")
                raise InstanceError(
                    f'affinity "{affinity.kind}": job "{job_id}" is not in jobs{cure}'
                )
