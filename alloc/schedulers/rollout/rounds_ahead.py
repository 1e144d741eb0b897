r"""The rounds to come, as far as they can be afforded: what a first choice of configurations costs.

Rounds are followed as a base policy would decide them, with the capacity of the whole cluster and
without jobs still to arrive. Where the effort ends before the jobs do, the work that is left counts
at its worth in the fluid relaxation, which is what the optimum of that relaxation would change by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alloc.schedulers.learned.job_set import LONGEST_RESTART, JobSetRound
from alloc.schedulers.learned.job_set_choice import Chooser, utilities
from alloc.schedulers.learned.job_set_features import slots_at
from alloc.schedulers.learned.job_set_ladders import Array, Index
from alloc.schedulers.learned.job_set_rule import PRICE, SetRule
from alloc.schedulers.srtf import work_of
from alloc.schedulers.state import ClusterState, JobView

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
LEAST_RATE = 1e-12
"""Rate at which a job that stands still is followed, work units per second: as good as never."""
LEAST_LEFT = 1e-12
"""Least remaining work, work units: an estimate may have run out."""


def work_left(view: JobView) -> float:
    """Return the remaining work of a job as known, more than 0, work units."""
    return max(work_of(view)[1], LEAST_LEFT)


class Ahead:
    """The jobs of a round and what they compete for, as the rounds to come go on from it.

    Parameters
    ----------
    state, round_
        The state, and the round that it is.
    worth
        Worth of a unit of the work left at the end, weight times seconds, shape (jobs,).
    """

    def __init__(self, state: ClusterState, round_: JobSetRound, worth: Array) -> None:
        jobs, book, views = round_.jobs, round_.book, round_.views
        self.table, self.weight, self.left = jobs.table, jobs.weight, jobs.left
        table = jobs.table
        # Of each job: rate of its fastest column, and least rate of its whole table.
        self.best, self.slowest = book.stats.best[table], book.stats.slowest[table]
        # Of each ladder's columns, shape (tables, C) and (tables, C, resources); what is free.
        self.rate, self.share, self.free = book.rate, book.share, round_.free
        self.slot_s, self.worth = round_.slot_s, worth
        self.restart_s = np.array([view.restart_cost_s for view in views])
        self.started = np.array([view.last is not None for view in views])
        # The column in which each job ran in the slot before, -1 for none. What ran before the
        # start may run in what its ladder has not: to go on is a change.
        columns = []
        for view, t in zip(views, table.tolist(), strict=True):
            now = None if view.current is None else view.current.configuration
            known = book.ladders[t].positions
            columns.append(known.index(now) if now in known else -1)
        self.column: Index = np.array(columns, dtype=np.int64)
        # What the jobs take that must not be paused, and seconds until each of them completes.
        kept = {assignment.job: assignment.configuration for assignment in round_.kept}
        stay = [(v, v.configurations[kept[v.id]]) for v in state.jobs if v.id in kept]
        demand = np.array([way.demand[: len(self.free)] for _, way in stay], dtype=float)
        self.kept_share = demand.reshape(-1, len(self.free)) / np.maximum(book.total, 1.0)
        self.kept_s = np.array([work_left(view) / max(way.rate, LEAST_RATE) for view, way in stay])

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
        policy, rounds
            Decides the rounds after it, and how many are followed at most.
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
    work, weight
        Worth of all the remaining work of each job, weight times seconds, and its weight, shape
        (J,).
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

    The worth is weight times seconds, shape (jobs,); the prices are those of the coming round for
    what is free, per slot, shape (resources,).
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
    """Rounds of the jobs ahead as ``set-rule`` decides them."""

    ahead: Ahead
    rule: SetRule

    def __call__(self, jobs: Index, left: Array, progress: Array) -> tuple[Array, Array]:
        """Return scores and prices, as `Followed` is to."""
        ahead = self.ahead
        worth = self.rule.worth(slots_at(left, ahead.best[jobs], ahead.slot_s))
        slowest = left / (ahead.slowest[jobs] * ahead.slot_s)
        prices = np.full(len(ahead.free), PRICE * len(jobs))
        return utilities(worth, ahead.weight[jobs], progress, slowest), prices
