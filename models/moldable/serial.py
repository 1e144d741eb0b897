"""Serial schedule generation: jobs in an order, each as early as those before it leave room.

Every schedule that no job can be moved forward in alone (an *active* one) comes of some order, and
for objectives that never gain by a later completion one of them is optimal.

References
----------
Kolisch, "Serial and parallel resource-constrained project scheduling methods revisited", European
Journal of Operational Research 90 (1996).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.models.moldable.data import Array, MoldableData, Use
from alloc.problems.allocation.solution import Schedule

Choice = tuple[int, int]
"""Position of a way among a job's ways, and of a placement among the way's placements."""


class Timeline:
    """What is free of one row over time.

    Parameters
    ----------
    capacity
        What is free at first.
    """

    __slots__ = ("free", "since")

    def __init__(self, capacity: int) -> None:
        self.since = [-math.inf]
        self.free = [capacity]

    def clash(self, start: float, end: float, amount: int) -> float | None:
        """Return when the last clash of an amount between two times is over; None without one.

        Parameters
        ----------
        start, end
            The stretch of time in which it is wanted, seconds.
        amount
            What is wanted of the row, in its unit.
        """
        k = bisect_left(self.since, end) - 1
        first = bisect_right(self.since, start) - 1
        free = self.free
        while k >= first:
            if free[k] < amount:
                return self.since[k + 1] if k + 1 < len(free) else math.inf
            k -= 1
        return None

    def take(self, start: float, end: float, amount: int) -> None:
        """Take an amount from start to end.

        Parameters
        ----------
        start, end
            The stretch of time, seconds.
        amount
            What is taken of the row, in its unit.
        """
        first, last = self._split(start), self._split(end)
        # The second cut lies behind the first, which stays where it is.
        for k in range(first, last):
            self.free[k] -= amount

    def _split(self, moment: float) -> int:
        k = bisect_left(self.since, moment)
        if k == len(self.since) or self.since[k] != moment:
            self.since.insert(k, moment)
            self.free.insert(k, self.free[k - 1])
        return k


@dataclass
class Plan:
    """What each job does: its way and placement, its start and its completion.

    Parameters
    ----------
    choice
        Way and placement of each job.
    start
        Starts, seconds, infinite for a job that does not run, shape (J,).
    completion
        Completions, seconds, infinite likewise, shape (J,).
    """

    choice: list[Choice]
    start: Array
    completion: Array

    def order(self) -> list[int]:
        """Return the jobs by their start."""
        return [int(j) for j in np.lexsort((self.completion, self.start))]

    def schedule(self, data: MoldableData) -> Schedule:
        """Return the plan as a schedule."""
        return Schedule(
            tuple(data.run(j, w, p, float(self.start[j])) for j, (w, p) in enumerate(self.choice))
        )


class Serial:
    """Puts jobs into a schedule one by one.

    Parameters
    ----------
    data
        The instance.
    """

    def __init__(self, data: MoldableData) -> None:
        self.data = data
        self.rows = [Timeline(capacity) for capacity in data.capacity]
        self._release = [float(r) for r in data.release]

    def earliest(self, j: int, w: int, use: Use, before: float = math.inf) -> float:
        """Return the earliest start of a job in a way, seconds; infinite if not before a time.

        Parameters
        ----------
        j
            Position of the job.
        w
            Position of the way among those of the job.
        use
            The rows that its placement uses, and how much of each.
        before
            Time that the start has to be before, seconds.
        """
        way = self.data.ways[j][w]
        slot_s = self.data.instance.slot_s
        start = self._release[j]
        rows = self.rows
        settled = False
        while not settled:
            settled = True
            end = self.data.end_of_run(way, start)
            for row, amount in use:
                over = rows[row].clash(start, end, amount)
                if over is not None:
                    start = over if slot_s is None else self.data.on_grid(over)
                    if start >= before:
                        return math.inf
                    settled = False
                    break
        return start

    def take(self, j: int, w: int, use: Use, start: float) -> None:
        """Let a job run from a time on.

        Parameters
        ----------
        j
            Position of the job.
        w
            Position of the way among those of the job.
        use
            The rows that its placement uses, and how much of each.
        start
            When it starts, seconds.
        """
        end = self.data.end_of_run(self.data.ways[j][w], start)
        for row, amount in use:
            self.rows[row].take(start, end, amount)

    def best_placement(self, j: int, w: int, before: float = math.inf) -> tuple[float, int]:
        """Return the earliest start of a job in a way, and the placement that has it.

        Parameters
        ----------
        j
            Position of the job.
        w
            Position of the way among those of the job.
        before
            Time that the start has to be before, seconds; if none is, it is infinite
            and the placement -1.
        """
        best, at = before, -1
        for p, placement in enumerate(self.data.ways[j][w].placements):
            start = self.earliest(j, w, placement.use, best)
            if start < best:
                best, at = start, p
                if start <= self._release[j]:
                    break
        return (best, at) if at >= 0 else (math.inf, -1)


def by_choices(data: MoldableData, order: Iterable[int], choice: Sequence[Choice]) -> Plan:
    """Return the schedule of an order with way and placement of each job given.

    Parameters
    ----------
    data
        The instance.
    order
        The jobs, each at most once. One that is left out never starts.
    choice
        Way and placement of each job.
    """
    serial = Serial(data)
    never = np.full(data.num_jobs, math.inf)
    plan = Plan(list(choice), never, never.copy())
    for j in order:
        w, p = choice[j]
        use = data.ways[j][w].placements[p].use
        start = serial.earliest(j, w, use)
        serial.take(j, w, use, start)
        plan.start[j], plan.completion[j] = start, start + data.ways[j][w].run_s
    return plan


def by_ways(data: MoldableData, order: Iterable[int], way: Sequence[int]) -> Plan:
    """Return the schedule of an order with the way of each job given, each where it starts first.

    Parameters
    ----------
    data
        The instance.
    order
        The jobs, each once.
    way
        Way of each job; -1: the one in which it completes first.
    """
    serial = Serial(data)
    plan = Plan([(0, 0)] * data.num_jobs, np.zeros(data.num_jobs), np.zeros(data.num_jobs))
    for j in order:
        ways = data.ways[j]
        best = (math.inf, math.inf, -1, -1)
        for w in range(len(ways)) if way[j] < 0 else (way[j],):
            start, p = serial.best_placement(j, w, best[0] - ways[w].run_s)
            if p >= 0:
                best = min(best, (start + ways[w].run_s, start, w, p))
        _, start, w, p = best
        serial.take(j, w, ways[w].placements[p].use, start)
        plan.choice[j] = (w, p)
        plan.start[j], plan.completion[j] = start, start + ways[w].run_s
    return plan


def plan_of(data: MoldableData, schedule: Schedule) -> Plan | None:
    """Return a schedule as a plan, or None if it is none of one listed run a job.

    Parameters
    ----------
    data
        The instance.
    schedule
        A schedule of it.
    """
    plan = Plan([], np.zeros(data.num_jobs), np.zeros(data.num_jobs))
    for j, job in enumerate(data.instance.jobs):
        runs = schedule.runs_of.get(job.id, ())
        if len(runs) != 1:
            return None
        tasks = sorted((t.host, t.role, t.count) for t in runs[0].tasks)
        found = next(
            (
                (w, p)
                for w, way in enumerate(data.ways[j])
                if way.configuration == runs[0].configuration
                for p, placement in enumerate(way.placements)
                if sorted((t.host, t.role, t.count) for t in placement.tasks) == tasks
            ),
            None,
        )
        if found is None:
            return None
        plan.choice.append(found)
        plan.start[j] = runs[0].start_s
        plan.completion[j] = runs[0].start_s + data.ways[j][found[0]].run_s
    return plan
