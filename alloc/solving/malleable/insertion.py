"""Building schedules of F2 job by job: each job takes the cheapest profile that still fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from alloc.formulation import Array
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.profiles import Pricing, Solved, never
from alloc.solving.malleable.counted import insert_counted, is_counted
from alloc.solving.malleable.master import Column, make_column
from alloc.solving.malleable.quick_insertion import earliest_profile, is_exact

_STATES = 400
"""Grid steps of the work left: the profile returned always completes, whatever the grid."""


class Builder:
    """Capacity left in every slot, and insertion of jobs into it."""

    def __init__(self, data: SlotData, num_slots: int) -> None:
        self.data = data
        self.pricing = Pricing(data, _STATES)
        self.num_slots = num_slots
        self.group_of = np.zeros(data.num_jobs, dtype=np.int64)
        for g, (_, jobs) in enumerate(self.pricing.groups):
            self.group_of[jobs] = g
        self.counted = [is_counted(data, j) for j in range(data.num_jobs)]

    def empty(self) -> Array:
        """Return the capacity of an empty schedule, shape (slots, R)."""
        return np.tile(self.data.rows.capacity, (self.num_slots, 1))

    def insert(self, job: int, room: Array, prices: Array | None) -> Column | None:
        """Return the cheapest column of a job that fits into the room, or None.

        Parameters
        ----------
        job
            Position of the job.
        room
            Capacity left, shape (slots, R).
        prices
            Price of each row in each slot: what the jobs to come would pay for the capacity. None
            where all are 0.
        """
        if self.counted[job]:
            found = insert_counted(self.data, job, room, prices)
            return None if found is None else make_column(self.data, job, found)
        if prices is None:
            if is_exact(self.data, job):
                return self.insert_quickly(job, room)
            prices = np.zeros_like(room)
        key, _ = self.pricing.groups[self.group_of[job]]
        release, work = int(self.data.release[job]), float(self.data.work[job])
        if release >= self.num_slots:
            return None
        best: tuple[float, Solved] | None = None
        started = bool(self.data.started[job])
        for program in self.pricing.programs(key, np.array([job]), "upper"):
            use = program.table.use[program.columns]
            cost = prices @ use.T
            full = (room[:, None, :] < use[None, :, :] - 1e-6).any(axis=2)
            cost[full] = np.inf
            solved = program.solve(cost, release, last_free=False)
            value = solved.cost(release, work, started)
            if np.isfinite(value) and (best is None or value < best[0]):
                best = (value, solved)
        if best is None:
            return None
        profile = best[1].profile(release, work, started)
        return None if profile is None else make_column(self.data, job, profile)

    def insert_quickly(self, job: int, room: Array) -> Column | None:
        """Return an early column of a job that fits into the room, in one sweep, or None."""
        profile = earliest_profile(self.data, job, room)
        return None if profile is None else make_column(self.data, job, profile)

    def insert_all(
        self,
        order: Iterable[int],
        room: Array,
        prices: Array | None,
        hurry: Callable[[], bool] = never,
    ) -> dict[int, Column] | None:
        """Insert jobs in order, taking their capacity from `room`; None when one does not fit.

        Once `hurry` says so, the jobs left are inserted quickly.
        """
        placed: dict[int, Column] = {}
        for job in order:
            quick = hurry()
            column = self.insert_quickly(job, room) if quick else self.insert(job, room, prices)
            if column is None:
                return None
            take(room, column)
            placed[job] = column
        return placed


def take(room: Array, column: Column) -> None:
    """Take a column's capacity."""
    room.reshape(-1)[column.rows] -= column.use


def give_back(room: Array, column: Column) -> None:
    """Give a column's capacity back."""
    room.reshape(-1)[column.rows] += column.use


def total_cost(plan: dict[int, Column]) -> float:
    """Return the weighted JCT of a plan, weighted slots."""
    return float(sum(column.cost for column in plan.values()))


def serial_horizon(data: SlotData) -> int:
    """Return a number of slots in which all jobs fit one after the other."""
    return int(data.release.max() + np.ceil(data.shortest).sum()) + 1
