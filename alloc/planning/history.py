"""Histories: how many jobs of which class arrived week by week, from an instance or a trace."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.instances.readers.jobs import TracedJob
from alloc.planning.job_classes import (
    GPU_EDGES,
    HOUR_EDGES,
    ClassKey,
    Grouping,
    SeenJob,
    grouping_of,
)
from alloc.problems.allocation.instance import Instance
from alloc.problems.right_sizing.demand import JobClass, JobOption
from alloc.problems.right_sizing.goals import ServiceGoal
from alloc.problems.right_sizing.series import HOURS_OF_WEEK, Series
from alloc.units import HOUR_S, MILLI, require_positive
from alloc.workload import Job

# Every day has 24 hours here: clocks are not put forward or back.
HOURS_OF_DAY = 24
DAY_S = HOURS_OF_DAY * HOUR_S
WEEK_S = HOURS_OF_WEEK * HOUR_S
_PROFILED = 10 * HOURS_OF_DAY
"""Jobs of a class from which on its own hours of the day say something: ten for each. The profile
of a class with fewer is that of all jobs."""

Goals = Mapping[str, ServiceGoal] | Callable[[int, float], ServiceGoal | None]


@dataclass(frozen=True)
class History:
    """Arrivals of classes of jobs, week by week.

    Parameters
    ----------
    classes
        The classes.
    jobs_per_hour
        Arrivals of each class, mean over the hours of each week, shape (weeks, classes), in the
        order of time.
    left_out
        What is not in it, with the number of jobs.
    grouping
        The rule that gave each job its class; None if there was none.
    """

    classes: tuple[JobClass, ...]
    jobs_per_hour: npt.NDArray[np.float64]
    left_out: Mapping[str, int] = field(default_factory=dict)
    grouping: Grouping | None = None

    def __post_init__(self) -> None:
        if self.jobs_per_hour.ndim != 2 or self.jobs_per_hour.shape[1] != len(self.classes):
            raise InstanceError(
                f"history: arrivals have shape {self.jobs_per_hour.shape}; give one row for each "
                f"week and one column for each of the {len(self.classes)} classes."
            )
        if not np.all(np.isfinite(self.jobs_per_hour)) or np.any(self.jobs_per_hour < 0):
            raise InstanceError(
                "history: its arrivals have a gap or a negative number; give a rate, 0 or more, "
                "for every week and class."
            )

    @property
    def num_weeks(self) -> int:
        """Weeks of history."""
        return len(self.jobs_per_hour)

    def split(self, held_out_weeks: int) -> tuple[History, History]:
        """Return all weeks but the last ones, and the last ones, to check a forecast on.

        Raises
        ------
        InstanceError
            If no week would be left on one side.
        """
        if not 0 < held_out_weeks < self.num_weeks:
            raise InstanceError(
                f"history: cannot hold out {held_out_weeks} of its {self.num_weeks} weeks; hold "
                f"out from 1 to {self.num_weeks - 1}."
            )
        cut = self.num_weeks - held_out_weeks
        return (
            replace(self, jobs_per_hour=self.jobs_per_hour[:cut]),
            replace(self, jobs_per_hour=self.jobs_per_hour[cut:]),
        )


def history_of_instance(
    instance: Instance,
    *,
    speeds: Mapping[str, float],
    gpu_edges: Sequence[int] = GPU_EDGES,
    hour_edges: Sequence[float] = HOUR_EDGES,
    goals: Goals | None = None,
    by_tenant: bool = False,
    max_classes: int | None = None,
) -> History:
    """Return the history of an instance's jobs: one class for each size and length.

    Jobs that may be interrupted are classes of their own where some may and others may not. A job
    counts in its most efficient configuration, the one with the most work for each GPU. Jobs
    without a whole GPU are left out and counted.

    Parameters
    ----------
    instance
        At least one whole week of arrivals.
    speeds, gpu_edges, hour_edges, goals, by_tenant, max_classes
        As in `history_of_jobs`.
    """
    seen = [job for _, job in seen_jobs(instance)]
    left_out = {"jobs without a whole GPU": len(instance.jobs) - len(seen)}
    return _history(seen, speeds, gpu_edges, hour_edges, goals, left_out, by_tenant, max_classes)


def seen_jobs(instance: Instance) -> list[tuple[Job, SeenJob]]:
    """Return the jobs of an instance with whole GPUs, each with what a history sees of it."""
    mixed = len({job.preemptible for job in instance.jobs}) > 1
    found = []
    for job in instance.jobs:
        run = _efficient_run(job)
        if run is not None:
            seen = SeenJob(job.arrival_s, *run, job.tenant, mixed and job.preemptible)
            found.append((job, seen))
    return found


def history_of_jobs(
    jobs: Iterable[TracedJob],
    *,
    speeds: Mapping[str, float],
    gpu_edges: Sequence[int] = GPU_EDGES,
    hour_edges: Sequence[float] = HOUR_EDGES,
    goals: Goals | None = None,
    by_tenant: bool = False,
    max_classes: int | None = None,
) -> History:
    """Return the history of traced jobs: one class for each size and length.

    A class of jobs with at most k GPUs runs on k GPUs, for so many hours that the GPU time of all
    its jobs together stays what it was. Its profile is that of its arrivals by hour of the day.
    Weeks begin with the first arrival. The last one counts if jobs arrive until an hour, or three
    mean gaps between arrivals, but no more than a day, before its end. Jobs that ran for no time
    are left out and counted.

    Parameters
    ----------
    jobs
        The jobs, in any order, over at least one whole week.
    speeds
        For each GPU type that may run them, its speed in relation to the traced GPUs, above 0.
    gpu_edges
        Most GPUs in each class of sizes, increasing; jobs with more are left out and counted.
    hour_edges
        Most hours in each class of run times, increasing; longer jobs are a class of their own.
    goals
        The goal of each class by name, or a function of its GPUs and mean hours; None: none.
    by_tenant
        Whether the tenants with the most GPU time have classes of their own, and the others
        together.
    max_classes
        Most classes; where there would be more, neighbours that matter least become one (see
        `alloc.planning.job_classes.grouping_of`). None: as many as there are.

    Raises
    ------
    InstanceError
        If there is no whole week, an edge or a speed is wrong, or a goal names no class.
    """
    seen = [SeenJob(job.submit_s, job.num_gpus, job.duration_s / 3600, job.tenant) for job in jobs]
    return _history(seen, speeds, gpu_edges, hour_edges, goals, {}, by_tenant, max_classes)


def _efficient_run(job: Job) -> tuple[int, float] | None:
    """Return GPUs and hours of a job in its most efficient configuration."""
    runs = [
        (configuration.demand[0] // MILLI, job.work / configuration.rate / 3600)
        for configuration in job.configurations
        if configuration.demand[0] >= MILLI and configuration.rate > 0
    ]
    if not runs:
        return None
    return min(runs, key=lambda run: (run[0] * run[1], run[0]))


def _history(
    seen: Sequence[SeenJob],
    speeds: Mapping[str, float],
    gpu_edges: Sequence[int],
    hour_edges: Sequence[float],
    goals: Goals | None,
    left_out: dict[str, int],
    by_tenant: bool,
    max_classes: int | None,
) -> History:
    grouping = grouping_of(
        [job for job in seen if job.hours > 0],
        gpu_edges=gpu_edges,
        hour_edges=hour_edges,
        by_tenant=by_tenant,
        max_classes=max_classes,
    )
    if not speeds:
        raise InstanceError("history: speeds names no GPU type; name those the plan may use.")
    for gpu_type, speed in speeds.items():
        require_positive(speed, "history", f'speed of "{gpu_type}"')
    begin_s = min((job.arrival_s for job in seen), default=0.0)
    end_s = max((job.arrival_s for job in seen), default=0.0)
    num_weeks = math.floor((end_s - begin_s + _slack_s(len(seen), end_s - begin_s)) / WEEK_S)
    if num_weeks < 1:
        days = (end_s - begin_s) / DAY_S
        raise InstanceError(
            f"history: {len(seen)} jobs with GPUs arrive within {days:.3g} days; a history needs "
            "at least one whole week, so give a longer trace or rates for each class."
        )
    groups: dict[ClassKey, list[SeenJob]] = defaultdict(list)
    too_large = partial_week = instant = 0
    for job in seen:
        key = grouping.key_of(job)
        if key is None:
            too_large += 1
        elif _week(job, begin_s) >= num_weeks:
            partial_week += 1
        elif job.hours <= 0:
            instant += 1
        else:
            groups[key].append(job)
    left_out |= {
        f"jobs of more than {gpu_edges[-1]} GPUs": too_large,
        "jobs of the last week, which is not whole": partial_week,
        "jobs that ran for no time": instant,
    }
    if not groups:
        raise InstanceError(
            f"history: no job that runs for any time has at most {gpu_edges[-1]} GPUs; raise "
            "gpu_edges."
        )
    classes = []
    counted = [job for members in groups.values() for job in members]
    weekly = np.zeros((num_weeks, len(groups)))
    for column, (key, members) in enumerate(sorted(groups.items())):
        profile = _profile(members if len(members) >= _PROFILED else counted)
        classes.append(_class(key, grouping.name_of(key), members, speeds, profile))
        weeks = [_week(job, begin_s) for job in members]
        weekly[:, column] = np.bincount(weeks, minlength=num_weeks) / HOURS_OF_WEEK
    counted_out = {why: many for why, many in left_out.items() if many}
    return History(_with_goals(classes, goals), weekly, counted_out, grouping)


def _slack_s(num_jobs: int, span_s: float) -> float:
    """Return how long before the end of a whole week its last job may arrive, seconds.

    Nobody arrives at the very end: three mean gaps between arrivals are no sign that the record
    ended earlier, nor is an hour; more than a day is.
    """
    return min(max(HOUR_S, 3 * span_s / max(num_jobs - 1, 1)), DAY_S)


def _week(job: SeenJob, begin_s: float) -> int:
    return int((job.arrival_s - begin_s) // WEEK_S)


def _class(
    key: ClassKey,
    name: str,
    members: Sequence[SeenJob],
    speeds: Mapping[str, float],
    profile: Series,
) -> JobClass:
    hours = math.fsum(job.gpus * job.hours for job in members) / key.gpus / len(members)
    return JobClass(
        name=name,
        options=tuple(
            JobOption(gpu_type, key.gpus, hours / speed) for gpu_type, speed in speeds.items()
        ),
        interruptible=key.interruptible,
        hourly_profile=profile,
        tenant=key.tenant or None,
    )


def _profile(jobs: Sequence[SeenJob]) -> Series:
    """Return arrivals by hour of the day over their mean; hour 0 is that of the clock's 0.

    Weeks are whole, so every hour is there as often as any other.
    """
    hours = [int(job.arrival_s // HOUR_S) % HOURS_OF_DAY for job in jobs]
    found = np.bincount(hours, minlength=HOURS_OF_DAY) * HOURS_OF_DAY / len(jobs)
    return tuple(np.round(found, 3).tolist())


def _with_goals(classes: Sequence[JobClass], goals: Goals | None) -> tuple[JobClass, ...]:
    if goals is None:
        return tuple(classes)
    names = {job_class.name for job_class in classes}
    if not callable(goals):
        for name in goals:
            if name not in names:
                raise InstanceError(
                    f'history: a goal is given for class "{name}", which no job is in; the classes '
                    f"are {', '.join(sorted(names))}."
                )
    found = []
    for job_class in classes:
        gpus = job_class.options[0].gpus
        hours = max(option.hours for option in job_class.options)
        goal = goals(gpus, hours) if callable(goals) else goals.get(job_class.name)
        found.append(replace(job_class, goal=goal))
    return tuple(found)
