"""Better schedules for F2: price-guided insertion, then large-neighbourhood search.

Incumbents come from three sources. Insertion in the order of the linear master's completions, with
its prices as the value of capacity to later jobs (LP-guided list scheduling). The integer master
over the generated columns. And large-neighbourhood search: take some jobs out, put them back
better, either one by one at prices or all at once by the integer master.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from alloc.backends import SolverOptions
from alloc.formulation import Array
from alloc.models.malleable.data import SlotData
from alloc.solving.malleable.column_generation import Relaxation
from alloc.solving.malleable.insertion import Builder, value_of
from alloc.solving.malleable.master import Column, solve_integer_master
from alloc.solving.malleable.reinsertion import Reinsertion
from alloc.solving.outcome import Settings

Plan = dict[int, Column]
_PRICE_FACTORS = (1.0, 0.9, 1.1, 0.75, 0.5, 0.25, 0.0)
_FEW_LEFT = 0.5
"""Share of the jobs up to which those that the linear master splits are the only ones inserted."""
_ROOM = 1e-6
"""Slack of use against capacity, as in the insertion."""
_SUBPROBLEM_SECONDS = 5.0
_LONG_SIZES = (2, 40)
"""Range of neighbourhood sizes where insertion is quick."""


def guided_plans(
    data: SlotData, builder: Builder, relaxation: Relaxation, settings: Settings
) -> list[Plan]:
    """Return the complete schedules that price-guided insertion finds in time, best first."""
    order = np.argsort(relaxation.completion(data.num_jobs), kind="stable").tolist()
    kept, room = _rounded(builder, relaxation)
    left = [job for job in order if job not in kept]
    plans = []
    for begin, jobs in ((kept, left), ({}, order)):
        for factor in _PRICE_FACTORS:
            if settings.time_is_up():
                break
            prices = factor * relaxation.prices if factor else None
            free = room.copy() if begin else builder.empty()
            plan = builder.insert_all(jobs, free, prices, settings.time_is_up)
            if plan is not None:
                plans.append({**begin, **plan})
        if begin and len(left) < _FEW_LEFT * len(order) and plans:
            break
    return sorted(plans, key=lambda plan: value_of(data, plan))


def _rounded(builder: Builder, relaxation: Relaxation) -> tuple[Plan, Array]:
    """Return the profiles that the linear master takes for the most part, and the room they leave.

    Most jobs have a profile as a whole there: a vertex has no more profiles than rows.
    """
    plan: Plan = {}
    room = builder.empty()
    if not relaxation.mastered:
        return plan, room
    for i in np.argsort(-relaxation.z, kind="stable").tolist():
        column = relaxation.columns[i]
        if relaxation.z[i] < 0.5:
            break
        if column.job not in plan and (column.use <= room.ravel()[column.rows] + _ROOM).all():
            builder.take(room, column)
            plan[column.job] = column
    return plan, room


class Improver(Reinsertion[Column, Array]):
    """Large-neighbourhood search on slots, by insertion and by choosing among known columns.

    Parameters
    ----------
    data
        The instance on its slots.
    builder
        Inserts single jobs.
    relaxation
        Columns and prices.
    plan
        The incumbent.
    settings
        Limits and seed.
    """

    def __init__(
        self,
        data: SlotData,
        builder: Builder,
        relaxation: Relaxation,
        plan: Plan,
        settings: Settings,
    ) -> None:
        # Without a linear master, instances are long.
        long = not relaxation.mastered
        super().__init__(data, builder, relaxation.prices, plan, settings, spread=long)
        self.relaxation = relaxation
        self.pool: dict[int, list[Column]] = {j: [] for j in range(data.num_jobs)}
        self._keys: set[tuple[int, tuple[int, tuple[int, ...]]]] = set()
        for column in (*relaxation.columns, *plan.values()):
            self._remember(column)
        self.target = -np.inf
        """Value at which the search may stop."""

    def adopt(self, plan: Plan) -> bool:
        """Take a plan as the incumbent if it is better; its columns are kept in any case."""
        for job, column in plan.items():
            if column is not self.plan.get(job):
                self._remember(column)
        return super().adopt(plan)

    def integer_master(self, seconds: float) -> bool:
        """Choose the best schedule among all columns known, where they are worth it."""
        if not self.relaxation.mastered:
            return False
        return self._reselect(list(range(self.data.num_jobs)), seconds)

    def search(self, seconds: float, report: Callable[[str], None]) -> None:
        """Improve the incumbent until the target is met or time is up."""
        stop = max(self.settings.seconds_left() - seconds, 0.0)
        rounds = idle = 0
        reported = self.value
        size = min(self.data.num_jobs, 8)
        # Without a linear master, columns are few and insertion is quick: choose less, insert more.
        long = not self.relaxation.mastered
        every, most = (60, math.inf) if long else (4, 400)
        patience = min(20 * self.data.num_jobs, most)
        while self.value > self.target and self.settings.seconds_left() > stop:
            rounds += 1
            if long:
                size = min(self.data.num_jobs, int(self.rng.integers(*_LONG_SIZES)))
            jobs = self.neighbourhood(size)
            better = self.reinsert(jobs)
            if rounds % every == 0:
                left = self.settings.seconds_left() - stop
                wide = self.neighbourhood(min(self.data.num_jobs, 24 if long else 3 * size))
                better |= self._reselect(wide, min(_SUBPROBLEM_SECONDS, left))
            idle = 0 if better else idle + 1
            if self.value < reported:
                reported = self.value
                report(f"neighbourhood search, round {rounds}: {self.value:.4f}")
            if idle and idle % 40 == 0 and not long:
                size = min(self.data.num_jobs, size + 4)
            if idle > patience:
                break

    def _remember(self, column: Column) -> None:
        key = (column.job, column.profile.key())
        if key not in self._keys:
            self._keys.add(key)
            self.pool[column.job].append(column)

    def _reselect(self, jobs: list[int], seconds: float) -> bool:
        """Let the integer master choose among the known columns of some jobs."""
        room = self.room_without(jobs)
        flat = room.ravel()
        columns: list[Column] = []
        start: list[int] = []
        for j in jobs:
            for column in self.pool[j]:
                if (column.use <= flat[column.rows] + _ROOM).all():
                    if column is self.plan[j] or column.profile == self.plan[j].profile:
                        start.append(len(columns))
                    columns.append(column)
        options = SolverOptions(
            min(seconds, self.settings.seconds_left()), self.settings.seed, self.settings.workers
        )
        warm = start if len(start) == len(jobs) else None
        left = set(jobs)
        others = [column for job, column in self.plan.items() if job not in left]
        chosen, _ = solve_integer_master(
            self.data, columns, room, jobs, options, warm, others=others
        )
        if chosen is None:
            return False
        return self.adopt({**self.plan, **{column.job: column for column in chosen}})
