"""Objectives of schedules: they look at completions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.objectives.base import Objective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.progress import completions
from alloc.workload import Job

Array = npt.NDArray[np.float64]

_CANCELLED = 1e-5
"""Of a weight times due date, what counts as one in a tardiness: `alloc.objectives.base.ROUNDING`
of it, 1e-14, is what double precision makes of a difference between two moments."""


@dataclass(frozen=True)
class ScheduleObjective(Objective):
    """An objective of a schedule, computed from the completions of all jobs."""

    function: Callable[[Sequence[Job], Array], float]

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the value of a schedule; infinite if a job never completes."""
        if not isinstance(solution, Schedule):
            raise InstanceError(f"{self.name} needs a schedule, not {type(solution).__name__}.")
        ends = completions(instance, solution)
        return self.of_completions(
            instance.jobs, [math.inf if e is None else e for e in ends.values()]
        )

    def size(self, instance: Instance) -> float:
        """Return what counts as much in a tardiness, whose terms cancel; 0 for the others."""
        if self.function is not _tardiness:
            return 0.0
        due = due_dates(instance.jobs)
        dated = np.isfinite(due)
        return _CANCELLED * float((_weights(instance.jobs)[dated] * due[dated]).max())

    def of_completions(self, jobs: Sequence[Job], completions_s: Sequence[float]) -> float:
        """Return the value for given completions, seconds, in the order of the jobs."""
        return self.function(jobs, np.asarray(completions_s, dtype=float))


def _weights(jobs: Sequence[Job]) -> Array:
    return np.array([job.weight for job in jobs])


def _arrivals(jobs: Sequence[Job]) -> Array:
    return np.array([job.arrival_s for job in jobs])


def _mean_jct(jobs: Sequence[Job], ends: Array) -> float:
    return float(np.mean(ends - _arrivals(jobs)))


def _weighted_jct(jobs: Sequence[Job], ends: Array) -> float:
    return float(_weights(jobs) @ (ends - _arrivals(jobs)))


def _makespan(jobs: Sequence[Job], ends: Array) -> float:
    return float(ends.max())


def due_dates(jobs: Sequence[Job]) -> Array:
    """Return the due dates of jobs, seconds, infinite where a job has none.

    Raises
    ------
    InstanceError
        If no job has one.
    """
    due = np.array([math.inf if job.due_date_s is None else job.due_date_s for job in jobs])
    if not np.isfinite(due).any():
        raise InstanceError(
            f"tardiness: none of the {len(jobs)} jobs has a due date; set due_date_s on those that "
            "may be late, or take another objective."
        )
    return due


def _tardiness(jobs: Sequence[Job], ends: Array) -> float:
    due = due_dates(jobs)
    # Only jobs with a due date: of the others, one that never completes would be inf - inf.
    dated = np.isfinite(due)
    return float(_weights(jobs)[dated] @ np.maximum(ends[dated] - due[dated], 0.0))


def _max_slowdown(jobs: Sequence[Job], ends: Array) -> float:
    alone = np.array([job.min_run_s for job in jobs])
    return float(((ends - _arrivals(jobs)) / alone).max())


SCHEDULE_OBJECTIVES = (
    ScheduleObjective(
        "weighted_jct",
        "min",
        "s",
        "Sum over jobs of weight times job completion time (completion minus arrival).",
        _weighted_jct,
    ),
    ScheduleObjective("mean_jct", "min", "s", "Mean job completion time, unweighted.", _mean_jct),
    ScheduleObjective("makespan", "min", "s", "Completion of the last job.", _makespan),
    ScheduleObjective(
        "tardiness",
        "min",
        "s",
        "Sum over jobs with a due date of weight times completion beyond it.",
        _tardiness,
    ),
    ScheduleObjective(
        "max_slowdown",
        "min",
        "times",
        "Largest ratio of a job's completion time to its least run time, alone and in its fastest "
        "configuration: least where the smallest normalised rate is largest, which is max-min "
        "fairness (finish-time fairness, Mahajan et al., NSDI 2020; Narayanan et al., OSDI 2020).",
        _max_slowdown,
    ),
)
"""The objectives of schedules."""
