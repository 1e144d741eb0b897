"""Better schedules for F2: price-guided insertion, then large-neighbourhood search.

Incumbents come from three sources. Insertion in the order of the linear master's completions, with
its prices as the value of capacity to later jobs (LP-guided list scheduling). The integer master
over the generated columns. And large-neighbourhood search: take some jobs out, put them back
better, either one by one at prices, or all at once by a linear master of their own that is followed
(`alloc.solving.malleable.dive`) or by the integer master. Between dives, a schedule is decided anew
slot by slot from some slot on (`alloc.solving.malleable.slot_fixing`), and all jobs may change what
they do in a few slots (`alloc.solving.malleable.windows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from alloc.backends import SolverOptions
from alloc.formulation import Array
from alloc.models.malleable.data import SlotData
from alloc.solving.malleable.column_generation import Relaxation
from alloc.solving.malleable.dive import Dive
from alloc.solving.malleable.insertion import Builder, value_of
from alloc.solving.malleable.joint_pricing import ROOM
from alloc.solving.malleable.master import Column, fit_together, solve_integer_master
from alloc.solving.malleable.reinsertion import GAIN, Reinsertion
from alloc.solving.malleable.slot_fixing import SlotFixing
from alloc.solving.malleable.windows import Window
from alloc.solving.outcome import Settings

Plan = dict[int, Column]
_PRICE_FACTORS = (1.0, 0.9, 1.1, 0.75, 0.5, 0.25, 0.0)
"""Multiples of the prices at which all jobs are inserted, the prices themselves first, in case time
is short: the best one differs from instance to instance. At 0 each job takes what is there."""
_FEW_LEFT = 0.5
"""Share of the jobs up to which those that the linear master splits are the only ones inserted: of
more, what it takes whole is too little to hold the others to."""
_SUBPROBLEM_SECONDS = 5.0
"""Wall time of the integer master for some of the jobs, seconds: its incumbent counts, proved or
not, and other jobs are to have their turn."""
_WIDE, _CHOSEN = 24, 4
"""Jobs that the integer master chooses for, and of how many rounds one is such a choice: it takes
as long as several rounds of insertion, and needs the columns that these find."""
_NEAR_BOUND = 1e-3
"""Gap from which on that is worth it beside dives, which find most of what is farther away."""
_LONG_SIZES = (2, 40)
"""Range of neighbourhood sizes where insertion is quick."""
_FEW_SIZES, _INSERTED = (2, 4), 6
"""Range of sizes of the neighbourhoods that are inserted one by one between two dives, and how many
there are: larger ones gain nothing in a full schedule, and so many take a fifth of a dive."""
_DIVE_SIZES = (8, 14)
"""Range of sizes of the neighbourhoods that dives choose for at first; smaller ones gain less, and
larger ones take more than a second each."""
_IDLE_DIVES = 60
"""Dives without a better schedule after which they choose for two jobs more: by then the smaller
ones have had each job several times."""
_WINDOW_SLOTS, _WINDOWS = 3, 24
"""Slots in which all jobs may change at once, and how many such windows in a row find nothing
before dives go on. Two slots gain less, and of four so few configurations can be listed that they
do, too."""
_LAST_WINDOWS = 10 * _WINDOWS
"""The same as the last turn begins: dives would hardly find more in what is left of the time."""
_FIXED_EVERY = 8
"""Dives from one plan that is decided slot by slot to the next, with windows after it: that takes a
few seconds, as eight dives do, and on elastic-medium/07 finds more than they."""
_FIXED_TO = 0.7
"""Part of the slots that such plans leave as they are at most: later ones have few jobs left, which
dives choose for."""
_FIXED_SHARE = 0.2
"""Share of the time left that deciding slot by slot may take: on large instances it begins later
after it took more."""
_SEEDS = 2**31 - 1
"""Seeds that HiGHS knows: each plan has its own, and other ways through ties."""
_WORSE = 0.15
"""Share of the gap by which dives may leave the best schedule: of 0, 0.05, 0.15 and 0.4 the one
with the best schedules after 40 seconds of CPU on elastic-medium/07."""
_NEAR, _SHARING = 0.5, 0.8
"""Draws below which a dive is for jobs that complete at about the same moment, and for jobs that
run at the same time; the others are for jobs that all cost more than they need."""


def _changes(plan: Plan, other: Plan) -> Plan:
    """Return what another plan has that one has not."""
    return {job: column for job, column in other.items() if column is not plan.get(job)}


def guided_plans(
    data: SlotData, builder: Builder, relaxation: Relaxation, settings: Settings
) -> list[Plan]:
    """Return the complete schedules that price-guided insertion finds in time, best first.

    Parameters
    ----------
    data
        The instance on its slots.
    builder
        Inserts single jobs.
    relaxation
        Columns and prices.
    settings
        Limits; after them no schedule is begun.
    """
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
        if column.job not in plan and (column.use <= room.ravel()[column.rows] + ROOM).all():
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
        Inserts single jobs, and prices profiles.
    relaxation
        Columns and prices.
    plan
        The incumbent.
    settings
        Limits and seed.
    """

    builder: Builder

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
        self.gains: list[Plan] = []
        """What each better schedule of a search changed, since the list was last emptied."""
        self._walk: tuple[Plan, Plan] | None = None
        """The incumbent when the last search ended, and where dives had got to, maybe worse."""
        self._since = _FIXED_EVERY
        """Dives since a plan was decided slot by slot: such a plan comes first."""
        self._fixed_from = 0.0
        """Part of the slots that those plans leave as they are at least."""
        self.decided = False
        """Whether a plan was decided slot by slot from the first one on: others begin later."""
        self._idle, self._size = 0, 8
        """Rounds without a better schedule, and jobs that are inserted together."""

    def adopt(self, plan: Plan) -> bool:
        """Take a plan as the incumbent if it is better; its columns are kept in any case."""
        for column in _changes(self.plan, plan).values():
            self._remember(column)
        return super().adopt(plan)

    def merge(self, plan: Plan, gains: Sequence[Plan]) -> bool:
        """Take what another search found from the same plan, beside what was found here since.

        Parameters
        ----------
        plan
            Where the other stands.
        gains
            What it changed on the way.
        """
        own = list(self.gains)
        better = self.adopt(self._with(self.plan, gains))
        return self.adopt(self._with(plan, own)) or better

    def _with(self, plan: Plan, gains: Sequence[Plan]) -> Plan:
        """Return a plan with the changes to another one that fit into it and make it better."""
        for changed in gains:
            better = {**plan, **changed}
            fits = fit_together(better.values(), self.builder.empty())
            if fits and value_of(self.data, better) < value_of(self.data, plan):
                plan = better
        return plan

    def integer_master(self, seconds: float) -> bool:
        """Choose the best schedule among all columns known, where they are worth it."""
        if not self.relaxation.mastered:
            return False
        return self._reselect(list(range(self.data.num_jobs)), seconds)

    @property
    def dives(self) -> bool:
        """Whether some jobs can be chosen for by a linear master of their own."""
        return self.relaxation.mastered and not self.data.target.links_jobs

    def search(self, seconds: float, report: Callable[[str], None]) -> None:
        """Improve the incumbent until the target is met, time is up, or nothing helps any more.

        Parameters
        ----------
        seconds
            Wall time of this turn, seconds; less where the settings leave less.
        report
            Takes a line of progress.
        """
        stop = max(self.settings.seconds_left() - seconds, 0.0)
        record, rounds = self.plan, 0
        if self.dives and self._walk is not None and self._walk[0] is record:
            self.plan = self._walk[1]
        else:
            self._idle = 0
        # Without a linear master, columns are few and insertion is quick: choose less, insert more.
        long = not self.relaxation.mastered
        patience = min(20 * self.data.num_jobs, math.inf if long else 400)
        try:
            if self.dives and stop == 0.0:  # the last turn
                self.plan = record
                self._through_windows(stop, _LAST_WINDOWS)
                if self.value < value_of(self.data, record):
                    self.gains.append(_changes(record, self.plan))
                    record = self.plan
            while self._idle <= patience and self.settings.seconds_left() > stop:
                least = value_of(self.data, record)
                if least <= self.target:
                    break
                rounds += 1
                near = least - self.relaxation.bound <= _NEAR_BOUND * abs(least)
                if self.dives and self._since >= _FIXED_EVERY:
                    better = self._fixing_round(record, stop)
                elif self.dives and not (near and rounds % _CHOSEN == 0):
                    better = self._dive_round(least, stop)
                elif self.dives:
                    better = self._choose_wide(record, stop)
                else:
                    better = self._choice_round(rounds, stop)
                self._idle = 0 if better else self._idle + 1
                if better:
                    self.gains.append(_changes(record, self.plan))
                    record = self.plan
                if self.value < least and better:
                    report(f"neighbourhood search, round {rounds}: {self.value:.4f}")
        finally:
            if self.value < value_of(self.data, record):  # interrupted in the middle of a round
                record = self.plan
            self._walk = record, self.plan
            self.plan = record

    def _choice_round(self, rounds: int, stop: float) -> bool:
        """Insert some jobs again, and every few rounds choose among the known columns of more."""
        num_jobs, long = self.data.num_jobs, not self.relaxation.mastered
        if long:
            size = min(num_jobs, int(self.rng.integers(*_LONG_SIZES)))
        else:
            self._size += 4 if self._idle and self._idle % 40 == 0 else 0
            size = min(num_jobs, self._size)
        better = self.reinsert(self.neighbourhood(size))
        if rounds % (60 if long else _CHOSEN) == 0:
            left = self.settings.seconds_left() - stop
            wide = self.neighbourhood(min(num_jobs, _WIDE if long else 3 * size))
            better |= self._reselect(wide, min(_SUBPROBLEM_SECONDS, left))
        return better

    def _choose_wide(self, record: Plan, stop: float) -> bool:
        """Choose among the known columns of many jobs of the best plan, and go on from there."""
        self.plan = record
        left = self.settings.seconds_left() - stop
        wide = self.neighbourhood(min(self.data.num_jobs, _WIDE))
        return self._reselect(wide, min(_SUBPROBLEM_SECONDS, left))

    def _dive_round(self, least: float, stop: float) -> bool:
        """Insert a few jobs again and again, then choose for more of them by a dive.

        The plan may get worse by a share of the gap of the best one, whose value is `least`; return
        whether it gets better than that.
        """
        num_jobs = self.data.num_jobs
        for _ in range(_INSERTED):
            if self.settings.seconds_left() <= stop:
                break
            size = min(num_jobs, int(self.rng.integers(*_FEW_SIZES, endpoint=True)))
            self.reinsert(self.neighbourhood(size))
        size = int(self.rng.integers(*_DIVE_SIZES, endpoint=True)) + 2 * (self._idle // _IDLE_DIVES)
        worse = max(self._allowed(least) - self.value, 0.0)
        self._dive(self._competitors(min(num_jobs, size)), worse)
        self._since += 1
        return self.value < least - GAIN

    def _allowed(self, least: float) -> float:
        """Return what a plan may cost on the way to one that costs less than the best one does."""
        return least + _WORSE * max(least - self.relaxation.bound, 0.0)

    def _fixing_round(self, record: Plan, stop: float) -> bool:
        """Decide the best plan anew from some slot on, then a few slots of what came of it at once.

        Where nothing came of it, a few slots of the plan that dives have got to. Return whether it
        gets better than the best plan.
        """
        self._since = 0
        least = value_of(self.data, record)
        first = self._first_fixed(math.ceil(self._last_of(record)))
        brief = self.settings.within(_FIXED_SHARE * self.settings.seconds_left())
        seed = int(self.rng.integers(_SEEDS))
        columns = [column for own in self.pool.values() for column in own]
        fixing = SlotFixing(self.data, record, first, columns, replace(brief, seed=seed))
        found = fixing.run(self._allowed(least))
        if brief.time_is_up():
            self._fixed_from = (self._fixed_from + _FIXED_TO) / 2
        for column in fixing.priced:
            self._remember(column)
        if found is not None:
            for column in found.values():
                self._remember(column)
            self.plan = found
        self._through_windows(stop)
        return self.value < least - GAIN

    def _first_fixed(self, num_slots: int) -> int:
        """Draw the slot from which a plan is decided anew: at first all of it."""
        share = self._fixed_from
        if self.decided:
            share += (_FIXED_TO - share) * float(self.rng.random())
        self.decided = True
        return int(share * num_slots)

    def _through_windows(self, stop: float, patience: int = _WINDOWS) -> None:
        """Let all jobs change in a few slots at once, until some windows in a row find nothing."""
        idle = 0
        while idle < patience and self.settings.seconds_left() > stop:
            room = self.room_without([])
            slots = self._window(math.ceil(self._last()))
            window = Window(self.data, self.plan, room, slots, self.relaxation.prices)
            better = window.better(self.settings)
            idle = 0 if better else idle + 1
            if better:
                self.adopt({**self.plan, **better})

    def _window(self, num_slots: int) -> list[int]:
        """Draw slots, half of the time one after the other."""
        size = min(_WINDOW_SLOTS, num_slots)
        if self.rng.random() < 0.5:
            first = int(self.rng.integers(num_slots - size, endpoint=True))
            return list(range(first, first + size))
        return sorted(self.rng.choice(num_slots, size, replace=False).tolist())

    def _last(self) -> float:
        """Return when the last job completes, slots."""
        return self._last_of(self.plan)

    @staticmethod
    def _last_of(plan: Plan) -> float:
        return max(column.profile.completion for column in plan.values())

    def _dive(self, jobs: list[int], worse: float) -> None:
        """Choose for some jobs by a linear master of their own; they may cost more by so much."""
        room = self.room_without(jobs)[: math.ceil(self._last()) + 1]
        flat = room.ravel()
        mine = [self.plan[j] for j in jobs]
        known = [
            column
            for j in jobs
            for column in self.pool[j]
            if column.rows[-1] < len(flat) and (column.use <= flat[column.rows] + ROOM).all()
        ]
        # A dive that has begun goes on after its turn is over: half of one is worth nothing.
        dive = Dive(self.data, self.builder, jobs, room, [*mine, *known], self.settings)
        found = dive.run(sum(column.cost for column in mine) + worse)
        if found is not None:
            for column in found.values():
                self._remember(column)
            self.plan = {**self.plan, **found}

    def _competitors(self, size: int) -> list[int]:
        """Draw jobs that stand in the way of one that costs more than it need, or share a slot.

        What a plan costs above the bound of the prices are these two: jobs whose profiles are not
        their cheapest ones, and capacity that nobody takes though it has a price.
        """
        plan = [self.plan[j] for j in range(self.data.num_jobs)]
        excess = np.maximum([self._reduced_cost(column) for column in plan] - self._least, 0.0)
        left = np.maximum(self.room_without([]), 0.0) * self.relaxation.prices
        unused = left.sum(axis=1)
        # Any job may be the one.
        chance = excess + 0.1 * excess.mean() + 1e-9
        if self.rng.random() * (unused.sum() + chance.sum()) < unused.sum():
            moment = int(self.rng.choice(len(unused), p=unused / unused.sum()))
            there = [moment in column.rows // left.shape[1] for column in plan]
            rank = self.rng.random(len(plan)) - np.array(there)
            return sorted(np.argsort(rank, kind="stable")[:size].tolist())
        chance /= chance.sum()
        first, draw = int(self.rng.choice(len(plan), p=chance)), self.rng.random()
        if draw < _NEAR:
            completion = np.array([column.profile.completion for column in plan])
            spread = self.rng.random(len(plan)) * 0.3 * completion.max()
            rank = np.abs(completion - completion[first]) + spread
        elif draw < _SHARING:
            shared = [np.isin(plan[first].rows, column.rows).sum() for column in plan]
            rank = -np.array(shared) * self.rng.random(len(plan))
        else:
            rank = self.rng.exponential(1 / chance)
        rank[first] = -np.inf
        return sorted(np.argsort(rank, kind="stable")[:size].tolist())

    def _reduced_cost(self, column: Column) -> float:
        return column.cost + float(self._prices[column.rows] @ column.use)

    @cached_property
    def _prices(self) -> Array:
        return self.relaxation.prices.ravel()

    @cached_property
    def _least(self) -> Array:
        """The least that each job pays at the prices, among the generated columns, shape (J,)."""
        least = np.full(self.data.num_jobs, np.inf)
        for column in self.relaxation.columns:
            least[column.job] = min(least[column.job], self._reduced_cost(column))
        return least

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
                if (column.use <= flat[column.rows] + ROOM).all():
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
