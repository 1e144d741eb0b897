"""Prices of units of time, with which plans that are begun are shown to end no sooner.

A price is for a unit of a renewable resource and a unit of time, constant between some moments. At
it every activity costs something in each mode and from each start, so that the stages that are
still to run have a least cost, which ends by a moment T let rise. What all units are worth until
the end pays for them: so the end is no sooner than the moment until which they are worth as much.
Any price proves something. Work counts from a moment on at the price that is 0 before it and 1
afterwards; other prices are raised for a plan, as those of a linear program would be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alloc.clock import check_time
from alloc.solving.project.partial_plans import Array, Bools, Ints, Steps

MOMENTS = 10_000
"""Moments of the tables at most: an hour in tenths of a second is nearly exact; more take tenths of
a second to fill for tiny projects, and prove less than a thousandth more."""
_ROUNDING = 1e-12
"""Share by which a sum of some hundred doubles may be too high."""
_WHOLE = 1e-6
"""Part of a unit of time by which a quotient may be above a whole number that it is."""


class Deadline:
    """What activities may do that end by a moment, whatever the price.

    Parameters
    ----------
    steps
        How plans go on.
    parent
        Of each activity one that comes before it, or None: the others are left out.
    tails
        Least time from the end of each activity to that of all, in units, shape (A,).
    target
        The moment, in units.
    moments
        Moments of the tables at most.
    """

    def __init__(
        self,
        steps: Steps,
        parent: Sequence[int | None],
        tails: Ints,
        target: int,
        moments: int = MOMENTS,
    ) -> None:
        self.steps, self.parent, self.tails, self.target = steps, parent, tails, target
        self.cell = max(1, target // moments)
        """Units of time from one moment of the tables to the next; a start counts as the one
        before."""
        self.starts = np.arange(target // self.cell + 1) * self.cell
        self.children: list[list[int]] = [[] for _ in parent]
        for k, p in enumerate(parent):
            if p is not None:
                self.children[p].append(k)
        self.heads = steps.release.copy()
        """Earliest start of each activity if resources were no limit, in units, shape (A,)."""
        for k in steps.data.problem.order:
            for p in steps.data.problem.predecessors[k]:
                self.heads[k] = max(self.heads[k], self.heads[p] + min(steps.lengths[p]))
        self.capacity = np.array([r.capacity for r in steps.data.renewable], np.float64)

    def cells(self, starts: Ints) -> Ints:
        """Return the positions of some starts in the tables.

        Parameters
        ----------
        starts
            The starts, in units.
        """
        return np.minimum(starts // self.cell, len(self.starts) - 1)


class TimePrice:
    """A price, and the least cost of each activity and those after it at it.

    Parameters
    ----------
    deadline
        What activities may do.
    edges
        Moments from which on each price holds, in units, 0 first, rising, shape (K,).
    each
        The price of a unit of each resource for a unit of time, 0 or more, shape (R, K).
    """

    def __init__(self, deadline: Deadline, edges: Ints, each: Array) -> None:
        before = edges < deadline.target
        self.deadline, self.edges = deadline, np.append(edges[before], deadline.target)
        self.each = each = each[:, before]
        rows = np.cumsum(each * np.diff(self.edges), axis=1)
        self.paid = np.hstack([np.zeros((len(each), 1)), rows])
        """Of a unit of each resource until each edge, shape (R, K + 1)."""
        self.worth = deadline.capacity @ self.paid
        """Of all units until each edge, shape (K + 1,)."""
        self.resources = np.flatnonzero(each.any(axis=1)).tolist()
        self.tables = self._tables()

    def until(self, deadline: Deadline) -> TimePrice:
        """Return the same price for another deadline.

        Parameters
        ----------
        deadline
            The deadline; the last price goes on until then.
        """
        return TimePrice(deadline, self.edges[:-1], self.each)

    def paid_at(self, r: int, moments: Ints) -> Array:
        """Return what a unit of a resource costs until some moments.

        Parameters
        ----------
        r
            The resource.
        moments
            The moments, in units.
        """
        return np.asarray(np.interp(moments, self.edges, self.paid[r]))

    def _tables(self) -> list[Array]:
        """Return the least cost of each activity and its followers in the forest, by start."""
        deadline, steps, tables = self.deadline, self.deadline.steps, dict[int, Array]()
        last = deadline.starts + (deadline.cell - 1)
        begun = {r: self.paid_at(r, last) for r in self.resources}
        for k in reversed(steps.data.problem.order):
            check_time()
            best = np.full(len(last), np.inf)
            for length, use in zip(steps.lengths[k], steps.rates[k], strict=True):
                ends = deadline.starts + length
                cost = np.zeros(len(last))
                for r in self.resources:
                    if use[r]:
                        # Of the starts that count as one the end is the first, the begin the last.
                        cost += float(use[r]) * np.maximum(self.paid_at(r, ends) - begun[r], 0.0)
                at = deadline.cells(ends)
                for child in deadline.children[k]:
                    cost += tables[child][at]
                cost[ends + deadline.tails[k] > deadline.target] = np.inf
                np.minimum(best, cost, out=best)
            best[: deadline.cells(deadline.heads[k])] = np.inf
            tables[k] = np.minimum.accumulate(best[::-1])[::-1]
        return [tables[k] for k in range(steps.size)]


class PriceTables:
    """Some prices at once: what they say of many plans.

    Parameters
    ----------
    prices
        The prices, one or more, of one deadline.
    """

    def __init__(self, prices: Sequence[TimePrice]) -> None:
        self.prices, self.deadline = prices, prices[0].deadline
        deadline, last = self.deadline, len(self.deadline.starts)
        # What all units are worth until the deadline is 1, or 0 of a price of nothing.
        self.scale = np.array([1 / p.worth[-1] if p.worth[-1] else 0.0 for p in prices])
        self.costs = np.zeros((deadline.steps.size, last + 1, len(prices)))
        """Of each activity and those after it by start, 0 in the last row, shape (A, C + 1, P)."""
        self.paid = np.zeros((len(deadline.capacity), last, len(prices)))
        """Of a unit of each resource until each start, shape (R, C, P)."""
        for n, price in enumerate(prices):
            for k, table in enumerate(price.tables):
                self.costs[k, :last, n] = table * self.scale[n] if self.scale[n] else 0.0
            for r in price.resources:
                self.paid[r, :, n] = price.paid_at(r, deadline.starts) * self.scale[n]
        self.resources = np.flatnonzero(self.paid.any(axis=(1, 2))).tolist()

    def soonest_end(self, free: Ints, cells: Ints, awaited: Bools) -> tuple[Ints, Ints]:
        """Return when plans end at the soonest, in units, or a moment after the deadline.

        Parameters
        ----------
        free
            When each unit is free, shape (plans, units).
        cells
            Soonest start of each activity, as `Deadline.cells` has it, shape (A, plans).
        awaited
            Which activities have not started and wait in the forest for none that has not, shape
            (A, plans).

        Returns
        -------
        tuple
            The ends, and which of the prices says so, shape (plans,) each.
        """
        units = self.deadline.steps.units
        total = np.full((len(free), len(self.prices)), -_ROUNDING)
        for k in np.flatnonzero(awaited.any(axis=1)).tolist():
            total += self.costs[k][np.where(awaited[k], cells[k], -1)]
        at = self.deadline.cells(free)
        for r in self.resources:
            for unit in range(units[r], units[r + 1]):
                total += self.paid[r][at[:, unit]]
        best = total.argmax(axis=1)
        share = total[np.arange(len(total)), best]
        ends = np.full(len(free), self.deadline.target + 1)
        for n in np.unique(best).tolist():
            rows = np.flatnonzero((best == n) & (share <= 1.0))
            ends[rows] = self._ends(n, share[rows])
        return ends, best

    def _ends(self, n: int, share: Array) -> Ints:
        """Return until when all units are worth so much at a price, in units, rounded up."""
        price = self.prices[n]
        worth = price.worth * self.scale[n]
        after = np.searchsorted(worth, share, side="left").clip(1, len(worth) - 1)
        step = np.diff(worth)[after - 1]
        part = (share - worth[after - 1]) / np.where(step > 0, step, 1.0)
        ends = price.edges[after - 1] + part * np.diff(price.edges)[after - 1]
        return np.asarray(np.ceil(ends - _WHOLE), np.int64)


def price_from(deadline: Deadline, r: int, moment: int) -> TimePrice:
    """Return the price that counts the work on a resource from a moment on.

    Parameters
    ----------
    deadline
        What activities may do.
    r
        The resource.
    moment
        The moment, in units, before the deadline.
    """
    edges = np.unique(np.array([0, moment], np.int64))
    each = np.zeros((len(deadline.capacity), len(edges)))
    each[r, edges >= moment] = 1.0
    return TimePrice(deadline, edges, each)
