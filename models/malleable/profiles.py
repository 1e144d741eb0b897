"""Job profiles: the subproblem of one job under prices for capacity, by dynamic programming.

A *profile* says in which configuration a job runs in each slot. Given a price per slot for every
configuration, the cheapest profile of a job minimises the cost of its completion
(`alloc.models.malleable.costs.JobCosts`) plus the price of its slots.
The state is the work left, on a grid. Two roundings make two programs:

* ``lower`` overstates the work done in a slot and understates the work left: its value is a *lower
  bound* on every profile's cost, so the Lagrangian bound made of it is valid.
* ``upper`` does the opposite: every profile it returns really completes.

Jobs that share a table, costs and a limit share one program, whatever their work and release.
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
from alloc.models.malleable.costs import JobCosts
from alloc.models.malleable.data import SlotData, Table

Array = npt.NDArray[np.float64]
Rounding = Literal["lower", "upper"]

IDLE = -1
"""In place of a column, in a slot without one: columns count from 0."""
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
    """The dynamic program shared by jobs of one table, costs and limit.

    Parameters
    ----------
    table
        The configurations.
    columns
        Which of them may be used, shape (C,): all, or one for a moldable job.
    weight
        Cost of each slot until the completion, 0 or more.
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
        With a single configuration, where a limit or a due date makes it matter: the fraction of
        the last slot that its jobs use.
    late
        Cost of each slot between due date and completion besides, 0 or more.
    due
        Due date, slots.
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
    late: float = 0.0
    due: float = math.inf

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

    def last_part(self, work: float) -> float:
        """Return the part of the last slot that a job uses, where slots are counted."""
        return min(work / self.unit - (self.state(work) - 1), 1.0)

    def surcharge(self, work: float) -> float:
        """Return the cost of the last slot's fraction where the program leaves it out."""
        if not self.counted or self.late:
            return 0.0
        return self.weight * self.last_part(work)

    def delay(self, t: float, slots: Array) -> Array:
        """Return what completing some slots after moment t costs more than completing at t.

        Parameters
        ----------
        t
            Moment of the earlier completion, slots since the start.
        slots
            How much later the others are, slots, 0 or more.
        """
        cost = self.weight * slots
        if not self.late:
            return cost
        before = max(t - self.due, 0.0)
        return np.asarray(cost + self.late * (np.maximum(t + slots - self.due, 0.0) - before))

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
        steps, fraction = self._steps(states, rate)
        after = np.maximum(states[None, :] - steps[:, None], 0)
        horizon = len(prices)
        value = np.full((horizon + 1, len(states)), np.inf)
        value[:, 0] = 0.0
        if last_free:
            beyond = self._beyond(states, rate)
            value[horizon] = self.delay(horizon, beyond)
            value[horizon][horizon + beyond > self.limit + _FIT] = np.inf
        choice = np.full((horizon, len(states)), IDLE, dtype=np.int16)
        run_value = value if self.pausable else value.copy()
        run_choice = choice if self.pausable else choice.copy()
        finishes = np.isfinite(fraction)
        rise = self.delay_of_slots(horizon)
        finish = np.where(finishes, self.delay(0.0, np.where(finishes, fraction, 0.0)), np.inf)
        worth = self._worth(prices)
        for t in range(horizon - 1, first - 1, -1):
            if stop():
                raise OutOfTime
            own = worth[t]
            idle = rise[t] + value[t + 1]
            if t + 1 > self.limit:
                idle = np.full_like(idle, np.inf)
            if not len(own):
                value[t, 1:] = idle[1:]
                if not self.pausable:
                    run_value[t, 1:] = np.inf
                continue
            cost = run_value[t + 1][after[own]]
            cost += rise[t]
            np.copyto(cost, self._finish_at(t, fraction[own], finish[own]), where=finishes[own])
            cost += prices[t, own][:, None]
            least = cost.argmin(axis=0)
            running, best = cost[least, states], own[least]
            if not self.pausable:
                run_value[t, 1:] = running[1:]
                run_choice[t] = best
            value[t, 1:] = np.minimum(idle, running)[1:]
            choice[t] = np.where(running <= idle, best, IDLE)
        return Solved(self, value, run_value, choice, run_choice, steps)

    def _worth(self, prices: Array) -> list[npt.NDArray[np.int64]]:
        """Return for each slot the configurations that may be the best there, by position.

        One that costs as much as a faster one is not: after the faster one less work is left.
        Often a third of them remain, and where capacity is taken fewer.
        """
        fastest = np.argsort(-self.table.rate[self.columns], kind="stable")
        cost = prices[:, fastest]
        least = np.minimum.accumulate(cost, axis=1)
        worth = np.isfinite(cost)
        worth[:, 1:] &= cost[:, 1:] < least[:, :-1]
        return [fastest[own] for own in worth]

    def delay_of_slots(self, num_slots: int) -> list[float]:
        """Return what each slot costs in which the job stays unfinished."""
        if not self.late:
            return [self.weight] * num_slots
        part = np.clip(np.arange(1, num_slots + 1) - self.due, 0.0, 1.0)
        return (self.weight + self.late * part).tolist()  # type: ignore[no-any-return]

    def _steps(
        self, states: npt.NDArray[np.int64], rate: Array
    ) -> tuple[npt.NDArray[np.int64], Array]:
        """Return the grid steps of a slot, and the part of it to finish in from each state.

        Infinite where a slot does not suffice. Where slots are counted and only a limit asks for
        the part, it is left out.
        """
        if self.counted:
            part = self.last_fraction if self.late else 0.0
            return np.ones(1, dtype=np.int64), np.where(states <= 1, part, np.inf)[None, :]
        exact = rate / self.unit
        steps = np.ceil(exact) if self.rounding == "lower" else np.floor(exact)
        fraction = states[None, :] / exact[:, None]
        fraction = np.where(fraction <= 1 + _FIT, np.minimum(fraction, 1.0), np.inf)
        return steps.astype(np.int64), fraction

    def _finish_at(self, t: int, fraction: Array, finish: Array) -> Array:
        """Return the finishing costs in slot t, infinite where they break the limit.

        `finish` is what they are in a slot that the due date leaves alone.
        """
        if self.late and t + 1 > self.due:
            known = np.isfinite(fraction)
            finish = np.where(known, self.delay(t, np.where(known, fraction, 0.0)), np.inf)
        if t + 1 <= self.limit:
            return finish
        end = t + fraction
        if self.counted and not self.late:
            end = end + self.last_fraction
        return np.where(end <= self.limit + _FIT, finish, np.inf)

    def _beyond(self, states: npt.NDArray[np.int64], rate: Array) -> Array:
        """Return the slots to finish in, alone and free of charge, after the last one."""
        if self.counted:
            part = self.last_fraction if self.late else 0.0
            return np.where(states > 0, np.maximum(states - 1, 0) + part, 0.0)
        return np.asarray(states * self.unit / rate.max())


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
        """Return the least cost of completing after the release, plus prices.

        `started` says that the job runs already and may not pause.

        Parameters
        ----------
        release
            First slot in which the job may run.
        work
            Work left, above 0.
        started
            Whether the job runs already and may not pause.
        """
        if release >= len(self.value):
            # Released after the horizon: it runs alone, free of charge.
            release = len(self.value) - 1
        state = self.program.state(work)
        value = self.run_value if started else self.value
        return float(value[release, state]) + self.program.surcharge(work)

    def profile(self, release: int, work: float, started: bool = False) -> Profile | None:
        """Return the cheapest profile within the horizon, or None when there is none.

        Parameters
        ----------
        release
            First slot in which the job may run.
        work
            Work left, above 0.
        started
            Whether the job runs already and may not pause.
        """
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
    job_costs
        What completions cost; None for the costs of single jobs in what is asked.
    """

    def __init__(
        self,
        data: SlotData,
        num_states: int = 1000,
        stop: Callable[[], bool] = never,
        job_costs: JobCosts | None = None,
    ) -> None:
        self.data = data
        self.job_costs = own = data.target.costs if job_costs is None else job_costs
        self.stop = stop
        self.num_states = num_states
        groups: dict[tuple[object, ...], list[int]] = {}
        for j, job in enumerate(data.instance.jobs):
            key = (
                int(data.table_of[j]),
                float(own.rate[j]),
                (float(own.late[j]), float(own.due[j])) if own.late[j] else None,
                float(data.limit[j]),
                job.preemptible,
                job.elasticity != "malleable",
                # Where the last slot ends matters to limits and due dates; such jobs keep apart.
                float(data.work[j]) if math.isfinite(data.limit[j]) or own.late[j] else None,
            )
            groups.setdefault(key, []).append(j)
        self.groups = [(key, np.array(jobs)) for key, jobs in groups.items()]

    def programs(
        self, key: tuple[object, ...], jobs: npt.NDArray[np.int64], rounding: Rounding
    ) -> list[Program]:
        """Return the programs of a group: one, or one per configuration for moldable jobs.

        Parameters
        ----------
        key
            What the jobs of the group have in common.
        jobs
            Positions of the jobs of the group.
        rounding
            Which way work is rounded to the grid; see the module.
        """
        table = self.data.tables[int(self.data.table_of[jobs[0]])]
        most = float(self.data.work[jobs].max())
        all_columns = np.arange(len(table.rate))
        apart = bool(key[5])
        first, costs = int(jobs[0]), self.job_costs
        choices = [np.array([c]) for c in all_columns] if apart else [all_columns]
        built = []
        for columns in choices:
            single = len(columns) == 1
            unit = float(table.rate[columns[0]]) if single else most / self.num_states
            program = Program(
                table=table,
                columns=columns,
                weight=float(costs.rate[first]),
                limit=float(self.data.limit[first]),
                pausable=bool(self.data.instance.jobs[first].preemptible),
                unit=unit,
                num_states=0,
                rounding=rounding,
                late=float(costs.late[first]),
                due=float(costs.due[first]),
            )
            states = max(program.state(float(self.data.work[j])) for j in jobs)
            fraction = 0.0
            if program.counted and (program.late or math.isfinite(program.limit)):
                fraction = program.last_part(float(self.data.work[first]))
            built.append(replace(program, num_states=states, last_fraction=fraction))
        return built

    def solve(self, prices: Array, rounding: Rounding) -> list[list[Solved]]:
        """Solve all programs for prices of the capacity rows, shape (slots, R).

        Parameters
        ----------
        prices
            What a unit of each capacity row costs in each slot, 0 or more, shape
            (slots, R).
        rounding
            Which way work is rounded to the grid; see the module.
        """
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
        """Return the least cost of each job's completion, plus prices."""
        costs = np.zeros(self.data.num_jobs)
        for (_, jobs), programs in zip(self.groups, solved, strict=True):
            for j in jobs:
                release, work = int(self.data.release[j]), float(self.data.work[j])
                started = bool(self.data.started[j])
                own = min(p.cost(release, work, started) for p in programs)
                costs[j] = own + self.job_costs.of(j, release)
        return costs

    def profiles_of(
        self, jobs: npt.NDArray[np.int64], programs: list[Solved]
    ) -> list[Profile | None]:
        """Return the cheapest profiles of the jobs of a group, by the grid of their programs.

        Parameters
        ----------
        jobs
            Positions of the jobs of a group.
        programs
            Its solved programs, of which each job takes the cheapest.
        """
        found = []
        for j in jobs:
            release, work = int(self.data.release[j]), float(self.data.work[j])
            started = bool(self.data.started[j])
            costs = [p.cost(release, work, started) for p in programs]
            found.append(programs[int(np.argmin(costs))].profile(release, work, started))
        return found
