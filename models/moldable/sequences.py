"""What units of a row can run one after the other: a bound of peaks, and prices of their time.

Every unit of a row - a GPU of a host, or of the cluster - runs a sequence of jobs, for what
overlaps in time has units of its own (intervals are coloured with as many colours as overlap). So
if all jobs keep their deadlines, then with a worth ``v_mr >= 0`` of each mode on each of its units

    sum_j min over modes sum_r use_mr v_mr  <=  sum_r B_r max over sequences of r of their worth.

Where this fails for one worth, no schedule keeps the deadlines. The area is the worth that is the
run time; the best worths are duals of a linear program over sequences (Gilmore, Gomory). They know
what the area does not: which run times add up to the time there is.

Sequences go by release, which is best where all end by the same time, and a job is in one at most
once. Times are rounded down to cells: ``floor(a) + floor(b) <= floor(a + b)``, so that every
sequence is still one and the bound holds.

References
----------
Gilmore, Gomory, "A linear programming approach to the cutting-stock problem", Operations Research 9
(1961). Farley, "A note on bounding a class of linear programming problems", Operations Research 38
(1990) (any duals prove a bound). Lawler, Moore, Management Science 16 (1969) (the recursion).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alloc.models.moldable.data import Array
from alloc.models.moldable.host_classes import Index, Modes

_MAX_CELLS, _MIN_CELLS, _WORK = 8192, 1024, 4_000_000
"""Cells of time at most and at least, and cells times modes: a search for a sequence takes some
hundredths of a second."""
_ROUNDING = 1e-9
"""Of a cell, by which the end of all is late: durations are float quotients."""
_WORTHLESS = 1e-12
"""Worth, of the largest, below which a mode is left out of a sequence."""


@dataclass(frozen=True)
class TimePrices:
    """Prices of the time of units, and what each job costs at least at them.

    A host whose units become free at ``f_1, ..., f_u`` after it ran the jobs S at a cost of c has
    an *excess* of at least ``c - sum_S least_j + sum_i paid(f_i)``. All hosts together exceed the
    bound ``sum_j least_j - sum_r B_r end_r`` by the sum of theirs, each with ``end`` for
    ``paid(f_i)``.

    Parameters
    ----------
    least
        Of each job, shape (J,).
    paid
        For each row, what the time of a unit costs up to a moment; never falls.
    end
        For each row, that of all time.
    """

    least: Array
    paid: tuple[Callable[[Array], Array], ...]
    end: tuple[float, ...]

    def offered(self, total: Array) -> float:
        """Return what all units cost for all time.

        Parameters
        ----------
        total
            Units of each row, shape (R,).
        """
        return math.fsum(float(n) * end for n, end in zip(total, self.end, strict=True))


class UnitSequences:
    """Sequences of the jobs that keep deadlines.

    Parameters
    ----------
    modes
        The modes of the jobs.
    deadline
        Latest completion of each job, seconds, finite, shape (J,).
    """

    def __init__(self, modes: Modes, deadline: Array) -> None:
        self.modes, data = modes, modes.data
        self._origin = float(data.release.min())
        slot_s, end = data.instance.slot_s, float(deadline.max())
        if slot_s is not None:
            end = math.ceil(end / slot_s - _ROUNDING) * slot_s
        span_s = max(end - self._origin, 1e-300)
        most = min(max(_WORK // max(len(modes.job), 1), _MIN_CELLS), _MAX_CELLS)
        base = 1.0 if slot_s is None else slot_s
        # A power of two of a second or slot: what is whole then stays exact.
        self._cell_s = base * 2.0 ** math.ceil(math.log2(span_s / base / most))
        self.cells = math.floor(span_s / self._cell_s + _ROUNDING)
        self.able = data.release[modes.job] + modes.run <= deadline[modes.job] * (1 + _ROUNDING)
        self._begin = self.cell(data.release)
        # Of a way that is too long the cells may be more than an integer holds.
        length = np.minimum(modes.hold / self._cell_s, self.cells + 1.0)
        self._length = np.floor(length).astype(np.int64)
        self._order = np.argsort(data.release, kind="stable").tolist()
        self._of_job: list[list[int]] = [[] for _ in range(data.num_jobs)]
        for m in np.flatnonzero(self.able).tolist():
            self._of_job[int(modes.job[m])].append(m)

    @property
    def is_possible(self) -> bool:
        """Whether each job keeps its deadline alone."""
        return all(self._of_job)

    def cell(self, moment_s: Array) -> Index:
        """Return the cells that moments are in, rounded down."""
        cells = np.minimum((moment_s - self._origin) / self._cell_s, float(self.cells))
        return np.floor(cells).astype(np.int64)

    def fits(self, sequence: tuple[int, ...]) -> bool:
        """Return whether a sequence of modes, by release, is over in time."""
        at = 0
        for m in sequence:
            if not self.able[m]:
                return False
            at = max(at, int(self._begin[self.modes.job[m]])) + int(self._length[m])
        return at <= self.cells

    def best(
        self, row: int, worth: Array, without: frozenset[int] = frozenset()
    ) -> tuple[Array, tuple[int, ...]]:
        """Return the worth of the best sequence from each cell on, and the best one of all time.

        Parameters
        ----------
        row
            The row.
        worth
            Of each mode on one unit, shape (N,).
        without
            Jobs that are left out.
        """
        uses = (self.modes.amount[:, row] > 0) & (worth > _WORTHLESS * float(worth.max()))
        to_go: Array = np.zeros(self.cells + 1)
        taken: list[tuple[int, Index]] = []
        for j in reversed(self._order):
            own = [m for m in self._of_job[j] if uses[m]] if j not in without else []
            begin, before, choice = int(self._begin[j]), to_go, None
            for m in own:
                first = begin + int(self._length[m])
                if first > self.cells:
                    continue
                reached = before[first:] + worth[m]
                part = slice(begin, begin + len(reached))
                better = reached > to_go[part]
                if better.any():
                    if choice is None:
                        to_go, choice = to_go.copy(), np.full(self.cells + 1, -1, dtype=np.int64)
                    to_go[part][better] = reached[better]
                    choice[part][better] = m
            if choice is not None:
                # Who is free before the release may wait for it.
                early = to_go[:begin] < to_go[begin]
                to_go[:begin][early] = to_go[begin]
                choice[:begin][early] = choice[begin]
                taken.append((j, choice))
        at, found = 0, []
        for j, choice in reversed(taken):
            if (m := int(choice[at])) >= 0:
                found.append(m)
                at = max(at, int(self._begin[j])) + int(self._length[m])
        return to_go, tuple(found)

    def prices(self, worth: Array) -> TimePrices:
        """Return what worths make of the time of units.

        Parameters
        ----------
        worth
            Of each mode on a unit of each row, 0 or more, shape (N, R).
        """
        modes = self.modes
        paid, end = [], []
        for row in range(len(modes.total)):
            to_go, _ = self.best(row, worth[:, row])
            spent = to_go[0] - to_go
            paid.append(lambda moment_s, spent=spent: spent[self.cell(moment_s)])
            end.append(float(to_go[0]))  # what takes no whole cell runs at the end of all still
        value = np.where(self.able, (modes.amount * worth).sum(axis=1), np.inf)
        least = np.minimum.reduceat(value, np.flatnonzero(np.diff(modes.job, prepend=-1)))
        return TimePrices(np.asarray(least), tuple(paid), tuple(end))
