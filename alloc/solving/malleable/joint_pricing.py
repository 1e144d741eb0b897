"""The cheapest profiles of several jobs in the same room, priced in one program over time.

The programs of `alloc.models.malleable.profiles` are solved one after the other, and a slot of one
of them is a dozen operations on small arrays. Jobs that may pause and change their configuration,
without limits and due dates, need fewer: all their programs go back in time side by side, and only
the way of a job that is asked for is followed forwards, all jobs at once. The work left is rounded
as in ``upper`` programs, so that every profile completes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array
from alloc.models.malleable.data import Index
from alloc.models.malleable.profiles import IDLE, Pricing, Profile

_FIT = 1e-9
"""Relative slack of work left against a slot's work, as in the profiles."""
ROOM = 1e-6
"""Slack of use against the capacity left."""

Values = npt.NDArray[np.float32]
"""Half the memory of what is exact: a value chooses a profile, and the profile has its own cost."""


@dataclass(frozen=True, eq=False)
class _Program:
    """What some jobs side by side may do in a room.

    Parameters
    ----------
    rows
        Configurations that fit somewhere, group by group, shape (rows,).
    of
        Position in `groups` of each, shape (rows,).
    groups
        The groups, rising.
    slots
        Slots in which one of them fits, rising.
    cost
        What each costs in each slot, infinite where it does not fit, shape (slots, rows).
    """

    rows: Index
    of: Index
    groups: Index
    slots: Index
    cost: Array


