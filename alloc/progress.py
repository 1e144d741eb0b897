"""Progress: the one place that says how much work a job's runs get done, and when it completes.

Objectives, checker, simulator and report all use it, so that they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.executors import move_delays
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.job_columns import JobTimes
from alloc.problems.allocation.outages import Downtime, saved_s
from alloc.problems.allocation.run_columns import UNKNOWN, RunColumns
from alloc.problems.allocation.slowdown import Piece, pieces
from alloc.problems.allocation.solution import Assignment, Run, Schedule, same_place
from alloc.problems.allocation.stages import ends_of_jobs
from alloc.units import MILLI
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
    failures
        Number of runs that failed with a host.
    lost_gpu_s
        GPU time whose work was lost by them, GPU seconds.
    """

    work_left: float
    completion_s: float | None
    restarts: int
    failures: int = 0
    lost_gpu_s: float = 0.0


NEVER = Downtime(())
"""No host is ever down."""

NO_DELAYS: Mapping[float, float] = MappingProxyType({})
"""No GPU takes time to move."""


def follow(
    job: Job,
    runs: Sequence[Run],
    running: Assignment | None = None,
    downtime: Downtime = NEVER,
    delays: Mapping[float, float] = NO_DELAYS,
    factors: Sequence[float] = (),
) -> Progress:
    """Follow the runs of a job, in order of time, and return what they achieve.

    A run that does not continue the one before it seamlessly (same configuration, same hosts, no
    pause) first spends the job's restart cost without progress; the first start of a job is free.
    A run that ends when one of its hosts goes down has failed: what was not saved is lost
    (`alloc.workload.Job.checkpoint_s`), counted from where its seamless predecessors began.

    Parameters
    ----------
    job
        The job.
    runs
        Its runs sorted by start, not overlapping.
    running
        What the job ran until the start of the instance, if it did.
    downtime
        When hosts are down.
    delays
        Time without progress while GPUs move to it, by the start of the run that takes them,
        seconds.
    factors
        Speed of each run as a fraction of its configuration's; empty: 1.
    """
    left = job.work_left
    tolerance = WORK_TOLERANCE * job.work
    restarts = failures = 0
    lost_gpu_s = pause_left = 0.0
    # What was left when the state was saved, and the progress since, seconds.
    saved_left, worked_s = left, 0.0
    before = None if running is None else (running.configuration, running.tasks, 0.0)
    started = running is not None or job.work_done > 0
    for k, run in enumerate(runs):
        seamless = before is not None and (
            before[0] == run.configuration
            and before[2] == run.start_s
            and same_place(before[1], run.tasks)
        )
        if not seamless:
            pause_left = job.restart_cost_s if started else 0.0
            pause_left += delays.get(run.start_s, 0.0)
            restarts += started
            saved_left, worked_s = left, 0.0
        started = True
        pause = min(pause_left, run.end_s - run.start_s)
        pause_left -= pause
        rate = job.configurations[run.configuration].rate
        if factors:
            rate *= factors[k]
        run_s = run.end_s - run.start_s - pause
        done = rate * run_s
        if rate > 0 and done >= left - tolerance:
            end_s = min(run.start_s + pause + left / rate, run.end_s)
            return Progress(0.0, end_s, restarts, failures, lost_gpu_s)
        left -= done
        worked_s += run_s
        before = (run.configuration, run.tasks, run.end_s)
        if downtime.fails(run.tasks, run.end_s):
            kept_s = saved_s(worked_s, job.checkpoint_s)
            left = saved_left - rate * kept_s
            failures += 1
            gpus = job.configurations[run.configuration].demand[0] / MILLI
            lost_gpu_s += gpus * (worked_s - kept_s)
            before = None
    return Progress(left, None, restarts, failures, lost_gpu_s)


def progress_of(instance: Instance, schedule: Schedule) -> dict[str, Progress]:
    """Return what the runs of every job of an instance unfolded achieve, so also of each stage.

    Parameters
    ----------
    instance
        The jobs, what they run in now, and when hosts are down.
    schedule
        Runs of its jobs, or of their stages.
    """
    running = {assignment.job: assignment for assignment in instance.running}
    if instance.interference:
        slowed = pieces(instance.unfolded, schedule.runs)
        return {
            job.id: follow_pieces(job, slowed.get(job.id, ()), running.get(job.id))
            for job in instance.unfolded.jobs
        }
    delays = move_delays(instance, schedule)
    return {
        job.id: follow(
            job,
            schedule.runs_of.get(job.id, ()),
            running.get(job.id),
            instance.downtime,
            delays.get(job.id, NO_DELAYS),
        )
        for job in instance.unfolded.jobs
    }


