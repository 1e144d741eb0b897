"""A project as arrays, and what follows from it without a solver: bounds and list schedules."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from alloc.formulation import Array
from alloc.problems.project import ActivityRun, Mode, ProjectPlan, ProjectProblem, job_cost

Modes = Sequence[int]
"""The mode of each activity, by position in `ProjectData.modes`."""


class ProjectData:
    """A project with the modes that can be part of a best schedule.

    A mode is left out where it uses more than there is, or where another is no longer and uses no
    more of anything.

    Parameters
    ----------
    problem
        The project.
    whole
        Whether the latter modes stay: a constraint of a user's own may forbid the better one.
    """

    def __init__(self, problem: ProjectProblem, whole: bool = False) -> None:
        self.problem, self.whole = problem, whole
        self.renewable = [r for r in problem.resources if r.is_renewable]
        self.used_up = [r for r in problem.resources if not r.is_renewable]
        self.num_activities = len(problem.activities)
        self.modes = [self._useful(k) for k in range(self.num_activities)]
        self.durations = [
            [activity.modes[m].duration_s for m in modes]
            for activity, modes in zip(problem.activities, self.modes, strict=True)
        ]
        self.rates = self._uses([r.name for r in self.renewable])
        self.amounts = self._uses([r.name for r in self.used_up])
        self.release = [problem.jobs[j].release_s for j in problem.job_of]
        self.successors: list[list[int]] = [[] for _ in range(self.num_activities)]
        for k, before in enumerate(problem.predecessors):
            for p in before:
                self.successors[p].append(k)

    def _useful(self, k: int) -> list[int]:
        modes = self.problem.activities[k].modes
        able = [m for m, mode in enumerate(modes) if self.problem.fits(mode)]

        def is_beaten(m: int) -> bool:
            return not self.whole and any(
                self._replaces(modes[rival], modes[m])
                and (rival < m or not self._replaces(modes[m], modes[rival]))
                for rival in able
                if rival != m
            )

        return [m for m in able if not is_beaten(m)]

    def _replaces(self, one: Mode, other: Mode) -> bool:
        """Return whether a mode is no longer than another and uses no more of anything."""
        return one.duration_s <= other.duration_s and all(
            one.uses.get(r.name, 0) <= other.uses.get(r.name, 0) for r in self.problem.resources
        )

    def _uses(self, names: Sequence[str]) -> list[list[tuple[int, ...]]]:
        """Return for each activity and mode what it uses of some resources."""
        return [
            [tuple(activity.modes[m].uses.get(name, 0) for name in names) for m in modes]
            for activity, modes in zip(self.problem.activities, self.modes, strict=True)
        ]

    @cached_property
    def shortest(self) -> Array:
        """Shortest duration of each activity, seconds."""
        return np.array([min(times) for times in self.durations])

    @cached_property
    def heads(self) -> Array:
        """Earliest start of each activity if resources were no limit, seconds."""
        heads = np.array(self.release)
        for k in self.problem.order:
            for p in self.problem.predecessors[k]:
                heads[k] = max(heads[k], heads[p] + self.shortest[p])
        return heads

    @cached_property
    def tails(self) -> Array:
        """Shortest time from the end of each activity to that of all that follow it, seconds."""
        tails = np.zeros(self.num_activities)
        for k in reversed(self.problem.order):
            for p in self.problem.predecessors[k]:
                tails[p] = max(tails[p], tails[k] + self.shortest[k])
        return tails

    @cached_property
    def job_tails(self) -> Array:
        """Shortest time from the end of each activity to that of its job, seconds.

        Activities of other jobs that follow are on the way, but do not make the job longer.
        """
        tails = np.zeros(self.num_activities)
        # Of the jobs that an activity leads to, the longest path to one of their activities.
        found: list[dict[int, float]] = [{} for _ in range(self.num_activities)]
        for k in reversed(self.problem.order):
            to_end = found[k]
            tails[k] = to_end.setdefault(self.problem.job_of[k], 0.0)
            for p in self.problem.predecessors[k]:
                for j, tail in to_end.items():
                    longer = tail + float(self.shortest[k])
                    found[p][j] = max(found[p].get(j, 0.0), longer)
        return tails

    @cached_property
    def ancestors(self) -> list[set[int]]:
        """All activities that end before each one starts, by the precedences."""
        found: list[set[int]] = [set() for _ in range(self.num_activities)]
        for k in self.problem.order:
            for p in self.problem.predecessors[k]:
                found[k] |= {p} | found[p]
        return found

    @property
    def horizon_s(self) -> float:
        """A time by which some best schedule is done: one activity after the other, seconds."""
        return max(self.release) + sum(max(times) for times in self.durations)

    def bound(self, objective: str) -> float:
        """Return a lower bound: longest paths, and for the makespan also the work on resources.

        Parameters
        ----------
        objective
            Name of the objective.
        """
        ends = self.heads + self.shortest
        if objective == "makespan":
            return max(float(ends.max()), self._work_bound())
        job_of = np.array(self.problem.job_of)
        return math.fsum(
            job_cost(job, float(ends[job_of == j].max()), objective)
            for j, job in enumerate(self.problem.jobs)
            if (job_of == j).any()
        )

    def _work_bound(self) -> float:
        """Return the makespan that the work on each resource takes.

        The activities that start at h or later and leave t or more behind them do their work
        between the earliest start of all of them and the end less their shortest tail.
        """
        best = 0.0
        for r, resource in enumerate(self.renewable):
            work = np.array(
                [
                    min(d * use[r] for d, use in zip(times, uses, strict=True))
                    for times, uses in zip(self.durations, self.rates, strict=True)
                ]
            )
            used = work > 0
            if not used.any():
                continue
            for head in np.unique(self.heads[used]):
                later = used & (self.heads >= head)
                # From the largest tail down: each takes in the work of those with more behind them.
                order = np.argsort(-self.tails[later], kind="stable")
                sums = np.cumsum(work[later][order]) / resource.capacity
                best = max(best, float((head + sums + self.tails[later][order]).max()))
        return best

    def schedule(
        self,
        modes: Modes,
        order: Sequence[int],
        wanted: Sequence[float] | None = None,
        close: float = 0.0,
    ) -> list[float]:
        """Return the start of each activity when they are put in one after the other.

        The serial schedule generation scheme (J. E. Kelley, 1963; R. Kolisch, EJOR 90(2), 1996,
        doi:10.1016/0377-2217(95)00357-6): each activity starts as early as its predecessors and
        the resources let it. Some order gives a schedule that is best for its modes.

        Parameters
        ----------
        modes
            The mode of each activity.
        order
            The activities, each after its predecessors.
        wanted
            Starts before which the activities do not start, seconds, or None.
        close
            How far a wanted start may be off, seconds: it is moved to a release or an end there.
        """
        profile = _Profile([r.capacity for r in self.renewable])
        starts = [0.0] * self.num_activities
        moments = sorted({0.0, *self.release})
        for k in order:
            before = self.problem.predecessors[k]
            ends = [starts[p] + self.durations[p][modes[p]] for p in before]
            ready = max([self.release[k], *ends])
            if wanted is not None:
                near = min(moments, key=lambda moment, k=k: abs(moment - wanted[k]))  # type: ignore[misc]
                ready = max(ready, near if abs(near - wanted[k]) <= close else wanted[k])
            duration = self.durations[k][modes[k]]
            starts[k] = profile.put_in(ready, duration, self.rates[k][modes[k]])
            if wanted is not None:
                insort(moments, starts[k] + duration)
        return starts

    def by_priority(self, priority: Sequence[float]) -> list[int]:
        """Return the activities by priority, the least first, each after its predecessors.

        Parameters
        ----------
        priority
            A number for each activity.
        """
        waits = [len(before) for before in self.problem.predecessors]
        ready = sorted((priority[k], k) for k, count in enumerate(waits) if not count)
        order = []
        while ready:
            _, k = ready.pop(0)
            order.append(k)
            for follower in self.successors[k]:
                waits[follower] -= 1
                if not waits[follower]:
                    insort(ready, (priority[follower], follower))
        return order

    def order_of(self, starts: Sequence[float]) -> list[int]:
        """Return the activities by start, each after its predecessors, whatever rounding did.

        Parameters
        ----------
        starts
            A start for each, in any unit.
        """
        priority = [float(start) for start in starts]
        for k in self.problem.order:
            priority[k] = max([priority[k], *(priority[p] for p in self.problem.predecessors[k])])
        return self.by_priority(priority)

    def put_in_again(self, plan: ProjectPlan) -> ProjectPlan:
        """Return a schedule put in by its starts, in modes that were not left out.

        No activity starts later than it did, and each at a release or an end.

        Parameters
        ----------
        plan
            The schedule, its runs in any order.
        """
        runs = {run.activity: run for run in plan.runs}
        modes, starts = [], []
        for activity, kept in zip(self.problem.activities, self.modes, strict=True):
            run = runs[activity.id]
            mode = run.mode
            if mode not in kept:
                old = activity.modes[mode]
                mode = next(m for m in kept if self._replaces(activity.modes[m], old))
            modes.append(kept.index(mode))
            starts.append(run.start_s)
        return self.plan(modes, self.schedule(modes, self.order_of(starts)))

    def plan(self, modes: Modes, starts: Sequence[float]) -> ProjectPlan:
        """Return modes and starts as a plan.

        Parameters
        ----------
        modes
            The mode of each activity.
        starts
            The start of each, seconds.
        """
        return ProjectPlan(
            tuple(
                ActivityRun(activity.id, self.modes[k][modes[k]], starts[k])
                for k, activity in enumerate(self.problem.activities)
            )
        )


class _Profile:
    """What is in use from each moment to the next."""

    def __init__(self, capacity: Sequence[int]) -> None:
        self.capacity = capacity
        self.moments = [0.0]
        self.used = [[0] * len(capacity)]

    def put_in(self, ready: float, duration: float, rates: Sequence[int]) -> float:
        """Start an activity as early as it fits, and return when."""
        at = self._moment(ready)
        start, k = ready, at
        limits = [c - r for c, r in zip(self.capacity, rates, strict=True)]
        while k < len(self.moments) and self.moments[k] < start + duration:
            if any(u > limit for u, limit in zip(self.used[k], limits, strict=True)):
                k += 1
                start, at = self.moments[k], k
            else:
                k += 1
        end = self._moment(start + duration)
        for k in range(at, end):
            self.used[k] = [u + r for u, r in zip(self.used[k], rates, strict=True)]
        return start

    def _moment(self, moment: float) -> int:
        """Return the position of a moment, made if need be."""
        k = bisect_left(self.moments, moment)
        if k == len(self.moments) or self.moments[k] != moment:
            self.moments.insert(k, moment)
            self.used.insert(k, list(self.used[k - 1]))
        return k
