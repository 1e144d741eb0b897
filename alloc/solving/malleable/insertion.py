"""Building schedules of F2 job by job: each job takes the cheapest profile that still fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from alloc.formulation import Array
from alloc.models.malleable.costs import JobCosts
from alloc.models.malleable.data import Index, SlotData
from alloc.models.malleable.profiles import Pricing, Profile, Solved, never
from alloc.solving.malleable.counted import insert_counted, is_counted
from alloc.solving.malleable.joint_pricing import ROOM, JointPricing
from alloc.solving.malleable.master import Column, make_column
from alloc.solving.malleable.quick_insertion import earliest_profile, is_exact

_STATES = 400
"""Grid steps of the work left: the profile returned always completes, whatever the grid."""
_WHOLE = 1e-9
"""Part of a slot that is none: the round-off of a work that fills whole slots."""
_WAITING = 1e-3
"""Share of the largest cost of a slot that waiting costs a job whose completion is free: enough for
it to take the earliest room there is, too little to outweigh what counts."""
_ABOVE_FLOOR = (1.0, 1.25, 2.0)
"""Multiples of a peak's floor whose completions order the jobs: what the peak will be is not known
yet."""


class Builder:
    """Capacity left in every slot, and insertion of jobs into it."""

    def __init__(self, data: SlotData, num_slots: int) -> None:
        self.data = data
        self.job_costs = steering_costs(data)
        self.pricing = Pricing(data, _STATES, job_costs=self.job_costs)
        self.num_slots = num_slots
        self.group_of = np.zeros(data.num_jobs, dtype=np.int64)
        for g, (_, jobs) in enumerate(self.pricing.groups):
            self.group_of[jobs] = g
        self.counted = [is_counted(data, j) for j in range(data.num_jobs)]

    @cached_property
    def standing(self) -> dict[int, Column]:
        """Columns of what runs and may not pause, as it stands until it ends: they fit together."""
        found = {}
        for assignment in self.data.instance.running:
            job = self.data.instance.job_index[assignment.job]
            if not self.data.started[job]:
                continue
            profile = _as_it_stands(self.data, job, assignment.configuration)
            if profile is not None and len(profile.choice) <= self.num_slots:
                found[job] = make_column(self.data, job, profile)
        return found

    def together(self, jobs: Sequence[int]) -> JointPricing:
        """Return the programs of some jobs side by side, for `cheapest`."""
        return JointPricing(self.pricing, jobs)

    def empty(self) -> Array:
        """Return the capacity of an empty schedule, shape (slots, R)."""
        return np.tile(self.data.rows.capacity, (self.num_slots, 1))

    def room_of(self, columns: Iterable[Column]) -> Array:
        """Return what some jobs leave, shape (slots, R)."""
        room = self.empty()
        for column in columns:
            self.take(room, column)
        return room

    def take(self, room: Array, column: Column) -> None:
        """Take a column's capacity.

        Parameters
        ----------
        room
            Capacity left, shape (slots, R), changed in place.
        column
            A column; nothing checks that it fits.
        """
        room.reshape(-1)[column.rows] -= column.use

    def give_back(self, room: Array, column: Column) -> None:
        """Give a column's capacity back.

        Parameters
        ----------
        room
            Capacity left, shape (slots, R), changed in place.
        column
            A column whose capacity was taken.
        """
        room.reshape(-1)[column.rows] += column.use

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
            found = insert_counted(self.data, job, room, prices, self.job_costs)
            return None if found is None else make_column(self.data, job, found)
        if prices is None:
            if is_exact(self.data, job):
                return self.insert_quickly(job, room)
            prices = np.zeros_like(room)
        key, _ = self.pricing.groups[self.group_of[job]]
        release, work = int(self.data.release[job]), float(self.data.work[job])
        if release >= self.num_slots:
            return None
        num_slots = self._slots_worth(job, room, prices)
        room, prices = room[:num_slots], prices[:num_slots]
        best: tuple[float, Solved] | None = None
        started = bool(self.data.started[job])
        for program in self.pricing.programs(key, np.array([job]), "upper"):
            use = program.table.use[program.columns]
            cost = prices @ use.T
            full = (room[:, None, :] < use[None, :, :] - ROOM).any(axis=2)
            cost[full] = np.inf
            solved = program.solve(cost, release, last_free=False)
            value = solved.cost(release, work, started)
            if np.isfinite(value) and (best is None or value < best[0]):
                best = (value, solved)
        if best is None:
            return None
        profile = best[1].profile(release, work, started)
        return None if profile is None else make_column(self.data, job, profile)

    def cheapest(
        self, jobs: Sequence[int], room: Array, prices: Array, joint: JointPricing
    ) -> list[Column]:
        """Return for each of some jobs the cheapest column that fits into the room alone.

        Jobs that are alike are priced together. A job that does not fit has none.

        Parameters
        ----------
        jobs
            Positions of the jobs.
        room, prices
            As of `insert`.
        joint
            The programs of these jobs and others side by side (`together`).
        """
        together = [job for job in jobs if job in joint.jobs]
        profiles = joint.cheapest(together, room, prices) if together else {}
        found = [make_column(self.data, job, profile) for job, profile in profiles.items()]
        alike: dict[int, list[int]] = {}
        for job in jobs:
            if job in joint.jobs:
                continue
            if self.counted[job]:
                own = insert_counted(self.data, job, room, prices, self.job_costs)
                found += [] if own is None else [make_column(self.data, job, own)]
            else:
                alike.setdefault(int(self.group_of[job]), []).append(job)
        for group, members in alike.items():
            key, _ = self.pricing.groups[group]
            positions = np.array(members)
            first = min(int(self.data.release[positions].min()), len(room))
            solved = []
            for program in self.pricing.programs(key, positions, "upper"):
                use = program.table.use[program.columns]
                cost = prices @ use.T
                cost[(room[:, None, :] < use[None, :, :] - ROOM).any(axis=2)] = np.inf
                solved.append(program.solve(cost, first, last_free=False))
            cheapest = self.pricing.profiles_of(positions, solved)
            found += [
                make_column(self.data, job, profile)
                for job, profile in zip(members, cheapest, strict=True)
                if profile is not None
            ]
        return found

    def _slots_worth(self, job: int, room: Array, prices: Array) -> int:
        """Return up to which slot a completion may be cheaper than an early one with its prices."""
        early = self.insert_quickly(job, room)
        if early is None:
            return self.num_slots
        paid = float(prices.reshape(-1)[early.rows] @ early.use)
        end = early.profile.completion + paid / float(self.job_costs.rate[job])
        return int(min(np.ceil(end) + 1, self.num_slots))

    def insert_quickly(self, job: int, room: Array) -> Column | None:
        """Return an early column of a job that fits into the room, in one sweep, or None.

        Parameters
        ----------
        job
            Position of the job.
        room
            Capacity left, shape (slots, R).
        """
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

        Parameters
        ----------
        order
            Positions of the jobs.
        room
            Capacity left, shape (slots, R), changed in place, also where a job does not fit.
        prices
            As in `insert`.
        hurry
            Says whether time is short.
        """
        placed: dict[int, Column] = {}
        order = list(order)
        # What runs and may not pause has its place until it is its turn.
        kept = {job: self.standing[job] for job in order if job in self.standing}
        for standing in kept.values():
            self.take(room, standing)
        for job in order:
            quick = hurry()
            if job in kept:
                self.give_back(room, kept[job])
            column = self.insert_quickly(job, room) if quick else self.insert(job, room, prices)
            if column is None:
                return None
            self.take(room, column)
            placed[job] = column
        return placed


