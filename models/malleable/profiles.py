"""Job profiles: the subproblem of one job under prices for capacity, by dynamic programming.

A *profile* says in which configuration a job runs in each slot. Given a price per slot for every
configuration, the cheapest profile of a job minimises ``weight * completion + price of its slots``.
The state is the work left, on a grid. Two roundings make two programs:

* ``lower`` overstates the work done in a slot and understates the work left: its value is a *lower
  bound* on every profile's cost, so the Lagrangian bound made of it is valid.
* ``upper`` does the opposite: every profile it returns really completes.

Jobs that share a table, a weight and a limit share one program, whatever their work and release.
A single configuration needs no grid: the state is the number of slots left, and both roundings are
exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from alloc.errors import OutOfTime
from alloc.models.malleable.data import SlotData, Table

Array = npt.NDArray[np.float64]
Rounding = Literal["lower", "upper"]

IDLE = -1
_FIT = 1e-9
"""Relative slack when work left is compared with a slot's work; matches the checker's tolerance."""


def never() -> bool:
    """Return False: nothing stops the program."""
    return False


@dataclass(frozen=True)
class Profile:
    """A job's configuration in each slot.

    Parameters
    ----------
    start
        First slot of `choice`.
    choice
        Column in the job's table for each slot, `IDLE` where it pauses; the last one runs.
    completion
        Completion in slots since the start of the instance, a fraction included.
    """

    start: int
    choice: tuple[int, ...]
    completion: float

    def key(self) -> tuple[int, tuple[int, ...]]:
        """Identify the profile."""
        return (self.start, self.choice)


@dataclass(frozen=True)
class Program:
    """The dynamic program shared by jobs of one table, weight and limit.

    Parameters
    ----------
    table
        The configurations.
    columns
        Which of them may be used, shape (C,): all, or one for a moldable job.
    weight
        Weight per slot of completion.
    limit
        Latest completion, slots.
    pausable
        Whether the job may pause after its start.
    unit
        Work of one grid step.
    num_states
        Largest number of grid steps left.
    rounding
        See the module.
    last_fraction
        With a limit and a single configuration: the fraction of the last slot that its jobs use.
    """

    table: Table
    columns: npt.NDArray[np.int64]
    weight: float
    limit: float
    pausable: bool
    unit: float
    num_states: int
    rounding: Rounding
    last_fraction: float = 0.0

    @property
    def counted(self) -> bool:
        """Whether the state is exact: one configuration, counted in slots."""
        return len(self.columns) == 1

    def state(self, work: float) -> int:
        """Return the state in which a job with that work left stands."""
        return int(self.states(np.array([work]))[0])

    def states(self, work: Array) -> npt.NDArray[np.int64]:
        """Return the states for work left, shape as `work`."""
        steps = work / self.unit
        if self.counted:
            rounded = np.maximum(np.ceil(steps * (1 - _FIT)), 1)
        else:
            rounded = np.floor(steps) if self.rounding == "lower" else np.ceil(steps)
        return np.clip(rounded, 0, None).astype(np.int64)

    def surcharge(self, work: float) -> float:
        """Return the cost of the last slot's fraction where the program leaves it out."""
        if not self.counted:
            return 0.0
        return self.weight * min(work / self.unit - (self.state(work) - 1), 1.0)

    def solve(
        self, prices: Array, first: int, last_free: bool, stop: Callable[[], bool] = never
    ) -> Solved:
        """Solve the program backwards in time.

        Parameters
        ----------
        prices
            Price of each allowed configuration in each slot, shape (slots, columns); infinite
            where it may not be used.
        first
            First slot that is needed.
        last_free
            Whether a job may go on at full speed, free of charge, after the last slot: then the
            value is a bound for schedules of any length. Otherwise it must complete by then.
        stop
            Asked in every slot whether time is up.

        Raises
        ------
        OutOfTime
            If it is.
        """
        states = np.arange(self.num_states + 1)
        rate = self.table.rate[self.columns]
        steps, finish = self._steps(states, rate)
        after = np.maximum(states[None, :] - steps[:, None], 0)
        horizon = len(prices)
        value = np.full((horizon + 1, len(states)), np.inf)
        value[:, 0] = 0.0
        if last_free:
            value[horizon] = self._beyond(states, rate)
            value[horizon][horizon + value[horizon] / self.weight > self.limit] = np.inf
        choice = np.full((horizon, len(states)), IDLE, dtype=np.int16)
        run_value = value if self.pausable else value.copy()
        run_choice = choice if self.pausable else choice.copy()
        finishes = np.isfinite(finish)
        for t in range(horizon - 1, first - 1, -1):
            if stop():
                raise OutOfTime
            cost = run_value[t + 1][after]
            cost += self.weight
            np.copyto(cost, self._finish_at(t, finish), where=finishes)
            cost += prices[t][:, None]
            best = cost.argmin(axis=0)
            running = cost[best, states]
            if not self.pausable:
                run_value[t, 1:] = running[1:]
                run_choice[t] = best
            idle = self.weight + value[t + 1]
            if t + 1 > self.limit:
                idle = np.full_like(idle, np.inf)
            value[t, 1:] = np.minimum(idle, running)[1:]
            choice[t] = np.where(running <= idle, best, IDLE)
        return Solved(self, value, run_value, choice, run_choice, steps)

    def _steps(
        self, states: npt.NDArray[np.int64], rate: Array
    ) -> tuple[npt.NDArray[np.int64], Array]:
        """Return the grid steps of a slot, and the cost of finishing from each state (or inf)."""
        if self.counted:
            finish = np.where(states <= 1, 0.0, np.inf)[None, :]
            return np.ones(1, dtype=np.int64), finish
        exact = rate / self.unit
        steps = np.ceil(exact) if self.rounding == "lower" else np.floor(exact)
        fraction = states[None, :] / exact[:, None]
        finish = np.where(fraction <= 1 + _FIT, self.weight * np.minimum(fraction, 1.0), np.inf)
        return steps.astype(np.int64), finish

    def _finish_at(self, t: int, finish: Array) -> Array:
        """Return the finishing costs in slot t, infinite where they break the limit."""
        if t + 1 <= self.limit:
            return finish
        end = t + finish / self.weight + self.last_fraction
        return np.where(end <= self.limit + _FIT, finish, np.inf)

    def _beyond(self, states: npt.NDArray[np.int64], rate: Array) -> Array:
        """Return the cost of finishing alone and free of charge after the last slot."""
        if self.counted:
            return self.weight * np.maximum(states - 1, 0).astype(float)
        return np.asarray(self.weight * states * self.unit / rate.max())


