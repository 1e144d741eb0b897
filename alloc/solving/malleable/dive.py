"""Better profiles for some jobs together: column generation in the room that the others leave.

Taken out of an incumbent, some jobs have a linear master of their own: capacity is what the other
jobs leave, and a profile counts only if it fits there alone. Its value is a bound on what these
jobs can cost, so most neighbourhoods that hold nothing are left at once. Else it is followed: a
profile is fixed, new ones are priced for what is left, and so on until every job has one. The
profile that the master is surest of is fixed if that costs little; else a few are tried, and the
one that costs least is fixed. Where no better plan is left, the next best of those tried before is
taken in its place (strong diving with limited backtracking: Sadykov, Vanderbeck, Pessoa, Tahiri and
Uchoa, "Primal heuristics for branch and price", INFORMS Journal on Computing 31, 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.models.malleable.data import SlotData
from alloc.solving.malleable.insertion import Builder
from alloc.solving.malleable.joint_pricing import ROOM
from alloc.solving.malleable.master import Column, fit_together
from alloc.solving.outcome import Settings

_ROOT_ROUNDS, _ROUNDS = 20, 2
"""Rounds of pricing at most, for the first master and after each choice, which changes little."""
_TRIED, _STEPS = 5, 60
"""Profiles that are tried for one choice, and after how many tries in all a dive is given up: on
elastic-medium/07 forty such dives found seven better plans in 10.8 seconds of CPU, with three tries
and forty in all five in 8.5, and where the surest profile was always taken four in 9.4."""
WHOLE = 1 - 1e-6
"""Share in the linear master from which a profile is taken as a whole: the rest is its
tolerance."""
PRICED = 1e-3
"""What more rounds of pricing may lower the value by that are not worth them, in slots where costs
are about 1: a hundredth of what a neighbourhood gains."""
LEAST_GAIN = 1e-6
"""By how much a plan must be better, in the same unit: less is rounding of the linear master."""

Key = tuple[int, tuple[int, tuple[int, ...]]]
"""Job and profile."""


class Dive:
    """The linear master of some jobs of a plan, and how it is followed.

    Parameters
    ----------
    data
        The instance on its slots; what is asked links no jobs.
    builder
        Prices profiles.
    jobs
        The jobs, by position.
    room
        Capacity that the others leave, shape (slots, R).
    columns
        Profiles to begin with, one of each job at least; those that do not fit do no harm.
    settings
        The limits.
    """

    def __init__(
        self,
        data: SlotData,
        builder: Builder,
        jobs: Sequence[int],
        room: Array,
        columns: Sequence[Column],
        settings: Settings,
    ) -> None:
        self.builder = builder
        self.settings = settings
        self._joint = builder.together(jobs)
        self._row = {job: i for i, job in enumerate(jobs)}
        self._room = room.copy()
        self._scale = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
        limit = np.maximum(room / self._scale, 0.0).ravel()
        count = len(jobs)
        program = LinearProgram()
        program.add_rows(
            np.concatenate([np.ones(count), np.full(len(limit), -np.inf)]),
            np.concatenate([np.full(count, np.inf), limit]),
        )
        # An artificial profile of each job costs more than any real one: it ends after the slots.
        dearest = max(column.cost for column in columns) + data.target.level.size * len(room)
        program.add_columns(
            np.full(count, 2.0 * dearest),
            np.zeros(count),
            np.full(count, np.inf),
            np.arange(count),
            np.arange(count),
            np.ones(count),
        )
        self._program = program
        self._master = RestrictedMaster[Key]("the linear master of some jobs", program)
        self._columns: list[Column] = []
        self._gone: list[bool] = []
        """Columns that may not be taken now."""
        self._open = set(jobs)
        self._fixed: dict[int, Column] = {}
        self._steps = 0
        """Tries that are left."""
        self._trail: list[tuple[int, list[bool]]] = []
        """Columns that are fixed, and what was gone before each."""
        self._add(columns)

    def run(self, most: float) -> dict[int, Column] | None:
        """Return a column for each job that together cost less, or None.

        Parameters
        ----------
        most
            What they must cost less than.
        """
        self._steps = _STEPS
        later: list[tuple[int, list[tuple[float, int]]]] = []
        try:
            value, share = self._solve(_ROOT_ROUNDS, most)
            while True:
                best = self._best(share) if value < most - LEAST_GAIN else None
                if best is not None:
                    parts = [i for i in best if share[i] <= WHOLE]
                    if not parts and fit_together((self._columns[i] for i in best), self._room):
                        return {self._columns[i].job: self._columns[i] for i in best} | self._fixed
                    # What is whole but does not fit keeps the rows up to the tolerance of the
                    # program.
                    tried = self._parts(share) if parts else best
                    depth = len(self._trail)
                    taken, others = self._choose(tried, value, most)
                    later.append((depth, others))
                    if taken is not None:
                        value, share = taken
                        continue
                while later and not later[-1][1]:
                    later.pop()
                if not later or self._steps <= 0:
                    return None
                depth, others = later[-1]
                while len(self._trail) > depth:
                    self._take_back()
                value, share = self._fix_and_solve(others.pop(0)[1], most)
        except OutOfTime:
            pass
        return None

    def _choose(
        self, tried: Sequence[int], value: float, most: float
    ) -> tuple[tuple[float, Array] | None, list[tuple[float, int]]]:
        """Fix the first column that costs little; else return what the others come to, best first.

        A column costs little whose master is above the value by no more than each open job may.
        """
        little = value + (most - value) / len(self._open)
        others: list[tuple[float, int]] = []
        for i in tried[:_TRIED]:
            above, share = self._fix_and_solve(i, most)
            if above <= little:
                return (above, share), sorted(others)
            self._take_back()
            if above < most - LEAST_GAIN:
                others.append((above, i))
        return None, sorted(others)

    def _parts(self, share: Array) -> list[int]:
        """Return the columns of open jobs that are taken in part, the surest first."""
        order = np.argsort(-share, kind="stable").tolist()
        some = [i for i in order if 1 - WHOLE < share[i] <= WHOLE]
        return [i for i in some if self._columns[i].job in self._open]

    def _fix_and_solve(self, i: int, most: float) -> tuple[float, Array]:
        """Take a column, and solve the master of what is left."""
        self._steps -= 1
        self._fix(i)
        return self._solve(_ROUNDS, most)

    def _best(self, share: Array) -> list[int] | None:
        """Return the column of most share of each open job; None if one has none."""
        best: dict[int, int] = {}
        for i in np.flatnonzero(share > 1 - WHOLE).tolist():
            job = self._columns[i].job
            if job in self._open and (job not in best or share[i] > share[best[job]]):
                best[job] = i
        if len(best) < len(self._open):
            return None
        return list(best.values())

    def _solve(self, rounds: int, most: float) -> tuple[float, Array]:
        """Price profiles for what is left; return the value, and the share of each column.

        Raises
        ------
        OutOfTime
            If time is up.
        """
        self._leave_out()
        count = len(self._row)
        for n in range(1, rounds + 1):
            found = self._master.solve(self.settings.seconds_left())
            duals = np.maximum(-found.duals[count:], 0.0).reshape(self._room.shape)
            prices = duals / self._scale
            if n == rounds:
                break
            new = self.builder.cheapest(sorted(self._open), self._room, prices, self._joint)
            flat, worth = prices.ravel(), found.duals
            reduced = [
                column.cost + float(flat[column.rows] @ column.use) - worth[self._row[column.job]]
                for column in new
            ]
            falls = -sum(min(0.0, cost) for cost in reduced)
            if falls < PRICED or found.value - falls >= most:
                break
            if not self._add(
                [c for c, cost in zip(new, reduced, strict=True) if cost < -LEAST_GAIN]
            ):
                break
        share = np.zeros(len(self._columns))
        own = self._master.generated(found.values)
        share[: len(own)] = own
        return found.value, share

    def _add(self, columns: Sequence[Column]) -> int:
        """Add the columns that are new; return how many."""
        new: dict[Key, Column] = {}
        for column in columns:
            key = (column.job, column.profile.key())
            if key not in self._master:
                new.setdefault(key, column)
        self._columns += new.values()
        self._gone += [False] * len(new)
        count, resources = len(self._row), len(self._scale)
        return self._master.add(
            MasterColumn(
                key,
                column.cost,
                np.concatenate([[self._row[column.job]], count + column.rows]),
                np.concatenate([[1.0], column.use / self._scale[column.rows % resources]]),
            )
            for key, column in new.items()
        )

    def _leave_out(self) -> None:
        """Let no column be taken that does not fit into what is left."""
        flat = self._room.ravel()
        self._set(
            [
                i
                for i, column in enumerate(self._columns)
                if not self._gone[i]
                and column.job in self._open
                and (column.use > flat[column.rows] + ROOM).any()
            ],
            gone=True,
        )

    def _fix(self, i: int) -> None:
        """Take a column."""
        column = self._columns[i]
        self._trail.append((i, self._gone.copy()))
        self._open.discard(column.job)
        self._fixed[column.job] = column
        self.builder.take(self._room, column)
        others = (k for k, other in enumerate(self._columns) if other.job == column.job and k != i)
        self._set([k for k in others if not self._gone[k]], gone=True)

    def _take_back(self) -> None:
        """Take the last column back."""
        i, before = self._trail.pop()
        column = self._columns[i]
        self._open.add(column.job)
        del self._fixed[column.job]
        self.builder.give_back(self._room, column)
        before += [False] * (len(self._gone) - len(before))
        self._set([k for k, gone in enumerate(self._gone) if gone and not before[k]], gone=False)

    def _set(self, columns: list[int], *, gone: bool) -> None:
        for i in columns:
            self._gone[i] = gone
        at = np.array(columns, dtype=np.int64) + len(self._row)
        if len(at):
            upper = 0.0 if gone else math.inf
            self._program.set_column_bounds(at, np.zeros(len(at)), np.full(len(at), upper))
