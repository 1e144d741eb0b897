"""Every set of jobs that one host may run in a good enough schedule, by a dynamic program.

Jobs are started one by one, none before the last one. Then all that a host says of what may follow
is when its units become free, those that are free before the last start counting as free from then
on. So states with the same jobs are compared by what they cost and by these moments, and states
whose excess over a bound is too large are dropped: prices of time say what is lost already.

References
----------
Held, Karp, "A dynamic programming approach to sequencing problems", J. SIAM 10 (1962). Baldacci,
Christofides, Mingozzi, Math. Programming 115 (2008) (all columns within the gap, and a program over
them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from alloc.models.malleable.costs import Peak
from alloc.models.moldable.data import Array, MoldableData
from alloc.models.moldable.host_classes import HostClass, Index
from alloc.models.moldable.sequences import TimePrices

MAX_JOBS = 62
"""Jobs at most: a set is a word of 64 bits."""
_NEAR, _FAR = 8, 64
"""States of the same jobs, ordered by their excess, that each is compared with: first the nearest
ones, which leave out most, then more."""
_BEFORE = 4
"""Times as many states may there be before those that others are as good as are left out."""
_OF_A_SET = 4
"""States of the same jobs that a beam keeps: many of one set leave no room for others."""
_ROUNDING = 1e-12
"""Relative lateness that counts as none, as in the data."""


@dataclass(frozen=True)
class HostSets:
    """Sets of jobs that a host may run, each with the least that it costs.

    Parameters
    ----------
    jobs
        The sets, bit j for job j, ascending, shape (K,).
    cost
        Costs of their completions, or for a peak the peak, shape (K,).
    excess
        Their share of what exceeds the bound, shape (K,).
    steps
        The ways that are started one after the other, for each set.
    is_whole
        Whether none is left out.
    """

    jobs: Index
    cost: Array
    excess: Array
    steps: Callable[[int], list[int]]
    is_whole: bool = True


@dataclass(frozen=True)
class Wanted:
    """Sets of jobs that are asked for: only states on the way to one of them matter.

    Parameters
    ----------
    jobs
        The sets, bit j for job j, shape (K,).
    limit
        Largest excess of each, shape (K,).
    """

    jobs: Index
    limit: Array

    def room(self, jobs: Index) -> Array:
        """Return the largest excess that sets, shape (N,), may have as parts of one asked for."""
        apart = (jobs[:, None] & ~self.jobs) != 0
        return np.asarray(np.where(apart, -np.inf, self.limit).max(axis=1))


@dataclass
class _States:
    """States after so many starts.

    Parameters
    ----------
    jobs
        Jobs that were started.
    free
        When the units become free, ascending, shape (states, units).
    cost
        Costs, or the peak, so far.
    least
        Sum of the least costs of these jobs at the prices.
    excess
        What exceeds the bound already.
    before, way
        State that each comes of, and the way that was started.
    """

    jobs: Index
    free: Array
    cost: Array
    least: Array
    excess: Array
    before: Index
    way: Index

    def taken(self, which: Index) -> _States:
        """Return some of the states."""
        return _States(
            self.jobs[which],
            self.free[which],
            self.cost[which],
            self.least[which],
            self.excess[which],
            self.before[which],
            self.way[which],
        )

    @staticmethod
    def joined(parts: list[_States]) -> _States:
        """Return the states of several lists as one."""
        return _States(
            np.concatenate([p.jobs for p in parts]),
            np.concatenate([p.free for p in parts]),
            np.concatenate([p.cost for p in parts]),
            np.concatenate([p.least for p in parts]),
            np.concatenate([p.excess for p in parts]),
            np.concatenate([p.before for p in parts]),
            np.concatenate([p.way for p in parts]),
        )


class HostProgram:
    """The dynamic program of a class of hosts.

    Parameters
    ----------
    data
        The instance.
    own
        The class.
    row
        Its position among the classes.
    prices
        Prices of the time of its units.
    deadline
        Latest completion of each job, seconds, shape (J,).
    peak
        The peak whose schedules are sought, or None for the costs of single jobs.
    wanted
        The sets that are asked for, or None for all.
    """

    def __init__(
        self,
        data: MoldableData,
        own: HostClass,
        row: int,
        prices: TimePrices,
        deadline: Array,
        peak: Peak | None,
        wanted: Wanted | None = None,
    ) -> None:
        self._data, self._own, self._prices, self._peak = data, own, prices, peak
        self._wanted = wanted
        self._paid, self._end = prices.paid[row], prices.end[row]
        self._deadline = deadline * (1 + _ROUNDING)
        ways = [(j, way) for j, every in enumerate(data.ways) for way in every]
        some = (1 << data.num_jobs) - 1
        if wanted is not None:
            some = int(np.bitwise_or.reduce(wanted.jobs, initial=0))
        self._ways = [
            (n, j, int(own.amount[n]), way.run_s, way.hold_s)
            for n, (j, way) in enumerate(ways)
            if own.amount[n] and data.release[j] + way.run_s <= self._deadline[j] and some >> j & 1
        ]

    def sets(
        self, limit: float, max_states: int, is_over: Callable[[], bool], some: bool = False
    ) -> HostSets | None:
        """Return the sets whose excess is within a limit; None where there are too many states.

        Parameters
        ----------
        limit
            The limit.
        max_states
            States after the same number of starts, at most.
        is_over
            Says whether time is up; then too None is returned.
        some
            Whether to go on with the best states where there are too many (beam search).
        """
        units = self._own.units
        nothing, start = np.zeros(1), np.zeros(1, dtype=np.int64)
        states = _States(
            start,
            np.full((1, units), float(self._data.release.min())),
            nothing,
            nothing,
            nothing,
            start,
            start,
        )
        every, is_whole = [states], True
        while len(states.jobs):
            parts, number = [], 0
            for way in self._ways:
                if is_over():
                    return None
                if (part := self._started(states, way, limit)) is not None:
                    parts.append(part)
                    number += len(part.jobs)
                    if number > _BEFORE * max_states and not some:
                        return None
            if not parts:
                break
            states = _States.joined(parts)
            if number > _BEFORE * max_states:
                states, is_whole = _lowest(states, _BEFORE * max_states), False
            states = _undominated(states)
            if len(states.jobs) > max_states:
                if not some:
                    return None
                states, is_whole = _varied(states, max_states), False
            # What is read of them later are their jobs and costs; moments take most of the memory.
            every.append(replace(states, free=np.empty((0, units))))
        return self._best(every, limit, is_whole)

    def _started(
        self, states: _States, way: tuple[int, int, int, float, float], limit: float
    ) -> _States | None:
        """Return the states in which a way is started next."""
        n, j, amount, run_s, hold_s = way
        at = np.flatnonzero((states.jobs >> j) & 1 == 0)
        start = np.maximum(states.free[at, amount - 1], self._data.release[j])
        end = start + run_s
        able = end <= self._deadline[j]
        at, start, end = at[able], start[able], end[able]
        if not len(at):
            return None
        free = np.maximum(states.free[at], start[:, None])
        slot_s = self._data.instance.slot_s
        over = start + hold_s
        free[:, :amount] = (over if slot_s is None else np.rint(over / slot_s) * slot_s)[:, None]
        least = states.least[at] + self._prices.least[j]
        excess = self._paid(free).sum(axis=1) - least
        if self._peak is None:
            costs = self._data.target.level.jobs
            beyond = np.maximum(end - costs.due[j], 0.0) if costs.late[j] else 0.0
            cost = states.cost[at] + costs.base[j] + costs.rate[j] * end + costs.late[j] * beyond
            excess = excess + cost
        else:
            cost = np.maximum(states.cost[at], self._peak.slope[j] * (end - self._peak.origin[j]))
        keep = np.flatnonzero(excess <= limit)
        if self._wanted is not None and len(keep):
            jobs = states.jobs[at[keep]] | (1 << j)
            keep = keep[excess[keep] <= self._wanted.room(jobs)]
        if not len(keep):
            return None
        return _States(
            states.jobs[at[keep]] | (1 << j),
            np.sort(free[keep], axis=1),
            cost[keep],
            least[keep],
            excess[keep],
            at[keep],
            np.full(len(keep), n, dtype=np.int64),
        )

    def _best(self, every: list[_States], limit: float, is_whole: bool) -> HostSets:
        """Return the cheapest state of each set that is within the limit to the end of time."""
        cost = np.concatenate([s.cost for s in every])
        excess = self._own.units * self._end - np.concatenate([s.least for s in every])
        if self._peak is None:
            excess = excess + cost
        jobs = np.concatenate([s.jobs for s in every])
        layer = np.repeat(np.arange(len(every)), [len(s.jobs) for s in every])
        place = np.concatenate([np.arange(len(s.jobs)) for s in every])
        good = np.flatnonzero(excess <= limit)
        good = good[np.lexsort((cost[good], jobs[good]))]
        sets, first = np.unique(jobs[good], return_index=True)
        chosen = good[first]

        def steps(k: int) -> list[int]:
            depth, at, found = int(layer[chosen[k]]), int(place[chosen[k]]), []
            while depth:
                found.append(int(every[depth].way[at]))
                at, depth = int(every[depth].before[at]), depth - 1
            return found[::-1]

        return HostSets(sets, cost[chosen], excess[chosen], steps, is_whole)


def _undominated(states: _States) -> _States:
    """Return the states without those that others of the same jobs are as good as everywhere."""
    states = states.taken(np.lexsort((states.excess, states.jobs)))
    for most in (_NEAR, _FAR):
        worse = np.zeros(len(states.jobs), dtype=bool)
        for distance in range(1, most + 1):
            behind = np.flatnonzero(states.jobs[distance:] == states.jobs[:-distance])
            if not len(behind):
                break
            behind = behind[~worse[behind + distance]]
            behind = behind[states.cost[behind] <= states.cost[behind + distance]]
            for unit in range(states.free.shape[1] - 1, -1, -1):
                earlier = states.free[behind, unit] <= states.free[behind + distance, unit]
                behind = behind[earlier]
            worse[behind + distance] = True
        states = states.taken(np.flatnonzero(~worse))
    return states


def _lowest(states: _States, number: int) -> _States:
    """Return so many states of the least excess."""
    return states.taken(np.argpartition(states.excess, number)[:number])


def _varied(states: _States, number: int) -> _States:
    """Return so many states of the least excess, few of the same jobs; they come by jobs."""
    new = np.diff(states.jobs, prepend=-1) != 0
    first = np.flatnonzero(new)
    rank = np.arange(len(states.jobs)) - first[np.cumsum(new) - 1]
    states = states.taken(np.flatnonzero(rank < _OF_A_SET))
    return states if len(states.jobs) <= number else _lowest(states, number)
