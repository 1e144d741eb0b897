"""Prices of time on the graph: a bound of F9 for sums over jobs, evaluated in numpy.

With prices ``pi_r(t) >= 0`` of resources, constant between the moments of a grid, and multipliers
``lambda_k >= 0`` of ``C_j >= end of k + tail of k``, every schedule costs at least

    sum_j [ min_C f_j(C) - sum_k lambda_k C  +  min over modes and starts of
            sum_k (u_kr Pi_r(S_k, S_k + d_k) + lambda_k (S_k + d_k + tail_k)) ]  -  sum_r c_r Pi_r,

with Pi the integral of pi. The inner minimum runs over starts that keep the precedences of a
forest: of the predecessors of a stage the one whose earliest end is the latest; the others are left
out. It is found from the last stages to the first, in buckets of time: a stage costs the least that
it costs anywhere in its bucket, and frees those after it as if it began with the bucket. So nothing
is rounded up, and the bound holds for times of any kind.

A stage is in a schedule of at most a cost only in the modes and buckets through which some choice
for its job is cheap enough: variable fixing by reduced costs.

References
----------
R. H. Mohring, A. S. Schulz, F. Stork, M. Uetz, "Solving project scheduling problems by minimum cut
computations", Management Science 49(3), 2003, doi:10.1287/mnsc.49.3.330.12737 (Lagrangian bounds of
projects; there a minimum cut keeps all precedences). Dyer, Wolsey, DAM 26 (1990) (prices of time).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.clock import check_time
from alloc.formulation import Array
from alloc.models.project.data import ProjectData
from alloc.problems.project import job_cost

Index = npt.NDArray[np.int64]


def forest(data: ProjectData) -> list[int | None]:
    """Return for each stage the predecessor whose earliest end is the latest, or None.

    Parameters
    ----------
    data
        The project.
    """
    ends = data.heads + data.shortest
    return [
        max(before, key=lambda p: float(ends[p]), default=None)
        for before in data.problem.predecessors
    ]


@dataclass(frozen=True)
class _Priced:
    """A stage at prices.

    Parameters
    ----------
    cost
        Of each mode and bucket, what follows it in the forest included, shape (modes, T).
    at
        Where in the bucket it begins, seconds, shape (modes, T).
    least
        Least cost from each bucket on, shape (T,).
    first
        The bucket with that cost, shape (T,).
    """

    cost: Array
    at: Array
    least: Array
    first: Index


@dataclass(frozen=True)
class PriceTables:
    """What the rest of a schedule costs at prices, from each of some moments on.

    Parameters
    ----------
    least
        Least cost of each stage and of those that follow it in the forest, from a start at a moment
        or later, shape (moments,) each.
    paid
        Price of a unit of each resource up to a moment, shape (R, moments).
    multipliers
        What a second of the end of each stage costs, its tail included, shape (A,).
    jobs
        Least of the cost of each job less multipliers times its completion, shape (jobs,).
    """

    least: tuple[Array, ...]
    paid: Array
    multipliers: Array
    jobs: Array


class PricesOfGraph:
    """The Lagrangian bound, with everything worked out that prices do not change.

    Parameters
    ----------
    data
        The project.
    objective
        ``weighted_jct`` or ``weighted_tardiness``.
    edges
        The grid between whose moments a price is constant, from 0 on, evenly apart, shape (K + 1,).
    buckets
        Buckets of time in each of its intervals, 1 or more.
    factor
        What costs are multiplied by.
    worth
        Cost of a schedule: dearer ones do not count.
    """

    def __init__(
        self,
        data: ProjectData,
        objective: str,
        edges: Array,
        buckets: int,
        factor: float,
        worth: float,
    ) -> None:
        self.data, self.objective, self.edges, self.factor = data, objective, edges, factor
        self.worth = worth * factor
        self.modes: list[int] = []
        self.starts: list[float] = []
        """Modes and starts, seconds, in the last relaxed solution: a schedule to be mended."""
        self.capacity: Array = np.array([float(r.capacity) for r in data.renewable])
        self.num_rows = len(self.capacity)
        self.step = float(edges[1] - edges[0]) / buckets
        self.times: Array = self.step * np.arange(buckets * (len(edges) - 1) + 1, dtype=np.float64)
        self.first = np.minimum(data.heads / self.step, len(self.times) - 1).astype(np.int64)
        self.lengths = [np.array(row) for row in data.durations]
        # In whole buckets, and what is left of the last one.
        self.whole = [np.floor(row / self.step).astype(np.int64) for row in self.lengths]
        self.rest: list[Array] = [
            row - n * self.step for row, n in zip(self.lengths, self.whole, strict=True)
        ]
        self.parent = forest(data)
        self.children: list[list[int]] = [[] for _ in self.parent]
        for k, p in enumerate(self.parent):
            if p is not None:
                self.children[p].append(k)
        job_of = np.array(data.problem.job_of)
        self.stages = [np.flatnonzero(job_of == j) for j in range(len(data.problem.jobs))]
        ends = data.heads + data.shortest + data.job_tails
        self.soonest = np.array([ends[own].max() if len(own) else 0.0 for own in self.stages])
        self.latest = np.array([self._latest(j) for j in range(len(self.stages))])
        # In rows ``use <= 1`` a completion counts in the time that a job may take.
        self.span = np.maximum(self.latest - self.soonest, self.step)

    def _latest(self, j: int) -> float:
        """Return by when a job completes in a schedule that is worth it, seconds."""
        job, last = self.data.problem.jobs[j], self.data.horizon_s
        if job.weight > 0:
            begin = job.release_s if self.objective == "weighted_jct" else job.due_date_s
            if begin is not None:
                last = min(last, begin + self.worth / self.factor / job.weight)
        return max(last, float(self.soonest[j]))

    @property
    def num_prices(self) -> int:
        """Prices and multipliers in one vector."""
        return self.num_rows * (len(self.edges) - 1) + self.data.num_activities

    def start(self) -> Array:
        """Return prices that prove what longest paths prove: jobs count by their last stages."""
        prices = np.zeros(self.num_prices)
        ends = self.data.heads + self.data.shortest + self.data.job_tails
        for j, own in enumerate(self.stages):
            job = self.data.problem.jobs[j]
            counts = self.objective == "weighted_jct" or (
                job.due_date_s is not None and self.soonest[j] >= job.due_date_s
            )
            if len(own) and counts:
                last = max(own, key=lambda k: (float(ends[k]), -float(self.data.job_tails[k])))
                rate = self.factor * job.weight * self.span[j]
                prices[self.num_prices - self.data.num_activities + last] = rate
        return prices

    def _split(self, prices: Array) -> tuple[Array, Array]:
        """Return prices of a unit for a second, shape (R, K), and multipliers of ends, (A,)."""
        rows = prices[: -self.data.num_activities].reshape(self.num_rows, -1)
        # Of whole rows: all of a resource for an interval.
        each = rows / np.maximum(self.capacity, 1.0)[:, None] / (self.edges[1] - self.edges[0])
        multipliers = prices[-self.data.num_activities :]
        return each, multipliers / self.span[np.array(self.data.problem.job_of)]

    def _integral(self, each: Array) -> Array:
        """Return what a unit of each resource costs up to each bucket, shape (R, T)."""
        intervals = len(self.edges) - 1
        per = np.repeat(each * self.step, (len(self.times) - 1) // intervals, axis=1)
        return np.hstack([np.zeros((self.num_rows, 1)), np.cumsum(per, axis=1)])

    def _stage(
        self, k: int, paid: Array, multiplier: float, after: list[_Priced], begin: Array
    ) -> _Priced:
        """Return a stage at prices, given those after it."""
        data, last = self.data, len(self.times) - 1
        count = len(self.lengths[k])
        cost, at = np.empty((count, last + 1)), np.empty((count, last + 1))
        for m in range(count):
            use = np.array(data.rates[k][m], dtype=np.float64)
            total = use @ paid
            n, rest = int(self.whole[k][m]), float(self.rest[k][m])
            share = rest / self.step
            # Total price up to the end of a run that begins with a bucket, and at the next edge.
            end = np.minimum(np.arange(last + 1) + n, last)
            after_end = np.minimum(end + 1, last)
            priced = total[end] * (1 - share) + total[after_end] * share - total
            # Where its end passes an edge; and the end of the bucket is the begin of the next.
            inner = total[after_end] - (
                total * share + total[np.minimum(np.arange(last + 1) + 1, last)] * (1 - share)
            )
            following = np.append(priced[1:], priced[-1])
            choice = np.argmin([priced, inner, following], axis=0)
            cost[m] = np.choose(choice, [priced, inner, following])
            at[m] = begin + np.choose(choice, [0.0, self.step - rest, self.step])
            cost[m] += multiplier * (
                np.maximum(begin, data.heads[k]) + self.lengths[k][m] + data.job_tails[k]
            )
            for other in after:
                cost[m] += other.least[end]
        cost[:, : self.first[k]] = np.inf
        best = cost.min(axis=0)
        least = np.minimum.accumulate(best[::-1])[::-1]
        # Of equal buckets the first: the last position where the least changes going back.
        here = np.where(best <= least, np.arange(last + 1), last + 1)
        first = np.minimum.accumulate(here[::-1])[::-1]
        return _Priced(cost, at, least, first)

    def _all(self, prices: Array) -> tuple[list[_Priced], Array, Array]:
        each, multipliers = self._split(prices)
        paid = self._integral(each)
        found: dict[int, _Priced] = {}
        for k in reversed(self.data.problem.order):
            check_time()
            after = [found[c] for c in self.children[k]]
            found[k] = self._stage(k, paid, float(multipliers[k]), after, self.times)
        return [found[k] for k in range(self.data.num_activities)], each, multipliers

    def _completion(self, j: int, rate: float) -> tuple[float, float]:
        """Return the least of a job's cost less rate times completion, and that completion."""
        job = self.data.problem.jobs[j]
        moments = [float(self.soonest[j]), float(self.latest[j])]
        if job.due_date_s is not None and moments[0] < job.due_date_s < moments[1]:
            moments.append(job.due_date_s)
        return min(
            (self.factor * job_cost(job, moment, self.objective) - rate * moment, moment)
            for moment in moments
        )

    def _of_jobs(self, stages: list[_Priced], multipliers: Array) -> tuple[Array, Array]:
        """Return the least cost of each job at prices, and its completion, shape (jobs,) each."""
        found, ends = np.zeros(len(self.stages)), np.zeros(len(self.stages))
        for j, own in enumerate(self.stages):
            if len(own):
                cost, ends[j] = self._completion(j, float(multipliers[own].sum()))
                roots = [stages[k].least[0] for k in own if self.parent[k] is None]
                found[j] = cost + math.fsum(roots)
        return found, ends

    def relaxed(self, prices: Array) -> tuple[float, Array]:
        """Return the least cost at prices of whole rows, and the use of each, shape (prices,).

        Parameters
        ----------
        prices
            Of each resource from one moment of the grid to the next, then of each activity, 0 or
            more.
        """
        data = self.data
        stages, _, multipliers = self._all(prices)
        costs, ends = self._of_jobs(stages, multipliers)
        # The rows of activities are ``1 + (end + tail - completion) / span <= 1``.
        total = math.fsum(costs) + math.fsum(prices[-data.num_activities :])
        held = np.zeros((self.num_rows, len(self.edges) - 1))
        use = np.ones(data.num_activities)
        free = [0] * data.num_activities
        self.modes, self.starts = [0] * data.num_activities, [0.0] * data.num_activities
        for k in data.problem.order:
            i = int(stages[k].first[free[k]])
            m = int(stages[k].cost[:, i].argmin())
            for child in self.children[k]:
                free[child] = min(i + int(self.whole[k][m]), len(self.times) - 1)
            start, length = float(stages[k].at[m, i]), float(self.lengths[k][m])
            self.modes[k], self.starts[k] = m, start
            inside = np.minimum(start + length, self.edges[1:]) - np.maximum(start, self.edges[:-1])
            held += np.outer(data.rates[k][m], np.maximum(inside, 0.0))
            j = data.problem.job_of[k]
            end = max(float(self.times[i]), float(data.heads[k])) + length
            use[k] += (end + float(data.job_tails[k]) - ends[j]) / self.span[j]
        held /= np.maximum(self.capacity, 1.0)[:, None] * (self.edges[1] - self.edges[0])
        return total, np.concatenate([held.ravel(), use])

    def bound(self, prices: Array) -> float:
        """Return what prices prove, in the units of costs times the factor.

        Parameters
        ----------
        prices
            As in `relaxed`; those below 0 count as 0. It holds for schedules that cost no more than
            `worth`.
        """
        prices = np.maximum(prices, 0.0)
        return self.relaxed(prices)[0] - math.fsum(prices)

    def tables(self, prices: Array, moments: Array) -> PriceTables:
        """Return what the rest of a schedule costs from each of some moments on.

        The bound of a schedule that is begun: the cost of its jobs that are through, for the others
        ``jobs`` and ``multipliers`` times ends and tails, ``least`` of the stages that nothing in
        the forest holds back any more, less the price of the units that are still free.

        Parameters
        ----------
        prices
            As in `relaxed`; those below 0 count as 0.
        moments
            The moments, from 0 up, seconds, shape (moments,).
        """
        prices = np.maximum(prices, 0.0)
        stages, each, multipliers = self._all(prices)
        # At the edge of a bucket rounding may take the one before: its costs are no higher.
        bucket = np.floor(moments / self.step * (1 - 1e-12)).astype(np.int64)
        bucket = np.minimum(bucket, len(self.times) - 1)
        jobs = [
            self._completion(j, float(multipliers[own].sum()))[0] if len(own) else 0.0
            for j, own in enumerate(self.stages)
        ]
        paid = [np.interp(moments, self.times, row) for row in self._integral(each)]
        return PriceTables(
            tuple(stage.least[bucket] / self.factor for stage in stages),
            np.array(paid).reshape(self.num_rows, len(moments)) / self.factor,
            multipliers / self.factor,
            np.array(jobs) / self.factor,
        )

    def windows(self, prices: Array, worth: float) -> list[list[tuple[float, float]]]:
        """Return between which starts each mode can be in a schedule of at most a cost.

        One whose last start is before its first is in none.

        Parameters
        ----------
        prices
            As in `relaxed`.
        worth
            The cost, at most the one that the grid was made for.
        """
        data, last = self.data, len(self.times) - 1
        stages, _, multipliers = self._all(prices)
        costs, _ = self._of_jobs(stages, multipliers)
        rows = math.fsum(prices[: -data.num_activities])  # those of activities cancel
        # A sum of many terms rounds: what is at the edge stays.
        room = worth * self.factor * (1 + 1e-9) - (math.fsum(costs) - rows)
        outside: dict[int, Array] = {}
        windows: dict[int, list[tuple[float, float]]] = {}
        for k in data.problem.order:
            p = self.parent[k]
            if p is None:
                rest = np.full(last + 1, -float(stages[k].least[0]))
            else:
                rest = self._rest(stages, outside[p], p, k)
            outside[k] = rest
            windows[k] = []
            for m in range(len(self.lengths[k])):
                able = np.flatnonzero(stages[k].cost[m] + rest <= room)
                if not len(able):
                    windows[k].append((1.0, 0.0))
                    continue
                low = max(float(self.times[able[0]]), float(data.heads[k]))
                high = math.inf if able[-1] == last else float(self.times[able[-1] + 1])
                windows[k].append((low, high))
        return [windows[k] for k in range(data.num_activities)]

    def _rest(self, stages: list[_Priced], outside: Array, p: int, k: int) -> Array:
        """Return what a job costs beyond its least and the subtree of a stage, by its bucket.

        Parameters
        ----------
        stages
            At prices.
        outside
            The same of its parent in the forest.
        p, k
            The parent and the stage.
        """
        last = len(self.times) - 1
        found = np.full(last + 1, np.inf)
        for m in range(len(self.lengths[p])):
            end = np.minimum(np.arange(last + 1) + int(self.whole[p][m]), last)
            with np.errstate(invalid="ignore"):
                value = stages[p].cost[m] + outside - stages[k].least[end]
            np.minimum.at(found, end, np.where(np.isfinite(value), value, np.inf))
        return np.minimum.accumulate(found)
