"""The times of a project as whole numbers of a unit, rounded down.

Rounding down keeps every schedule (see `alloc.models.moldable.cpsat_model`): what is proved of
whole times holds for the times themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from alloc.models.project.data import ProjectData

_MAX_TIME = 2**32
"""Units of time at most: what rounding takes off a chain of a hundred activities is below 1e-7. Of
2**34 the presolve of OR-Tools 9.15 calls one tiny project in thirty infeasible, or proves a bound
above its optimum."""
_MAX_DECIMAL = 1e8
"""Units of time at most where they are decimals: the fewer, the shorter the search."""
_ROUNDING = 1e-12
"""Relative distance from a whole number that is none: times are float products and quotients."""


class WholeTimes:
    """A unit of time, and times in it.

    Parameters
    ----------
    data
        The project.
    """

    def __init__(self, data: ProjectData) -> None:
        due = [job.due_date_s for job in data.problem.jobs if job.due_date_s is not None]
        times = [t for row in data.durations for t in row]
        self._all = [*times, *data.release, *due]
        self.unit = _unit(self._all, data.horizon_s)
        """Seconds of a unit."""
        self.last = self.down(data.horizon_s) + 1
        """A time by which some best schedule is done, in units."""

    def down(self, moment_s: float) -> int:
        """Return a time in whole units, rounded down.

        Parameters
        ----------
        moment_s
            The time, seconds.
        """
        parts = moment_s / self.unit
        near = round(parts)
        return near if abs(parts - near) <= _ROUNDING * abs(parts) else math.floor(parts)

    @property
    def is_exact(self) -> bool:
        """Whether all durations, releases and due dates are whole in the unit."""
        parts = np.array(self._all) / self.unit
        return bool((np.abs(parts - np.rint(parts)) <= _ROUNDING * np.abs(parts)).all())


def _unit(times: Sequence[float], longest: float) -> float:
    """Return a time of which all others are whole multiples, or one that is far shorter than all.

    The largest such one that is whole in a power of ten, since people write times in decimals; else
    the largest power of two.
    """
    values = np.array([t for t in times if t > 0])
    for exponent in range(math.floor(math.log10(longest)), -400, -1):
        unit = 10.0**exponent
        if not unit or longest / unit > _MAX_DECIMAL:
            break
        parts = values / unit
        if (np.abs(parts - np.rint(parts)) <= _ROUNDING * parts).all():
            # Of whole minutes every schedule ends at one, and bounds are rounded up to it.
            return unit * math.gcd(*np.rint(parts).astype(np.int64).tolist())
    exponent = top = math.frexp(longest)[1]
    while exponent > top - int(math.log2(_MAX_TIME)):
        parts = np.ldexp(values, -exponent)
        if (np.abs(parts - np.rint(parts)) <= _ROUNDING * parts).all():
            break
        exponent -= 1
    return math.ldexp(1.0, exponent)
