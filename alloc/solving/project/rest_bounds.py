"""What a plan that is begun costs at least: by prices of time, and by paths and work."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from alloc.clock import check_time
from alloc.models.project.prices import PricesOfGraph, forest
from alloc.solving.project.partial_plans import Array, Ints, PartialPlans, Steps

_MOMENTS = 100_000
"""Moments of the tables of prices at most: so many are a megabyte for each stage."""
_TAILS = 6
"""Tails for which the work of the activities with at least so much behind them is counted."""


_ROUNDS = 1e-13
"""Rounding of a sum of some hundred doubles, as a share of the sum of their sizes."""


class RestBound(Protocol):
    """Says what plans cost at least."""

    @property
    def rounding(self) -> float:
        """By how much it may be too high, since sums round, seconds."""

    def __call__(self, plans: PartialPlans) -> Array:
        """Return it for each plan, seconds, shape (plans,)."""


def soonest_of(steps: Steps, plans: PartialPlans, k: int) -> Ints:
    """Return when an activity that has not started can start by what is told of the plans.

    Parameters
    ----------
    steps
        How the plans go on.
    plans
        The plans.
    k
        The activity.
    """
    least = np.min(steps.rates[k], axis=0)
    found = np.maximum(steps.ready(plans, k), plans.now)
    return np.maximum(found, steps.room(plans, least))


class PricedRest:
    """The Lagrangian bound of `alloc.models.project.prices`, from where a plan has come to.

    Parameters
    ----------
    steps
        How the plans go on.
    graph
        The bound of the whole project.
    prices
        Its prices: any prove something, those that are best for the whole do well for its parts.
    """

    def __init__(self, steps: Steps, graph: PricesOfGraph, prices: Array) -> None:
        self.steps, self.parent = steps, forest(steps.data)
        unit, last = steps.times.unit, float(graph.times[-1])
        self.cell = max(1, int(last / unit) // _MOMENTS)
        """Units of time from one moment to the next; a time counts as the moment before."""
        self.last = int(last / unit) // self.cell + 1
        moments: Array = np.arange(self.last + 1, dtype=np.float64) * (self.cell * unit)
        self.tables = tables = graph.tables(prices, moments)
        self.left = self.tables.paid[:, -1:] - self.tables.paid
        self.tails = steps.data.job_tails
        # Ends count from 0: of releases by the clock of a computer they are far above any cost.
        ends, capacity = steps.data.horizon_s + self.tails, np.diff(steps.units)
        sizes = [
            tables.multipliers @ ends,
            np.abs(tables.jobs).sum(),
            tables.paid[:, -1] @ capacity,
        ]
        self.rounding = _ROUNDS * float(sum(sizes))
        if not steps.times.is_exact:
            # Plans are beaten in whole times, each rounded down, and bounded in the times as given.
            weights = math.fsum(job.weight for job in steps.data.problem.jobs)
            self.rounding += steps.size * unit * weights
        """See `RestBound`."""

    def __call__(self, plans: PartialPlans) -> Array:
        """Return it for each plan, seconds, shape (plans,)."""
        steps, tables, unit = self.steps, self.tables, self.steps.times.unit
        found = plans.cost.copy()
        free = self._cells(np.maximum(plans.free, plans.now[:, None]))
        for left, first, last in zip(self.left, steps.units[:-1], steps.units[1:], strict=True):
            found -= left[free[:, first:last]].sum(axis=1)
        ends = tables.multipliers * (plans.ends * unit + self.tails) * plans.started
        for j, own in enumerate(steps.of_job):
            if own.any():
                going = ~plans.started[:, own].all(axis=1)
                found += np.where(going, tables.jobs[j] + ends[:, own].sum(axis=1), 0.0)
        for k, p in enumerate(self.parent):
            awaited = (
                ~plans.started[:, k] if p is None else plans.started[:, p] > plans.started[:, k]
            )
            rows = np.flatnonzero(awaited)
            if len(rows):
                at = self._cells(soonest_of(steps, plans, k))[rows]
                found[rows] += tables.least[k][at]
        return np.maximum(found, plans.cost)

    def _cells(self, times: Ints) -> Ints:
        return np.minimum(times // self.cell, self.last)


class PathsAndWork:
    """The makespan of the longest path, and of the work on each resource with what follows it.

    The later an activity starts, the shorter, and so the dearer, are the modes in which it and
    those after it still end in time: the least work is known for every start.

    Parameters
    ----------
    steps
        How the plans go on.
    value
        Makespan of a plan, seconds: what is said of longer ones may be too much, though it is never
        below this.
    """

    rounding = 0.0
    """See `RestBound`: its times are whole."""

    def __init__(self, steps: Steps, value: float) -> None:
        self.steps, data = steps, steps.data
        self.shortest = np.array([min(row) for row in steps.lengths])
        self.tails = np.zeros(steps.size, np.int64)
        for k in reversed(data.problem.order):
            for p in data.problem.predecessors[k]:
                self.tails[p] = max(self.tails[p], self.tails[k] + self.shortest[k])
        self.works = []
        for r, resource in enumerate(data.renewable):
            work = np.array(
                [
                    min(d * int(use[r]) for d, use in zip(row, uses, strict=True))
                    for row, uses in zip(steps.lengths, steps.rates, strict=True)
                ]
            )
            tails = np.unique(self.tails[work > 0])
            for tail in (
                tails[np.linspace(0, len(tails) - 1, _TAILS).astype(int)] if len(tails) else ()
            ):
                self.works.append((r, int(tail), work * (self.tails >= tail), resource.capacity))

        self.parent = forest(data)
        self.target = steps.times.down(value) + 1
        self.cell = max(1, self.target // _MOMENTS)
        """Units of time from one moment to the next; a start counts as the moment before."""
        self.least_work = [self._least_work(r) for r in range(len(data.renewable))]

    def _least_work(self, r: int) -> list[Array]:
        """Return the least work of each activity and those after it in the forest, by its start.

        Parameters
        ----------
        r
            The resource that they work on.
        """
        steps, tables = self.steps, dict[int, Array]()
        starts = np.arange(self.target // self.cell + 1) * self.cell
        for k in reversed(steps.data.problem.order):
            check_time()
            best = np.full(len(starts), np.inf)
            after = [tables[c] for c, p in enumerate(self.parent) if p == k]
            for length, use in zip(steps.lengths[k], steps.rates[k], strict=True):
                ends = starts + length
                at = np.minimum(ends // self.cell, len(starts) - 1)
                work = length * float(use[r]) + sum((table[at] for table in after), np.zeros(1))
                late = ends + self.tails[k] > self.target
                np.minimum(best, np.where(late, np.inf, work), out=best)
            tables[k] = best
        return [tables[k] for k in range(steps.size)]

    def __call__(self, plans: PartialPlans) -> Array:
        """Return it for each plan, seconds, shape (plans,)."""
        steps, count = self.steps, len(plans)
        most = np.zeros(count, np.int64)
        starts = np.zeros((count, steps.size), np.int64)
        for k in steps.data.problem.order:
            start = soonest_of(steps, plans, k)
            for p in steps.waits_for[k]:
                # Of those that have started the end is in the start already.
                np.maximum(
                    start, starts[:, p] + self.shortest[p], out=start, where=~plans.started[:, p]
                )
            starts[:, k] = np.where(plans.started[:, k], 0, start)
            ends = start + (self.shortest[k] + self.tails[k])
            np.maximum(most, np.where(plans.started[:, k], 0, ends), out=most)
        free = np.maximum(plans.free, plans.now[:, None])
        held = [
            free[:, first:last].cumsum(axis=1)
            for first, last in zip(steps.units[:-1], steps.units[1:], strict=True)
        ]
        waiting = ~plans.started
        for r, tail, work, capacity in self.works:
            left = waiting @ work
            # With a tail behind it the work may end before some units are free: those do none of
            # it, whichever they are. Rounded up: whole times end at whole times.
            needs = np.min(-(-(held[r] + left[:, None]) // np.arange(1, capacity + 1)), axis=1)
            np.maximum(most, np.where(left > 0, needs + tail, 0), out=most)
        for r, tables in enumerate(self.least_work):
            if not held[r].size:
                continue
            total = held[r][:, -1].astype(np.float64)
            for k, p in enumerate(self.parent):
                awaited = waiting[:, k] if p is None else waiting[:, k] & plans.started[:, p]
                at = np.minimum(starts[:, k] // self.cell, len(tables[k]) - 1)
                total += np.where(awaited, tables[k][at], 0.0)
            ends = np.ceil(total / steps.data.renewable[r].capacity)
            # What does not end in time ends after it.
            ends = np.minimum(ends, self.target + 1)
            np.maximum(most, np.where(waiting.any(axis=1), ends, 0).astype(np.int64), out=most)
        return np.asarray(np.maximum(most * steps.times.unit, plans.cost))
