"""The checker of F3: every rule of schedules, and that each job runs once."""

from __future__ import annotations

from collections.abc import Iterator

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.verification import verify
from alloc.verification.violation import Violation


def verify_moldable(instance: Instance, solution: Solution) -> list[Violation]:
    """Check a schedule of jobs that run once each, in one configuration on hosts they keep.

    Parameters
    ----------
    instance
        The problem.
    solution
        A schedule of it.

    Returns
    -------
    list of Violation
        Empty when the schedule is feasible.
    """
    found = verify(instance, solution)
    if isinstance(solution, Schedule):
        found += _check_once(solution)
    return found


def _check_once(schedule: Schedule) -> Iterator[Violation]:
    for job, runs in schedule.runs_of.items():
        if len(runs) > 1:
            yield Violation(
                "runs",
                (job,),
                len(runs) - 1,
                "runs",
                f'job "{job}" has {len(runs)} runs; a moldable gang runs once, in one '
                "configuration and on hosts that it keeps.",
            )
