"""Which running jobs have to end before a waiting job can start."""

from __future__ import annotations

import time
from collections.abc import Sequence

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment
from alloc.solving.gang import Relaxation, Tree, decide, free_pool
from alloc.solving.gang.decision import neighbours_of, quota_left
from alloc.units import MILLI

_MAX_NAMED = 5
"""Jobs that a sentence names; a list of more is not read."""


def jobs_to_end(instance: Instance, job_id: str, ends: float) -> tuple[str, ...] | None:
    """Return running jobs after whose end a waiting job can start, none of them for nothing.

    Whether it can is decided exactly for each set that is tried, and more jobs that end never hurt.
    The largest of the jobs, in GPUs, is as small as it can be; then the next one is, given that,
    and so on: so with any one of them left running it could not start.

    Parameters
    ----------
    instance
        What runs and what waits.
    job_id
        The waiting job.
    ends
        When to give up, on the clock of `time.perf_counter`, seconds.

    Returns
    -------
    tuple of str or None
        The jobs, the largest first, or None if it cannot start after the end of all, or the time
        was up before this was known.
    """
    order = sorted(instance.running, key=lambda a: (_gpus(instance, a), a.job))
    tree = Tree.of(instance.topology)

    def starts(gone: Sequence[Assignment]) -> bool:
        names = {a.job for a in gone}
        rest = instance.replace(running=tuple(a for a in instance.running if a.job not in names))
        job = rest.job(job_id)
        found = decide(
            free_pool(rest),
            job,
            tree=tree,
            neighbours=neighbours_of(rest, job),
            quota_left_milli=quota_left(rest, job),
            explained=False,
        )
        return found.assignment is not None

    needed: list[Assignment] = []
    if not starts(order):
        return None
    while not starts(needed):
        # The least number of the smallest jobs that do beside those needed; the last is needed too.
        low, high = 0, len(order)
        while high - low > 1:
            if time.perf_counter() > ends:
                return None
            middle = (low + high) // 2
            low, high = (low, middle) if starts([*order[:middle], *needed]) else (middle, high)
        needed.append(order[high - 1])
        order = order[: high - 1]
    return tuple(a.job for a in needed)


def ending(instance: Instance, jobs: Sequence[str]) -> Relaxation:
    """Return the relaxation that waiting for the end of some jobs stands for.

    Parameters
    ----------
    instance
        What runs.
    jobs
        Ids of running jobs, as `jobs_to_end` returns them.
    """
    running = {a.job: a for a in instance.running}
    gpus = sum(_gpus(instance, running[name]) for name in jobs)
    tasks = sum(task.count for name in jobs for task in running[name].tasks)
    named = ", ".join(jobs[:_MAX_NAMED])
    more = f" and {len(jobs) - _MAX_NAMED} more" if len(jobs) > _MAX_NAMED else ""
    who = f"job {named} ends" if len(jobs) == 1 else f"jobs {named}{more} end"
    cost, unit = (gpus, "GPUs") if gpus else (float(tasks), "tasks")
    return Relaxation("running jobs", cost, f"it can start once {who}", unit)


def _gpus(instance: Instance, assignment: Assignment) -> float:
    job = instance.job(assignment.job)
    return job.configurations[assignment.configuration].demand[0] / MILLI
