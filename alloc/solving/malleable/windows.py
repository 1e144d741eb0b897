"""Better schedules for F2 in a few slots: every job may change what it does there, at once.

A dive frees a few jobs in all slots; here all jobs are free in a few slots. What a job does in the
other slots stays, so each way through these says when it completes: who does more there completes
earlier. The ways of each job are listed, and an integer program chooses one for each. Its capacity
rows are only those of the slots, so its linear relaxation splits few jobs and is near its optimum.
By the prices of that relaxation only ways that may be in a better plan are left (reduced cost
fixing, as in `alloc.solving.malleable.enumeration`), a hundred or so of ten thousand, and choosing
among them takes hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.models.malleable.data import Index, SlotData, Table
from alloc.models.malleable.profiles import IDLE, Profile
from alloc.solving.malleable.dive import LEAST_GAIN
from alloc.solving.malleable.master import Column, fit_together, make_column
from alloc.solving.outcome import Settings

FIT = 1e-9
"""Relative slack of work against a slot's work and of ends against limits, as in the profiles."""
_OPTIONS = {1: 60, 2: 20, 3: 10}
"""Configurations of a job in each slot, by the number of slots: a thousand ways of each job or so,
whose listing takes as long as choosing among those that are left."""
_HOPED = 2.0
"""Multiple of what a window may gain, by prices and what more work is worth at a job's end, up to
which a choice may lose against the best one of its job: both are rough where ends move far."""
_PRICED, _CHOSEN = 2000, 400
"""Ways that the linear relaxation and the integer program get at most: more take a second, and
those of most excess are hardly ever taken."""
_SECONDS = 0.2
"""Time of the integer program, seconds; most need a tenth of it."""
_NEAR = 1e-5
"""Relative gap of the integer program: less is a tenth of what a window gains."""


@dataclass(frozen=True, eq=False)
class _Ways:
    """Ways of a job through the slots.

    Parameters
    ----------
    job
        Position of the job.
    choice
        Configuration in each slot, or idle, shape (ways, slots).
    end, cost
        When the job completes then, and what that costs, shape (ways,).
    use
        What it takes of each capacity row, shape (ways, slots x R).
    mine
        Position of the way that the plan takes.
    """

    job: int
    choice: Index
    end: Array
    cost: Array
    use: Array
    mine: int

    def kept(self, some: np.ndarray) -> _Ways:
        """Return some of the ways, a mask, and that of the plan."""
        some = some.copy()
        some[self.mine] = True
        mine = int(np.count_nonzero(some[: self.mine]))
        fields = (self.choice[some], self.end[some], self.cost[some], self.use[some])
        return _Ways(self.job, *fields, mine)


