"""Schedules in continuous time: a local search over the lists and plans of list scheduling.

The list and the plans of a good schedule, on a grid of slots or not, give one that loses nothing to
slots (`alloc.solving.malleable.list_scheduling`); the search changes one job's place or plan at a
time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.objectives import Held, is_kept
from alloc.objectives import objective as objective_of
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, Schedule
from alloc.progress import completions
from alloc.solving.malleable.list_scheduling import Candidate, ListScheduler, Part, ladder_of
from alloc.verification import verify
from alloc.workload import Job

_SAME = 1e-9
"""Relative gain that counts as an improvement: less is rounding."""
_REACH = 8
"""Mean number of places by which a job moves in the list: far moves rarely help."""
_NEW_PLAN = 0.3
"""Chance that a change is of a plan, where a job has several configurations."""

_LATE = frozenset({"deadline", "horizon"})


@dataclass(frozen=True)
class Incumbent:
    """A feasible schedule with its value.

    Parameters
    ----------
    schedule
        The schedule.
    value
        Value of the objective.
    """

    schedule: Schedule
    value: float


def best_of(
    instance: Instance,
    schedules: Iterable[Schedule | None],
    objective: str = "weighted_jct",
    held: Sequence[Held] = (),
) -> Incumbent | None:
    """Return the best of the schedules that keep every rule and what is held; None if none does.

    Parameters
    ----------
    instance
        The instance.
    schedules
        Schedules, or None for none.
    objective
        Name of the objective; all of them are minimised.
    held
        Earlier levels of a goal, with the values that they must keep.
    """
    value = objective_of(objective).evaluate
    best: Incumbent | None = None
    for schedule in schedules:
        if schedule is None or verify(instance, schedule):
            continue
        if not is_kept(instance, schedule, held):
            continue
        found = Incumbent(schedule, value(instance, schedule))
        if best is None or found.value < best.value:
            best = found
    return best


class ListSearch:
    """Improves a schedule in continuous time.

    Parameters
    ----------
    instance
        An instance without slots.
    schedules
        The schedules to begin from. Those that break a rule are left out, except that the search
        may begin from one that misses a deadline or the horizon.
    seed
        Random seed.
    seconds_left
        Tells the time left.
    objective
        One level of a goal.
    held
        Earlier levels of the goal.

    Attributes
    ----------
    best
        The best schedule so far, or None: good at every moment, also after Ctrl-C.
    """

    def __init__(
        self,
        instance: Instance,
        schedules: Iterable[Schedule | None],
        seed: int,
        seconds_left: Callable[[], float],
        objective: str = "weighted_jct",
        held: Sequence[Held] = (),
    ) -> None:
        given = [
            schedule
            for schedule in schedules
            if schedule is not None and _LATE.issuperset(v.code for v in verify(instance, schedule))
        ]
        self._objective, self._held = objective, held
        self.best = best_of(instance, given, objective, held)
        self._instance = instance
        self._rng = np.random.default_rng(seed)
        self._seconds_left = seconds_left
        self._maker = ListScheduler(instance, lambda: seconds_left() <= 0, objective)
        self._starts = [candidate_of(instance, schedule) for schedule in given]
        self._current: Candidate | None = None
        self._value = math.inf

    @property
    def has_start(self) -> bool:
        """Whether there is a schedule to improve."""
        return bool(self._starts) or self._current is not None

    def offer(self, incumbent: Incumbent | None) -> None:
        """Let the search go on from a better schedule that keeps every rule."""
        if incumbent is None or (self.best is not None and incumbent.value >= self.best.value):
            return
        self.best = incumbent
        self._starts.append(candidate_of(self._instance, incumbent.schedule))

    def run(self, target: float, report: Callable[[str], None], tries: float = math.inf) -> None:
        """Search until the best schedule has a target, or time or a number of tries is over.

        Parameters
        ----------
        target
            Value at which to stop.
        report
            Takes a line of progress.
        tries
            Number of lists.
        """
        while tries > 0 and self.has_start:
            if self._seconds_left() <= 0 or (self.best is not None and self.best.value <= target):
                return
            tries -= 1
            # A list may make less of a schedule than it is; it is improved all the same.
            if self._starts:
                candidate = self._starts.pop(0)
            else:
                assert self._current is not None
                candidate = _neighbour(self._current, self._maker, self._rng)
            made = self._maker.schedule(candidate, self._value * (1 - _SAME))
            if self._current is None:
                self._current = candidate
            found = best_of(self._instance, [made], self._objective, self._held)
            if found is None or found.value >= self._value:
                continue
            self._current, self._value = candidate, found.value
            if self.best is None or found.value < self.best.value * (1 - _SAME):
                self.best = found
                report(f"list scheduling: {found.value:.4f}")


def candidate_of(instance: Instance, schedule: Schedule) -> Candidate:
    """Return the list and the plans of a schedule: jobs by completion, and what each ran in.

    Parameters
    ----------
    instance
        The instance.
    schedule
        A schedule; jobs that never complete come last.
    """
    ends = completions(instance, schedule)
    order = sorted(
        range(len(instance.jobs)),
        key=lambda j: (
            math.inf if (end := ends[instance.jobs[j].id]) is None else end,
            instance.jobs[j].arrival_s,
        ),
    )
    plans = tuple(_plan(job, schedule.runs_of.get(job.id, ())) for job in instance.jobs)
    return Candidate(tuple(order), plans)


def _plan(job: Job, runs: Iterable[Run]) -> tuple[Part, ...]:
    """Return the parts of a job: the work done in each configuration, in turn."""
    parts: list[Part] = []
    for run in runs:
        rate = job.configurations[run.configuration].rate
        work = rate * (run.end_s - run.start_s)
        if rate <= 0:
            continue
        if parts and parts[-1][0] == run.configuration:
            work += parts.pop()[1]
        parts.append((run.configuration, work))
    if not parts:
        parts = [(ladder_of(job)[0], job.work_left)]
    if job.restart_cost_s > 0 or job.elasticity != "malleable":
        most = max(parts, key=lambda part: part[1])
        parts = [(most[0], job.work_left)]
    return tuple(parts)


def _neighbour(candidate: Candidate, maker: ListScheduler, rng: np.random.Generator) -> Candidate:
    """Return a candidate with one or a few changes."""
    order, plans = list(candidate.order), list(candidate.plans)
    for _ in range(int(rng.geometric(0.5))):
        k = int(rng.integers(len(order)))
        ladder = maker.ladders[order[k]]
        if len(ladder) > 1 and rng.random() < _NEW_PLAN:
            job = maker.instance.jobs[order[k]]
            plans[order[k]] = ((int(rng.choice(ladder)), job.work_left),)
            continue
        j = order.pop(k)
        step = int(rng.geometric(1 / _REACH)) * (1 if rng.random() < 0.5 else -1)
        order.insert(min(max(k + step, 0), len(order)), j)
    return Candidate(tuple(order), tuple(plans))
