"""The Lagrangian bound of F2 in continuous time.

Without slots a job may start, change and end at any moment. Prices stay constant within a slot of
a grid laid over time; a job then faces, in every slot, a piecewise linear cost of doing work: the
lower convex hull of (0, 0) and (work, price) of its configurations, because it may mix them in
time. For each slot in which it could complete, its cheapest way is a continuous knapsack, solved by
filling the cheapest pieces of all earlier slots. Every schedule pays at least that, whatever its
moments are.
"""

from __future__ import annotations

import math

import numpy as np

from alloc.models.malleable.costs import JobCosts, Multipliers
from alloc.models.malleable.data import Array, SlotData, Table

Pieces = tuple[Array, Array]
"""Slope (price per work) and length (work) of the pieces of a hull, slopes rising."""


def fluid_bound(data: SlotData, prices: Array, multipliers: Multipliers | None = None) -> float:
    """Return the lower bound in continuous time that prices prove, in the objective's unit.

    Parameters
    ----------
    data
        The instance on a grid of slots; only arrivals, work, tables and what is asked are used. The
        floors of its peaks must hold in continuous time.
    prices
        Price of each row in each slot of the grid, shape (slots, R), 0 or more. Capacity after the
        grid is free.
    multipliers
        Of peaks and held levels, where there are any.
    """
    prices = np.maximum(prices, 0.0)
    job_costs, constant = data.target.relaxed(multipliers or data.target.nothing())
    hulls = [[_hull(table, price) for price in prices @ table.use.T] for table in data.tables]
    costs = [prices @ table.use.T for table in data.tables]
    total = constant - float((prices @ data.rows.capacity).sum())
    for j in range(data.num_jobs):
        table = int(data.table_of[j])
        total += _cheapest(data, j, job_costs, hulls[table], costs[table])
    return total * data.slot_s


def _hull(table: Table, price: Array) -> Pieces:
    """Return the lower convex hull of (0, 0) and all (work, price) in one slot."""
    points = [(0.0, 0.0)]
    for work, cost in sorted(zip(table.rate.tolist(), price.tolist(), strict=True)):
        if work == points[-1][0]:
            continue  # sorted by cost within equal work: the first is the cheapest
        while len(points) > 1 and _slope(points[-2], points[-1]) >= _slope(
            points[-1], (work, cost)
        ):
            points.pop()
        points.append((work, cost))
    corners = np.array(points)
    lengths = np.diff(corners[:, 0])
    return np.diff(corners[:, 1]) / lengths, lengths


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


def _cheapest(
    data: SlotData, j: int, job_costs: JobCosts, hulls: list[Pieces], price: Array
) -> float:
    """Return the least cost of the completion of job j, plus prices."""
    rate = data.table(j).rate
    arrival = float(data.release[j] - data.lag[j])
    work, due = float(data.work[j]), float(job_costs.due[j])
    free: Pieces = (np.zeros(1), np.array([rate.max()]))
    slopes, lengths = np.zeros(0), np.zeros(0)
    best = math.inf
    t = math.floor(arrival + 1e-9)
    first = True
    while first or job_costs.of(j, float(t)) < best:
        slope, length = hulls[t] if t < len(hulls) else free
        share = min(t + 1 - arrival, 1.0) if first else 1.0
        slopes = np.concatenate([slopes, slope])
        lengths = np.concatenate([lengths, length * share])
        begin = max(float(t), arrival)
        order = np.argsort(slopes, kind="stable")
        filled = np.cumsum(lengths[order])
        if filled[-1] >= work * (1 - 1e-12):
            last = min(int(np.searchsorted(filled, work)), len(order) - 1)
            before = filled[last - 1] if last else 0.0
            ordered = slopes[order]
            marginal = float(ordered[last])
            paid = float(ordered[:last] @ lengths[order][:last]) + marginal * (work - before)
            # Completing earlier in the slot costs at least the tangent of the convex cost there.
            here = price[t] if t < len(price) else np.zeros(len(rate))
            saved = float(np.maximum(marginal * rate - here, 0.0).max())
            # Linear but for the due date, so one of three moments is the cheapest.
            for end in (begin, min(max(due, begin), t + 1.0), t + 1.0):
                best = min(best, job_costs.of(j, end) + paid + saved * (t + 1 - end))
        first = False
        t += 1
    return best
