"""Jobs with one configuration that may pause: only their slots are chosen, and counted.

Traces of rigid gangs make long instances of this kind. A profile is then a set of slots, and what
takes a dynamic program elsewhere is a running sum of the cheapest slots here: one job is inserted
in a fraction of a millisecond. The pricing of all jobs is one program over time for all kinds of
jobs side by side.

Parameters
----------
data
    The instance on its slots.
job
    Position of the job; a counted one, but for `is_counted`.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array
from alloc.models.malleable.costs import JobCosts
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.profiles import IDLE, Profile

_TOLERANCE = 1e-9
"""Relative slack of work against a slot's work and of ends against limits, as in the profiles."""

_MAX_CELLS = 5 * 10**7
"""Largest size (slots x kinds x slots of work) of the shared program, a byte a cell."""

Index = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.bool_]


def is_counted(data: SlotData, job: int) -> bool:
    """Return whether a profile of the job is a set of slots and nothing else."""
    return len(data.table(job).rate) == 1 and data.instance.jobs[job].preemptible


def slots_needed(data: SlotData, job: int) -> int:
    """Return how many slots a counted job runs, the last one perhaps in part."""
    steps = float(data.work[job]) / float(data.table(job).rate[0])
    return max(int(np.ceil(steps * (1 - _TOLERANCE))), 1)


def last_fraction(data: SlotData, job: int) -> float:
    """Return the part of its last slot that a counted job uses, more than 0 and at most 1."""
    steps = float(data.work[job]) / float(data.table(job).rate[0])
    return min(steps - (slots_needed(data, job) - 1), 1.0)


def cheapest_slots(
    cost: Array, first: int, need: int, delay: Array, latest: float = np.inf
) -> Index | None:
    """Return the slots that minimise the delay of the last one plus their cost, or None.

    For every last slot the best others are the cheapest before it, so one pass with a heap of the
    ``need - 1`` cheapest so far finds the optimum.

    Parameters
    ----------
    cost
        Cost of each slot, 0 or more, infinite where the job may not run, shape (slots,).
    first
        First slot allowed.
    need
        Number of slots, 1 or more.
    delay
        Cost of ending in each slot, rising, shape (slots,).
    latest
        Last slot in which the job may end.
    """
    allowed = np.flatnonzero(np.isfinite(cost[first:])) + first
    allowed = allowed[allowed <= latest]
    if len(allowed) < need:
        return None
    prices = cost[allowed]
    if not prices[:need].any():
        # Free of charge, the earliest are the best.
        return allowed[:need]
    held = [-p for p in prices[: need - 1].tolist()]
    heapq.heapify(held)
    total, best, end = -sum(held), np.inf, -1
    late = delay[allowed[need - 1 :]].tolist()
    for i, (wait, price) in enumerate(zip(late, prices[need - 1 :].tolist(), strict=True)):
        if wait >= best:
            break
        if wait + total + price < best:
            best, end = wait + total + price, i
        if need > 1:
            total += price + heapq.heappushpop(held, -price)
    last = need - 1 + end
    others = np.argsort(prices[:last], kind="stable")[: need - 1]
    return np.append(np.sort(allowed[others]), allowed[last])


def counted_profile(data: SlotData, job: int, slots: Index) -> Profile:
    """Return the profile of a counted job that runs in these slots, in order.

    Parameters
    ----------
    slots
        The slots that it runs in, rising, as many as `slots_needed`.
    """
    start, end = int(slots[0]), int(slots[-1])
    choice = np.full(end - start + 1, IDLE)
    choice[slots - start] = 0
    return Profile(start, tuple(choice.tolist()), end + last_fraction(data, job))


def insert_counted(
    data: SlotData, job: int, room: Array, prices: Array | None, job_costs: JobCosts
) -> Profile | None:
    """Return the cheapest profile of a counted job within the room, or None.

    Parameters
    ----------
    data
        The instance on its slots.
    job
        Position of the job.
    room
        Capacity left, shape (slots, R).
    prices
        Prices, shape (slots, R); None where all are 0.
    job_costs
        What completions cost; later ones more.
    """
    use = data.table(job).use[0]
    cost = np.zeros(len(room)) if prices is None else prices @ use
    cost[(room < use - 1e-6).any(axis=1)] = np.inf
    slots = cheapest_slots(
        cost,
        int(data.release[job]),
        slots_needed(data, job),
        job_costs.ends(job, last_fraction(data, job), len(room)),
        float(data.limit[job]) - last_fraction(data, job) + _TOLERANCE,
    )
    return None if slots is None else counted_profile(data, job, slots)


