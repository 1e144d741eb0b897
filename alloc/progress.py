"""Progress: the one place that says how much work a job's runs get done, and when it completes.

Objectives, checker, simulator and report all use it, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run, Schedule, TaskPlacement
from alloc.problems.allocation.stages import ends_of_jobs
from alloc.workload import Job

WORK_TOLERANCE = 1e-9
"""Work left below this fraction of a job's work counts as done: sums of slots round."""


@dataclass(frozen=True)
class Progress:
    """What the runs of one job achieve.

    Parameters
    ----------
    work_left
        Work still to do after the last run, work units.
    completion_s
        Completion, seconds since the start of the instance, or None if work is left.
    restarts
        Number of resumptions that cost a restart.
    """

    work_left: float
    completion_s: float | None
    restarts: int


def same_place(a: Sequence[TaskPlacement], b: Sequence[TaskPlacement]) -> bool:
    """Return whether two placements put the same tasks on the same hosts."""
    # Most that are the same are in the same order, which is cheaper to see.
    return a is b or a == b or set(a) == set(b)


def follow(job: Job, runs: Sequence[Run], running: Assignment | None = None) -> Progress:
    """Follow the runs of a job, in order of time, and return what they achieve.

    A run that does not continue the one before it seamlessly (same configuration, same hosts, no
    pause) first spends the job's restart cost without progress; the first start of a job is free.

    Parameters
    ----------
    job
        The job.
    runs
        Its runs sorted by start, not overlapping.
    running
        What the job ran until the start of the instance, if it did.
    """
    left = job.work_left
    tolerance = WORK_TOLERANCE * job.work
    restarts = 0
    pause_left = 0.0
    before = None if running is None else (running.configuration, running.tasks, 0.0)
    started = running is not None or job.work_done > 0
    for run in runs:
        seamless = before is not None and (
            before[0] == run.configuration
            and before[2] == run.start_s
            and same_place(before[1], run.tasks)
        )
        if not seamless:
            pause_left = job.restart_cost_s if started else 0.0
            restarts += started
        started = True
        pause = min(pause_left, run.end_s - run.start_s)
        pause_left -= pause
        rate = job.configurations[run.configuration].rate
        done = rate * (run.end_s - run.start_s - pause)
        if rate > 0 and done >= left - tolerance:
            return Progress(0.0, min(run.start_s + pause + left / rate, run.end_s), restarts)
        left -= done
        before = (run.configuration, run.tasks, run.end_s)
    return Progress(left, None, restarts)


def completions(instance: Instance, schedule: Schedule) -> dict[str, float | None]:
    """Return the completion of every job in seconds, None for jobs that do not complete."""
    ends = ends_of_parts(instance, schedule)
    return ends if instance.unfolded is instance else ends_of_jobs(instance, ends)


def ends_of_parts(instance: Instance, schedule: Schedule) -> dict[str, float | None]:
    """Return the completion of every job of an instance unfolded, so also of each stage."""
    running = {assignment.job: assignment for assignment in instance.running}
    return {
        job.id: follow(job, schedule.runs_of.get(job.id, ()), running.get(job.id)).completion_s
        for job in instance.unfolded.jobs
    }
