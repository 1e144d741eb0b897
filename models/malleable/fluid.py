r"""The Lagrangian bound of F2 in continuous time.

Without slots a job may start, change and end at any moment. Prices are constant within each
interval of a grid laid over time, whose intervals may differ in length. A job of work W that begins
at b and completes at T then pays at least

    cost(T) + F(T),   F(T) = max over v >= 0 of  v W - integral from b to T of phi(v, t) dt,

with ``phi(v, t) = max(0, max_c v rate_c - price_c(t))`` what a unit of time earns at the price v of
work: the least price of W units is a continuous knapsack, and this is its dual. Every v gives a
lower bound, the best one the least price itself. Both ``F`` and ``cost`` are convex within an
interval, so in each of them the least of the sum is the largest, over v, of

    v W - integral from b to the interval's start + min over T of (cost(T) - (T - start) phi(v)),

where the inner minimum is at an end of the interval or at the due date. It is concave in v and is
searched by halving. Every schedule pays at least that, whatever its moments are, and whichever
values of v were tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from alloc.models.malleable.costs import JobCosts, Multipliers
from alloc.models.malleable.data import Array, Index, SlotData, Table

_MAX_CELLS = 4 * 10**6
"""Largest number of (table, interval, price of work): 32 MB a matrix, of which there are two."""
_APART = 1e-6
"""Least distance of prices of work that are tried, relative to the highest: between closer ones
rounding would lead the search astray."""
_MIN_WORK_PRICES = 32
"""Prices of work that are tried whatever the size: fewer make a loose bound."""


@dataclass(frozen=True)
class Fluid:
    """The cheapest fluid runs of all jobs at some prices.

    Parameters
    ----------
    values
        Of each job, a lower bound on the cost of its completion plus what it pays, shape (J,).
    use
        Mean use of the rows in each interval by runs of about these values, shape (intervals, R).
    ends
        When these runs complete, slots, shape (J,).
    """

    values: Array
    use: Array
    ends: Array


class FluidPricing:
    """The pricing problems of all jobs in continuous time.

    Parameters
    ----------
    data
        The instance on a grid of slots, which here is only a unit of time: arrivals, work, tables
        and what is asked are used.
    edges
        Ends of the intervals of constant prices, slots, rising from 0, shape (intervals + 1,).
        After the last one capacity is free.
    max_work_prices
        Prices of work that are tried in each interval, where there are more.
    """

    def __init__(self, data: SlotData, edges: Array, max_work_prices: int = 1024) -> None:
        self.data = data
        self.begin = data.arrival
        self.earliest = self.begin + data.shortest
        tail = max(float(edges[-1]), float(self.earliest.max())) + float(data.shortest.max()) + 1
        self._edges = np.append(edges, tail)
        self.lengths = np.diff(edges)
        self._all_lengths = np.diff(self._edges)
        num = len(self._all_lengths)
        self._first = np.searchsorted(self._edges[:-1], self.begin, side="right") - 1
        ending = np.searchsorted(self._edges, self.earliest, side="left") - 1
        self._ending = np.clip(np.maximum(ending, self._first), 0, num - 1)
        most = _MAX_CELLS // (num * len(data.tables))
        self._num_prices = int(np.clip(most, _MIN_WORK_PRICES, max_work_prices))
        self._likely = self._ending
        """The interval in which each job completed last time: a good guess of the next."""
        width = max(len(table.rate) for table in data.tables)
        self._rate = np.zeros((len(data.tables), width))
        for k, table in enumerate(data.tables):
            self._rate[k, : len(table.rate)] = table.rate

    def solve(self, prices: Array, costs: JobCosts) -> Fluid:
        """Return the cheapest runs.

        Parameters
        ----------
        prices
            Price of each row per slot of time, 0 or more, shape (intervals, R).
        costs
            What completions cost.
        """
        tables = _Tables(self.data.tables, prices, self._all_lengths, self._num_prices)
        jobs = np.arange(self.data.num_jobs)
        likely = np.concatenate([self._ending, self._likely])
        values, _, _ = self._pay(tables, costs, np.tile(jobs, 2), likely)
        cutoff = values.reshape(2, -1).min(axis=0)
        # An interval whose start alone costs more than some completion is not the best.
        last = np.searchsorted(self._edges, _latest(costs, cutoff), side="left") - 1
        last = np.clip(last, np.maximum(self._ending, self._likely), len(self._all_lengths) - 1)
        job, interval = _pairs(self._ending, last)
        paid, chosen, end = self._pay(tables, costs, job, interval)
        starts = np.concatenate([[0], np.cumsum(last - self._ending + 1)[:-1]])
        least = np.minimum.reduceat(paid, starts)
        best = np.flatnonzero(paid == least[job])
        best = best[np.unique(job[best], return_index=True)[1]]
        self._likely = interval[best]
        return Fluid(least, self._use(tables, interval[best], chosen[best], end[best]), end[best])

    def _pay(
        self, tables: _Tables, costs: JobCosts, job: Index, interval: Index
    ) -> tuple[Array, Index, Array]:
        """Return the least costs of completing jobs in intervals, by which price, and when."""
        table, work = self.data.table_of[job], self.data.work[job]
        starts_here = interval == self._first[job]
        start = np.where(starts_here, self.begin[job], self._edges[interval])
        low = np.maximum(start, self.earliest[job])
        high = np.maximum(self._edges[interval + 1], low)
        moments = np.stack([low, np.clip(costs.due[job], low, high), high])
        asked = costs.base[job] + costs.rate[job] * moments
        asked += costs.late[job] * np.maximum(moments - costs.due[job], 0.0)
        moments -= start
        _, num, width = tables.earning.shape
        here, by_table, by_job = (table * num + interval) * width, table * width, job * width
        in_time = (table * (num + 1) + interval) * width
        # What would be earned from 0 to the arrival of each job.
        own, at = self.data.table_of, self._first
        before = (self.begin - self._edges[at])[:, None] * tables.earning[own, at]
        before += tables.earned[own, at]

        def sums(i: Index) -> Array:
            """Return what completing at each of the moments costs at the i-th price of work."""
            earned = tables.earned.ravel().take(in_time + i) - before.ravel().take(by_job + i)
            earned[starts_here] = 0.0
            paid = tables.price.ravel().take(by_table + i) * work - earned
            return cast(Array, asked - moments * tables.earning.ravel().take(here + i) + paid)

        below = np.zeros(len(job), dtype=np.int64)
        highest = tables.price.shape[1] - 1
        above = np.full(len(job), highest)
        while (below < above).any():
            middle = (below + above) // 2
            rising = sums(middle + (middle < above)).min(axis=0) > sums(middle).min(axis=0)
            below = np.where(rising, np.minimum(middle + 1, above), below)
            above = np.where(rising, above, middle)
        best = sums(below)
        paid = best.min(axis=0)
        # Each sum is concave in the price of work, so between two prices it is above its chord.
        for other in (np.maximum(below - 1, 0), np.minimum(below + 1, highest)):
            paid = np.maximum(paid, _crossing(best, sums(other)))
        end = start + moments[best.argmin(axis=0), np.arange(len(job))]
        return paid, below, end

    def _use(self, tables: _Tables, interval: Index, chosen: Index, end: Array) -> Array:
        """Return the mean use of the rows by runs that do all work at about the chosen prices."""
        data = self.data
        job, t = _pairs(self._first, interval)
        length = np.minimum(self._edges[t + 1], end[job])
        length = np.maximum(length - np.maximum(self._edges[t], self.begin[job]), 0.0)
        table = data.table_of[job]
        ways, work = [], []
        for more in (0, 1):
            price = tables.between[data.table_of, chosen + more][job]
            gain = price[:, None] * self._rate[table] - tables.cost[table, t]
            way = gain.argmax(axis=1)
            runs = np.where(gain[np.arange(len(t)), way] > 0, length, 0.0)
            work.append(np.bincount(job, runs * self._rate[table, way], data.num_jobs))
            ways.append((way, runs))
        more_work = work[1] - work[0]
        share = np.zeros(data.num_jobs)
        np.divide(data.work - work[0], more_work, out=share, where=more_work > 0)
        share = np.clip(share, 0.0, 1.0)[job]
        width, num = self._rate.shape[1], len(self._all_lengths)
        time = np.zeros(len(data.tables) * num * width)
        for (way, runs), part in zip(ways, (1 - share, share), strict=True):
            time += np.bincount((table * num + t) * width + way, runs * part, len(time))
        per_table = time.reshape(len(data.tables), num, width)
        use = np.zeros((num, len(data.rows.names)))
        for k, own in enumerate(data.tables):
            use += per_table[k, :, : len(own.rate)] @ own.use
        return use[:-1] / self.lengths[:, None]


class _Tables:
    """What a unit of time earns at some prices of work, by table and interval.

    Attributes
    ----------
    cost
        Price per slot of time of each configuration, infinite for none, shape (K, intervals, C).
    price
        Prices of work, rising, shape (K, V).
    between
        Prices of work around and between them, shape (K, V + 1).
    earning
        What a slot of time earns in each interval, shape (K, intervals, V).
    earned
        What is earned from 0 to the start of each interval, shape (K, intervals + 1, V).
    """

    def __init__(
        self, tables: tuple[Table, ...], prices: Array, lengths: Array, num_prices: int
    ) -> None:
        num, width = len(lengths), max(len(table.rate) for table in tables)
        self.cost = np.full((len(tables), num, width), np.inf)
        tried = []
        for k, table in enumerate(tables):
            cost = np.zeros((num, len(table.rate)))
            cost[:-1] = prices @ table.use.T
            self.cost[k, :, : len(table.rate)] = cost
            tried.append(_work_prices(table, cost, num_prices))
        longest = max(len(own) for own in tried)
        # Padding repeats the highest: no other price of work is better then.
        self.price = np.array([np.pad(own, (0, longest - len(own)), "edge") for own in tried])
        self.between = np.array([_between(own, longest + 1) for own in tried])
        self.earning = np.zeros((len(tables), num, longest))
        for k, table in enumerate(tables):
            for c, rate in enumerate(table.rate):
                gain = self.price[k] * rate - self.cost[k, :, c, None]
                np.maximum(self.earning[k], gain, out=self.earning[k])
        self.earned = np.zeros((len(tables), num + 1, longest))
        np.cumsum(self.earning * lengths[:, None], axis=1, out=self.earned[:, 1:])


def fluid_bound(
    data: SlotData,
    prices: Array,
    multipliers: Multipliers | None = None,
    edges: Array | None = None,
) -> float:
    """Return the lower bound in continuous time that prices prove, in the objective's unit.

    Parameters
    ----------
    data
        The instance on a grid of slots; only arrivals, work, tables and what is asked are used. The
        floors of its peaks must hold in continuous time.
    prices
        Price of each row per slot of time in each interval, shape (intervals, R), 0 or more.
        Capacity after the last interval is free.
    multipliers
        Of peaks and held levels, where there are any.
    edges
        Ends of the intervals, slots, rising from 0, shape (intervals + 1,); by default the slots.
    """
    edges = np.arange(len(prices) + 1.0) if edges is None else edges
    prices = np.maximum(prices, 0.0)
    job_costs, constant = data.target.relaxed(multipliers or data.target.nothing())
    values = FluidPricing(data, edges).solve(prices, job_costs).values
    sold = float((prices @ data.rows.capacity) @ np.diff(edges))
    return float(constant + values.sum() - sold) * data.slot_s


def _work_prices(table: Table, cost: Array, most: int) -> Array:
    """Return the prices of work at which the best configuration changes somewhere, and 0.

    Of more than can be tried, some of all sizes and the highest.
    """
    order = np.argsort(table.rate, kind="stable")
    rate, cost = table.rate[order], cost[:, order]
    found = [np.zeros(1), (cost / rate).ravel()]
    gaps = np.diff(rate)
    if (gaps > 0).any():
        found.append((np.diff(cost, axis=1)[:, gaps > 0] / gaps[gaps > 0]).ravel())
    tried = np.unique(np.maximum(np.concatenate(found), 0.0))
    apart = _APART * tried[-1]
    if apart > 0:
        # Of those that are close together the highest, so that the highest of all is there.
        falling = tried[::-1]
        tried = falling[np.unique(np.ceil(falling / apart), return_index=True)[1]]
    if len(tried) > most:
        tried = tried[np.linspace(0, len(tried) - 1, most).astype(np.int64)]
    return cast(Array, tried)


def _crossing(here: Array, there: Array) -> Array:
    """Return the largest least of some lines, where two of them cross between two points.

    Parameters
    ----------
    here, there
        The lines at the two points, shape (lines, n).
    """
    best = np.full(here.shape[1], -np.inf)
    slope = there - here
    for a in range(len(here)):
        for b in range(a):
            apart, turn = here[a] - here[b], slope[b] - slope[a]
            share = np.zeros(here.shape[1])
            np.divide(apart, turn, out=share, where=turn != 0)
            at = here + np.clip(share, 0.0, 1.0) * slope
            best = np.maximum(best, at.min(axis=0))
    return best


def _between(price: Array, length: int) -> Array:
    """Return prices below, between and above some, the last one repeated up to a length."""
    middle = (price[1:] + price[:-1]) / 2
    around = np.concatenate([[-1.0], middle, [2 * price[-1] + 1.0]])
    return np.pad(around, (0, length - len(around)), "edge")


def _latest(costs: JobCosts, value: Array) -> Array:
    """Return the completions up to which jobs cost no more than values, slots."""
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = np.where(costs.rate > 0, (value - costs.base) / costs.rate, np.inf)
        at_due = costs.base + costs.rate * np.where(np.isfinite(costs.due), costs.due, 0.0)
        late = costs.due + (value - at_due) / (costs.rate + costs.late)
    return cast(Array, np.where((plain > costs.due) & (costs.late > 0), late, plain))


def _pairs(first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> tuple[Index, Index]:
    """Return every job with each of its intervals from a first to a last one."""
    count = last - first + 1
    job = np.repeat(np.arange(len(first)), count)
    offset = np.arange(len(job)) - np.repeat(np.cumsum(count) - count, count)
    return job, first[job] + offset