@dataclass(frozen=True)
class Solved:
    """A solved program: the value and the choice for every slot and state."""

    program: Program
    value: Array
    run_value: Array
    choice: npt.NDArray[np.int16]
    run_choice: npt.NDArray[np.int16]
    steps: npt.NDArray[np.int64]

    def cost(self, release: int, work: float, started: bool = False) -> float:
        """Return the least cost, weight times slots after the release plus prices.

        `started` says that the job runs already and may not pause.
        """
        if release >= len(self.value):
            # Released after the horizon: it runs alone, free of charge.
            release = len(self.value) - 1
        state = self.program.state(work)
        value = self.run_value if started else self.value
        return float(value[release, state]) + self.program.surcharge(work)

    def profile(self, release: int, work: float, started: bool = False) -> Profile | None:
        """Return the cheapest profile within the horizon, or None when there is none."""
        program = self.program
        horizon = len(self.choice)
        state = program.state(work)
        value = self.run_value if started else self.value
        if release >= horizon or not math.isfinite(value[release, state]):
            return None
        left = work
        chosen: list[int] = []
        for t in range(release, horizon):
            table = self.run_choice if started and not program.pausable else self.choice
            c = int(table[t, state])
            if c == IDLE:
                chosen.append(IDLE)
                continue
            started = True
            column = int(program.columns[c])
            chosen.append(column)
            rate = float(program.table.rate[column])
            if left <= rate * (1 + _FIT):
                start = next(i for i, c in enumerate(chosen) if c != IDLE)
                return Profile(release + start, tuple(chosen[start:]), t + min(left / rate, 1.0))
            left -= rate
            state = max(state - int(self.steps[c]), 0)
            if state == 0:
                # The lower rounding thinks the job is done; its profile would not complete.
                return None
        return None


