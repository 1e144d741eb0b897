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


def _tardiness(jobs: Sequence[Job], ends: Array) -> float:
    due = np.array([math.inf if job.due_date_s is None else job.due_date_s for job in jobs])
    # Only jobs with a due date: of the others, one that never completes would be inf - inf.
    dated = np.isfinite(due)
    return float(_weights(jobs)[dated] @ np.maximum(ends[dated] - due[dated], 0.0))


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
        "weighted_tardiness",
        "min",
        "s",
        "Sum over jobs of weight times completion beyond the due date.",
        _tardiness,
    ),
)
"""The objectives of schedules."""
