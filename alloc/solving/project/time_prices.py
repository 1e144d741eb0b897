"""Prices of units of time, with which plans that are begun are shown to end no sooner.

A price is for a unit of a renewable resource and a unit of time, constant between some moments. At
it every activity costs something in each mode and from each start, so that the stages that are
still to run have a least cost, which ends by a moment T let rise. What all units are worth until
the end pays for them: so the end is no sooner than the moment until which they are worth as much.
Any price proves something. Work counts from a moment on at the price that is 0 before it and 1
afterwards; other prices are raised for a plan, as those of a linear program would be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.clock import check_time
from alloc.solving.project.partial_plans import Array, Bools, Ints, PartialPlans, Steps

MOMENTS = 10_000
"""Moments of the tables at most: an hour in tenths of a second is nearly exact; more take tenths of
a second to fill for tiny projects, and prove less than a thousandth more."""
_INTERVALS, _CELLS = 80, 8
"""Intervals of one price each, and cells of time in each, of prices that are raised."""
_ROUNDS, _CLOSE = 100, 1e-3
"""Rounds of column generation at most, and the relative gap at which it ends."""
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

    def soonest_end(self, free: Ints, cells: Ints, awaited: Bools) -> Ints:
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
        """
        total, units = np.zeros(len(free)), self.deadline.steps.units
        for k, table in enumerate(self.tables):
            rows = np.flatnonzero(awaited[k])
            total[rows] += table[cells[k][rows]]
        for r in self.resources:
            total += self.paid_at(r, free[:, units[r] : units[r + 1]]).sum(axis=1)
        total -= _ROUNDING * self.worth[-1]
        late = total > self.worth[-1]
        after = np.searchsorted(self.worth, total, side="left").clip(1, len(self.worth) - 1)
        step = np.diff(self.worth)[after - 1]
        share = (total - self.worth[after - 1]) / np.where(step > 0, step, 1.0)
        with np.errstate(invalid="ignore"):
            ends = self.edges[after - 1] + share * np.diff(self.edges)[after - 1]
        ends = np.where(late, self.deadline.target + 1, ends)
        return np.ceil(ends - _WHOLE).astype(np.int64)


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


class _Grid:
    """What a plan leaves to do and to do it with, in cells of time."""

    def __init__(self, deadline: Deadline, plan: PartialPlans, starts: Ints) -> None:
        self.deadline = deadline
        steps, begin, target = deadline.steps, int(plan.now[0]), deadline.target
        self.size = max((target - begin) / (_INTERVALS * _CELLS), 1e-9)
        self.times = begin + self.size * np.arange(_INTERVALS * _CELLS + 1)
        self.edges = self.times[::_CELLS]
        self.room = np.zeros((len(deadline.capacity), _INTERVALS))
        """What there is of each resource in each interval, in intervals of a unit."""
        for r in range(len(self.room)):
            free = np.maximum(plan.free[0, steps.units[r] : steps.units[r + 1]], begin)
            inside = self.edges[1:] - np.clip(free[:, None], self.edges[:-1], self.edges[1:])
            self.room[r] = inside.sum(axis=0) / (self.size * _CELLS)
        started, count = plan.started[0], len(self.times)
        self.waits = [k for k in steps.data.problem.order if not started[k]]
        self.roots = [k for k in self.waits if (p := deadline.parent[k]) is None or started[p]]
        self.first = np.clip((starts - begin) / self.size, 0, count - 1).astype(np.int64)
        self.jumps, self.ends, self.late = {}, {}, {}
        for k in self.waits:
            lengths = np.array(steps.lengths[k])
            self.jumps[k] = np.minimum(lengths / self.size, count - 1).astype(np.int64)
            ends = self.times + lengths[:, None]
            self.late[k] = ends + deadline.tails[k] > target
            self.late[k][:, : self.first[k]] = True
            self.ends[k] = np.minimum(ends, target)

    def cheapest(self, each: Array) -> Iterator[tuple[int, float, Array, tuple[int, ...]]]:
        """Yield what each root and those after it do at a price: root, cost, use and where.

        Parameters
        ----------
        each
            The price of each resource in each interval, of a unit for all of it, shape (R, K).
        """
        steps, count = self.deadline.steps, len(self.times)
        paid = np.cumsum(np.repeat(each / _CELLS, _CELLS, axis=1), axis=1)
        paid = np.hstack([np.zeros((len(each), 1)), paid])
        at = np.arange(count)
        costs, least, first = dict[int, Array](), dict[int, Array](), dict[int, Ints]()
        for k in reversed(self.waits):
            cost = np.empty(self.late[k].shape)
            for m, use in enumerate(steps.rates[k]):
                end = np.minimum(at + self.jumps[k][m], count - 1)
                total = use @ paid
                cost[m] = np.interp(self.ends[k][m], self.times, total) - total
                for child in self.deadline.children[k]:
                    cost[m] += least[child][end]
            cost[self.late[k]] = np.inf
            best = cost.min(axis=0)
            least[k] = np.minimum.accumulate(best[::-1])[::-1]
            here = np.where(best <= least[k], at, count)
            first[k] = np.minimum.accumulate(here[::-1])[::-1]
            costs[k] = cost
        for root in self.roots:
            held, where, stack = np.zeros(self.room.shape), list[int](), [(root, 0)]
            while stack and np.isfinite(least[root][0]):
                k, free = stack.pop()
                i = int(first[k][min(free, count - 1)])
                m = int(costs[k][:, i].argmin())
                stack += [(child, i + int(self.jumps[k][m])) for child in self.deadline.children[k]]
                inside = np.minimum(self.ends[k][m][i], self.edges[1:]) - np.maximum(
                    self.times[i], self.edges[:-1]
                )
                held += np.outer(steps.rates[k][m], np.maximum(inside, 0.0))
                where += [k, m, i]
            yield root, float(least[root][0]), held / (self.size * _CELLS), tuple(where)


