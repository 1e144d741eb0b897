"""Minimum satisfactory shares: the fewest GPUs with which a job meets its deadline.

Gu et al., "ElasticFlow: an elastic serverless training platform for distributed deep learning",
ASPLOS 2023: shares are tried from the smallest, each filled with what earlier jobs leave free, here
from the deadline backwards. A set of jobs that can be filled one after the other can be accepted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from alloc.models.admission.data import AdmissionData
from alloc.models.malleable.data import Array, Index
from alloc.models.malleable.grid import Held


def minimum_share(
    rate: Array, use: Array, usable: Array, need: float, free: Array
) -> list[tuple[int, int]] | None:
    """Return the slots and configurations of the smallest share that does the work in time.

    Parameters
    ----------
    rate
        Work a slot of each configuration, shape (C,).
    use
        Its use of the capacity rows, shape (C, R).
    usable
        Part of each slot that may be used, shape (T,).
    need
        Work to do.
    free
        What is left of the rows in each slot, shape (T, R).

    Returns
    -------
    list of (int, int) or None
        Slots, counted from 0, with the configuration in each; None if no share is enough.
    """
    fits = np.asarray((use[None] <= free[:, None] + 1e-6).all(axis=2))
    order = np.argsort(rate, kind="stable")
    share = use.sum(axis=1)
    sizes = sorted(set(share.tolist()))
    if not len(usable) or not sizes:
        return None

    def within(size: float) -> tuple[Index, Array, Array]:
        """Return what a share of that size does: columns, work, and its sums from the last slot."""
        # The fastest configuration within the share that fits; -1 where none does.
        ranked = (fits & (share <= size))[:, order]
        best = np.where(ranked.any(axis=1), len(rate) - 1 - ranked[:, ::-1].argmax(axis=1), -1)
        done = np.where(best >= 0, rate[order][best], 0.0) * usable
        return best, done, np.cumsum(done[::-1])

    if within(sizes[-1])[2][-1] < need:
        return None
    # No larger share does less work, so that the smallest one is found by halving.
    least = bisect_left(sizes, True, key=lambda size: bool(within(size)[2][-1] >= need))
    best, done, filled = within(sizes[least])
    number = int(np.searchsorted(filled, need)) + 1
    first = len(done) - number
    return [(t, int(order[best[t]])) for t in range(first, len(done)) if done[t] > 0]


def steady_share(
    rate: Array, use: Array, usable: Array, need: float, free: Array, *, whole: bool
) -> list[tuple[int, int]] | None:
    """Return the same with one configuration throughout, and without pause where `whole`.

    Parameters
    ----------
    rate, use, usable, need, free
        As in `minimum_share`.
    whole
        Whether the slots must follow each other.
    """
    fits = np.asarray((use[None] <= free[:, None] + 1e-6).all(axis=2))
    for c in np.argsort(use.sum(axis=1), kind="stable").tolist():
        done = 0.0
        slots: list[int] = []
        for t in range(len(usable) - 1, -1, -1):
            if fits[t, c]:
                slots.append(t)
                done += float(rate[c] * usable[t])
            elif whole:
                slots, done = [], 0.0
            if slots and done >= need:
                return [(t, c) for t in sorted(slots)]
    return None


def fill(data: AdmissionData, order: Iterable[int]) -> tuple[list[Held], list[int]]:
    """Accept jobs one after the other, each with its minimum satisfactory share.

    Best-effort jobs take what is left, as fast as they can, after all others.

    Parameters
    ----------
    data
        The admission.
    order
        Positions of the jobs, the first to be accepted first.

    Returns
    -------
    held
        What the accepted jobs hold.
    accepted
        Their positions, best-effort jobs included.
    """
    grid = data.grid
    free = np.tile(grid.data.rows.capacity, (grid.num_slots, 1))
    held: list[Held] = []
    accepted: list[int] = []
    wanted = [j for j in order if not data.best_effort[j]]
    effort = [j for j in range(len(data.jobs)) if data.best_effort[j]]
    for j in (*wanted, *effort):
        slots, table, job = data.slots(j), grid.data.table(j), data.jobs[j]
        own = slice(slots.start, slots.stop)
        given = (table.rate, table.use, data.usable(j), float(data.need[j]), free[own])
        share: list[tuple[int, int]] | None
        if data.best_effort[j]:
            share = _eager(*given, whole=not job.preemptible or job.elasticity != "malleable")
        elif job.elasticity == "malleable" and job.preemptible and not job.restart_cost_s:
            share = minimum_share(*given)
        else:
            share = steady_share(*given, whole=not job.preemptible or job.restart_cost_s > 0)
        if share is None:
            continue
        accepted.append(j)
        for k, c in share:
            free[slots.start + k] -= table.use[c]
            held.append((j, slots.start + k, c))
    return held, accepted


def _eager(
    rate: Array, use: Array, usable: Array, need: float, free: Array, *, whole: bool
) -> list[tuple[int, int]]:
    """Return slots in which a job runs as fast as it can, from the first; none if it must not stop.

    A job that keeps its way, or may not pause, waits until after the last slot.
    """
    if whole:
        return []
    found, done = [], 0.0
    for t in range(len(usable)):
        fits = np.flatnonzero((use <= free[t] + 1e-6).all(axis=1))
        if len(fits) and done < need:
            c = int(fits[rate[fits].argmax()])
            found.append((t, c))
            done += float(rate[c] * usable[t])
    return found
