"""Large-neighbourhood search for F2: take some jobs out, put them back better, on any axis of time.

The jobs of a neighbourhood compete: they complete at about the same moment, or are there at one.
They are put back in about the order of their completions, at prices for the capacity that others
could use; with everyone in place, each then takes what is left over. Slots and continuous time
differ only in how capacity left is kept and how one job is inserted into it.

References
----------
Shaw, Using constraint programming and local search methods to solve vehicle routing problems,
CP 1998; Ropke, Pisinger, An adaptive large neighborhood search heuristic for the pickup and
delivery problem with time windows, Transportation Science 40 (2006).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from alloc.formulation import Array
from alloc.models.malleable.costs import JobCosts
from alloc.models.malleable.data import SlotData
from alloc.solving.malleable.insertion import value_of
from alloc.solving.outcome import Settings

GAIN = 1e-9
"""Differences of value that count, where costs are about 1: less is rounding."""


class Copied(Protocol):
    """Capacity left."""

    def copy(self) -> Any:
        """Return one that changes on its own."""


Column = TypeVar("Column", bound=Any)
Room = TypeVar("Room", bound=Copied)


class Inserter(Protocol[Column, Room]):
    """Keeps capacity left, and inserts single jobs into it."""

    job_costs: JobCosts

    def room_of(self, columns: Iterable[Column]) -> Room:
        """Return what some jobs leave."""

    def take(self, room: Room, column: Column) -> None:
        """Take a column's capacity.

        Parameters
        ----------
        room
            Capacity left, changed in place.
        column
            A column; nothing checks that it fits.
        """

    def give_back(self, room: Room, column: Column) -> None:
        """Give a column's capacity back.

        Parameters
        ----------
        room
            Capacity left, changed in place.
        column
            A column whose capacity was taken.
        """

    def insert(self, job: int, room: Room, prices: Array | None) -> Column | None:
        """Return the cheapest column of a job that fits into the room, or None.

        Parameters
        ----------
        job
            Position of the job.
        room
            Capacity left.
        prices
            Price of capacity over time, as the builder takes it; None where all are 0.
        """


class Reinsertion(Generic[Column, Room]):
    """Large-neighbourhood search from an incumbent.

    Parameters
    ----------
    data
        The instance on its slots.
    builder
        Inserts single jobs.
    prices
        Price of capacity over time, as the builder takes it.
    plan
        The incumbent.
    settings
        Limits and seed.
    spread
        Whether to draw neighbourhoods also among all jobs that are there at a moment: long jobs
        compete at moments far from their completion, too.

    Attributes
    ----------
    plan
        The best plan so far: a column of each job, by position.
    """

    def __init__(
        self,
        data: SlotData,
        builder: Inserter[Column, Room],
        prices: Array,
        plan: dict[int, Column],
        settings: Settings,
        *,
        spread: bool,
    ) -> None:
        self.data = data
        self.builder = builder
        self.prices = prices
        self.plan = plan
        self.settings = settings
        self.spread = spread
        self._full: dict[int, Column] | None = None
        """The plan whose room left is in `_room`."""
        self._room = builder.room_of(())

    @cached_property
    def rng(self) -> np.random.Generator:
        """What draws neighbourhoods; slow to load, and many instances are proved without any."""
        return np.random.default_rng(self.settings.seed)

    @property
    def value(self) -> float:
        """Objective of the incumbent, in slots."""
        return value_of(self.data, self.plan)

    def adopt(self, plan: dict[int, Column]) -> bool:
        """Take a plan as the incumbent if it is better.

        Where only the worst job counts, most changes move others: of two plans of one value the one
        whose jobs complete earlier is better, for it leaves more room.
        """
        gain = self.value - value_of(self.data, plan)
        better = gain > GAIN
        if not better and self.data.target.peaks and gain >= 0:
            better = self._steering(plan) < self._steering(self.plan) - GAIN
        if better:
            self.plan = plan
        return better

    def _steering(self, plan: dict[int, Column]) -> float:
        """Return what the completions of a plan cost where every job counts."""
        costs = self.builder.job_costs
        return sum(costs.of(j, column.profile.completion) for j, column in plan.items())

    def neighbourhood(self, size: int) -> list[int]:
        """Draw jobs that compete: around a random moment, or anywhere."""
        completion = np.array([self.plan[j].profile.completion for j in range(self.data.num_jobs)])
        if self.spread and self.rng.random() < 0.5:
            moment = self.rng.choice(completion)
            there = np.flatnonzero((self.data.release <= moment) & (completion >= moment))
            return sorted(self.rng.permutation(there)[:size].tolist())
        if self.rng.random() < 0.7:
            moment = self.rng.choice(completion)
            spread = self.rng.random(self.data.num_jobs) * 0.3 * completion.max()
            near = np.argsort(np.abs(completion - moment) + spread)
            return sorted(near[:size].tolist())
        return sorted(self.rng.permutation(self.data.num_jobs)[:size].tolist())

    def room_without(self, jobs: list[int]) -> Room:
        """Return the capacity that the plan leaves without some jobs."""
        if self._full is not self.plan:
            self._full = self.plan
            self._room = self.builder.room_of(self.plan.values())
        room: Room = self._room.copy()
        for j in jobs:
            self.builder.give_back(room, self.plan[j])
        return room

    def reinsert(self, jobs: list[int]) -> bool:
        """Take jobs out and insert them again in a new order, at varied prices."""
        room = self.room_without(jobs)
        noise = self.rng.normal(0.0, 0.15, len(jobs))
        completion = np.array([self.plan[j].profile.completion for j in jobs])
        order = [jobs[i] for i in np.argsort(completion * (1 + noise))]
        prices: Array | None = self.prices * self.rng.uniform(0.3, 1.2)
        placed: dict[int, Column] = {}
        for step, job in enumerate(order):
            last = step == len(order) - 1
            column = self.builder.insert(job, room, None if last else prices)
            if column is None:
                return False
            self.builder.take(room, column)
            placed[job] = column
        # With everyone in place, capacity left over is free: let each job use it in turn.
        for job in order:
            self.builder.give_back(room, placed[job])
            column = self.builder.insert(job, room, None)
            if column is not None and column.profile.completion < placed[job].profile.completion:
                placed[job] = column
            self.builder.take(room, placed[job])
        return self.adopt({**self.plan, **placed})
