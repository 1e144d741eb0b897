"""Worths of modes for sequences of units: column generation; what they prove is evaluated in numpy.

References
----------
Gilmore, Gomory, Operations Research 9 (1961). Desaulniers, Desrosiers, Solomon (eds.), Column
Generation (2005) (several columns at a time, of different jobs).
"""

from __future__ import annotations

import math

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.errors import OutOfTime
from alloc.models.malleable.costs import Peak
from alloc.models.moldable.data import Array
from alloc.models.moldable.host_classes import Modes
from alloc.models.moldable.sequences import TimePrices, UnitSequences
from alloc.solving.outcome import Settings

_SURE = 1e-9
"""By how much needs must exceed what there is to prove something: rounding makes 1e-13 of it."""
_GAIN = 1e-7
"""Relative gain in worth of a sequence that is worth a column: less is the tolerance of HiGHS."""
_AT_ONCE = 6
"""Sequences of different jobs that are added to a row at a time, at least; of more jobs more."""
_JOBS_EACH = 12
"""Jobs for each such sequence."""
_CLOSE = 2e-5
"""Relative distance of a proved peak from one not proved at which the search ends."""


class SequenceMaster:
    """The least share of all units in which all jobs run, by sequences that are known.

    Parameters
    ----------
    modes
        The modes of the jobs.
    settings
        Limits.
    """

    def __init__(self, modes: Modes, settings: Settings) -> None:
        self._modes, self._settings = modes, settings
        self._known: list[dict[tuple[int, ...], None]] = [{} for _ in modes.total]
        self.rounds = 0

    def least_peak(self, peak: Peak, low: float, high: float, close: float = _CLOSE) -> float:
        """Return a value that no schedule's peak goes below, between two; the first one holds.

        Parameters
        ----------
        peak
            The peak.
        low, high
            A proved value, and that of a schedule.
        close
            Relative distance from a value that is not proved at which the search ends.
        """
        deadline = self._modes.data.deadline
        while high - low > close * abs(high):
            middle = 0.5 * (low + high)
            found = self.prices(np.minimum(deadline, peak.latest(middle)), whole=False)
            if found is None:
                break
            low, high = (middle, high) if found[0] else (low, middle)
        return low

    def prices(self, deadline: Array, whole: bool = True) -> tuple[bool, TimePrices | None] | None:
        """Return whether it is proved that no schedule keeps deadlines, and else the best prices.

        None when time is up.

        Parameters
        ----------
        deadline
            Latest completion of each job, seconds, finite, shape (J,).
        whole
            Whether to go on for the best prices where they prove nothing; without, none are
            returned.
        """
        sequences = UnitSequences(self._modes, deadline)
        if not sequences.is_possible:
            return True, None
        master = _Master(sequences, self._known)
        best, prices = -math.inf, None
        while True:
            if self._settings.time_is_up():
                return None
            try:
                worth, share, price = master.solved(self._settings.seconds_left())
            except OutOfTime:
                return None
            self.rounds += 1
            if not whole and share <= 1:
                return False, None
            new, found = master.priced(worth, price)
            offered = found.offered(self._modes.total)
            needed = math.fsum(found.least)
            if needed > offered * (1 + _SURE):
                return True, None
            if offered > 0 and needed / offered > best:
                best, prices = needed / offered, found
            if not new:
                return False, prices


class _Master:
    """The linear program.

    Parameters
    ----------
    sequences
        What can be run one after the other.
    known
        Sequences of each row, to which new ones are added.
    """

    def __init__(self, sequences: UnitSequences, known: list[dict[tuple[int, ...], None]]) -> None:
        self._sequences, self._known = sequences, known
        modes = sequences.modes
        num_jobs, num_rows = modes.data.num_jobs, len(modes.total)
        self._pairs = [
            (int(m), r)
            for r in range(num_rows)
            for m in np.flatnonzero(sequences.able & (modes.amount[:, r] > 0))
        ]
        self._row = {pair: num_jobs + k for k, pair in enumerate(self._pairs)}
        self._first_total = num_jobs + len(self._pairs)
        # No column is needed more often than there are units that all jobs take together.
        self._most = num_jobs * max(float(modes.amount.max(initial=0.0)), 1.0)
        self._at_once = max(_AT_ONCE, num_jobs // _JOBS_EACH)
        self._program = LinearProgram(presolve=False, method="simplex")
        pairs = len(self._pairs)
        self._program.add_rows(
            np.concatenate([np.ones(num_jobs), np.zeros(pairs), np.full(num_rows, -np.inf)]),
            np.concatenate([np.ones(num_jobs), np.full(pairs, np.inf), np.zeros(num_rows)]),
        )
        columns = [(1.0, [(self._first_total + r, -float(n)) for r, n in enumerate(modes.total)])]
        for m in np.flatnonzero(sequences.able).tolist():
            uses = [(r, float(n)) for r, n in enumerate(modes.amount[m]) if n > 0]
            entries = [(self._row[m, r], -n) for r, n in uses]
            columns.append((0.0, [(int(modes.job[m]), 1.0), *entries]))
        for m, r in self._pairs:
            known[r].setdefault((m,))
        for r, own in enumerate(known):
            columns += [(0.0, self._column(r, s)) for s in own if sequences.fits(s)]
        self._add(columns)

    def _column(self, row: int, sequence: tuple[int, ...]) -> list[tuple[int, float]]:
        own = [(self._row[m, row], 1.0) for m in sequence]
        return [*own, (self._first_total + row, 1.0)]

    def _add(self, columns: list[tuple[float, list[tuple[int, float]]]]) -> None:
        lengths = [len(entries) for _, entries in columns]
        entries = [entry for _, own in columns for entry in own]
        self._program.add_columns(
            np.array([cost for cost, _ in columns]),
            np.zeros(len(columns)),
            np.full(len(columns), self._most),
            np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int32),
            np.array([row for row, _ in entries], dtype=np.int32),
            np.array([value for _, value in entries]),
        )

    def solved(self, seconds: float) -> tuple[Array, float, Array]:
        """Return worths of the modes on each row, the share of all units, and prices of units.

        Parameters
        ----------
        seconds
            Wall time.
        """
        found = self._program.optimum("the master of sequences", seconds)
        duals = found.duals
        modes = self._sequences.modes
        worth = np.zeros((len(modes.job), len(modes.total)))
        for (m, r), row in self._row.items():
            worth[m, r] = max(float(duals[row]), 0.0)
        return worth, found.value, np.maximum(-duals[self._first_total :], 0.0)

    def priced(self, worth: Array, price: Array) -> tuple[bool, TimePrices]:
        """Add sequences worth more than their price; return whether there were any, and prices.

        Parameters
        ----------
        worth
            Of the modes on each row, shape (N, R).
        price
            Of a unit of each row, shape (R,).
        """
        columns = []
        for r, most in enumerate(price.tolist()):
            without: frozenset[int] = frozenset()
            for _ in range(self._at_once):
                to_go, sequence = self._sequences.best(r, worth[:, r], without)
                if float(to_go[0]) <= most * (1 + _GAIN) or sequence in self._known[r]:
                    break
                self._known[r][sequence] = None
                columns.append((0.0, self._column(r, sequence)))
                without |= {int(self._sequences.modes.job[m]) for m in sequence}
        if columns:
            self._add(columns)
        return bool(columns), self._sequences.prices(worth)
