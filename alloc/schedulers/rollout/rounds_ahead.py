r"""The rounds to come, as far as they can be afforded: what a first choice of configurations costs.

Rounds are followed as a base policy would decide them, with the capacity of the whole cluster and
without jobs still to arrive. Where the effort ends before the jobs do, the work that is left counts
at its worth in the fluid relaxation, which is what the optimum of that relaxation would change by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.schedulers.learned.job_set import LONGEST_RESTART
from alloc.schedulers.learned.job_set_choice import Chooser, utilities
from alloc.schedulers.learned.job_set_features import slots_at
from alloc.schedulers.learned.job_set_rule import PRICE, SetRule

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

Followed = Callable[[Index, Array, Array], tuple[Array, Array]]
"""Given positions of jobs, their remaining work and the fraction of it that each column would do in
the coming slot: the score of each column, shape (J, C), and prices to start from, shape (R,)."""

SCORES_LIMIT = 80_000
"""Most scores that are worked out to follow one policy, about 10 ms: a count, so that equal inputs
give equal decisions on any machine."""
_PER_ROUND = 5_000
"""Scores that take as long as what a round takes however few its jobs."""
LEAST_ROUNDS = 8
"""Rounds fewer than which say nothing that the worth of work does not say."""
_EARLY = 1.5
"""Slots' worth of waiting that completing at the start of a slot saves over needing another.

