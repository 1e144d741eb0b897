"""Projects: jobs that are graphs of activities, which take resources in one of several modes.

A training or query job is often a graph of stages: each needs what others made, and runs on few or
many GPUs. The field calls a stage an activity, and the problem the multi-mode resource-constrained
project scheduling problem (R. Kolisch, A. Sprecher, "PSPLIB - a project scheduling problem
library", EJOR 96(1), 1996, doi:10.1016/S0377-2217(96)00170-1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from alloc.errors import InstanceError, nearest
from alloc.problems import Problem
from alloc.tabular import Tabular
from alloc.units import require_count, require_finite, require_non_negative, require_positive

_MAX_SPREAD = 1e9
"""Longest run time in shortest ones: beyond that, sums of times lose the short ones."""


@dataclass(frozen=True)
class Resource:
    """Something that activities use.

    Parameters
    ----------
    name
        Unique name, such as ``gpu``.
    capacity
        How much there is, 0 or more: at any time of a renewable resource, in all of one that is
        used up.
    is_renewable
        Whether an activity gives it back at its end, as GPUs, or uses it up, as a budget.
    """

    name: str
    capacity: int
    is_renewable: bool = True


@dataclass(frozen=True)
class Mode:
    """A way to run an activity.

    Parameters
    ----------
    duration_s
        How long it takes, seconds, above 0.
    uses
        What it uses, by the name of the resource; renewable ones throughout.
    """

    duration_s: float
    uses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Activity:
    """A piece of work that runs once, without a pause: a stage of a job.

    Parameters
    ----------
    id
        Unique id.
    modes
        The ways to run it, at least one.
    predecessors
        Ids of the activities that end before it starts.
    job
        Id of its job, or empty where there is but one.
    """

    id: str
    modes: tuple[Mode, ...]
    predecessors: tuple[str, ...] = ()
    job: str = ""


@dataclass(frozen=True)
class ProjectJob:
    """A job: a graph of activities that has arrived and is done when all of them are.

    Parameters
    ----------
    id
        Unique id.
    release_s
        When its activities may start, seconds, 0 or more.
    weight
        What a second of it costs in ``weighted_jct`` and ``weighted_tardiness``, 0 or more.
    due_date_s
        When it should be done, seconds after `release_s` or at it, or None.
    """

    id: str
    release_s: float = 0.0
    weight: float = 1.0
    due_date_s: float | None = None


@dataclass(frozen=True)
class ProjectProblem(Problem):
    """Activities, what they use, and what comes before what.

    Parameters
    ----------
    name
        For people.
    activities
        The activities, at least one, in any order.
    resources
        What they use.
    jobs
        Their jobs; none: all are of one job, released at 0.

    Raises
    ------
    InstanceError
        If an id is unknown or given twice, the precedences have a cycle, an activity has no mode
        that fits the capacities, or a number makes no sense.
    """

    name: str
    activities: tuple[Activity, ...]
    resources: tuple[Resource, ...] = ()
    jobs: tuple[ProjectJob, ...] = ()

    def __post_init__(self) -> None:
        if not self.activities:
            raise InstanceError(f"{self.name}: has no activities; give at least one.")
        if not self.jobs:
            object.__setattr__(self, "jobs", (ProjectJob(""),))
        self._require_once("activity", (a.id for a in self.activities))
        self._require_once("resource", (r.name for r in self.resources))
        self._require_once("job", (j.id for j in self.jobs))
        for resource in self.resources:
            require_non_negative(
                resource.capacity, f'{self.name}: resource "{resource.name}"', "capacity"
            )
        for job in self.jobs:
            self._require_job(job)
        for activity in self.activities:
            self._require_activity(activity)
        self._require_durations()
        self.order  # noqa: B018 - refuses a cycle

    def _require_once(self, what: str, names: Iterable[str]) -> None:
        for name, count in Counter(names).items():
            if count > 1:
                raise InstanceError(
                    f'{self.name}: {what} "{name}" is there {count} times; ids are unique.'
                )

    def _require_job(self, job: ProjectJob) -> None:
        where = f'{self.name}: job "{job.id}"'
        require_non_negative(job.release_s, where, "release_s")
        require_non_negative(job.weight, where, "weight")
        if job.due_date_s is not None:
            require_finite(job.due_date_s, where, "due_date_s")
            if job.due_date_s < job.release_s:
                raise InstanceError(
                    f"{where}: due_date_s is {job.due_date_s:g}, before its release at "
                    f"{job.release_s:g}; times are seconds since the start of the problem."
                )

    def _require_activity(self, activity: Activity) -> None:
        where = f'{self.name}: activity "{activity.id}"'
        if not activity.modes:
            raise InstanceError(f"{where}: has no modes; give at least one.")
        ids, jobs = self.position, {job.id for job in self.jobs}
        for before in activity.predecessors:
            if before not in ids:
                raise InstanceError(
                    f'{where}: its predecessor "{before}" is no activity{nearest(before, ids, ".")}'
                    " Predecessors are ids of activities."
                )
        if activity.job not in jobs:
            raise InstanceError(
                f'{where}: its job "{activity.job}" is not among the jobs'
                f"{nearest(activity.job, jobs, '.')} Name one of them."
            )
        capacity = {resource.name: resource.capacity for resource in self.resources}
        for number, mode in enumerate(activity.modes):
            require_positive(mode.duration_s, f"{where}: mode {number}", "duration_s")
            for name, amount in mode.uses.items():
                if name not in capacity:
                    raise InstanceError(
                        f'{where}: mode {number} uses "{name}", which is no resource'
                        f"{nearest(name, capacity, '.')} Name one of the problem's."
                    )
                require_count(amount, f"{where}: mode {number}", f"uses[{name}]")
        if not any(self.fits(mode) for mode in activity.modes):
            mode = activity.modes[0]
            name = next(n for n, amount in mode.uses.items() if amount > capacity[n])
            raise InstanceError(
                f"{where}: no mode fits the capacities; mode 0 uses {mode.uses[name]} of "
                f'"{name}", and there are {capacity[name]}.'
            )

    def _require_durations(self) -> None:
        times = [mode.duration_s for a in self.activities for mode in a.modes]
        if max(times) > _MAX_SPREAD * min(times):
            raise InstanceError(
                f"{self.name}: run times go from {min(times):g} to {max(times):g} s, more than "
                f"{_MAX_SPREAD:g} times as long; merge the short activities with their neighbours."
            )
        if not math.isfinite(self.last_s):
            raise InstanceError(f"{self.name}: times add up beyond all numbers; give seconds.")

    def fits(self, mode: Mode) -> bool:
        """Return whether no resource has less than a mode uses."""
        capacity = {resource.name: resource.capacity for resource in self.resources}
        return all(amount <= capacity[name] for name, amount in mode.uses.items())

    @property
    def last_s(self) -> float:
        """A time by which some best schedule is done: one activity after the other, seconds."""
        last = max(job.release_s for job in self.jobs)
        return last + sum(max(m.duration_s for m in a.modes) for a in self.activities)

    @cached_property
    def position(self) -> dict[str, int]:
        """Position of each activity by its id."""
        return {activity.id: k for k, activity in enumerate(self.activities)}

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the predecessors of each activity."""
        return tuple(
            tuple(dict.fromkeys(self.position[p] for p in a.predecessors)) for a in self.activities
        )

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Positions of the activities, each after its predecessors.

        Raises
        ------
        InstanceError
            If the precedences have a cycle; the message names it.
        """
        waits = [len(before) for before in self.predecessors]
        after: list[list[int]] = [[] for _ in waits]
        for k, before in enumerate(self.predecessors):
            for p in before:
                after[p].append(k)
        ready = [k for k, count in enumerate(waits) if not count]
        for k in ready:
            for follower in after[k]:
                waits[follower] -= 1
                if not waits[follower]:
                    ready.append(follower)
        if len(ready) < len(waits):
            raise InstanceError(
                f"{self.name}: the precedences go round in a circle: "
                f"{' -> '.join(self._cycle(set(ready)))}; take one of them out."
            )
        return tuple(ready)

    def _cycle(self, done: set[int]) -> list[str]:
        """Return the ids of a circle, its first one at the end again."""
        at = next(k for k in range(len(self.activities)) if k not in done)
        path: list[int] = []
        while at not in path:
            path.append(at)
            at = next(p for p in self.predecessors[at] if p not in done)
        circle = [*path[path.index(at) :], at]
        return [self.activities[k].id for k in reversed(circle)]

    @cached_property
    def job_of(self) -> tuple[int, ...]:
        """Position of the job of each activity."""
        position = {job.id: k for k, job in enumerate(self.jobs)}
        return tuple(position[activity.job] for activity in self.activities)


@dataclass(frozen=True)
class ActivityRun:
    """When and how an activity runs.

    Parameters
    ----------
    activity
        Its id.
    mode
        Position of its mode, from 0.
    start_s
        Its start, seconds.
    """

    activity: str
    mode: int
    start_s: float


@dataclass(frozen=True)
class ProjectPlan(Tabular):
    """A schedule of a project.

    Parameters
    ----------
    runs
        One run for each activity, in any order.

    Raises
    ------
    InstanceError
        If a mode is not a whole number, or a start not a finite one.
    """

    runs: tuple[ActivityRun, ...]

    def __post_init__(self) -> None:
        for run in self.runs:
            if not isinstance(run.mode, int) or isinstance(run.mode, bool):
                raise InstanceError(
                    f'project plan: the mode of "{run.activity}" is {run.mode!r}; give a position.'
                )
            require_finite(run.start_s, f'project plan: activity "{run.activity}"', "start_s")

    def ends_s(self, problem: ProjectProblem) -> dict[str, float]:
        """Return the end of each job that has a run, by id, seconds."""
        ends: dict[str, float] = {}
        for run in self.runs:
            activity = problem.activities[problem.position[run.activity]]
            end = run.start_s + activity.modes[run.mode].duration_s
            ends[activity.job] = max(ends.get(activity.job, 0.0), end)
        return ends

    def value(self, problem: ProjectProblem, objective: str) -> float:
        """Return the value of an objective; see `job_cost`.

        Parameters
        ----------
        problem
            What the plan is of.
        objective
            ``makespan``, ``weighted_jct`` or ``weighted_tardiness``, seconds.
        """
        ends = self.ends_s(problem)
        if objective == "makespan":
            return max(ends.values(), default=0.0)
        return math.fsum(
            job_cost(job, ends[job.id], objective) for job in problem.jobs if job.id in ends
        )


def cost_rounding(problem: ProjectProblem, objective: str, last_s: float) -> float:
    """Return by how much the costs of all jobs may be off since their ends are rounded.

    Ends by the clock of a computer are far above costs, which are differences of them: after 1e9
    seconds a float is known to a tenth of a millionth.

    Parameters
    ----------
    problem
        What is planned.
    objective
        ``makespan``, whose rounding is a share of itself, ``weighted_jct`` or
        ``weighted_tardiness``.
    last_s
        A time that no end is after, seconds.
    """
    if objective == "makespan":
        return 0.0
    # Start and end are rounded by half the distance of two floats each, and so is what is
    # subtracted.
    return 2.0 * math.ulp(last_s) * math.fsum(job.weight for job in problem.jobs)


def job_cost(job: ProjectJob, end_s: float, objective: str) -> float:
    """Return what a job adds to ``weighted_jct`` or ``weighted_tardiness``.

    Parameters
    ----------
    job
        The job.
    end_s
        When it is done, seconds.
    objective
        Its weight times the time since its release, or since its due date where that is later than
        its end; a job without a due date is never late.
    """
    if objective == "weighted_jct":
        return job.weight * (end_s - job.release_s)
    due = math.inf if job.due_date_s is None else job.due_date_s
    return job.weight * max(end_s - due, 0.0)
