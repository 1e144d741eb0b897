"""Hosts are filled one after the other for a guess of a peak, each with what wastes least of it.

Of the largest jobs that are left, and some others, all sets are listed that one host may run in
time (`host_sets`), and the one of least excess is taken: at prices of time, what it leaves idle and
what its modes take beyond the cheapest. What is left over in the end starts as early as it can.

References
----------
Coffman, Garey, Johnson, "An application of bin-packing to multiprocessor scheduling", SIAM J.
Computing 7 (1978) (a guess makes bins of processors). Gupta, Ho, "A new heuristic algorithm for the
one-dimensional bin-packing problem", Production Planning & Control 10 (1999) (the bin that wastes
least).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from alloc.models.malleable.costs import Peak
from alloc.models.moldable.data import Array, MoldableData
from alloc.models.moldable.host_classes import HostClass, Index
from alloc.models.moldable.sequences import TimePrices
from alloc.models.moldable.serial import Choice, Plan, Serial
from alloc.solving.moldable.host_sets import HostProgram
from alloc.solving.outcome import Settings

_CANDIDATES = 20
"""Jobs that a host may choose from: it takes about eight. Half are the largest left."""
_BEAM = 1000
"""States to go on with: some hundredths of a second a host."""


def _area_prices(data: MoldableData, classes: tuple[HostClass, ...], deadline: Array) -> TimePrices:
    """Return prices of time at which all units of all hosts cost the same at all times.

    Parameters
    ----------
    data
        The instance.
    classes
        Its hosts.
    deadline
        Latest completion of each job, seconds, finite, shape (J,).
    """
    least, n = [], 0
    for j, ways in enumerate(data.ways):
        areas = [
            float(own.amount[n + w]) * way.hold_s
            for w, way in enumerate(ways)
            for own in classes
            if own.amount[n + w] and data.release[j] + way.run_s <= deadline[j] * (1 + 1e-12)
        ]
        least.append(min(areas, default=0.0))
        n += len(ways)
    end = float(deadline.max())
    alike = len(classes)
    paid: Callable[[Array], Array] = lambda moment: np.minimum(moment, end)  # noqa: E731
    return TimePrices(np.array(least), (paid,) * alike, (end,) * alike)


class Packing:
    """Fills the hosts of an instance.

    Parameters
    ----------
    data
        An instance whose target is one peak.
    classes
        Its hosts.
    settings
        Limits.
    """

    def __init__(
        self, data: MoldableData, classes: tuple[HostClass, ...], settings: Settings
    ) -> None:
        self._data, self._classes, self._settings = data, classes, settings
        self._rng = np.random.default_rng(settings.seed)
        self._first = np.cumsum([0, *(len(own) for own in data.ways)]).tolist()

    def plan(self, guess: float, prices: TimePrices | None) -> Plan | None:
        """Return a schedule that a guess of the peak leads to; None when time is up.

        Parameters
        ----------
        guess
            The guess.
        prices
            Prices of time for it, or None for those of the area.
        """
        data = self._data
        deadline = np.minimum(data.deadline, data.target.level.peaks[0].latest(guess))
        if prices is None:
            prices = _area_prices(data, self._classes, deadline)
        left = np.arange(data.num_jobs)
        steps: list[tuple[int, Choice]] = []
        hosts = [(c, h) for c, own in enumerate(self._classes) for h in own.hosts]
        for k in self._rng.permutation(len(hosts)).tolist():
            if not len(left):
                break
            row, host = hosts[k]
            found = self._filled(row, host, left, prices, deadline)
            if found is None:
                return None
            steps += found
            left = np.setdiff1d(left, [j for j, _ in found])
        order = left[np.argsort(-prices.least[left], kind="stable")]
        return self._completed(steps, order.tolist())

    def _filled(
        self, row: int, host: int, left: Index, prices: TimePrices, deadline: Array
    ) -> list[tuple[int, Choice]] | None:
        """Return what a host runs, in order of the starts; None when time is up."""
        large = left[np.argsort(-prices.least[left], kind="stable")]
        half = _CANDIDATES // 2
        others = self._rng.permutation(large[half:])[: _CANDIDATES - half]
        jobs = np.sort(np.concatenate([large[:half], others]))
        data, own = self._data, self._classes[row]
        ways = [n for j in jobs for n in range(self._first[j], self._first[j + 1])]
        part = replace(
            data,
            release=data.release[jobs],
            deadline=data.deadline[jobs],
            ways=tuple(data.ways[j] for j in jobs),
        )
        peak = data.target.level.peaks[0]
        program = HostProgram(
            part,
            HostClass((host,), own.units, own.amount[ways], {}),
            row,
            replace(prices, least=prices.least[jobs]),
            deadline[jobs],
            Peak(peak.slope[jobs], peak.origin[jobs]),
        )
        sets = program.sets(math.inf, _BEAM, self._settings.time_is_up, some=True)
        if sets is None:
            return None
        found = []
        for n in sets.steps(int(np.argmin(sets.excess))):
            j = int(np.searchsorted(self._first, ways[n], side="right")) - 1
            found.append((j, (ways[n] - self._first[j], own.placement[host, ways[n]])))
        return found

    def _completed(self, steps: list[tuple[int, Choice]], left: list[int]) -> Plan:
        """Return the schedule of what hosts run, with what is left over behind it."""
        data = self._data
        serial = Serial(data)
        zero = np.zeros(data.num_jobs)
        plan = Plan([(0, 0)] * data.num_jobs, zero, zero.copy())
        for j, (w, p) in steps:
            use = data.ways[j][w].placements[p].use
            start = serial.earliest(j, w, use)
            serial.take(j, w, use, start)
            plan.choice[j] = (w, p)
            plan.start[j], plan.completion[j] = start, start + data.ways[j][w].run_s
        for j in left:
            end, at = math.inf, (0, 0)
            for w, way in enumerate(data.ways[j]):
                start, p = serial.best_placement(j, w, end - way.run_s)
                if p >= 0 and start + way.run_s < end:
                    end, at = start + way.run_s, (w, p)
            w, p = at
            use, run_s = data.ways[j][w].placements[p].use, data.ways[j][w].run_s
            start = serial.earliest(j, w, use)
            serial.take(j, w, use, start)
            plan.choice[j] = at
            plan.start[j], plan.completion[j] = start, start + run_s
        return plan
