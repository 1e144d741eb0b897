"""Round utilities: the value of one configuration of one job for one slot.

An allocation's objective is their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.objectives.base import Objective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Solution
from alloc.workload import Job

Array = npt.NDArray[np.float64]


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


ROUND_UTILITIES = (
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
"""The round utilities."""
