"""Few jobs on hosts of one resource each: every schedule within a distance of a bound.

Prices of time make a bound, and what each host exceeds it by adds up. So all sets of jobs are
listed that a host may run with little excess (`host_sets`), and the best choice of a set for each
host is sought (`covers`). Where it is found it is best of all; where there is none, the bound rises
by the distance, which is then made larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from alloc.algorithms.volume import raise_dual
from alloc.certificate import OPTIMALITY_GAP
from alloc.models.malleable.costs import Peak
from alloc.models.moldable.bounds import Pool, PricesOfTime
from alloc.models.moldable.data import Array, MoldableData
from alloc.models.moldable.host_classes import HostClass, modes_of
from alloc.models.moldable.sequences import TimePrices
from alloc.models.moldable.serial import Choice, Plan, by_choices
from alloc.solving.moldable.covers import Covers
from alloc.solving.moldable.host_sets import HostProgram, HostSets, Wanted
from alloc.solving.moldable.sequence_master import SequenceMaster
from alloc.solving.outcome import Progress, Settings

_MAX_STATES = 150_000
"""States of a host after as many starts: some tenths of a second each time."""
_ROUNDING = 1e-9
"""Of all excess there may be, what sums of it may round to."""
_SHARES = (0.25, 0.5, 0.75, 1.0)
"""Of the way from the bound to the best schedule known, how far is looked at a time: states grow by
a factor with each, and the best of all is often near."""
_AT_ONCE = 64
"""Sets whose rest is asked of the other host at once: each state is held against all of them."""
_HALVED = 2
"""How often a share is halved that is too far: each try takes some seconds."""
_BETTER = 0.4 * OPTIMALITY_GAP
"""By what share of the value a schedule must be better to be sought."""
_CELLS, _MIN_MOMENTS, _MAX_MOMENTS = 120_000, 40, 240
"""Modes times moments of the grid of prices, and the moments: some milliseconds an evaluation."""
_VALUE = 1000.0
"""Value of the best schedule in the units of the ascent, whose smallest step is absolute."""


@dataclass(frozen=True)
class Listing:
    """What listing all schedules within a limit says.

    Parameters
    ----------
    least
        Excess that every schedule has at least; up to the limit.
    plan
        The best schedule within the limit, if one was found.
    is_whole
        Whether no better one is within the limit.
    """

    least: float
    plan: Plan | None
    is_whole: bool


class Hosts:
    """Lists schedules of an instance.

    Parameters
    ----------
    data
        The instance.
    classes
        Its hosts.
    settings
        Limits.
    report
        Takes a line of progress.
    beam
        States to go on with where there are more, for good schedules without a proof; None: none
        are left out.
    """

    def __init__(
        self,
        data: MoldableData,
        classes: Sequence[HostClass],
        settings: Settings,
        report: Progress,
        beam: int | None = None,
    ) -> None:
        self._data, self._classes, self._beam = data, list(classes), beam
        self._settings, self._report = settings, report
        self._least = [0.0] * len(self._classes)

    def listed(
        self, prices: TimePrices, limit: float, deadline: Array, peak: Peak | None
    ) -> Listing | None:
        """Return what all schedules with an excess of at most a limit say; None if too many.

        Parameters
        ----------
        prices
            Prices of time: one and the same for all limits.
        limit
            The limit.
        deadline
            Latest completion of each job, seconds, shape (J,).
        peak
            The peak that is asked for, or None for costs of single jobs.
        """
        data, scale = self._data, abs(limit) + math.fsum(np.abs(prices.least))
        hosts = [len(own.hosts) for own in self._classes]
        if peak is not None and sum(hosts) == 2:
            return self._of_two(prices, limit, _ROUNDING * scale, deadline, peak)
        others = math.fsum(n * least for n, least in zip(hosts, self._least, strict=True))
        sets: list[HostSets] = []
        for row, own in enumerate(self._classes):
            room = limit - (others - self._least[row]) + _ROUNDING * scale
            program = HostProgram(data, own, row, prices, deadline, peak)
            found = program.sets(
                room, self._beam or _MAX_STATES, self._settings.time_is_up, self._beam is not None
            )
            if found is None:
                return None
            sets.append(found)
            if found.is_whole:  # all that have less are listed
                self._least[row] = max(float(found.excess.min(initial=room)), 0.0)
        empty = [own.units * end for own, end in zip(self._classes, prices.end, strict=True)]
        covers = Covers(sets, hosts, empty, data.num_jobs, peak is not None)
        cover = covers.best(
            limit + _ROUNDING * scale, self._settings.time_is_up, self._settings.seconds_left()
        )
        number = sum(len(own.jobs) for own in sets)
        self._report(f"{number} sets of jobs for a host: {cover.value:g}")
        plan = None
        if math.isfinite(cover.value):
            plan = self._plan([(c, sets[c].steps(k)) for c, k in cover.choice])
        is_whole = cover.least >= limit and all(own.is_whole for own in sets)
        least = min(cover.least, limit) if all(own.is_whole for own in sets) else 0.0
        return Listing(least, plan, is_whole)

    def _of_two(
        self, prices: TimePrices, limit: float, slack: float, deadline: Array, peak: Peak
    ) -> Listing | None:
        """Return what `listed` does for two hosts, one of which has half of the excess at most.

        So only sets within half of the limit are listed. What they leave is asked of the other
        host, which may have all the excess that is left: of few sets, few states are on the way.
        """
        data, is_over = self._data, self._settings.time_is_up
        most, some = self._beam or _MAX_STATES, self._beam is not None
        everything = np.int64((1 << data.num_jobs) - 1)
        value, plan, is_whole, number = math.inf, None, True, 0
        last = len(self._classes) - 1
        for c in range(len(self._classes)):
            d, own = last - c, self._classes[c]
            program = HostProgram(data, own, c, prices, deadline, peak)
            half = program.sets(0.5 * limit + slack, most, is_over, some)
            if half is None:
                return None
            is_whole, number = is_whole and half.is_whole, number + len(half.jobs)
            order = np.argsort(half.cost, kind="stable")
            for first in range(0, len(order), _AT_ONCE):
                at = order[first : first + _AT_ONCE]
                at = at[half.cost[at] < value]
                if not len(at):
                    break
                rest = everything ^ half.jobs[at]
                wanted = Wanted(rest, limit - half.excess[at] + slack)
                by = np.minimum(deadline, peak.latest(value)) if plan is not None else deadline
                program = HostProgram(data, self._classes[d], d, prices, by, peak, wanted)
                other = program.sets(float(wanted.limit.max()), most, is_over, some)
                if other is None:
                    return None
                is_whole = is_whole and other.is_whole
                _, here, there = np.intersect1d(rest, other.jobs, return_indices=True)
                for k, n in zip(at[here].tolist(), there.tolist(), strict=True):
                    reached = max(float(half.cost[k]), float(other.cost[n]))
                    if reached < value:
                        value, plan = reached, self._plan([(c, half.steps(k)), (d, other.steps(n))])
        self._report(f"{number} sets of jobs for one of two hosts: {value:g}")
        return Listing(limit if is_whole else 0.0, plan, is_whole)

    def _plan(self, chosen: Sequence[tuple[int, list[int]]]) -> Plan:
        """Return the schedule in which hosts, given by their class, start ways one by one."""
        data = self._data
        ways = [(j, w) for j, every in enumerate(data.ways) for w in range(len(every))]
        first = np.cumsum([0, *(len(every) for every in data.ways)])
        choice: list[Choice] = [(0, 0)] * data.num_jobs
        order: list[int] = []
        used = [0] * len(self._classes)
        for c, steps in chosen:
            own = self._classes[c]
            host = own.hosts[used[c]]
            used[c] += 1
            for n in steps:
                j, _ = ways[n]
                choice[j] = (n - int(first[j]), own.placement[host, n])
                order.append(j)
        # Host by host: what runs on one says nothing of another.
        return by_choices(data, order, choice)


class _Shares:
    """How far to look: further each time, and half as far again where there was too much.

    Parameters
    ----------
    shares
        Of the way from the bound to the best schedule known, ascending.
    """

    def __init__(self, shares: Sequence[float]) -> None:
        self._left, self._done, self._last, self._halved = list(shares), 0.0, 0.0, 0

    def next(self) -> float | None:
        """Return the next share, or None after the last one."""
        if not self._left:
            return None
        self._done, self._last = self._last, self._left.pop(0)
        return self._last

    def halve(self) -> None:
        """Look half as far beyond what is done, instead of as far as the last time."""
        self._left = []
        self._halved += 1
        if self._halved <= _HALVED:
            self._left = [0.5 * (self._done + self._last)]
            self._last = self._done


class Exact:
    """The search for the best schedule of all, from a bound on.

    Parameters
    ----------
    data
        An instance without held levels, asked for costs of single jobs or for one peak.
    classes
        Its hosts.
    settings
        Limits.
    report
        Takes a line of progress.
    beam
        As in `Hosts`.
    """

    def __init__(
        self,
        data: MoldableData,
        classes: tuple[HostClass, ...],
        settings: Settings,
        report: Progress,
        beam: int | None = None,
    ) -> None:
        self._data, self._classes, self._beam = data, classes, beam
        self._settings, self._report = settings, report
        self._modes = modes_of(data, classes)

    def of_costs(self, value: float, prices: TimePrices) -> tuple[float, Plan | None]:
        """Return a bound of the costs, and the best schedule if it was listed.

        Parameters
        ----------
        value
            Costs of a schedule, more than the bound.
        prices
            Prices of time.
        """
        low = math.fsum(prices.least) - prices.offered(self._modes.total)
        room = value * (1 - _BETTER) - low
        hosts = Hosts(self._data, self._classes, self._settings, self._report)
        bound, best = low, None
        shares = _Shares(_SHARES)
        while room > 0 and (share := shares.next()) is not None:
            found = hosts.listed(prices, share * room, self._data.deadline, None)
            if found is None:
                shares.halve()
                continue
            best = found.plan or best
            if found.plan is not None and found.is_whole:
                return self._data.target.value(found.plan.completion), best
            bound = max(bound, low + found.least)
            if not found.is_whole:
                break
        return bound, best

    def prices(self, value: float, last_s: float) -> TimePrices:
        """Return prices of time for the costs, with a row for each class of hosts.

        Parameters
        ----------
        value
            Costs of a schedule, more than 0.
        last_s
            End of the grid of prices, seconds: beyond, time is free.
        """
        data, modes = self._data, self._modes
        pool = Pool(data, modes.job, modes.run, modes.hold, modes.amount / modes.total)
        number = int(np.clip(_CELLS // len(modes.job), _MIN_MOMENTS, _MAX_MOMENTS))
        edges: Array = np.linspace(float(data.release.min()), last_s, number + 1)
        factor = _VALUE / value
        priced = PricesOfTime(pool, data.target.level.scaled(factor).jobs, edges)
        shape = (len(modes.total), number)
        is_over = self._settings.time_is_up
        prices = raise_dual(priced.relaxed, shape, _VALUE, is_over, lambda line: None).prices
        spent = np.hstack([np.zeros((shape[0], 1)), np.cumsum(prices, axis=1)])
        spent /= factor * modes.total[:, None]
        return TimePrices(
            priced.least(prices) / factor,
            tuple(partial(_between, edges=edges, own=own) for own in spent),
            tuple(float(own[-1]) for own in spent),
        )

    def of_peak(self, peak: Peak, value: float, low: float) -> tuple[float, Plan | None]:
        """Return a bound of the peak, and the best schedule if it was listed.

        Parameters
        ----------
        peak
            The peak.
        value, low
            Its value in a schedule, and a bound.
        """
        bound, master = low, SequenceMaster(self._modes, self._settings)
        room = value * (1 - _BETTER) - low
        shares = _Shares(_SHARES if self._beam is None else _SHARES[1::2])
        while room > 0 and (share := shares.next()) is not None:
            guess = low + share * room
            deadline = np.minimum(self._data.deadline, peak.latest(guess))
            found = master.prices(deadline)
            if found is None:
                break
            is_proved, prices = found
            if not is_proved:
                if prices is None:
                    break
                limit = prices.offered(self._modes.total) - math.fsum(prices.least)
                hosts = Hosts(self._data, self._classes, self._settings, self._report, self._beam)
                listing = hosts.listed(prices, limit, deadline, peak)
                if listing is None:
                    shares.halve()
                    continue
                if listing.plan is not None:
                    least = self._data.target.value(listing.plan.completion)
                    return (least if listing.is_whole else bound), listing.plan
                if not listing.is_whole:
                    if self._beam is None:
                        break
                    continue
            bound = guess
        return bound, None


def _between(moment: Array, edges: Array, own: Array) -> Array:
    """Return values at moments between edges that have them."""
    return np.asarray(np.interp(moment, edges, own))
