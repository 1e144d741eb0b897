"""Rules of stages: none starts before those it waits for have ended."""

from __future__ import annotations

import math
from collections.abc import Iterator

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.problems.allocation.stages import graph_of
from alloc.progress import ends_of_parts
from alloc.verification.time import TIME_TOLERANCE_S
from alloc.verification.violation import Violation


def check_precedence(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield which stages run before one that they wait for has ended.

    Parameters
    ----------
    instance
        The problem, with its stages.
    schedule
        A schedule of it. A stage ends when its work is done, also where it holds its hosts to the
        end of a slot.
    """
    ends, jobs = ends_of_parts(instance, schedule), instance.unfolded.jobs
    for k, before in enumerate(graph_of(instance).before):
        runs = schedule.runs_of.get(jobs[k].id, ())
        for p in before if runs else ():
            end = ends[jobs[p].id]
            late = math.inf if end is None else end - runs[0].start_s
            if late > TIME_TOLERANCE_S:
                when = "never ends" if end is None else f"ends at {end:g} s"
                yield Violation(
                    "precedence",
                    (jobs[p].id, jobs[k].id),
                    late,
                    "s",
                    f'stage "{jobs[k].id}" starts at {runs[0].start_s:g} s, before it may: '
                    f'"{jobs[p].id}" {when}.',
                )
