"""What the network of the kind ``job-set/1`` is shown: one row for each job, one for each resource.

Nothing names a type of job, and nothing grows with the cluster or the queue: what a job takes is
stated relative to its fair share, an n-th of the cluster with n jobs in the system, and times in
slots. So a network can be asked about more jobs, more hosts and other types than it was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from alloc.schedulers.learned.job_set_ladders import SPEEDS, Array, Index, LadderBook
from alloc.schedulers.state import JobView
from alloc.units import RESOURCES

JOB_FEATURES = (
    *(f"need_{round(100 * speed)}" for speed in SPEEDS),
    *(f"lean_{resource.partition('_')[0]}" for resource in RESOURCES),
    "frugality",
    "slots_at_best",
    "slots_at_least",
    "left_fraction",
    "age",
    "weight",
    "running",
    "restart",
)
"""The columns of a job. ``need_s``: log of the dominant share that s % of its best rate takes at
least, over its fair share. ``lean_r``: share of resource r over dominant share, at 70 % of the best
rate. ``frugality``: log of the rate per dominant share of its thriftiest configuration over that of
its fastest. ``slots_at_best``, ``slots_at_least``: log of the slots that the remaining work takes
at the best rate and in the smallest configuration. ``left_fraction``: log of remaining over all
work. ``age``: log of 1 plus the slots since its arrival. ``weight``: log of the weight over the
mean weight. ``running``: rate in the slot before over the best rate, 0 to 1. ``restart``: slots
that a restart costs, at most 1. All are clipped to `CLIP` either way."""

RESOURCE_FEATURES = ("at_best", "at_70", "at_least", "users", "lean", "backlog", "present")
"""The columns of a resource: logs of what all jobs would take of it at their best rate, at 70 % of
it and in their smallest configurations, over what is free; the fraction of jobs that take any; the
mean of ``lean_r``; log of 1 plus the slots for which the remaining work would fill it, every job at
70 % of its best rate; and whether there is any, 0 or 1."""

CLIP = 8.0
"""Largest size of a feature: logs of ratios up to 3,000."""

_TINY = 1e-12
"""Least number that a logarithm is taken of: far below what `CLIP` leaves, and above 0."""


@dataclass(frozen=True)
class JobSet:
    """The jobs of a round as arrays, shape (jobs,).

    Parameters
    ----------
    views, table
        The jobs, and the ladder of each in the book.
    left, work
        Remaining and total work as known, work units.
    weight, age_s
        Weights, and seconds since arrival.
    running
        Rate in the slot before, work units per second, 0 for none.
    restart_s
        Restart costs of jobs that have started, 0 for others, seconds.
    """

    views: Sequence[JobView]
    table: Index
    left: Array
    work: Array
    weight: Array
    age_s: Array
    running: Array
    restart_s: Array


_SEEN = attrgetter(
    "arrival_s",
    "weight",
    "work",
    "work_left",
    "current",
    "last",
    "restart_cost_s",
    "configurations",
)
"""What is read of a job, all at once: reading takes longer than all arithmetic."""


def job_set(views: Sequence[JobView], book: LadderBook, now_s: float) -> JobSet:
    """Return the arrays of the jobs of a round; unknown work counts as one unit.

    Parameters
    ----------
    views
        The jobs of the round.
    book
        Ladders of the jobs on this cluster.
    now_s
        Time of the decision, seconds.
    """
    columns = list(zip(*map(_SEEN, views), strict=True)) or [()] * 8
    arrival_s, weight, work, left, current, last, restart_s, ways = columns
    if None in work:
        work = tuple(1.0 if amount is None else amount for amount in work)
    if None in left:
        left = tuple(w if rest is None else rest for rest, w in zip(left, work, strict=True))
    running = [
        table[now.configuration].rate if now else 0.0
        for now, table in zip(current, ways, strict=True)
    ]
    restart = np.zeros(len(views))
    if any(restart_s):
        restart[:] = [
            0.0 if before is None else cost for before, cost in zip(last, restart_s, strict=True)
        ]
    return JobSet(
        views=views,
        table=book.tables_of(views),
        left=np.maximum(np.array(left, dtype=float), _TINY),
        work=np.array(work, dtype=float),
        weight=np.array(weight, dtype=float),
        age_s=now_s - np.array(arrival_s, dtype=float),
        running=np.array(running, dtype=float),
        restart_s=restart,
    )


def features(
    jobs: JobSet, book: LadderBook, slot_s: float, free: Array
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the input tensors ``jobs`` and ``resources``.

    Parameters
    ----------
    jobs, book
        The jobs, at least one, each with at least one configuration in its ladder; their ladders.
    slot_s
        Length of the slot, seconds.
    free
        Share of each resource that is free, shape (resources,).
    """
    stats = book.stats
    t = jobs.table
    n = len(t)
    at_best = jobs.left / (stats.best[t] * slot_s)
    at_least = jobs.left / (stats.least[t] * slot_s)
    rows = np.empty((n, len(JOB_FEATURES)))
    k, r = len(SPEEDS), len(RESOURCES)
    rows[:, :k] = stats.need[t] + np.log(n)
    rows[:, k : k + r] = stats.lean[t]
    rows[:, k + r] = stats.frugality[t]
    rows[:, k + r + 1] = slots_at(jobs.left, stats.best[t], slot_s)
    rows[:, k + r + 2] = np.log(np.maximum(at_least, _TINY))
    rows[:, k + r + 3] = np.log(np.maximum(jobs.left / jobs.work, _TINY))
    rows[:, k + r + 4] = np.log1p(np.maximum(jobs.age_s, 0.0) / slot_s)
    rows[:, k + r + 5] = np.log(jobs.weight / jobs.weight.mean())
    rows[:, k + r + 6] = np.minimum(jobs.running / stats.best[t], 1.0)
    rows[:, k + r + 7] = np.minimum(jobs.restart_s / slot_s, 1.0)
    np.clip(rows, -CLIP, CLIP, out=rows)
    return {
        "jobs": rows.astype(np.float32),
        "resources": _resources(jobs, book, at_best, free).astype(np.float32),
    }


def slots_at(left: Array, rate: Array, slot_s: float) -> npt.NDArray[np.float32]:
    """Return the feature ``slots_at_best``: log of the slots that work takes at a rate.

    Parameters
    ----------
    left
        Remaining work, work units, shape (jobs,).
    rate
        Work units per second, above 0, shape (jobs,).
    slot_s
        Length of a slot, seconds, above 0.
    """
    logs = np.log(np.maximum(left / (rate * slot_s), _TINY))
    return np.clip(logs, -CLIP, CLIP).astype(np.float32)


def _resources(jobs: JobSet, book: LadderBook, at_best: Array, free: Array) -> Array:
    stats, t = book.stats, jobs.table
    n = len(t)
    # Sums over jobs by way of their tables: there are far fewer of those.
    count = np.bincount(t, minlength=len(book.ladders)).astype(float)
    slots = np.bincount(t, weights=at_best / 0.7, minlength=len(book.ladders))
    room = np.maximum(free, 1e-6)
    mid = stats.shares[:, 1]
    rows = np.empty((len(free), len(RESOURCE_FEATURES)))
    for k in range(3):
        # Fastest, at 70 %, smallest.
        taken = count @ stats.shares[:, k]
        rows[:, k] = np.log(np.maximum(taken / room, _TINY))
    rows[:, 3] = count @ (mid > 0) / n
    rows[:, 4] = count @ stats.lean / n
    rows[:, 5] = np.log1p(slots @ mid / room)
    rows[:, 6] = book.total > 0
    return np.clip(rows, -CLIP, CLIP)
