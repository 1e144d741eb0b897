"""Whole numbers for the times of F3, rounded down; `cpsat_model` says why that is safe."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alloc.models.moldable.data import MoldableData

_MAX_TIME = 2**30
"""Units of time at most: an optimum is called one at 1e-6, and a chain of hundreds of jobs loses
hundreds of units."""
_ROUNDING = 1e-12
"""Relative distance from a whole number that is none: times are float products and quotients."""


@dataclass(frozen=True)
class Units:
    """Whole numbers for times: starts in steps, completions in units, so many to a step.

    Parameters
    ----------
    unit_s
        A unit, seconds.
    per_step
        Units of a step.
    slot_s
        The slot, or None in continuous time, where a step is a unit.
    """

    unit_s: float
    per_step: int
    slot_s: float | None

    @staticmethod
    def of(data: MoldableData) -> Units:
        """Return the units for an instance."""
        slot_s, end_s = data.instance.slot_s, data.end_of_all
        if slot_s is not None:
            per_step = max(2 ** int(math.log2(max(_MAX_TIME * (slot_s / end_s), 1.0))), 1)
            return Units(slot_s / per_step, per_step, slot_s)
        exponent = top = math.frexp(end_s)[1]
        times = np.array([way.run_s for ways in data.ways for way in ways])
        due = data.target.level.jobs.due
        ends = np.concatenate([data.deadline, due])
        times = np.concatenate([times, data.release, ends[np.isfinite(ends)]])
        # The coarsest unit of which all times are whole multiples, or the finest there is.
        while exponent > top - int(math.log2(_MAX_TIME)):
            parts = np.ldexp(times, -exponent)
            if (np.abs(parts - np.rint(parts)) <= _ROUNDING * parts).all():
                break
            exponent -= 1
        return Units(math.ldexp(1.0, exponent), 1, None)

    def down(self, moment_s: float) -> int:
        """Return a time in whole units, rounded down."""
        parts = moment_s / self.slot_s * self.per_step if self.slot_s else moment_s / self.unit_s
        near = round(parts)
        return near if abs(parts - near) <= _ROUNDING * abs(parts) else math.floor(parts)

    def up(self, moment_s: float) -> int:
        """Return a time in whole units, rounded up."""
        return -self.down(-moment_s)

    def steps(self, length_s: float) -> int:
        """Return a start or a length of a run in whole steps."""
        return self.down(length_s) if self.slot_s is None else round(length_s / self.slot_s)