One for the slot not waited for, and half a one for the capacity that the last slot would hold
although it is not filled. Of 1, 1.5 and 2, 1.5 was best on the tuned rows of `benchmarks.online`.
"""
_DONE = 1e-9
"""Rounding of a slot: what lasts this much longer completes in it."""


@dataclass(frozen=True)
class Ahead:
    """The jobs of a round and what they compete for.

    Parameters
    ----------
    table, weight, left
        Ladder, weight and remaining work of each job, work units, shape (J,).
    best, slowest
        Rate of the fastest column, and least rate of the whole table, work units per second, shape
        (J,).
    restart_s
        Seconds that a restart costs, shape (J,).
    column
        Column in which it ran in the slot before, -1 for none, shape (J,).
    started
        Whether it has run before, shape (J,).
    rate
        Rate of each ladder's columns, work units per second, shape (tables, C).
    share
        What they take of the whole cluster, shape (tables, C, R).
    free
        Share of each resource that is free, shape (R,).
    kept_share
        What each job takes that must not be paused, shape (K, R).
    kept_s
        Seconds until each of these completes, shape (K,).
    slot_s
        Length of a slot, seconds.
    worth
        Worth of a unit of the work left at the end, weight times seconds, shape (J,).
    """

    table: Index
    weight: Array
    left: Array
    best: Array
    slowest: Array
    restart_s: Array
    column: Index
    started: npt.NDArray[np.bool_]
    rate: Array
    share: Array
    free: Array
    kept_share: Array
    kept_s: Array
    slot_s: float
    worth: Array

    @property
    def rounds(self) -> int:
        """Most rounds that can be afforded."""
        # Shares are priced table by table, scores job by job.
        tables, columns = self.rate.shape
        return SCORES_LIMIT // int((len(self.table) + tables) * columns + _PER_ROUND)

    def cost(
        self, first: Index, policy: Followed, rounds: int, *, at_most: float = np.inf
    ) -> float:
        """Return what all jobs pay from now on, weight times seconds.

        Parameters
        ----------
        first
            The coming round: column of each job, -1 for none, shape (J,).
        policy
            Decides the rounds after it.
        rounds
            Most rounds followed.
        at_most
            The answer may be infinite as soon as it is known to exceed this.
        """
        slot_s = self.slot_s
        jobs = np.arange(len(self.table))
        left, last, column = self.left.copy(), self.column, first
        pause, started = np.zeros(len(jobs)), self.started
        now_s = total = 0.0
        for k in range(rounds):
            restart_s = np.where(started, self.restart_s[jobs], 0.0)
            if k:
                column = self._decide(policy, jobs, left, last, restart_s, now_s)
            runs = column >= 0
            rate = np.where(runs, self.rate[self.table[jobs], column], 0.0)
            pause = np.where(column != last, restart_s, pause)
            lasts_s = np.full(len(jobs), np.inf)
            np.divide(left, rate, out=lasts_s, where=runs)
            lasts_s += pause
            done = lasts_s <= slot_s * (1.0 + _DONE)
            total += float(self.weight[jobs[done]] @ (now_s + lasts_s[done]))
            now_s += slot_s
            stays = ~done
            jobs = jobs[stays]
            if not len(jobs):
                return total
            if total + float(self.weight[jobs].sum()) * now_s > at_most:
                return np.inf
            left = (left - rate * np.maximum(slot_s - pause, 0.0))[stays]
            pause = np.where(runs, np.maximum(pause - slot_s, 0.0), 0.0)[stays]
            last, started = column[stays], (started | runs)[stays]
        return total + float(self.weight[jobs].sum() * now_s + self.worth[jobs] @ left)

    def _decide(
        self,
        policy: Followed,
        jobs: Index,
        left: Array,
        last: Index,
        restart_s: Array,
        now_s: float,
    ) -> Index:
        """Return the column of each job in one of the rounds to come, -1 for none."""
        table = self.table[jobs]
        progress = self.rate[table] * (self.slot_s / left)[:, None]
        if restart_s.any():
            part = np.repeat(1.0 - restart_s[:, None] / self.slot_s, progress.shape[1], axis=1)
            same = np.flatnonzero(last >= 0)
            part[same, last[same]] = 1.0
            progress *= np.maximum(part, 1.0 - LONGEST_RESTART)
        score, prices = policy(jobs, left, progress)
        free = self.free + self.kept_share[self.kept_s <= now_s].sum(axis=0)
        return Chooser(score, table, self.share, free).choose(prices)


def score_of(work: Array, weight: Array, progress: Array, slot_s: float) -> Array:
    """Return the score of each column: the worth of what it does, and of completing early.

    Parameters
    ----------
    work
        Worth of all the remaining work of each job, weight times seconds, shape (J,).
    weight
        Weights, shape (J,).
    progress
        Fraction of the remaining work that each column would do in the slot, shape (J, C).
    slot_s
        Length of the slot, seconds.
    """
    score = work[:, None] * np.minimum(progress, 1.0)
    slots = np.divide(1.0, progress, out=np.ones(progress.shape), where=progress > 0)
    score += _EARLY * slot_s * weight[:, None] * np.maximum(1.0 - slots, 0.0)
    return score


@dataclass(frozen=True)
class ByWorth:
    """Rounds in which a unit of a job's work is worth the same until it completes.

    Parameters
    ----------
    ahead
        The jobs.
    worth
        Worth of a unit of the work of each, weight times seconds, shape (J,).
    prices
        Prices of the coming round for what is free, per slot, shape (R,).
    """

    ahead: Ahead
    worth: Array
    prices: Array

    def __call__(self, jobs: Index, left: Array, progress: Array) -> tuple[Array, Array]:
        """Return scores and prices, as `Followed` is to."""
        ahead = self.ahead
        work = self.worth[jobs] * left
        return score_of(work, ahead.weight[jobs], progress, ahead.slot_s), self.prices


@dataclass(frozen=True)
class ByRule:
    """Rounds as ``set-rule`` decides them.

    Parameters
    ----------
    ahead
        The jobs.
    rule
        The rule.
    """

    ahead: Ahead
    rule: SetRule

    def __call__(self, jobs: Index, left: Array, progress: Array) -> tuple[Array, Array]:
        """Return scores and prices, as `Followed` is to."""
        ahead = self.ahead
        worth = self.rule.worth(slots_at(left, ahead.best[jobs], ahead.slot_s))
        slowest = left / (ahead.slowest[jobs] * ahead.slot_s)
        prices = np.full(len(ahead.free), PRICE * len(jobs))
        return utilities(worth, ahead.weight[jobs], progress, slowest), prices
