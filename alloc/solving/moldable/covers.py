"""The cheapest choice of a set of jobs for each host, so that each job is in one.

A linear program over all sets makes prices of jobs, which leave few sets that a better choice may
have; they are tried from the first job that is left on, the last host by looking up what is left.

References
----------
Balas, Padberg, "On the set-covering problem", Operations Research 20 (1972). Baldacci,
Christofides, Mingozzi, Math. Programming 115 (2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.errors import OutOfTime
from alloc.models.moldable.data import Array
from alloc.models.moldable.host_classes import Index
from alloc.solving.moldable.host_sets import HostSets

_FEW = 3000
"""Sets up to which two hosts need no linear program."""
_ROUNDING = 1e-9
"""Relative to the limit, what a sum of excesses may round to."""
_DEAR = 10.0
"""Cost of a job in no set, in the largest excess: the program then always has a solution."""
_MAX_SETS = 60_000
"""Sets of the linear program: some seconds."""

Choice = list[tuple[int, int]]
"""Class and position of the set of each host that runs something."""


@dataclass(frozen=True)
class Cover:
    """What the search for a choice says.

    Parameters
    ----------
    least
        No choice has less excess, all hosts together.
    value
        Costs of the best choice found, or its peak; infinite without one.
    choice
        The choice.
    """

    least: float
    value: float = math.inf
    choice: Choice = field(default_factory=list)


class Covers:
    """The search.

    Parameters
    ----------
    sets
        Sets of each class of hosts.
    hosts
        Number of hosts of each class.
    empty
        Excess of a host of each class that runs nothing.
    num_jobs
        Number of jobs.
    is_peak
        Whether the value is the largest cost of a host, and not the sum.
    """

    def __init__(
        self,
        sets: Sequence[HostSets],
        hosts: Sequence[int],
        empty: Sequence[float],
        num_jobs: int,
        is_peak: bool,
    ) -> None:
        self.hosts, self.empty = tuple(hosts), list(empty)
        self.num_jobs, self.is_peak = num_jobs, is_peak
        self.at = [np.flatnonzero(own.jobs > 0) for own in sets]
        self.jobs: list[Index] = [own.jobs[k] for own, k in zip(sets, self.at, strict=True)]
        self.cost: list[Array] = [own.cost[k] for own, k in zip(sets, self.at, strict=True)]
        self.excess: list[Array] = [own.excess[k] for own, k in zip(sets, self.at, strict=True)]

    def best(self, limit: float, is_over: Callable[[], bool], seconds: float) -> Cover:
        """Return the best choice with an excess of at most a limit, all hosts together.

        Parameters
        ----------
        limit
            The limit.
        is_over
            Says whether time is up.
        seconds
            Wall time of the linear program.
        """
        number = sum(len(jobs) for jobs in self.jobs)
        base, weight, idle = 0.0, self.excess, self.empty
        if number > _MAX_SETS:
            return Cover(0.0)
        if sum(self.hosts) > 2 or number > _FEW:
            try:
                base, weight, idle = self._priced(seconds)
            except OutOfTime:
                return Cover(0.0)
        room = limit + _ROUNDING * abs(limit) - base
        if room < 0:
            return Cover(limit)
        search = _Search(self, weight, idle, room, is_over)
        search.run()
        least = limit if search.is_whole else max(base, 0.0)
        return Cover(least, search.value, search.choice)

    def _priced(self, seconds: float) -> tuple[float, list[Array], list[float]]:
        """Return the least excess by prices of jobs, and by what sets and idle hosts exceed it.

        The duals of the program are not believed: what they prove is worked out anew.
        """
        above = [own - empty for own, empty in zip(self.excess, self.empty, strict=True)]
        bits = [(jobs[:, None] >> np.arange(self.num_jobs)) & 1 for jobs in self.jobs]
        price = self._prices_of_jobs(above, bits, seconds)
        base, weight, idle = math.fsum(price), [], []
        for own, has, empty, hosts in zip(above, bits, self.empty, self.hosts, strict=True):
            reduced = own - has @ price
            host = max(float(-reduced.min(initial=0.0)), 0.0)
            base += hosts * (empty - host)
            weight.append(reduced + host)
            idle.append(host)
        return base, weight, idle

    def _prices_of_jobs(self, above: list[Array], bits: list[Index], seconds: float) -> Array:
        """Return duals of the program that chooses sets, fractions too."""
        program, number, classes = LinearProgram(), self.num_jobs, len(self.hosts)
        ones = np.ones(number)
        program.add_rows(
            np.concatenate([ones, np.full(classes, -np.inf)]),
            np.concatenate([ones, np.array(self.hosts, dtype=float)]),
        )
        for c, (own, has) in enumerate(zip(above, bits, strict=True)):
            if not len(own):
                continue
            at, job = np.nonzero(np.column_stack([has, np.ones(len(own), dtype=np.int64)]))
            row = np.where(job == number, number + c, job)
            starts = np.searchsorted(at, np.arange(len(own)))
            program.add_columns(
                own, np.zeros(len(own)), np.ones(len(own)), starts, row, np.ones(len(row))
            )
        dear = _DEAR * max(float(np.abs(own).max(initial=0.0)) for own in above)
        program.add_columns(dear * ones, 0 * ones, ones, np.arange(number), np.arange(number), ones)
        return program.optimum("the master of hosts", seconds).duals[:number]


class _Search:
    """Tries sets from the first job that is left on.

    Parameters
    ----------
    covers
        The sets.
    weight
        What each set exceeds the least by, of each class.
    idle
        What a host that runs nothing exceeds it by.
    room
        How much all hosts together may exceed it by.
    is_over
        Says whether time is up.
    """

    def __init__(
        self,
        covers: Covers,
        weight: Sequence[Array],
        idle: Sequence[float],
        room: float,
        is_over: Callable[[], bool],
    ) -> None:
        self._covers, self._idle, self._room, self._is_over = covers, list(idle), room, is_over
        self._slack = _ROUNDING * abs(room)
        few = [np.flatnonzero(own <= room) for own in weight]
        self._at = [at[k] for at, k in zip(covers.at, few, strict=True)]
        self._jobs = [jobs[k] for jobs, k in zip(covers.jobs, few, strict=True)]
        self._cost = [cost[k] for cost, k in zip(covers.cost, few, strict=True)]
        self._weight = [own[k] for own, k in zip(weight, few, strict=True)]
        self._with: dict[tuple[int, int], Index] = {}
        self.value, self.choice = math.inf, list[tuple[int, int]]()
        self.is_whole = True
        """Whether every choice was tried."""

    def run(self) -> None:
        """Search."""
        everything = (1 << self._covers.num_jobs) - 1
        self._try(everything, self._covers.hosts, 0.0, 0.0, [])

    def _having(self, c: int, j: int) -> Index:
        """Return the sets of a class that have a job, the lightest first."""
        if (c, j) not in self._with:
            own = np.flatnonzero((self._jobs[c] >> j) & 1)
            self._with[c, j] = own[np.argsort(self._weight[c][own], kind="stable")]
        return self._with[c, j]

    def _try(
        self,
        left: int,
        hosts: tuple[int, ...],
        weight: float,
        value: float,
        chosen: list[tuple[int, int]],
    ) -> None:
        """Try what the hosts that are left may run of the jobs that are left."""
        if not left:
            self._take(weight + self._idle_of(hosts), value, chosen)
            return
        if not any(hosts) or self._is_over():
            self.is_whole &= not any(hosts)
            return
        j = (left & -left).bit_length() - 1
        for c, number in enumerate(hosts):
            if not number:
                continue
            fewer = (*hosts[:c], number - 1, *hosts[c + 1 :])
            own = self._having(c, j)
            own = own[(self._jobs[c][own] & ~np.int64(left)) == 0]
            own = own[weight + self._weight[c][own] <= self._room]
            if self._covers.is_peak:
                own = own[self._cost[c][own] < self.value]
            if sum(fewer) <= 1:
                self._complete(left, c, own, fewer, weight, value, chosen)
                continue
            for k in own.tolist():
                if weight + self._weight[c][k] > self._room:
                    break
                total = self._joined(value, float(self._cost[c][k]))
                rest = left ^ int(self._jobs[c][k])
                added = weight + float(self._weight[c][k])
                self._try(rest, fewer, added, total, [*chosen, (c, int(self._at[c][k]))])

    def _complete(
        self,
        left: int,
        c: int,
        own: Index,
        hosts: tuple[int, ...],
        weight: float,
        value: float,
        chosen: list[tuple[int, int]],
    ) -> None:
        """Take the best of some sets with that of one more host at most, which is looked up."""
        rest = np.int64(left) ^ self._jobs[c][own]
        added = weight + self._weight[c][own]
        for k in np.flatnonzero(rest == 0).tolist():
            total = self._joined(value, float(self._cost[c][own[k]]))
            step = (c, int(self._at[c][own[k]]))
            self._take(float(added[k]) + self._idle_of(hosts), total, [*chosen, step])
        for d in (d for d, number in enumerate(hosts) if number and len(self._jobs[d])):
            at = np.searchsorted(self._jobs[d], rest)
            at = np.minimum(at, len(self._jobs[d]) - 1)
            both = added + self._weight[d][at]
            good = np.flatnonzero((self._jobs[d][at] == rest) & (both <= self._room))
            for k in good.tolist():
                total = self._joined(value, float(self._cost[c][own[k]]))
                total = self._joined(total, float(self._cost[d][at[k]]))
                last = (d, int(self._at[d][at[k]]))
                steps = [*chosen, (c, int(self._at[c][own[k]])), last]
                self._take(float(both[k]), total, steps)

    def _joined(self, value: float, cost: float) -> float:
        return max(value, cost) if self._covers.is_peak else value + cost

    def _idle_of(self, hosts: tuple[int, ...]) -> float:
        return math.fsum(n * idle for n, idle in zip(hosts, self._idle, strict=True))

    def _take(self, weight: float, value: float, chosen: list[tuple[int, int]]) -> None:
        """Take a choice that is better; of sums no worse one is sought from then on."""
        if weight > self._room or value >= self.value:
            return
        self.value, self.choice = value, list(chosen)
        if not self._covers.is_peak:
            self._room = min(self._room, weight + self._slack)
