"""What a plan that is begun costs at least: by prices of time, and by paths and work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from alloc.models.project.prices import PricesOfGraph, forest
from alloc.solving.project.partial_plans import Array, Bools, Ints, PartialPlans, Steps
from alloc.solving.project.raised_prices import raised_price
from alloc.solving.project.time_prices import Deadline, PriceTables, TimePrice, price_from

_MOMENTS = 100_000
"""Moments of the tables of prices at most: so many are a megabyte for each stage."""
_TAILS = 6
"""Tails for which the work of the activities with at least so much behind them is counted."""
_WINDOWS, _TRIED = 6, 12
"""Moments from which on the least work is counted too, and moments of which they are picked: a
handful of the best prove nearly what a price for each moment would."""
_COARSE = 1000
"""Moments of the tables by which they are picked."""

_AT_ONCE, _MOST, _BYTES = 16, 96, 2**28
"""Prices whose tables are looked up together, raised prices that are kept, and bytes of their
tables."""
_MANY, _WORTH, _MISSES = 1500, 600, 2
"""Plans of a layer from which on prices are raised for them; plans that a price has to show to be
late to be worth its 40 ms, for a plan takes 20 us in its own layer and as much in those after it;
and how many may show fewer before no more are raised: later layers gain from those too."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it spread evenly over the plans, however many are taken."""
_CHUNK = 2048
"""Plans that are asked about at once: what is told of them fits the cache of a core."""
_ROUNDS = 1e-13
"""Rounding of a sum of some hundred doubles, as a share of the sum of their sizes."""


