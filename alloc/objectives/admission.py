"""Objectives of admission: what accepted jobs are worth, and what they cost the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.objectives.base import Objective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.progress import completions
from alloc.units import MILLI
from alloc.workload import Job

_LATE_S = 1e-6
"""Completions this close to a limit are in time, as for the checker (`TIME_TOLERANCE_S`)."""


@dataclass(frozen=True)
class AdmissionObjective(Objective):
    """An objective of a schedule that may leave jobs out."""

    function: Callable[[Instance, Schedule], float]

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the value of a schedule."""
        if not isinstance(solution, Schedule):
            raise InstanceError(f"{self.name} needs a schedule, not {type(solution).__name__}.")
        return self.function(instance, solution)


def is_best_effort(job: Job) -> bool:
    """Return whether a job has no deadline and is never refused: it completes when it can."""
    return job.deadline_s is None and not job.refusable


def limit_of(instance: Instance, job: Job) -> float:
    """Return by when a job must complete, seconds; infinite if it has all the time.

    Parameters
    ----------
    instance
        The problem, which may have a horizon.
    job
        One of its jobs.
    """
    limits = (job.deadline_s, instance.horizon_s)
    return min((limit for limit in limits if limit is not None), default=math.inf)


def in_time(instance: Instance, schedule: Schedule) -> frozenset[str]:
    """Return the ids of the jobs that complete within their deadline and the horizon.

    Parameters
    ----------
    instance
        The problem.
    schedule
        A plan over time, which may leave jobs out.
    """
    ends = completions(instance, schedule)
    found = []
    for job in instance.jobs:
        end = ends[job.id]
        if end is not None and end <= limit_of(instance, job) + _LATE_S:
            found.append(job.id)
    return frozenset(found)


def without_late(
    instance: Instance, schedule: Schedule, reason: str, reasons: Mapping[str, str] = {}
) -> Schedule:
    """Return a schedule without the jobs that may be refused and miss their limit in it.

    It is worth the same (`value`), and keeps every rule if the promised jobs do.

    Parameters
    ----------
    instance
        The problem.
    schedule
        A plan over time.
    reason
        Why such a job is left out.
    reasons
        For some of them a better reason, by id.
    """
    kept = in_time(instance, schedule)
    late = [job.id for job in instance.jobs if job.refusable and job.id not in kept]
    if not late:
        return schedule
    out = {job: schedule.unplaced.get(job, reasons.get(job, reason)) for job in late}
    runs = tuple(run for run in schedule.runs if run.job not in out)
    return Schedule(runs, {**schedule.unplaced, **out})


def _value(instance: Instance, schedule: Schedule) -> float:
    kept = in_time(instance, schedule)
    return math.fsum(job.weight for job in instance.jobs if job.id in kept)


def _gpu_time(instance: Instance, schedule: Schedule) -> float:
    total = 0.0
    for run in schedule.runs:
        job = instance.unfolded.job(run.job)
        if not is_best_effort(job):
            gpus = job.configurations[run.configuration].demand[0] / MILLI
            total += gpus * (run.end_s - run.start_s) / 3600.0
    return total


def _best_effort_jct(instance: Instance, schedule: Schedule) -> float:
    ends = completions(instance, schedule)
    total = 0.0
    for job in instance.jobs:
        if is_best_effort(job):
            end = ends[job.id]
            total += job.weight * ((math.inf if end is None else end) - job.arrival_s)
    return total


ADMISSION_OBJECTIVES = (
    AdmissionObjective(
        "value",
        "max",
        "weight",
        "Sum of the weights of the jobs that complete within their deadline and the horizon.",
        _value,
    ),
    AdmissionObjective(
        "gpu_time",
        "min",
        "GPU h",
        "GPU time that jobs with a deadline, and jobs that may be refused, hold in whole slots.",
        _gpu_time,
    ),
    AdmissionObjective(
        "best_effort_jct",
        "min",
        "s",
        "Sum over jobs without a deadline that may not be refused of weight times completion time "
        "(completion minus arrival).",
        _best_effort_jct,
    ),
)
"""The objectives of admission, in the order in which they are meant to be levels of a goal."""
