"""Rounds that have room left: more jobs run on what the others leave free."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from alloc.formulation import Array
from alloc.models.round import RoundData
from alloc.packing import HostPool
from alloc.problems.allocation.solution import Allocation, Assignment

_NOTHING = 1e-12
"""Of the largest utility: a use that costs less is free, and ratios to it stay finite."""


def filled(
    data: RoundData, known: Allocation, prices: Array, is_over: Callable[[], bool]
) -> Allocation:
    """Return an allocation with more jobs on what it leaves free, worth no less.

    Classes of jobs go by utility over what a choice takes at given prices, the best first. What
    runs keeps its configuration and hosts.

    Parameters
    ----------
    data
        The round.
    known
        Jobs that run.
    prices
        Price of one unit of each capacity row, shape (R,).
    is_over
        Asked before each job whether to stop.
    """
    pool, left = HostPool(data.topology), data.rows.capacity.copy()
    by_id = {job.id: job for job in data.jobs}
    runs = {assignment.job for assignment in known.assignments}
    for assignment in known.assignments:
        job = by_id[assignment.job]
        gang = job.configurations[assignment.configuration]
        pool.take(gang, assignment.tasks)
        left -= data.rows.use([gang], job.tenant)[0]
    waiting = [deque(j for j in own if data.jobs[j].id not in runs) for own in data.members]
    class_of = np.repeat(np.arange(data.num_classes), np.diff(data.first))
    least = _NOTHING * float(data.utility.max(initial=0.0))
    worth = data.utility / np.maximum(data.use @ prices, least or 1.0)
    more: list[Assignment] = []
    for column in np.lexsort((-data.utility, -worth)).tolist():
        if data.utility[column] <= 0:
            continue
        own, c, use = waiting[class_of[column]], int(data.configuration[column]), data.use[column]
        while own and not is_over() and (use <= left).all():
            gang = data.jobs[own[0]].configurations[c]
            tasks = pool.place(gang)
            if tasks is None:
                break
            left -= use
            more.append(Assignment(data.jobs[own.popleft()].id, c, tuple(tasks)))
    placed = {assignment.job for assignment in more}
    unplaced = {job: why for job, why in known.unplaced.items() if job not in placed}
    return Allocation((*known.assignments, *more), unplaced)