class Window:
    """Some slots of a plan, and what every job may do in them.

    Jobs that may not pause or not change their configuration stay as they are.

    Parameters
    ----------
    data
        The instance on its slots; what is asked links no jobs.
    plan
        A column of each job, by position.
    room
        Capacity that the plan leaves, shape (slots, R).
    slots
        The slots, rising, three at most; each within the room.
    prices
        Price of each row in each slot, which say what configurations are worth trying, shape
        (slots, R).
    """

    def __init__(
        self,
        data: SlotData,
        plan: Mapping[int, Column],
        room: Array,
        slots: Sequence[int],
        prices: Array,
    ) -> None:
        self._data, self._plan, self._room, self._slots = data, plan, room, list(slots)
        self._prices = prices[self._slots].ravel()
        scale = np.tile(data.rows.capacity, len(slots))
        self._scale = np.where(scale > 0, scale, 1.0)
        free = room[self._slots].ravel()
        listed: dict[int, tuple[Index, Array]] = {}
        hope = float(self._prices @ np.maximum(free, 0.0))
        for job, column in plan.items():
            kind = data.instance.jobs[job]
            there = data.release[job] <= slots[-1] and column.profile.completion > slots[0]
            if there and kind.preemptible and kind.elasticity == "malleable":
                choice, loss = listed[job] = self._listed(job, column.profile)
                hope += float(loss[self._is_mine(job, choice)].sum())
        self._ways = []
        for job, (choice, loss) in listed.items():
            profile = plan[job].profile
            near = (loss <= _HOPED * hope) | self._is_mine(job, choice)
            ways = self._ways_of(job, profile, choice[near])
            free = free + ways.use[ways.mine]
            self._ways.append(ways)
        self._free = np.maximum(free, 0.0)
        """Capacity that those who stay as they are leave in the slots, shape (slots x R,)."""

    def better(self, settings: Settings) -> dict[int, Column] | None:
        """Return other columns of some jobs with which the plan costs less, or None.

        Parameters
        ----------
        settings
            The limits; a window that has begun ends in a second.
        """
        if len(self._ways) < 2 or not self._may_gain(self._prices, _PRICED):
            return None
        count = len(self._ways)
        try:
            duals = self._program().optimum("ways through slots", settings.seconds_left()).duals
        except OutOfTime:
            return None
        if not self._may_gain(np.maximum(-duals[count:], 0.0) / self._scale, _CHOSEN):
            return None
        first = np.cumsum([0, *(len(ways.cost) for ways in self._ways)])
        start = np.zeros(first[-1])
        start[[at + ways.mine for at, ways in zip(first, self._ways, strict=False)]] = 1.0
        seconds = min(_SECONDS, settings.seconds_left())
        options = SolverOptions(
            seconds, settings.seed, settings.workers, gap=_NEAR, start=start, brief=True
        )
        raw = highs.solve(self._program().integer_model(), options)
        if raw.values is None:
            return None
        changed: dict[int, Column] = {}
        for at, ways in zip(first, self._ways, strict=False):
            way = int(np.argmax(raw.values[at : at + len(ways.cost)]))
            if way != ways.mine:
                profile = self._profile(ways, way)
                changed[ways.job] = make_column(self._data, ways.job, profile)
        return changed if self._is_better(changed) else None

    def _is_better(self, changed: Mapping[int, Column]) -> bool:
        """Return whether columns cost less than those of the plan, and fit beside the others."""
        gain = sum(self._plan[job].cost - column.cost for job, column in changed.items())
        room = self._room.copy()
        for job in changed:
            room.reshape(-1)[self._plan[job].rows] += self._plan[job].use
        # The solver keeps its rows up to a tolerance only.
        return gain > LEAST_GAIN and fit_together(changed.values(), room)

    def _listed(self, job: int, profile: Profile) -> tuple[Index, Array]:
        """Return choices of a job in the slots, and about what each loses against its best one."""
        data, slots = self._data, self._slots
        table, costs = data.table(job), data.target.costs
        doing = _choices(profile)
        idle = len(table.rate)
        rate, use = _with_idle(table)
        # More work in one slot is less in the last one.
        worth = (costs.rate[job] + costs.late[job]) / table.rate[doing[max(doing)]]
        prices = self._prices.reshape(len(slots), -1)
        choices, losses = [], []
        for k, t in enumerate(slots):
            loss = use @ prices[k] - worth * rate
            loss -= loss.min()
            rank = loss.copy()
            rank[[doing.get(t, idle), idle]] = -1.0
            best = np.argsort(rank, kind="stable")[: _OPTIONS[len(slots)]]
            choices.append(best if t >= data.release[job] else np.array([idle]))
            losses.append(loss[choices[-1]] if t >= data.release[job] else np.zeros(1))
        choice = np.stack([axis.ravel() for axis in np.meshgrid(*choices, indexing="ij")], axis=1)
        loss = losses[0]
        for other in losses[1:]:
            loss = np.add.outer(loss, other)
        return choice, loss.ravel()

    def _is_mine(self, job: int, choice: Index) -> np.ndarray:
        """Return which choice of a job is that of the plan."""
        doing, idle = _choices(self._plan[job].profile), len(self._data.table(job).rate)
        mine = [doing.get(t, idle) for t in self._slots]
        return np.asarray((choice == mine).all(axis=1))

    def _ways_of(self, job: int, profile: Profile, choice: Index) -> _Ways:
        """Return what choices of a job come to, without those that are not possible."""
        data, slots = self._data, self._slots
        costs, doing = data.target.costs, _choices(profile)
        rate, use = _with_idle(data.table(job))
        column = {t: k for k, t in enumerate(slots)}
        before = sum(rate[c] for t, c in doing.items() if t < slots[0])
        left: Array = np.full(len(choice), float(data.work[job]) - float(before))
        end: Array = np.full(len(choice), np.inf)
        possible = np.ones(len(choice), dtype=bool)
        for t in range(slots[0], max(max(doing), slots[-1]) + 1):
            going = np.isinf(end)
            if t in column:
                own = rate[choice[:, column[t]]]
                possible &= going | (own == 0)  # nobody runs after its end
            elif t in doing:
                own = np.full(len(choice), rate[doing[t]])
            else:
                continue
            done = going & (own > 0) & (left <= own * (1 + FIT))
            if done.any():
                end[done] = t + np.clip(left[done] / own[done], 0.0, 1.0)
            left -= own
        possible &= end <= min(float(data.limit[job]), float(len(self._room))) + FIT
        mine = self._is_mine(job, choice)
        possible |= mine
        choice, end, mine = choice[possible], end[possible], mine[possible]
        at = int(np.flatnonzero(mine)[0])
        end[at] = profile.completion
        late = costs.late[job] * np.maximum(end - costs.due[job], 0.0) if costs.late[job] else 0.0
        cost = costs.base[job] + costs.rate[job] * end + late
        return _Ways(job, choice, end, cost, use[choice].reshape(len(choice), -1), at)

    def _may_gain(self, prices: Array, most: int) -> bool:
        """Keep the ways that may be in a better plan by some prices, at most so many.

        Return whether there may be a better plan.
        """
        reduced = [ways.cost + ways.use @ prices for ways in self._ways]
        excess = [own - own.min() for own in reduced]
        value = sum(float(ways.cost[ways.mine]) for ways in self._ways)
        slack = value - sum(float(own.min()) for own in reduced) + float(prices @ self._free)
        if slack <= LEAST_GAIN:
            return False
        total = np.concatenate(excess)
        if np.count_nonzero(total <= slack) > most:
            slack = float(np.partition(total, most)[most])
        self._ways = [ways.kept(own <= slack) for ways, own in zip(self._ways, excess, strict=True)]
        return True

    def _program(self) -> LinearProgram:
        """Return the linear relaxation: a way for each job, within what is free."""
        count, rows = len(self._ways), len(self._scale)
        program = LinearProgram()
        program.add_rows(
            np.concatenate([np.ones(count), np.full(rows, -np.inf)]),
            np.concatenate([np.ones(count), self._free / self._scale]),
        )
        use = np.concatenate([ways.use for ways in self._ways]) / self._scale
        job = np.repeat(np.arange(count), [len(ways.cost) for ways in self._ways])
        # Of each way the row of its job, then those of what it takes.
        taken = np.hstack([np.ones((len(job), 1)), use])
        way, entry = np.nonzero(taken)
        program.add_columns(
            np.concatenate([ways.cost for ways in self._ways]),
            np.zeros(len(job)),
            np.ones(len(job)),
            np.flatnonzero(entry == 0),
            np.where(entry == 0, job[way], count + entry - 1),
            taken[way, entry],
        )
        return program

    def _profile(self, ways: _Ways, way: int) -> Profile:
        """Return the profile of a job with one of its ways through the slots."""
        table = self._data.table(ways.job)
        doing, end = _choices(self._plan[ways.job].profile), float(ways.end[way])
        for t, choice in zip(self._slots, ways.choice[way].tolist(), strict=True):
            doing[t] = choice
        running = {t: c for t, c in doing.items() if t < end and c < len(table.rate)}
        slots = range(min(running), max(running) + 1)
        return Profile(slots[0], tuple(running.get(t, IDLE) for t in slots), end)


def _with_idle(table: Table) -> tuple[Array, Array]:
    """Return the rates and the use of all configurations, then of none."""
    nothing = np.zeros((1, table.use.shape[1]))
    return np.append(table.rate, 0.0), np.concatenate([table.use, nothing])


def _choices(profile: Profile) -> dict[int, int]:
    """Return the configuration in each slot in which a profile runs."""
    return {profile.start + k: c for k, c in enumerate(profile.choice) if c != IDLE}
