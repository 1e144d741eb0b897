"""Round utilities: the value of one configuration of one job for one slot.

An allocation's objective is their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import cast

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.objectives.base import Objective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Solution
from alloc.workload import Configuration, Job

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RoundUtility(Objective):
    """The value of an allocation for one slot: the sum over jobs of a utility.

    ``function(rates, job, slot_s)`` is vectorised over the rates of one job. The models maximise it
    and leave out configurations that another one beats in rate and demand: it is 0 or more and
    never falls as the rate rises.

    Raises
    ------
    InstanceError
        If the sense is not ``max``.
    """

    function: Callable[[Array, Job, float], Array]
    by_work: bool = False
    """Whether it asks of a job for nothing but weight, work, work left and the rates of its table,
    and takes arrays for these: then it is worked out for all jobs of a table at once."""

    def __post_init__(self) -> None:
        if self.sense != "max":
            raise InstanceError(
                f'round utility "{self.name}": sense is "{self.sense}"; rounds are maximised, so '
                "give max, and a function that is larger for what is better."
            )

    def of_rates(self, job: Job, rates: Array, slot_s: float) -> Array:
        """Return the utility of running the job at each rate for one slot, shape as `rates`.

        Parameters
        ----------
        job
            The job, with the work that is left.
        rates
            Rates, work units per second, 0 or more, of any shape.
        slot_s
            Length of the slot, seconds, more than 0.
        """
        return self.function(rates, job, slot_s)

    def amounts(self, jobs: Sequence[Job]) -> Array:
        """Return weight, work and work left of each job, shape (3, jobs)."""
        return np.array(
            [list(map(attrgetter(name), jobs)) for name in ("weight", "work", "work_left")]
        )

    def of_amounts(
        self, amounts: Array, table: Sequence[Configuration], rates: Array, slot_s: float
    ) -> Array:
        """Return the utility of each of some jobs with one table at each rate, if it is by work.

        Parameters
        ----------
        amounts
            Weight, work and work left of each job, shape (3, jobs).
        table
            The configurations that they have.
        rates
            Rates, work units per second, 0 or more, shape (rates,).
        slot_s
            Length of the slot, seconds.

        Returns
        -------
        array
            Shape (jobs, rates).
        """
        weight, work, left = amounts[:, :, None]
        together = _Together(weight, work, left, table)
        return self.function(rates[None, :], cast("Job", together), slot_s)

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the sum of utilities of an allocation in the coming slot."""
        if not isinstance(solution, Allocation):
            raise InstanceError(f"{self.name} needs an allocation, not {type(solution).__name__}.")
        slot_s = require_slot(instance)
        return math.fsum(
            float(self.of_rates(job, np.array([job.configurations[c].rate]), slot_s)[0])
            for job, c in ((instance.job(a.job), a.configuration) for a in solution.assignments)
        )


@dataclass(frozen=True)
class _Together:
    """Jobs with one table: to a function of a utility they look like one whose numbers are arrays.

    Parameters
    ----------
    weight, work, work_left
        As in `Job`, shape (jobs, 1).
    table
        Their configurations.
    """

    weight: Array
    work: Array
    work_left: Array
    table: Sequence[Configuration]

    @property
    def min_rate(self) -> float:
        """Least useful rate of the table."""
        return min(configuration.rate for configuration in self.table if configuration.rate)


def checked_utility(utility: RoundUtility) -> RoundUtility:
    """Return a utility that looks at what its function returns for each job.

    Of one that falls anywhere, the optimum of the models would not be the optimum: what others
    announce is taken only like this.
    """

    def function(rates: Array, job: Job, slot_s: float) -> Array:
        known = np.array([c.rate for c in job.configurations if c.rate > 0])
        every = np.concatenate([rates, known])
        values = np.asarray(utility.function(every, job, slot_s), dtype=float)
        where = f'round utility "{utility.name}", job "{job.id}"'
        if values.shape != every.shape or not np.isfinite(values).all() or values.min() < 0:
            raise InstanceError(
                f"{where}: does not return a number of 0 or more for each rate; give one."
            )
        if (np.diff(values[np.argsort(every, kind="stable")]) < 0).any():
            raise InstanceError(
                f"{where}: falls as the rate rises, and rounds leave out configurations that "
                "another one beats in rate and demand; give a function that does not."
            )
        return values[: len(rates)]

    return replace(utility, function=function, by_work=False)


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
        by_work=True,
    ),
    RoundUtility(
        "progress",
        "max",
        "jobs",
        "Weighted fraction of each job's work done in the slot, min(rate * slot, left) / work "
        "(the reward of DL2, Peng et al., TPDS 2021).",
        _progress,
        by_work=True,
    ),
    RoundUtility(
        "goodput",
        "max",
        "work units/s",
        "Weighted useful rate, min(rate, left / slot).",
        _goodput,
        by_work=True,
    ),
)
"""The round utilities."""
