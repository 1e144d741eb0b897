r"""Choosing a configuration for every job at once, under prices of the resources.

Part of the kind ``job-set/1``. With ``x`` the fraction of its remaining work that a job would do in
the slot in configuration c, its score is

``w * (alpha * min(1, x) + beta * max(0, 1 - 1/x) + gamma * (1 + 1/x_0 - 1/x)) - sum_r p_r s_cr``

where ``w`` is the job's weight, ``x_0`` belongs to the slowest configuration of its table and
``s_cr`` is the share of the cluster's resource r that c takes. A job takes its best score, or
nothing if none is above 0. The three terms are the utilities of the exact rounds: progress (with
``alpha = left / work`` the first is DL2's), early completion within the slot, and Optimus' drop in
remaining time; the policy mixes them job by job.

The prices that come from the network are brought to the point where the choice just fits: raised
where a resource is oversubscribed, lowered where it lies idle, and what is left is filled.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

TERMS = 3
"""Number of terms of the score that the network weighs: alpha, beta, gamma."""

_BALANCING = 8
"""Rounds in which each price follows its resource."""
_CLOSING = 8
"""Rounds in which all prices move together until the choice fits."""
_SLACK = 1e-9
"""Rounding of sums of shares."""
_CANDIDATES = 400
"""Most steps that are looked at one by one when what is left is filled."""


def utilities(worth: Array, weight: Array, progress: Array, slowest: Array) -> Array:
    """Return the score of each job in each column before prices, shape (jobs, C).

    Parameters
    ----------
    worth
        alpha, beta and gamma of each job, 0 or more, shape (jobs, 3).
    weight
        w, shape (jobs,).
    progress
        x, shape (jobs, C); 0 in columns that only fill the array.
    slowest
        1 / x_0, shape (jobs,).
    """
    runs = progress > 0
    slots = 1.0 / np.where(runs, progress, 1.0)
    alpha, beta, gamma = (weight * worth[:, k] for k in range(TERMS))
    score = alpha[:, None] * np.minimum(progress, 1.0)
    score += beta[:, None] * np.maximum(1.0 - slots, 0.0)
    score += gamma[:, None] * np.maximum((1.0 + slowest)[:, None] - slots, 0.0)
    score *= runs
    return score


class Chooser:
    """The choice of a round.

    Parameters
    ----------
    score, table
        Score of each job in each column before prices, shape (jobs, C), and its ladder, shape
        (jobs,).
    share
        Shares of each ladder, shape (tables, C, resources).
    free
        Share of each resource that is free, shape (resources,).
    """

    def __init__(self, score: Array, table: Index, share: Array, free: Array) -> None:
        self.score = score
        self.table = table
        self.share = share
        self.free = free
        self._rows = np.arange(len(score))
        # The least price of a resource: a millionth of what a job is worth.
        self._floor = 1e-6 * max(float(score.max(initial=0.0)), 1e-12)

    def choose(self, prices: Array) -> Index:
        """Return the column of each job, -1 for none; what they take fits, shape (jobs,).

        It starts from prices of the whole cluster's resources, 0 or more, shape (resources,).
        """
        if not self.score.size:
            return np.full(len(self.score), -1, dtype=np.int64)
        column = self.at(np.zeros(len(self.free)))
        taken = self.taken(column)
        if (taken <= self.free + _SLACK).all():
            return column
        prices = self._balance(prices, taken)
        return self._fill(*self._close(prices))

    def at(self, prices: Array) -> Index:
        """Return what each job takes at these prices, -1 for nothing, shape (jobs,)."""
        net = self.score - (self.share @ prices)[self.table]
        column: Index = net.argmax(axis=1)
        column[net[self._rows, column] <= 0.0] = -1
        return column

    def taken(self, column: Index) -> Array:
        """Return the share of each resource that a choice takes, shape (resources,)."""
        runs = column >= 0
        return np.asarray(self.share[self.table[runs], column[runs]].sum(axis=0))

    def _balance(self, prices: Array, unpriced: Array) -> Array:
        """Move each price until its resource is about used up."""
        scarce = unpriced > self.free + _SLACK
        prices = np.where(scarce, np.maximum(prices, self._floor), 0.0)
        free = np.maximum(self.free, 1e-3)
        power = 1.0
        before = np.zeros(len(free))
        for _ in range(_BALANCING):
            excess = np.log(np.maximum(self.taken(self.at(prices)) / free, 0.05))
            # A price that swings over its mark takes half steps from then on.
            if (excess * before < 0)[scarce].any():
                power *= 0.5
            prices = prices * np.exp(power * np.clip(excess, -2.0, 2.0))
            before = excess
            if (np.abs(excess[scarce]) < 0.01).all():
                break
        return prices

    def _close(self, prices: Array) -> tuple[Array, Index, Index]:
        """Scale prices until the choice just fits; return them, that choice and one too large."""
        fits = (self.taken(column := self.at(prices)) <= self.free + _SLACK).all()
        low, high = (0.0, 1.0) if fits else (1.0, 2.0)
        inside, outside = (column, None) if fits else (None, column)
        while inside is None:
            column = self.at(prices * high)
            over = self.taken(column) > self.free + _SLACK
            if not over.any():
                inside = column
            else:
                # Jobs that leave a dear resource may overrun one that nobody wanted at first: it
                # gets a price too. Once all that is overrun has one, doubling it ends the rush.
                prices = np.where(over & (prices <= 0), self._floor / high, prices)
                low, high, outside = high, 2.0 * high, column
        low = max(low, 0.5 * high) if outside is None else low
        for _ in range(_CLOSING):
            middle = 0.5 * (low + high)
            column = self.at(prices * middle)
            if (self.taken(column) <= self.free + _SLACK).all():
                inside, high = column, middle
            else:
                outside, low = column, middle
        return prices * high, inside, inside if outside is None else outside

    def _fill(self, prices: Array, column: Index, larger: Index) -> Index:
        """Give what is left to the steps that gain most for what they take."""
        column = column.copy()
        left = self.free + _SLACK - self.taken(column)
        differ = np.flatnonzero((larger != column) & (larger >= 0))
        left = self._grant(differ, larger[differ], column, prices, left)
        jobs, columns = self._steps_within(column, left)
        self._grant(jobs, columns, column, prices, left)
        return column

    def _steps_within(self, column: Index, left: Array) -> tuple[Index, Index]:
        """Return (job, column) pairs that gain and that fit what is left."""
        now, taken = self._now(column)
        room = (taken + left)[:, None, :]
        shares = self.share[self.table]
        fitting = (self.score > now[:, None]) & (shares <= room).all(axis=2)
        jobs, columns = np.nonzero(fitting)
        return jobs, columns

    def _now(self, column: Index) -> tuple[Array, Array]:
        """Return the score that each job has and the shares that it takes."""
        at = np.maximum(column, 0)
        runs = column >= 0
        score = np.where(runs, self.score[self._rows, at], 0.0)
        return score, np.where(runs[:, None], self.share[self.table, at], 0.0)

    def _grant(
        self, jobs: Index, columns: Index, column: Index, prices: Array, left: Array
    ) -> Array:
        """Take the steps in order of gain for cost as long as they fit; return what is left."""
        if not len(jobs):
            return left
        now, taken = self._now(column)
        more = self.share[self.table[jobs], columns] - taken[jobs]
        gain = self.score[jobs, columns] - now[jobs]
        cost = np.maximum(more @ prices, 0.0) + 1e-9 * more.clip(min=0.0).sum(axis=1)
        value = np.where(gain > 0, gain / np.maximum(cost, 1e-300), -1.0)
        order = np.argsort(-value, kind="stable")[:_CANDIDATES]
        done: set[int] = set()
        for k in order:
            job = int(jobs[k])
            if value[k] <= 0 or job in done or (more[k] > left).any():
                continue
            column[job] = columns[k]
            left = left - more[k]
            done.add(job)
        return left
