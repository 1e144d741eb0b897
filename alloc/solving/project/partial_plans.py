"""Plans that are begun, many at a time as arrays: which go on from each, and which are beaten.

A partial plan has started some activities, in the order of their starts; all others start at its
last start or later. So what it leaves of a resource only grows, and is told by when each unit is
free. Two kinds are left out:

* An activity that starts when another could have been through by then: with that one before it the
  plan costs no more, and what is left to start ends earlier in sum.
* A partial plan that is beaten by another one with the same activities: no unit is free, no
  activity may start, no job has ended, and no budget is used up, earlier or less than in the other.
  Whatever the former goes on with, the latter can.

So of some partial plan of each layer the best end stays: of its ends that cost least the one whose
activities end earliest in sum goes on without the first kind, and what beats it ends as well.

References
----------
E. Demeulemeester, W. Herroelen, "A branch-and-bound procedure for the multiple resource-constrained
project scheduling problem", Management Science 38(12), 1992, doi:10.1287/mnsc.38.12.1803 (left
shifts; plans of the same activities, there cutsets).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.clock import check_time
from alloc.models.project.data import ProjectData
from alloc.models.project.whole_times import WholeTimes
from alloc.problems.project import job_cost

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BLOCK, _AT_ONCE = 64, 4096
"""Plans that are held against so many others at once: the answers fit the cache of a core."""
_SAME = 1e-12
"""Relative difference of two costs that is rounding: they are sums in different orders."""
_NEVER = 2**62
"""Later than any time of a plan, in units of time, and small enough to be added to without
overflow."""


@dataclass
class PartialPlans:
    """Plans that are begun, a row each.

    Parameters
    ----------
    started
        Which activities have started, shape (plans, A).
    ends, modes
        Their ends in units of time, and their modes, 0 for the others, shape (plans, A).
    free
        When each unit of the renewable resources is free, in units of time, sorted within each
        resource, shape (plans, units).
    now
        The last start, in units, shape (plans,).
    spent
        What is used up, shape (plans, budgets).
    cost
        Of the jobs that are through, or the last end, seconds, shape (plans,).
    least
        What the whole plan costs at least, seconds, shape (plans,).
    """

    started: Bools
    ends: Ints
    modes: npt.NDArray[np.int16]
    free: Ints
    now: Ints
    spent: Ints
    cost: Array
    least: Array

    def __len__(self) -> int:
        return len(self.now)

    def __getitem__(self, rows: npt.NDArray[np.generic] | slice) -> PartialPlans:
        return PartialPlans(*(getattr(self, f.name)[rows] for f in fields(self)))

    @staticmethod
    def together(parts: Sequence[PartialPlans]) -> PartialPlans:
        """Return some as one."""
        return PartialPlans(
            *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(PartialPlans))
        )


class Steps:
    """How plans of a project go on, with everything worked out that they share.

    Parameters
    ----------
    data
        The project.
    objective
        Name of the objective.
    times
        Its times as whole numbers.
    """

    def __init__(self, data: ProjectData, objective: str, times: WholeTimes) -> None:
        self.data, self.objective, self.times = data, objective, times
        self.size = data.num_activities
        self.lengths = [[times.down(d) for d in row] for row in data.durations]
        self.rates = [[np.array(use, np.int64) for use in row] for row in data.rates]
        self.least_rates = [np.min(rows, axis=0) for rows in self.rates]
        self.amounts = [[np.array(use, np.int64) for use in row] for row in data.amounts]
        self.release = np.array([times.down(r) for r in data.release], np.int64)
        capacity = [r.capacity for r in data.renewable]
        self.units = np.concatenate([[0], np.cumsum(capacity)]).astype(np.int64)
        """Where the units of each resource begin."""
        self.budgets = np.array([r.capacity for r in data.used_up], np.int64)
        least = [np.min(rows, axis=0) for rows in self.amounts]
        self.least_amounts = np.array(least, np.int64).reshape(self.size, len(self.budgets))
        self.job_of = np.array(data.problem.job_of)
        jobs = len(data.problem.jobs)
        self.of_job = np.arange(jobs)[:, None] == self.job_of
        self.waits_for = [np.array(before, np.int64) for before in data.problem.predecessors]
        # The last stages of a job decide when it ends; if there is one, it alone.
        sinks = self.of_job & (data.job_tails == 0)
        self._many_ends = [j for j in range(jobs) if sinks[j].sum() > 1]
        self._waiting = [k for k in range(self.size) if len(self.waits_for[k])]

    @property
    def fit(self) -> bool:
        """Whether the project is one of those whose plans go on like this.

        Every activity takes time and a unit of something.
        """
        return all(min(row) > 0 for row in self.lengths) and all(
            use.any() for row in self.rates for use in row
        )

    def begin(self) -> PartialPlans:
        """Return the plan in which nothing has started."""
        size = self.size
        return PartialPlans(
            np.zeros((1, size), np.bool_),
            np.zeros((1, size), np.int64),
            np.zeros((1, size), np.int16),
            np.zeros((1, int(self.units[-1])), np.int64),
            np.zeros(1, np.int64),
            np.zeros((1, len(self.budgets)), np.int64),
            np.zeros(1),
            np.full(1, -np.inf),
        )

    def ready(self, plans: PartialPlans, k: int) -> Ints:
        """Return when an activity may start by its release and those before it that have started.

        Parameters
        ----------
        plans
            The plans.
        k
            The activity.
        """
        found = np.full(len(plans), self.release[k])
        for p in self.waits_for[k]:
            np.maximum(found, plans.ends[:, p], out=found)
        return found

    def room(self, plans: PartialPlans, uses: Ints) -> Ints:
        """Return from when on so many units of each resource are free.

        Parameters
        ----------
        plans
            The plans.
        uses
            The units, shape (R,).
        """
        found = np.zeros(len(plans), np.int64)
        for first, use in zip(self.units, uses, strict=False):
            if use:
                np.maximum(found, plans.free[:, first + use - 1], out=found)
        return found

    def following(self, plans: PartialPlans) -> PartialPlans:
        """Return the plans with one activity more, `least` as it was.

        Parameters
        ----------
        plans
            The plans.
        """
        soonest = np.full(len(plans), _NEVER)
        found: list[tuple[Ints, int, int, Ints]] = []
        left, rooms = None, dict[bytes, Ints]()
        if len(self.budgets):
            left = self.budgets - plans.spent - ~plans.started @ self.least_amounts
        for k in range(self.size):
            open_ = ~plans.started[:, k]
            for p in self.waits_for[k]:
                open_ &= plans.started[:, p]
            if not open_.any():
                continue
            ready = self.ready(plans, k)
            through = np.full(len(plans), 0 if len(self.budgets) else _NEVER)
            for m, length in enumerate(self.lengths[k]):
                uses = self.rates[k][m]
                if uses.tobytes() not in rooms:
                    rooms[uses.tobytes()] = self.room(plans, uses)
                start = np.maximum(np.maximum(ready, rooms[uses.tobytes()]), plans.now)
                # With budgets another mode may cost more of them: it counts if all would do.
                pick = np.maximum if len(self.budgets) else np.minimum
                through = pick(through, start + length)
                able = open_
                if left is not None:
                    more = self.amounts[k][m] - self.least_amounts[k]
                    able = open_ & (left >= more).all(axis=1)
                rows = np.flatnonzero(able)
                found.append((rows, k, m, start[rows]))
            soonest[open_] = np.minimum(soonest, through)[open_]
        parts = []
        for rows, k, m, start in found:
            timely = start < soonest[rows]
            if timely.any():
                parts.append(self._with(plans[rows[timely]], k, m, start[timely]))
        return PartialPlans.together(parts) if parts else plans[:0]

    def _with(self, plans: PartialPlans, k: int, m: int, start: Ints) -> PartialPlans:
        """Return plans, which are copies, with an activity more."""
        end = start + self.lengths[k][m]
        for first, last, use in zip(self.units[:-1], self.units[1:], self.rates[k][m], strict=True):
            if not use:
                continue
            # Of the units that are free by then it takes those that were free last.
            free = plans.free[:, first:last]
            upto = (free <= start[:, None]).sum(axis=1)[:, None]
            at = np.arange(last - first)
            taken = (at < upto) & (at >= upto - use)
            plans.free[:, first:last] = np.sort(np.where(taken, end[:, None], free), axis=1)
        plans.started[:, k], plans.ends[:, k], plans.modes[:, k] = True, end, m
        plans.now = start
        plans.spent += self.amounts[k][m]
        if self.objective == "makespan":
            plans.cost = np.maximum(plans.cost, end * self.times.unit)
        else:
            j = self.job_of[k]
            own = self.of_job[j]
            done = plans.started[:, own].all(axis=1)
            plans.cost[done] += self.cost_of(j, plans.ends[done][:, own].max(axis=1, initial=0))
        return plans

    def cost_of(self, j: int, ends: Ints) -> Array:
        """Return what a job costs that ends at some times.

        Parameters
        ----------
        j
            The job.
        ends
            The times, in units.
        """
        job, seconds = self.data.problem.jobs[j], ends * self.times.unit
        return np.array([job_cost(job, float(end), self.objective) for end in seconds])

    def not_beaten(self, plans: PartialPlans) -> PartialPlans:
        """Return the plans without those that are beaten by one with the same activities.

        Parameters
        ----------
        plans
            The plans.
        """
        packed = np.packbits(plans.started, axis=1)
        free = np.maximum(plans.free, plans.now[:, None])
        # Nothing starts before a unit is free; what is ready before is ready then.
        soonest = free[:, self.units[:-1][np.diff(self.units) > 0]].min(axis=1)
        columns = [*free.T[::-1], *plans.spent.T]
        columns += [
            np.where(plans.started[:, k], 0, np.maximum(self.ready(plans, k), soonest))
            for k in self._waiting
        ]
        if self.objective != "makespan":
            for j in self._many_ends:
                own = self.of_job[j]
                ends = np.maximum(plans.ends[:, own].max(axis=1), soonest)
                columns.append(np.where(plans.started[:, own].all(axis=1), 0, ends))
        told, cost = np.stack(columns), plans.cost
        columns.clear()
        if self.objective == "makespan":
            cost = np.maximum(cost, soonest * self.times.unit)
        # Of plans with the same activities those with the least sums come first: only they beat.
        order = np.lexsort((cost, told.sum(axis=0), *packed.T))
        plans, packed, cost = plans[order], packed[order], cost[order]
        told = told.astype(np.int32 if told.max() < 2**31 else np.int64)[:, order]
        new = np.flatnonzero((packed[1:] != packed[:-1]).any(axis=1)) + 1
        alive = np.ones(len(plans), np.bool_)
        for first, last in itertools.pairwise((0, *new.tolist(), len(plans))):
            if last - first > 1:
                check_time()
                alive[first:last] = _unbeaten(told[:, first:last], cost[first:last])
        return plans[alive]


def _unbeaten(told: npt.NDArray[Any], cost: Array) -> Bools:
    """Return which plans no other one beats, shape (plans,).

    Parameters
    ----------
    told
        What is not to be later or more in a plan that beats another, those with the least sums
        first, shape (columns, plans).
    cost
        What they cost, shape (plans,).
    """
    alive = np.ones(len(cost), np.bool_)
    slack = cost * (1 + _SAME)

    def beats(rivals: Ints, rows: Ints) -> Bools:
        found = cost[rivals, None] <= slack[rows]
        for column in told:
            found &= column[rivals, None] <= column[rows]
        return np.asarray(found)

    for first in range(0, len(cost), _BLOCK):
        rows = first + np.flatnonzero(alive[first : first + _BLOCK])
        beaten = np.triu(beats(rows, rows), 1).any(axis=0)
        alive[rows[beaten]] = False
        rivals, others = rows[~beaten], first + _BLOCK + np.flatnonzero(alive[first + _BLOCK :])
        for at in range(0, len(others), _AT_ONCE):
            some = others[at : at + _AT_ONCE]
            alive[some[beats(rivals, some).any(axis=0)]] = False
    return alive
