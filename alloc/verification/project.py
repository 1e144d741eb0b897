"""The checker of projects: each activity once, after its predecessors, within the capacities."""

from __future__ import annotations

import math
from collections.abc import Iterator

from alloc.objectives import Measure, Value
from alloc.problems.project import (
    ActivityRun,
    Mode,
    ProjectPlan,
    ProjectProblem,
    cost_rounding,
)
from alloc.verification.violation import Violation

_ROUNDING, _ULPS = 1e-9, 4
"""Share of the schedule's length by which times may be off, or of all its run times where these
are less, since it waits for releases; and distances of two floats at its end. Sums of floats are
rounded by half such a distance each; a start and an end that are moved to a computer's clock are
off by less than two."""


def objective(name: str) -> Measure:
    """Return an objective by name, seconds."""

    def off(problem: ProjectProblem, plan: ProjectPlan) -> float:
        # Costs are off by as much, and so is what is proved of them.
        last_s = max((_end(problem, run) for run in plan.runs), default=0.0)
        return 2.0 * cost_rounding(problem, name, last_s)

    return Value(name, "min", lambda problem, plan: plan.value(problem, name), off)


def verify_project(problem: ProjectProblem, plan: ProjectPlan) -> list[Violation]:
    """Return what is wrong with a schedule; empty when it keeps every rule.

    Parameters
    ----------
    problem
        The activities, what waits for what, and the resources.
    plan
        Start and mode of each activity.
    """
    broken = list(_unknown(problem, plan))
    if broken:
        return broken
    runs = {run.activity: run for run in plan.runs}
    broken += [
        Violation("missing", (a.id,), 1, "", f'activity "{a.id}" does not run.')
        for a in problem.activities
        if a.id not in runs
    ]
    if broken:
        return broken
    close = _close(problem, plan)
    return [
        *_too_early(problem, runs, close),
        *_over_capacity(problem, plan, close),
        *_used_up(problem, plan),
    ]


def _mode(problem: ProjectProblem, run: ActivityRun) -> Mode:
    return problem.activities[problem.position[run.activity]].modes[run.mode]


def _end(problem: ProjectProblem, run: ActivityRun) -> float:
    return run.start_s + _mode(problem, run).duration_s


def _close(problem: ProjectProblem, plan: ProjectPlan) -> float:
    """Return by how much times may be off, seconds: by what is summed, not by when it begins."""
    last = max(_end(problem, run) for run in plan.runs)
    first = min(min(job.release_s for job in problem.jobs), last)
    work = math.fsum(_mode(problem, run).duration_s for run in plan.runs)
    return _ROUNDING * min(last - first, work) + _ULPS * math.ulp(last)


def _unknown(problem: ProjectProblem, plan: ProjectPlan) -> Iterator[Violation]:
    seen: set[str] = set()
    for run in plan.runs:
        name = run.activity
        if name not in problem.position:
            yield Violation("unknown_activity", (name,), 1, "", f'there is no activity "{name}".')
            continue
        if name in seen:
            yield Violation("runs", (name,), 1, "runs", f'activity "{name}" runs more than once.')
        seen.add(name)
        modes = len(problem.activities[problem.position[name]].modes)
        if not 0 <= run.mode < modes:
            yield Violation(
                "unknown_mode", (name,), 1, "", f'activity "{name}" has no mode {run.mode}.'
            )


def _too_early(
    problem: ProjectProblem, runs: dict[str, ActivityRun], close: float
) -> Iterator[Violation]:
    for k, activity in enumerate(problem.activities):
        start = runs[activity.id].start_s
        release = problem.jobs[problem.job_of[k]].release_s
        if start < release - close:
            yield Violation(
                "release",
                (activity.id,),
                release - start,
                "s",
                f'activity "{activity.id}" starts at {start:g} s, {release - start:g} s before its '
                "job is released.",
            )
        for before in activity.predecessors:
            end = _end(problem, runs[before])
            if start < end - close:
                yield Violation(
                    "precedence",
                    (before, activity.id),
                    end - start,
                    "s",
                    f'activity "{activity.id}" starts at {start:g} s, {end - start:g} s before '
                    f'"{before}" ends.',
                )


def _over_capacity(problem: ProjectProblem, plan: ProjectPlan, close: float) -> Iterator[Violation]:
    for resource in (r for r in problem.resources if r.is_renewable):
        changes = []
        for run in plan.runs:
            amount = _mode(problem, run).uses.get(resource.name, 0)
            if amount:
                # Ends come first where times are equal up to rounding.
                changes += [(run.start_s + close, amount), (_end(problem, run), -amount)]
        used, most, at = 0, 0, 0.0
        for moment, amount in sorted(changes):
            used += amount
            if used > most:
                most, at = used, moment
        if most > resource.capacity:
            yield Violation(
                "capacity",
                (resource.name,),
                most - resource.capacity,
                "",
                f'{most} of "{resource.name}" are in use at {at:g} s, and there are '
                f"{resource.capacity}.",
            )


def _used_up(problem: ProjectProblem, plan: ProjectPlan) -> Iterator[Violation]:
    for resource in (r for r in problem.resources if not r.is_renewable):
        used = sum(_mode(problem, run).uses.get(resource.name, 0) for run in plan.runs)
        if used > resource.capacity:
            yield Violation(
                "budget",
                (resource.name,),
                used - resource.capacity,
                "",
                f'{used} of "{resource.name}" are used up, and there are {resource.capacity}.',
            )