@dataclass(frozen=True)
class Priced:
    """The cheapest profiles of all jobs at some prices.

    Parameters
    ----------
    value
        The costs of their completions plus prices, slots.
    chosen
        Whether each job runs in each slot, shape (slots, J).
    """

    value: float
    chosen: Chosen


class CountedPricing:
    """The pricing problems of all jobs of an instance of counted jobs without limits.

    What is asked must be a weighted sum of completions: the program is shared by jobs that differ
    in their last fraction, which a due date would tell apart.
    """

    def __init__(self, data: SlotData, num_slots: int) -> None:
        self.data = data
        costs = data.target.costs
        self.num_slots = num_slots
        self.need = np.array([slots_needed(data, j) for j in range(data.num_jobs)])
        self.fraction = np.array([last_fraction(data, j) for j in range(data.num_jobs)])
        kinds, self.kind = np.unique(
            np.stack([data.table_of, costs.rate], axis=1), axis=0, return_inverse=True
        )
        self.kind = self.kind.reshape(-1)
        self.weight = kinds[:, 1]
        self.use = np.array([data.tables[int(g)].use[0] for g in kinds[:, 0]])
        self._by_release = np.argsort(data.release, kind="stable")
        self._offset = float(costs.at(data.release + self.fraction).sum())

    @staticmethod
    def applies(data: SlotData, num_slots: int) -> bool:
        """Return whether all jobs are counted, without limits, and the program is not too large.

        Parameters
        ----------
        num_slots
            Slots of the program, at least 1.
        """
        if not data.target.is_linear:
            return False
        if np.isfinite(data.limit).any():
            return False
        if not all(is_counted(data, j) for j in range(data.num_jobs)):
            return False
        if int(data.release.max()) >= num_slots:
            return False
        rates = data.target.costs.rate
        kinds = len({(int(g), float(w)) for g, w in zip(data.table_of, rates, strict=True)})
        most = max(slots_needed(data, j) for j in range(data.num_jobs))
        return num_slots * kinds * (most + 1) <= _MAX_CELLS

    def solve(self, prices: Array) -> Priced:
        """Return the cheapest profiles within the slots at prices of shape (slots, R)."""
        cost = prices @ self.use.T
        release = self.data.release[self._by_release]
        kind, need = self.kind[self._by_release], self.need[self._by_release]
        first = np.searchsorted(release, np.arange(self.num_slots + 1))
        start, most = int(release[0]), int(need.max())
        weight = self.weight[:, None]
        run = np.zeros((self.num_slots, len(self.use), most + 1), dtype=bool)
        value = np.full((len(self.use), most + 1), np.inf)
        running = np.full_like(value, np.inf)
        total = self._offset
        for t in range(self.num_slots - 1, start - 1, -1):
            running[:, 2:] = value[:, 1:-1]
            running[:, 2:] += weight
            running[:, 1] = 0.0
            running += cost[t][:, None]
            value += weight
            np.less_equal(running, value, out=run[t])
            run[t, :, 0] = False
            np.minimum(running, value, out=value)
            if first[t] < first[t + 1]:
                own = slice(first[t], first[t + 1])
                total += float(value[kind[own], need[own]].sum())
        return Priced(total, self._follow(run, release, kind, need))

    def _follow(self, run: Chosen, release: Index, kind: Index, need: Index) -> Chosen:
        """Follow the choices of the program forwards in time, for all jobs at once."""
        ordered = np.zeros((self.num_slots, self.data.num_jobs), dtype=bool)
        left = need.copy()
        present = np.searchsorted(release, np.arange(self.num_slots), side="right")
        for t in range(int(release[0]), self.num_slots):
            k = present[t]
            taken = run[t, kind[:k], left[:k]]
            ordered[t, :k] = taken
            left[:k] -= taken
        chosen = np.empty_like(ordered)
        chosen[:, self._by_release] = ordered
        return chosen

    def total_use(self, chosen: Chosen) -> Array:
        """Return what the jobs use together, shape (slots, R)."""
        return np.asarray(chosen.astype(float) @ self.use[self.kind])