def follow_pieces(job: Job, parts: Sequence[Piece], running: Assignment | None = None) -> Progress:
    """Follow runs in pieces, each at a speed of its own; see `follow`.

    Parameters
    ----------
    job
        The job.
    parts
        The pieces of its runs, sorted by start.
    running
        What the job ran until the start of the instance, if it did.
    """
    return follow(
        job, [part.run for part in parts], running, factors=[part.factor for part in parts]
    )


def completions(
    instance: Instance, schedule: Schedule, columns: RunColumns | None = None
) -> Mapping[str, float | None]:
    """Return the completion of every job in seconds, None for jobs that do not complete.

    Parameters
    ----------
    instance
        The problem.
    schedule
        A schedule.
    columns
        Its runs, where they are made already.
    """
    ends = ends_of_parts(instance, schedule, columns)
    return ends if instance.unfolded is instance else ends_of_jobs(instance, ends)


def ends_of_parts(
    instance: Instance, schedule: Schedule, columns: RunColumns | None = None
) -> Mapping[str, float | None]:
    """Return the completion of every job of an instance unfolded, so also of each stage.

    Parameters
    ----------
    instance
        The jobs, what they run in now, and when hosts are down.
    schedule
        Runs of its jobs, or of their stages.
    columns
        The runs as arrays, if they are known already.
    """
    if instance.move_s or instance.interference:
        # Runs that wait for each other's GPUs, or slow each other down, are followed one by one.
        followed = progress_of(instance, schedule)
        return {job: progress.completion_s for job, progress in followed.items()}
    instance = instance.unfolded
    columns = RunColumns(instance, schedule.lazy_runs) if columns is None else columns
    single, end_s = ends_of_single_runs(instance, columns)
    is_known = np.zeros(len(instance.jobs), dtype=bool)
    is_known[columns.job[single]] = True
    known_s = np.full(len(instance.jobs), math.nan)
    known_s[columns.job[single]] = end_s
    if is_known.all():
        return JobTimes(instance.job_columns.ids, known_s)
    running = {assignment.job: assignment for assignment in instance.running}
    runs_of, downtime = schedule.runs_of, instance.downtime
    ends: dict[str, float | None] = {}
    for job, known, own_s in zip(instance.jobs, is_known.tolist(), known_s.tolist(), strict=True):
        if known:
            ends[job.id] = None if math.isnan(own_s) else own_s
        else:
            own = runs_of.get(job.id, ())
            ends[job.id] = follow(job, own, running.get(job.id), downtime).completion_s
    return ends


def ends_of_single_runs(
    instance: Instance, columns: RunColumns
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return what `follow` says of jobs with one run, all at once and to the last digit.

    Parameters
    ----------
    instance
        The problem, unfolded.
    columns
        Runs of its jobs.

    Returns
    -------
    tuple of array
        Positions of the runs that are the only ones of their jobs, and of jobs that did not run
        before the start; and the completions of these jobs, seconds, NaN for those that do not
        complete. Both of shape (such jobs,); none where hosts may go down.
    """
    if columns.single_ends is not None:
        return columns.single_ends
    jobs = instance.jobs
    num_runs = np.bincount(columns.job[columns.job != UNKNOWN], minlength=len(jobs))
    once = num_runs == 1
    once[[instance.job_index[assignment.job] for assignment in instance.running]] = False
    if instance.outages:
        once[:] = False
    # The last flag is of jobs and configurations that are not known.
    single = np.flatnonzero(np.append(once, False)[columns.job] & (columns.kind != UNKNOWN))
    own, job = instance.job_columns, columns.job[single]
    left = own.work_left[job]
    tolerance = WORK_TOLERANCE * own.work[job]
    pause_left = np.where(own.work_done[job] > 0, own.restart_cost_s[job], 0.0)
    rates = np.array([kind.rate for kind in columns.kinds], dtype=float)
    rate = rates[columns.kind[single]]
    start_s, until_s = columns.start_s[single], columns.end_s[single]
    with np.errstate(divide="ignore", invalid="ignore"):  # rates of 0, times that are no numbers
        pause = np.minimum(pause_left, until_s - start_s)
        done = rate * (until_s - start_s - pause)
        end_s = np.minimum(start_s + pause + left / rate, until_s)
        end_s[~((rate > 0) & (done >= left - tolerance))] = np.nan
    columns.single_ends = single, end_s
    return single, end_s
