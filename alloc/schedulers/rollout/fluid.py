r"""Prices of the time to come: multipliers of the fluid relaxation of all known jobs.

In the relaxation jobs are fluid: at any time a fraction of the jobs of a class may run, in any of
their configurations, and only the capacity of the whole cluster binds,

    min sum_j w_j C_j  subject to  sum_j s_jr(t) <= 1 at all times t, for every resource r.

With a price ``p_r(t)`` on the capacity of each resource it falls apart into one problem a job: do
the work L for the least ``w C + sum_r int p_r(t) s_r(t) dt``. Its Hamiltonian does not depend on
the work done so far, so the worth v of a unit of work is constant until the job completes (the
maximum principle), the job runs at each time in the configuration with the largest
``v rate_c - p(t) s_c``, and it completes where that reaches w:

    v(C) = min_c (w + p(C) s_c) / rate_c.

So for each class of jobs (one table of configurations, one weight) completing at the end of each
cell of time determines v, the way there, the work L that is done by then, and what it costs; a job
takes the completion that fits its work. Prices follow the excess of what all jobs then take over
what there is, from those of the decision before.

Parameters
----------
kinds
    The classes of jobs.
courses
    What `follow` found for them.
of_job
    Class of each job, shape (J,).
left
    Remaining work of each job, work units, shape (J,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

CELLS = 24
"""Cells of time: the first is the coming slot, the others grow geometrically to the horizon."""
ITERATIONS = 12
"""Steps of the prices in one decision; the next decision goes on from where this one ended."""
FIRST_TIMES = 3
"""How many times as many steps the first decision takes, which has nothing to go on from."""
WORK_LIMIT = 4_000_000
"""Most evaluations of a configuration in one decision, about 30 ms; cells and steps give way."""
_LEAST_CELLS, _LEAST_ITERATIONS = 8, 6
"""Where giving way ends: coarser than this, prices say nothing."""
_MARGIN = 1.2
"""Horizon over the time that all jobs take one after the other at their thriftiest."""
_STEP = 0.7
"""First step of the log of a price for a log of excess demand."""
_FLOOR = 1e-6
"""Least price, in mean weights: a price of nothing could never rise again."""
LEAST_FREE = 1e-3
"""Least part of a resource that is taken to be free: shares are divided by it."""


@dataclass(frozen=True)
class Kinds:
    """Classes of jobs: a table of configurations and a weight.

    The rate of each configuration is in work units per second, 0 where there is none, shape (G, C);
    its share is what it takes of what is free of each resource, shape (G, C, R); the weight has
    shape (G,).
    """

    rate: Array
    share: Array
    weight: Array


@dataclass(frozen=True)
class Courses:
    """For each class and each cell k: what completing at the end of cell k means.

    Parameters
    ----------
    worth, work
        v, worth of a unit of work, and the work done by then, rising along k, shape (G, K).
    column
        Configuration in each cell on the way, -1 for none, shape (G, K, K).
    """

    worth: Array
    work: Array
    column: Index

    def share(self, kinds: Kinds, of: Index, cell: Index) -> Array:
        """Return the mean share taken in each cell on some courses, shape (n, K, R).

        Parameters
        ----------
        of
            Class of each course, shape (n,).
        cell
            Cell at whose end it completes, shape (n,).
        """
        column = self.column[of, cell]
        return np.where((column >= 0)[..., None], kinds.share[of[:, None], column], 0.0)


class FluidPrices:
    """Prices of the capacity of each cell of time, kept from one decision to the next.

    `iterations` is the most price steps of a decision after the first.
    """

    def __init__(self, iterations: int = ITERATIONS) -> None:
        self._iterations = iterations
        self._before: tuple[Array, Array] | None = None
        self.prices: Array = np.zeros((0, 0))
        self.lengths: Array = np.zeros(0)

    def solve(self, kinds: Kinds, of_job: Index, left: Array, first_s: float) -> None:
        """Bring the prices up to date.

        Parameters
        ----------
        kinds, of_job
            The classes, and the class of each job, shape (J,).
        left
            Remaining work of each, work units, shape (J,).
        first_s
            Length of the first cell, seconds.
        """
        cells, iterations = self._affordable(kinds)
        ends = np.geomspace(first_s, self._horizon_s(kinds, of_job, left, first_s), cells)
        self.lengths = np.diff(ends, prepend=0.0)
        middles = ends - self.lengths / 2
        mean_weight = float(kinds.weight[of_job].mean())
        floor = _FLOOR * mean_weight
        resources = kinds.share.shape[2]
        if self._before is None:
            # Any start will do that falls with time as the jobs in the system do.
            ramp = mean_weight * len(left) * np.linspace(1.0, 0.05, cells)
            prices = np.tile(ramp[:, None], (1, resources))
        else:
            then, old = self._before
            prices = np.stack([np.interp(middles, then, row) for row in old.T], axis=1)
        prices = np.maximum(prices, floor)
        logs = np.zeros(prices.shape)
        for step in range(iterations):
            courses = follow(kinds, prices, self.lengths)
            use = _usage(kinds, courses, of_job, left)
            excess = np.clip(np.log(np.maximum(use, 1e-2)), -1.0, 1.0)
            prices = np.maximum(prices * np.exp(_STEP / (1 + step / 8) * excess), floor)
            if step >= iterations // 2:
                logs += np.log(prices)
        # What jobs take jumps with the prices, so they swing; their mean is nearer the optimum.
        self.prices = np.exp(logs / (iterations - iterations // 2))
        self._before = (middles, self.prices)

    def _affordable(self, kinds: Kinds) -> tuple[int, int]:
        """Return as many cells and steps as the work limit allows."""
        cells, iterations = CELLS, self._iterations
        if self._before is None:
            iterations *= FIRST_TIMES
        each = max(kinds.rate.size, 1)
        while each * cells**2 * iterations > WORK_LIMIT:
            if iterations > _LEAST_ITERATIONS:
                iterations -= 2
            elif cells > _LEAST_CELLS:
                cells -= 2
            else:
                break
        return cells, iterations

    @staticmethod
    def _horizon_s(kinds: Kinds, of_job: Index, left: Array, first_s: float) -> float:
        runs = kinds.rate > 0
        rate = np.where(runs, kinds.rate, 1.0)
        alone = np.where(runs, kinds.share.max(axis=2) / rate, np.inf).min(axis=1)
        best = kinds.rate.max(axis=1)
        longest_s = float((left / best[of_job]).max())
        return max(_MARGIN * (float(left @ alone[of_job]) + longest_s), 4.0 * first_s)


def follow(kinds: Kinds, prices: Array, lengths: Array) -> Courses:
    """Return the course of each class to a completion at the end of each cell.

    Parameters
    ----------
    prices
        Price of the whole of each resource in each cell, per second, 0 or more, shape (K, R).
    lengths
        Length of each cell, seconds, above 0, shape (K,).
    """
    rate, share, weight = kinds.rate, kinds.share, kinds.weight
    cells = len(lengths)
    runs = rate > 0
    paid = share @ prices.T  # of each configuration in each cell, shape (G, C, K)
    worth = np.full(paid.shape, np.inf)
    np.divide(weight[:, None, None] + paid, rate[:, :, None], out=worth, where=runs[:, :, None])
    # Later is never worth more: a job could always have stopped earlier at the same prices.
    worth = np.minimum.accumulate(worth.min(axis=1), axis=1)
    # A course to the end of cell i has the cells 0 to i: one row for each such pair, shape (P, G).
    # Columns are looked at in turn: much quicker than an argmax over rows of a few columns each.
    end, cell = np.tril_indices(cells)
    worth_of, paid_of = worth.T[end], np.ascontiguousarray(paid.transpose(1, 2, 0))
    most, column = np.zeros(worth_of.shape), np.full(worth_of.shape, -1)
    gain, cost = np.empty_like(most), np.empty_like(most)
    for c, rate_of in enumerate(np.ascontiguousarray(rate.T)):
        np.multiply(worth_of, rate_of, out=gain)
        # The mode spares a copy; no position is out of range.
        gain -= np.take(paid_of[c], cell, axis=0, out=cost, mode="clip")
        np.copyto(column, c, where=gain > most)
        np.maximum(most, gain, out=most)
    columns = np.full((len(weight), cells, cells), -1)
    columns[:, end, cell] = column.T
    speed = np.where(columns >= 0, rate[np.arange(len(weight))[:, None, None], columns], 0.0)
    work = np.maximum.accumulate(speed @ lengths, axis=1)
    return Courses(worth=worth, work=work, column=columns)


def locate(courses: Courses, of_job: Index, left: Array) -> tuple[Index, Array]:
    """Return the cell that each job completes in, and which part of the cell's work it has."""
    work = courses.work[of_job]
    cell = np.minimum((work < left[:, None]).sum(axis=1), work.shape[1] - 1)
    rows = np.arange(len(left))
    before = np.where(cell > 0, work[rows, np.maximum(cell - 1, 0)], 0.0)
    span = work[rows, cell] - before
    part = np.divide(left - before, span, out=np.ones(len(left)), where=span > 0)
    return cell, np.clip(part, 0.0, 1.0)


def worth_of_work(courses: Courses, of_job: Index, left: Array) -> Array:
    """Return what a unit of each job's work is worth, weight times seconds, shape (J,)."""
    cell, part = locate(courses, of_job, left)
    before = courses.worth[of_job, np.maximum(cell - 1, 0)]
    return np.asarray((1.0 - part) * before + part * courses.worth[of_job, cell])


def _usage(kinds: Kinds, courses: Courses, of_job: Index, left: Array) -> Array:
    """Return what all jobs take of each resource in each cell, 1 for all of it, shape (K, R)."""
    cell, part = locate(courses, of_job, left)
    weight = np.zeros(courses.work.shape)
    np.add.at(weight, (of_job, cell), part)
    later = cell > 0
    np.add.at(weight, (of_job[later], cell[later] - 1), 1.0 - part[later])
    g, k = np.nonzero(weight)
    return np.asarray(np.einsum("n,nir->ir", weight[g, k], courses.share(kinds, g, k)))
