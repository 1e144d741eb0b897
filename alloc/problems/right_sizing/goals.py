"""Goals: how long jobs of a class may wait, or take in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from alloc.errors import InstanceError, nearest
from alloc.units import require_non_negative, require_positive

Measure = Literal["jct", "wait"]
"""``jct``: from arrival to completion; ``wait``: from arrival to start."""


@dataclass(frozen=True)
class ServiceGoal:
    """A goal of a class of jobs.

    A deadline is a goal on the JCT with the fraction of jobs that must meet it.

    Parameters
    ----------
    measure
        jct: arrival to completion; wait: arrival to start.
    hours
        Most hours.
    fraction
        Fraction of jobs that keep to them, between 0 and 1; ``None``: the mean does.
    """

    measure: Measure
    hours: float
    fraction: float | None = 0.95

    def __post_init__(self) -> None:
        if self.measure not in get_args(Measure):
            raise InstanceError(
                f'goal: measure is "{self.measure}"'
                f"{nearest(str(self.measure), get_args(Measure)) or ';'} known: "
                f"{', '.join(get_args(Measure))}."
            )
        if self.measure == "jct":
            require_positive(self.hours, "goal", "hours")
        else:
            require_non_negative(self.hours, "goal", "hours")
        if self.fraction is not None and not 0 < self.fraction < 1:
            raise InstanceError(
                f"goal: fraction is {self.fraction:g}; give a number between 0 and 1, for example "
                "0.95, or null for the mean (all jobs without exception is not a goal that any "
                "queue keeps)."
            )

    def wait_hours(self, run_hours: float) -> float:
        """Return how long a job that runs `run_hours` may wait; below 0 if it cannot keep it."""
        return self.hours - run_hours if self.measure == "jct" else self.hours

    @property
    def sentence(self) -> str:
        """The goal in words."""
        what = "complete" if self.measure == "jct" else "start"
        if self.fraction is None:
            return f"jobs {what} within {self.hours:g} h on average"
        return f"{100 * self.fraction:g} % of jobs {what} within {self.hours:g} h"