class RestBound(Protocol):
    """Says what plans cost at least."""

    @property
    def rounding(self) -> float:
        """By how much it may be too high, since sums round, seconds."""

    @property
    def raised(self) -> Sequence[TimePrice]:
        """What it learned: prices for the bound of the next pass."""

    def sharpen(self, plans: PartialPlans) -> PartialPlans:
        """Learn from the plans of a layer; return those that may still be better."""

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
    found = np.maximum(steps.ready(plans, k), plans.now)
    return np.maximum(found, steps.room(plans, steps.least_rates[k]))


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
        self.raised: Sequence[TimePrice] = ()
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

    def sharpen(self, plans: PartialPlans) -> PartialPlans:
        """Return the plans: its prices are raised for the whole project."""
        return plans

    def _cells(self, times: Ints) -> Ints:
        return np.minimum(times // self.cell, self.last)


class PathsAndWork:
    """The makespan of the longest path, and of the work on each resource with what follows it.

    The later an activity starts, the shorter, and so the dearer, are the modes in which it and
    those after it still end in time: the least work is known for every start. Before the releases
    there is little to do, so that work is counted from some moments on as well: of a run that
    begins before such a moment, what is left of it then.

    Parameters
    ----------
    steps
        How the plans go on.
    value
        Makespan of a plan, seconds: what is said of longer ones may be too much, though it is never
        below this.
    prices
        Further prices of time, such as those raised in the pass before.
    """

    rounding = 0.0
    """See `RestBound`: its times are whole."""

    def __init__(self, steps: Steps, value: float, prices: Sequence[TimePrice] = ()) -> None:
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

        self.deadline = Deadline(steps, forest(data), self.tails, steps.times.down(value) + 1)
        self.raised = [price.until(self.deadline) for price in prices]
        """The further prices; `sharpen` adds to them."""
        self.told = [0] * len(self.raised)
        """How many plans each of them has shown to be late, lately."""
        fixed = [price for r in range(len(data.renewable)) for price in self._from(r)]
        self.fixed = [PriceTables(fixed)] if fixed else []
        row = 8 * steps.size * len(self.deadline.starts)
        self.most = max(_AT_ONCE, min(_MOST, _BYTES // row))
        self.tables = list[PriceTables]()
        self._stack()

    def _stack(self) -> None:
        """Put the prices together, those that say most first."""
        order = sorted(range(len(self.raised)), key=lambda n: -self.told[n])[: self.most]
        self.raised, self.told = [self.raised[n] for n in order], [self.told[n] for n in order]
        self.tables = [
            PriceTables(self.raised[n : n + _AT_ONCE]) for n in range(0, len(order), _AT_ONCE)
        ]

    def sharpen(self, plans: PartialPlans) -> PartialPlans:
        """Raise prices for some of many plans, and return those that are not shown to be late.

        Parameters
        ----------
        plans
            The plans, those with the same activities next to one another.
        """
        missed = tried = 0
        known = len(self.raised)
        self.told = [told // 2 for told in self.told]
        # No more than are kept: each has a megabyte or more of tables.
        while len(plans) >= _MANY and missed < _MISSES and tried < self.most:
            row = int(len(plans) * (tried * _GOLDEN % 1))
            one = plans[row : row + 1]
            tried += 1
            price = raised_price(self.deadline, one, self._starts(one)[:, 0])
            late = np.zeros(len(plans), np.bool_)
            if price is not None:
                tables = PriceTables([price])
                for first in range(0, len(plans), _CHUNK):
                    part = plans[first : first + _CHUNK]
                    ends, _ = tables.soonest_end(*self._asked(part, self._starts(part)))
                    late[first : first + _CHUNK] = ends >= self.deadline.target
                self.raised.append(price)
                self.told.append(int(late.sum()))
                plans = plans[~late]
            missed += late.sum() < _WORTH
        if len(self.raised) > known:
            self._stack()
        return plans

    def _asked(self, plans: PartialPlans, starts: Ints) -> tuple[Ints, Ints, Bools]:
        """Return what `PriceTables.soonest_end` takes of plans and their soonest starts."""
        free = np.maximum(plans.free, plans.now[:, None])
        awaited = ~plans.started.T
        for k, p in enumerate(self.deadline.parent):
            if p is not None:
                awaited[k] &= plans.started[:, p]
        return free, self.deadline.cells(starts), awaited

    def _from(self, r: int) -> list[TimePrice]:
        """Return prices of the work on a resource from some moments on, 0 first.

        Parameters
        ----------
        r
            The resource.
        """
        if not self.steps.data.renewable[r].capacity:
            return []
        begin, deadline = self.steps.begin(), self.deadline
        starts = self._starts(begin)
        moments = np.unique(starts[(starts > 0) & (starts < deadline.target)])
        if len(moments) > _TRIED:
            moments = moments[np.linspace(0, len(moments) - 1, _TRIED).astype(int)]
        awaited = np.array([[p is None] for p in deadline.parent])
        coarse = Deadline(self.steps, deadline.parent, self.tails, deadline.target, _COARSE)
        ends = {
            moment: PriceTables([price_from(coarse, r, moment)]).soonest_end(
                begin.free, coarse.cells(starts), awaited
            )[0][0]
            for moment in (0, *moments.tolist())
        }
        # A later moment that proves no more than the begin at first will not do so afterwards.
        later = sorted((m for m in ends if ends[m] > ends[0]), key=lambda m: -ends[m])
        return [price_from(deadline, r, moment) for moment in (0, *later[:_WINDOWS])]

    def _starts(self, plans: PartialPlans) -> Ints:
        """Return the soonest start of each activity, 0 where it has started, shape (A, plans)."""
        steps, rooms = self.steps, dict[bytes, Ints]()
        starts, started = np.zeros((steps.size, len(plans)), np.int64), plans.started.T
        for k in steps.data.problem.order:
            uses = steps.least_rates[k]
            if uses.tobytes() not in rooms:
                rooms[uses.tobytes()] = np.maximum(steps.room(plans, uses), plans.now)
            start = np.maximum(rooms[uses.tobytes()], steps.ready(plans, k))
            for p in steps.waits_for[k]:
                # Of those that have started the end is in the start already.
                np.maximum(start, starts[p] + self.shortest[p], out=start, where=~started[p])
            start[started[k]] = 0
            starts[k] = start
        return starts

    def __call__(self, plans: PartialPlans) -> Array:
        """Return it for each plan, seconds, shape (plans,)."""
        steps, starts = self.steps, self._starts(plans)
        ends = np.where(plans.started.T, 0, starts + (self.shortest + self.tails)[:, None])
        most, target = ends.max(axis=0), self.deadline.target
        free, cells, awaited = self._asked(plans, starts)
        # Those that are late already need no more proof.
        rows = np.flatnonzero(most < target - 1)
        first = -len(self.fixed)
        for n, tables in enumerate([*self.fixed, *self.tables], first):
            said, by = tables.soonest_end(free[rows], cells[:, rows], awaited[:, rows])
            most[rows] = np.maximum(most[rows], said)
            late = said >= target
            if n >= 0:
                for price in by[late].tolist():
                    self.told[n * _AT_ONCE + price] += 1
            rows = rows[~late]
        most[rows] = np.maximum(most[rows], self._work(free[rows], ~plans.started[rows]))
        return np.asarray(np.maximum(most * steps.times.unit, plans.cost))

    def _work(self, free: Ints, waiting: Bools) -> Ints:
        """Return when plans end by the work that waits and what follows it, in units."""
        most = np.zeros(len(free), np.int64)
        held = [
            free[:, first:last].cumsum(axis=1)
            for first, last in zip(self.steps.units[:-1], self.steps.units[1:], strict=True)
        ]
        for r, tail, work, capacity in self.works:
            left = waiting @ work
            # With a tail behind it the work may end before some units are free: those do none of
            # it, whichever they are. Rounded up: whole times end at whole times.
            needs = np.min(-(-(held[r] + left[:, None]) // np.arange(1, capacity + 1)), axis=1)
            np.maximum(most, np.where(left > 0, needs + tail, 0), out=most)
        return most
