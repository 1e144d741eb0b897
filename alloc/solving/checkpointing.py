"""Checkpointing by dynamic programming: the shortest path over the points at which to save."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from alloc.models.checkpointing import Stretches
from alloc.problems.checkpointing import CheckpointPlan, CheckpointProblem
from alloc.solving.outcome import Outcome, Settings

_REPORTED = 10_000
"""Points between two lines of progress: a second or so."""


def save_points(
    problem: CheckpointProblem,
    objective: str,
    settings: Settings,
    start: CheckpointPlan | None,
    report: Callable[[str], None],
) -> Outcome[CheckpointPlan]:
    """Find the points at which to save, so that the expected time of the run is least.

    The label of a point is the least expected time to have it saved. No label exceeds that of an
    earlier point by more than the stretch between them takes, so the labels solve the dual of the
    shortest path, and the label of the end bounds every plan.

    Parameters
    ----------
    problem
        The run.
    objective
        ``expected_time``.
    settings
        Limits. Where the time is up, saving after every phase from there on is a plan.
    start
        Not used.
    report
        Takes a line of progress.
    """
    n = len(problem.phases)
    stretches = Stretches(problem)
    label, before = np.zeros(n + 1), np.arange(-1, n)
    # No stretch takes less than its work.
    bound = sum(phase.work_s for phase in problem.phases)
    limited = False
    for j in range(1, n + 1):
        if settings.time_is_up():
            limited = True
            break
        first, times = stretches.to(j)
        through = label[first:j] + times
        best = int(np.argmin(through))
        label[j], before[j] = through[best], first + best
        if j % _REPORTED == 0:
            report(f"{j} of {n} points; they take {label[j]:g} s")
    points, k = [], n
    while k > 0:
        points.append(k - 1)
        k = int(before[k])
    return Outcome(
        CheckpointPlan(tuple(reversed(points))),
        bound if limited else float(label[n]),
        "recomputed",
        "alloc dynamic program",
        "1",
        limit="time" if limited else None,
    )