class JointPricing:
    """The programs of some jobs side by side.

    Parameters
    ----------
    pricing
        The pricing problems of the instance.
    jobs
        The jobs, by position; those that do not go side by side are left out.

    Attributes
    ----------
    jobs
        Those that are in it.
    """

    def __init__(self, pricing: Pricing, jobs: Sequence[int]) -> None:
        data = self._data = pricing.data
        self.jobs: set[int] = set()
        self._group = np.zeros(data.num_jobs, dtype=np.int64)
        unit: list[float] = []
        weight, rate, use, group, column = [], [], [], [], []
        for key, alike in pricing.groups:
            own = alike[np.isin(alike, jobs)]
            first = int(alike[0])
            table, costs = data.table(first), pricing.job_costs
            plain = data.instance.jobs[first].preemptible and not key[5] and not costs.late[first]
            few = not len(own) or len(table.rate) == 1
            if few or not plain or math.isfinite(data.limit[first]):
                continue
            self.jobs |= set(own.tolist())
            self._group[own] = len(unit)
            # Of two that cost the same, the faster one comes first.
            fastest = np.argsort(-table.rate, kind="stable")
            group.append(np.full(len(fastest), len(unit)))
            unit.append(float(data.work[own].max()) / pricing.num_states)
            weight.append(float(costs.rate[first]))
            rate.append(table.rate[fastest])
            use.append(table.use[fastest])
            column.append(fastest)
        if not unit:
            return
        self._unit, self._weight = np.array(unit), np.array(weight)
        self._rate, self._use = np.concatenate(rate), np.concatenate(use)
        self._of, self._column = np.concatenate(group), np.concatenate(column)
        exact = self._rate / self._unit[self._of]
        self._steps = np.floor(exact).astype(np.int64)
        self._num_states = pricing.num_states + 1
        states = np.arange(self._num_states)
        left = np.maximum(states - self._steps[:, None], 0)
        self._after = (left + self._of[:, None] * self._num_states).astype(np.intp)
        part = states / exact[:, None]
        # What a job that ends in a slot costs less than one that goes on.
        finish = (np.minimum(part, 1.0) - 1.0) * self._weight[self._of][:, None]
        self._finish = np.where(part <= 1 + _FIT, finish, np.inf).astype(np.float32)

    def cheapest(self, jobs: Sequence[int], room: Array, prices: Array) -> dict[int, Profile]:
        """Return for each of some jobs the cheapest profile that fits into the room alone.

        Parameters
        ----------
        jobs
            Positions of jobs that are in it.
        room
            Capacity left, shape (slots, R).
        prices
            Price of each row in each slot, 0 or more.

        Returns
        -------
        dict
            Of the jobs that fit.
        """
        own = np.array(jobs, dtype=np.int64)
        rows = np.flatnonzero(np.isin(self._of, self._group[own]))
        cost = self._priced(rows, room, prices)
        worth = np.isfinite(cost).any(axis=0)
        rows, cost = rows[worth], cost[:, worth]
        if not len(rows):
            return {}
        # Only the groups that fit somewhere, and the slots in which one of them can run.
        groups, of = np.unique(self._of[rows], return_inverse=True)
        slots = np.flatnonzero(np.isfinite(cost).any(axis=1))
        own = own[np.isin(self._group[own], groups)]
        group = np.searchsorted(groups, self._group[own])
        program = _Program(rows, of, groups, slots, cost)
        value, runs = self._back(program, int(self._data.release[own].min()))
        return self._forth(own, group, program, value, runs)

    def _priced(self, rows: Index, room: Array, prices: Array) -> Array:
        """Return what configurations cost in each slot, the slot that a job goes on for included.

        Infinite where one does not fit, or where a faster one costs no more.
        """
        use, of = self._use[rows], self._of[rows]
        cost = prices @ use.T
        for r in np.flatnonzero(use.any(axis=0)).tolist():
            cost[use[:, r] > room[:, r, None] + ROOM] = np.inf
        begin = np.flatnonzero(np.diff(of, prepend=-1)).tolist()
        for first, end in zip(begin, [*begin[1:], len(rows)], strict=True):
            own = cost[:, first:end]
            least = np.minimum.accumulate(own, axis=1)
            own[:, 1:][own[:, 1:] >= least[:, :-1]] = np.inf
        return np.asarray(cost + self._weight[of])

    def _back(self, program: _Program, first: int) -> tuple[Values, npt.NDArray[np.bool_]]:
        """Return the value of each slot, group and state, and where a job runs."""
        rows, of, cost = program.rows, program.of, program.cost
        horizon, groups = len(cost), len(program.groups)
        value: Values = np.full((horizon + 1, groups, self._num_states), np.inf, dtype=np.float32)
        value[:, :, 0] = 0.0
        runs = np.zeros((horizon, groups, self._num_states), dtype=bool)
        after, finish = self._after_of(program), self._finish[rows]
        weight = self._weight[program.groups].astype(np.float32)[:, None]
        price, fits, ends = cost.astype(np.float32), np.isfinite(cost), np.arange(1, groups + 1)
        for t in range(horizon - 1, first - 1, -1):
            # Of a slot only what fits into it: a quarter of all, beside the others of a plan.
            some = np.flatnonzero(fits[t])
            idle = value[t + 1] + weight
            if not len(some):
                value[t, :, 1:] = idle[:, 1:]
                continue
            ahead = np.take(value[t + 1].ravel(), after[some], mode="clip")
            np.minimum(ahead, finish[some], out=ahead)
            ahead += price[t, some, None]
            running = np.full(idle.shape, np.inf, dtype=np.float32)
            low = 0
            for g, high in enumerate(np.searchsorted(of[some], ends).tolist()):
                if high > low:
                    np.minimum.reduce(ahead[low:high], axis=0, out=running[g])
                low = high
            np.minimum(idle[:, 1:], running[:, 1:], out=value[t, :, 1:])
            runs[t] = running <= idle
        return value, runs

    def _after_of(self, program: _Program) -> npt.NDArray[np.intp]:
        """Return where each row leads from each state, among the groups of a program."""
        shift = (program.of - program.groups[program.of]) * self._num_states
        after: npt.NDArray[np.intp] = self._after[program.rows] + shift[:, None].astype(np.intp)
        return after

    def _forth(
        self,
        jobs: Index,
        group: Index,
        program: _Program,
        value: Values,
        runs: npt.NDArray[np.bool_],
    ) -> dict[int, Profile]:
        """Return the profiles that the values lead to, by job."""
        data, rows, cost = self._data, program.rows, program.cost
        after, finish = self._after_of(program), self._finish[rows]
        left = data.work[jobs].astype(float)
        state = np.ceil(left / self._unit[program.groups[group]]).astype(np.int64)
        state = np.minimum(state, self._num_states - 1)
        release = np.minimum(data.release[jobs], len(cost))
        going = np.isfinite(value[release, group, state])
        # Slots in which each job runs, and in which column.
        taken: list[dict[int, int]] = [{} for _ in jobs]
        found: dict[int, Profile] = {}
        for t in program.slots[program.slots >= release.min()].tolist():
            there = np.flatnonzero(going & (release <= t))
            run = there[runs[t, group[there], state[there]]]
            if not len(run):
                continue
            ahead = value[t + 1].ravel()[after[:, state[run]]]
            ahead = np.minimum(ahead, finish[:, state[run]]) + cost[t][:, None]
            ahead[program.of[:, None] != group[run]] = np.inf
            for i, row in zip(run.tolist(), rows[ahead.argmin(axis=0)].tolist(), strict=True):
                taken[i][t] = int(self._column[row])
                rate = float(self._rate[row])
                if left[i] <= rate * (1 + _FIT):
                    going[i] = False
                    start = next(iter(taken[i]))
                    choice = [IDLE] * (t + 1 - start)
                    for slot, column in taken[i].items():
                        choice[slot - start] = column
                    end = t + min(float(left[i]) / rate, 1.0)
                    found[int(jobs[i])] = Profile(start, tuple(choice), end)
                left[i] -= rate
                state[i] = max(int(state[i]) - int(self._steps[row]), 0)
        return found
