"""Prices of time that are raised for a plan that is begun, until they show that it ends too late.

They are those of the linear program that spreads the choices for what is left to do over time so
that the largest share of what there is of a resource is the least. It is solved by column
generation: a column is what a stage and those after it do at some price. Above a share of 1 the
plan cannot end in time, and the price shows it; it shows as much of many plans like it.

References
----------
P. Wentges, "Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming",
International Transactions in Operational Research 4(2), 1997 (prices between the best ones and
those of the master).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.clock import check_time
from alloc.solving.project.partial_plans import Array, Ints, PartialPlans
from alloc.solving.project.time_prices import Deadline, TimePrice

_INTERVALS, _CELLS = 24, 16
"""Intervals of one price each, and cells of time in each. Prices of 80 intervals say a little more
of their plan, take four times as long, and say less of others."""
_ROUNDS, _CLOSE = 100, 1e-3
"""Rounds of column generation at most, and the relative gap at which it ends."""
_LITTLE = 1e-3
"""What there is of a resource in an interval at least, in intervals of a unit: any price is one."""
_STAY = 0.5
"""How far the prices asked for stay at the best ones: the master's leap about at first."""


class _Grid:
    """What a plan leaves to do and to do it with, in cells of time."""

    def __init__(self, deadline: Deadline, plan: PartialPlans, starts: Ints) -> None:
        self.deadline = deadline
        steps, begin, target = deadline.steps, int(plan.now[0]), deadline.target
        count = _INTERVALS * _CELLS + 1
        self.size = max((target - begin) / (count - 1), 1e-9)
        self.times = begin + self.size * np.arange(count)
        self.edges = self.times[::_CELLS]
        self.room = np.zeros((len(deadline.capacity), _INTERVALS))
        """What there is of each resource in each interval, in intervals of a unit."""
        for r in range(len(self.room)):
            free = np.maximum(plan.free[0, steps.units[r] : steps.units[r + 1]], begin)
            inside = self.edges[1:] - np.clip(free[:, None], self.edges[:-1], self.edges[1:])
            # Starts are moved to the cell before, in an interval in which nothing may be free.
            self.room[r] = np.maximum(inside.sum(axis=0) / (self.size * _CELLS), _LITTLE)
        started = plan.started[0]
        self.waits = [k for k in steps.data.problem.order if not started[k]]
        self.roots = [k for k in self.waits if (p := deadline.parent[k]) is None or started[p]]
        self.first = np.clip((starts - begin) / self.size, 0, count - 1).astype(np.int64)
        # The cell in which each mode ends of a start with the first, how far in it that is, and
        # the first start from which it ends too late.
        self.jumps, self.parts, self.late = {}, {}, {}
        for k in self.waits:
            lengths = np.minimum(np.array(steps.lengths[k]) / self.size, count - 1)
            self.jumps[k] = lengths.astype(np.int64)
            self.parts[k] = lengths - self.jumps[k]
            latest = target - deadline.tails[k] - np.array(steps.lengths[k])
            self.late[k] = np.searchsorted(self.times, latest, side="right")

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
            cost = np.full((len(steps.rates[k]), count), np.inf)
            for m, use in enumerate(steps.rates[k]):
                jump, part = int(self.jumps[k][m]), float(self.parts[k][m])
                low, high = int(self.first[k]), min(int(self.late[k][m]), count - jump)
                if low >= high:
                    continue
                total = use @ paid
                here = cost[m, low:high]
                here[:] = total[low + jump : high + jump]
                following = total[low + jump + 1 : high + jump + 1]
                here[: len(following)] += part * (following - here[: len(following)])
                here -= total[low:high]
                for child in self.deadline.children[k]:
                    here += least[child][low + jump : high + jump]
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
                end = min(self.times[i] + steps.lengths[k][m], self.times[-1])
                inside = np.minimum(end, self.edges[1:]) - np.maximum(
                    self.times[i], self.edges[:-1]
                )
                held += np.outer(steps.rates[k][m], np.maximum(inside, 0.0))
                where += [k, m, i]
            yield root, float(least[root][0]), held / (self.size * _CELLS), tuple(where)


def raised_price(deadline: Deadline, plan: PartialPlans, starts: Ints) -> TimePrice | None:
    """Return a price at which a plan overruns the deadline, or None.

    None is what there is for a plan that is late at any price, and for one that no price of the
    grid shows to be late.

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
    if not rows:
        return None
    program = LinearProgram(presolve=False)
    program.add_rows(np.full(len(room), -np.inf), np.zeros(len(room)))
    program.add_rows(np.ones(len(rows)), np.ones(len(rows)))
    share = np.arange(len(room))
    program.add_columns(np.ones(1), np.zeros(1), np.full(1, np.inf), [0], share, -room)
    master = RestrictedMaster[tuple[int, ...]]("the master of prices of time", program)
    each = np.full(grid.room.shape, 1 / room.sum())
    best, price, most = -math.inf, each, math.inf
    dual: Array | None = None
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
        if master.add(columns):
            solution = master.solve()
            most = solution.value
            dual = np.maximum(-solution.duals[: len(room)], 0.0).reshape(each.shape)
            each = _STAY * price + (1 - _STAY) * dual
        elif dual is None or each is dual:
            break
        else:
            each = dual
        if most <= max(1.0, best * (1 + _CLOSE)):
            break
    if best <= 1.0:
        return None
    edges = np.rint(grid.edges[:-1]).astype(np.int64)
    edges[0] = 0
    keep = np.diff(edges, append=deadline.target) > 0
    return TimePrice(deadline, edges[keep], price[:, keep] / price.max())