def raised_price(deadline: Deadline, plan: PartialPlans, starts: Ints) -> TimePrice | None:
    """Return the price at which a plan overruns the deadline by most, or None if it is late.

    It is that of the linear program that spreads the choices for what is left to do over time so
    that the largest share of what there is of a resource is the least, found by column generation.

    Parameters
    ----------
    deadline
        What activities may do.
    plan
        The plan, one row.
    starts
        Soonest start of each of its activities, in units, shape (A,).
    """
    grid = _Grid(deadline, plan, starts)
    room, rows = grid.room.ravel(), {root: n for n, root in enumerate(grid.roots)}
    if not room.sum() or not rows:
        return None
    program = LinearProgram(presolve=False)
    program.add_rows(np.full(len(room), -np.inf), np.zeros(len(room)))
    program.add_rows(np.ones(len(rows)), np.ones(len(rows)))
    # The share, of which intervals with nothing left have none: there nothing runs.
    there = np.flatnonzero(room)
    program.add_columns(np.ones(1), np.zeros(1), np.full(1, np.inf), [0], there, -room[there])
    master = RestrictedMaster[tuple[int, ...]]("the master of prices of time", program)
    each, best, price = np.full(grid.room.shape, 1 / room.sum()), -math.inf, None
    for _ in range(_ROUNDS):
        check_time()
        columns, total = [], 0.0
        for root, cost, held, where in grid.cheapest(each):
            if not math.isfinite(cost):
                return None
            total += cost
            used = np.flatnonzero(held.ravel())
            entries = np.append(held.ravel()[used], 1.0)
            at = np.append(used, len(room) + rows[root])
            columns.append(MasterColumn(where, 0.0, at, entries))
        if total > best:
            best, price = total, each
        if not master.add(columns):
            break
        solution = master.solve()
        if solution.value <= best * (1 + _CLOSE):
            break
        each = np.maximum(-solution.duals[: len(room)], 0.0).reshape(each.shape)
    edges = np.rint(grid.edges[:-1]).astype(np.int64)
    edges[0] = 0
    keep = np.diff(edges, append=deadline.target) > 0
    assert price is not None
    return TimePrice(deadline, edges[keep], price[:, keep] / price.max())