class Pricing:
    """The pricing problems of all jobs of an instance, merged where jobs are alike.

    Parameters
    ----------
    data
        The instance on its slots.
    num_states
        Grid steps for the job with the most work of each program.
    stop
        Asked again and again whether time is up; `solve` then raises `OutOfTime`.
    """

    def __init__(
        self, data: SlotData, num_states: int = 1000, stop: Callable[[], bool] = never
    ) -> None:
        self.data = data
        self.stop = stop
        self.num_states = num_states
        groups: dict[tuple[object, ...], list[int]] = {}
        for j, job in enumerate(data.instance.jobs):
            key = (
                int(data.table_of[j]),
                float(data.weight[j]),
                float(data.limit[j]),
                job.preemptible,
                job.elasticity != "malleable",
                # Where the last slot ends matters to a limit, so such jobs keep apart.
                float(data.work[j]) if math.isfinite(data.limit[j]) else None,
            )
            groups.setdefault(key, []).append(j)
        self.groups = [(key, np.array(jobs)) for key, jobs in groups.items()]

    def programs(
        self, key: tuple[object, ...], jobs: npt.NDArray[np.int64], rounding: Rounding
    ) -> list[Program]:
        """Return the programs of a group: one, or one per configuration for moldable jobs."""
        table = self.data.tables[int(self.data.table_of[jobs[0]])]
        most = float(self.data.work[jobs].max())
        all_columns = np.arange(len(table.rate))
        apart = bool(key[4])
        choices = [np.array([c]) for c in all_columns] if apart else [all_columns]
        built = []
        for columns in choices:
            single = len(columns) == 1
            unit = float(table.rate[columns[0]]) if single else most / self.num_states
            program = Program(
                table=table,
                columns=columns,
                weight=float(self.data.weight[jobs[0]]),
                limit=float(self.data.limit[jobs[0]]),
                pausable=bool(self.data.instance.jobs[int(jobs[0])].preemptible),
                unit=unit,
                num_states=0,
                rounding=rounding,
            )
            states = max(program.state(float(self.data.work[j])) for j in jobs)
            fraction = 0.0
            if program.counted and math.isfinite(program.limit):
                fraction = program.surcharge(float(self.data.work[jobs[0]])) / program.weight
            built.append(replace(program, num_states=states, last_fraction=fraction))
        return built

    def solve(self, prices: Array, rounding: Rounding) -> list[list[Solved]]:
        """Solve all programs for prices of the capacity rows, shape (slots, R)."""
        solved = []
        for key, jobs in self.groups:
            first = int(min(self.data.release[jobs].min(), len(prices)))
            solved.append(
                [
                    program.solve(
                        prices @ program.table.use[program.columns].T,
                        first,
                        last_free=rounding == "lower",
                        stop=self.stop,
                    )
                    for program in self.programs(key, jobs, rounding)
                ]
            )
        return solved

    def costs(self, solved: list[list[Solved]]) -> Array:
        """Return each job's least weighted completion plus prices, slots, counted from 0."""
        costs = np.zeros(self.data.num_jobs)
        for (_, jobs), programs in zip(self.groups, solved, strict=True):
            for j in jobs:
                release, work = int(self.data.release[j]), float(self.data.work[j])
                started = bool(self.data.started[j])
                own = min(p.cost(release, work, started) for p in programs)
                costs[j] = own + self.data.weight[j] * release
        return costs

    def profiles(self, solved: list[list[Solved]]) -> list[Profile | None]:
        """Return each job's cheapest profile."""
        found: list[Profile | None] = [None] * self.data.num_jobs
        for (_, jobs), programs in zip(self.groups, solved, strict=True):
            for j in jobs:
                release, work = int(self.data.release[j]), float(self.data.work[j])
                started = bool(self.data.started[j])
                costs = [p.cost(release, work, started) for p in programs]
                best = programs[int(np.argmin(costs))]
                found[j] = best.profile(release, work, started)
        return found


def lagrangian_bound(
    data: SlotData, prices: Array, num_states: int = 4000, stop: Callable[[], bool] = never
) -> float:
    """Return the lower bound on weighted JCT that prices prove, in plain numpy.

    ``sum_j min over profiles (w_j C_j + prices) - sum_tr B_r p_tr``, minus arrivals, for any prices
    p >= 0, shape (slots, R). Schedules may be longer than the priced slots: what comes after them
    is free, which only lowers the bound.

    Returns
    -------
    float
        The bound in seconds.

    Raises
    ------
    OutOfTime
        If `stop`, asked again and again, says so.
    """
    prices = np.maximum(prices, 0.0)
    pricing = Pricing(data, num_states, stop)
    costs = pricing.costs(pricing.solve(prices, "lower"))
    arrival = data.release - data.lag
    slots = costs.sum() - (prices @ data.rows.capacity).sum() - data.weight @ arrival
    return float(slots) * data.slot_s