def _as_it_stands(data: SlotData, job: int, configuration: int) -> Profile | None:
    """Return how a job that runs ends if nothing changes; None if nothing so small is worth it."""
    table = data.table(job)
    own = table.column_of.get(configuration)
    if own is None:
        # It is dominated: by one that uses no more.
        whole = data.instance.jobs[job]
        use = data.rows.use(whole.configurations, whole.tenant)[configuration]
        fits = np.flatnonzero((table.use <= use + ROOM).all(axis=1))
        if not len(fits):
            return None
        own = int(fits[table.rate[fits].argmax()])
    slots = float(data.work[job] / table.rate[own])
    count = max(math.ceil(slots - _WHOLE), 1)
    return Profile(0, (own,) * count, min(slots, count))


def steering_costs(data: SlotData) -> JobCosts:
    """Return the costs by which single jobs are inserted: later completions cost more.

    Of a peak each job bears an equal share; where nothing depends on a completion, or nothing
    before its due date, waiting costs a little all the same.
    """
    target = data.target
    costs = target.costs
    for peak in target.level.peaks:
        costs = costs.plus(peak.shared(np.full(data.num_jobs, 1 / data.num_jobs)))
    least = _WAITING * target.level.size
    return replace(costs, rate=np.where(costs.rate > 0, costs.rate, least))


def total_cost(plan: Mapping[int, Any]) -> float:
    """Return the costs of single jobs in a plan."""
    return float(sum(column.cost for column in plan.values()))


def value_of(data: SlotData, plan: Mapping[int, Any]) -> float:
    """Return the objective of a plan of all jobs, in slots; infinite if a level is not kept.

    Parameters
    ----------
    data
        The instance on its slots.
    plan
        Column of each job by its position.
    """
    if not data.target.links_jobs:
        return total_cost(plan)
    return data.target.value(np.array([plan[j].profile.completion for j in range(data.num_jobs)]))


def serving_orders(data: SlotData) -> list[Index]:
    """Return the orders in which jobs are inserted, Smith's first.

    Besides it: by deadline; by due date and by slack before it where tardiness counts; and where
    peaks do, the longest first, and by the completions that keep a peak at its floor or above it.
    In each of them what runs and may not pause comes first: nobody else may take its place.
    """
    costs = steering_costs(data)
    ways = [data.release + data.shortest / (costs.rate + costs.late), data.limit]
    if costs.late.any():
        ways += [costs.due, costs.due - data.shortest]
    for peak, floor in zip(data.target.peaks, data.target.floors, strict=True):
        ways += [-data.shortest, *(peak.latest(above * floor) for above in _ABOVE_FLOOR)]
    return [np.lexsort((way, ~data.started)) for way in ways]


def serial_horizon(data: SlotData) -> int:
    """Return a number of slots in which all jobs fit one after the other."""
    return int(data.release.max() + np.ceil(data.shortest).sum()) + 1
