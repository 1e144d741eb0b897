"""Objectives: one definition each, used by models, judge, simulator and report alike.

Schedule objectives look at completions. Round utilities value one configuration of one job for one
slot; an allocation's objective is their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.instance import Instance
from alloc.progress import completions
from alloc.solution import Allocation, Schedule, Solution
from alloc.workload import Job

Sense = Literal["min", "max"]
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Objective:
    """A named measure of a solution.

    Parameters
    ----------
    name
        Unique name.
    sense
        Whether less or more is better.
    unit
        Unit of the value.
    meaning
        One sentence for people.
    """

    name: str
    sense: Sense
    unit: str
    meaning: str

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the value of a solution; infinite (worst) if a job that counts never completes."""
        raise TypeError(f"{type(self).__name__} is abstract; take one from OBJECTIVES.")


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


@dataclass(frozen=True)
class RoundUtility(Objective):
    """The value of an allocation for one slot: the sum over jobs of a utility.

    ``function(rate, work_left, job, slot_s)`` is vectorised over the rates of one job.
    """

    function: Callable[[Array, Job, float], Array]

    def of_rates(self, job: Job, rates: Array, slot_s: float) -> Array:
        """Return the utility of running the job at each rate for one slot, shape as `rates`."""
        return self.function(rates, job, slot_s)

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the sum of utilities of an allocation in the coming slot."""
        if not isinstance(solution, Allocation):
            raise InstanceError(f"{self.name} needs an allocation, not {type(solution).__name__}.")
        slot_s = require_slot(instance)
        return math.fsum(
            float(self.of_rates(job, np.array([job.configurations[c].rate]), slot_s)[0])
            for job, c in ((instance.job(a.job), a.configuration) for a in solution.assignments)
        )


def require_slot(instance: Instance) -> float:
    """Return the slot length in seconds.

    Raises
    ------
    InstanceError
        If the instance has none.
    """
    if instance.slot_s is None:
        raise InstanceError(
            f'instance "{instance.name}" has no slots; set slot_s to allocate in rounds.'
        )
    return instance.slot_s


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


def _remaining_time(rates: Array, job: Job, slot_s: float) -> Array:
    # A job left out waits the slot and then goes on in its slowest useful configuration.
    if_waiting = slot_s + job.work_left / job.min_rate
    with np.errstate(divide="ignore"):
        remaining = job.work_left / rates
    return job.weight * np.maximum(if_waiting - remaining, 0.0)


def _progress(rates: Array, job: Job, slot_s: float) -> Array:
    return job.weight * np.minimum(rates * slot_s, job.work_left) / job.work


def _goodput(rates: Array, job: Job, slot_s: float) -> Array:
    return job.weight * np.minimum(rates, job.work_left / slot_s)


OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        ScheduleObjective(
            "weighted_jct",
            "min",
            "s",
            "Sum over jobs of weight times job completion time (completion minus arrival).",
            _weighted_jct,
        ),
        ScheduleObjective(
            "mean_jct", "min", "s", "Mean job completion time, unweighted.", _mean_jct
        ),
        ScheduleObjective("makespan", "min", "s", "Completion of the last job.", _makespan),
        ScheduleObjective(
            "weighted_tardiness",
            "min",
            "s",
            "Sum over jobs of weight times completion beyond the due date.",
            _tardiness,
        ),
        RoundUtility(
            "remaining_time",
            "max",
            "s",
            "Weighted drop in remaining time against waiting for a slot and going on in the "
            "slowest configuration (Optimus, Peng et al., EuroSys 2018, section 4.1).",
            _remaining_time,
        ),
        RoundUtility(
            "progress",
            "max",
            "jobs",
            "Weighted fraction of each job's work done in the slot, min(rate * slot, left) / work "
            "(the reward of DL2, Peng et al., TPDS 2021).",
            _progress,
        ),
        RoundUtility(
            "goodput",
            "max",
            "work units/s",
            "Weighted useful rate, min(rate, left / slot).",
            _goodput,
        ),
    )
}


def objective(name: str) -> Objective:
    """Return the objective of that name.

    Raises
    ------
    InstanceError
        If there is none.
    """
    if name not in OBJECTIVES:
        raise InstanceError(
            f'unknown objective "{name}"{nearest(name, OBJECTIVES, ";")} '
            f"known: {', '.join(OBJECTIVES)}."
        )
    return OBJECTIVES[name]


def round_utility(name: str) -> RoundUtility:
    """Return the round utility of that name.

    Raises
    ------
    InstanceError
        If there is none.
    """
    found = objective(name)
    if not isinstance(found, RoundUtility):
        known = [o.name for o in OBJECTIVES.values() if isinstance(o, RoundUtility)]
        raise InstanceError(f'"{name}" is not a round utility. Known: {", ".join(known)}.')
    return found
