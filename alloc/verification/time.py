"""Rules of time: each job's runs against its arrival, its elasticity and its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.run_columns import RunColumns
from alloc.problems.allocation.slowdown import Piece, pieces
from alloc.problems.allocation.solution import Assignment, Run
from alloc.progress import NO_DELAYS, ends_of_single_runs, follow, follow_pieces
from alloc.verification.violation import Violation
from alloc.workload import Job

TIME_TOLERANCE_S = 1e-6
"""Times that agree this well are equal: slot multiples are products of floats."""


def check_times(
    instance: Instance,
    runs: Sequence[Run],
    columns: RunColumns,
    unplaced: Mapping[str, str],
    delays: Mapping[str, Mapping[float, float]],
) -> Iterator[Violation]:
    """Yield what is wrong with the runs of each job in time, job by job.

    Parameters
    ----------
    instance
        The problem, unfolded.
    runs
        Runs of its jobs in known configurations, in any order.
    columns
        The same as columns.
    unplaced
        Jobs that the schedule names as left out: those that may be refused need not complete.
    delays
        Time that jobs wait for GPUs that move to them, by id and start of a run, seconds.
    """
    # One look at all jobs finds those with a single run that keeps every rule, most of a long
    # stream; each of the others is looked at by itself.
    quiet = _quiet(instance, columns, delays)
    running = {assignment.job: assignment for assignment in instance.running}
    by_job: dict[int, list[Run]] = {}
    loud = np.flatnonzero(~quiet[columns.job])
    for k in loud[np.argsort(columns.start_s[loud], kind="stable")].tolist():
        by_job.setdefault(int(columns.job[k]), []).append(runs[k])
    parts = pieces(instance, runs) if instance.interference else {}
    for j in np.flatnonzero(~quiet).tolist():
        job, own = instance.jobs[j], by_job.get(j, [])
        refused = job.refusable and not own and job.id in unplaced
        waits, slowed = delays.get(job.id, NO_DELAYS), parts.get(job.id, ())
        for violation in check_runs(instance, job, own, running.get(job.id), waits, slowed):
            if violation.code != "incomplete" or not refused:
                yield violation


def _quiet(
    instance: Instance, columns: RunColumns, delays: Mapping[str, Mapping[float, float]]
) -> npt.NDArray[np.bool_]:
    """Return which jobs run once, from start to completion, and break no rule of time."""
    quiet = np.zeros(len(instance.jobs), dtype=bool)
    if instance.slot_s is not None or delays:
        return quiet
    single, end_s = ends_of_single_runs(instance, columns)
    if not single.size:
        return quiet
    start_s, until_s = columns.start_s[single], columns.end_s[single]
    job = columns.job[single]
    limit_s, arrival_s = instance.job_columns.deadline_s[job], instance.job_columns.arrival_s[job]
    if instance.horizon_s is not None:
        limit_s = np.minimum(limit_s, instance.horizon_s)
    # What is no number is in no order, and so never quiet.
    quiet[job] = (
        (start_s >= arrival_s - TIME_TOLERANCE_S)
        & (until_s > start_s)
        & (until_s < math.inf)
        & (end_s <= limit_s + TIME_TOLERANCE_S)
    )
    return quiet


def check_runs(
    instance: Instance,
    job: Job,
    runs: Sequence[Run],
    running: Assignment | None,
    delays: Mapping[float, float] = NO_DELAYS,
    parts: Sequence[Piece] = (),
) -> Iterator[Violation]:
    """Yield what is wrong with the runs of one job, in order of time.

    Parameters
    ----------
    instance
        The problem.
    job
        One of its jobs.
    runs
        The runs of the job, by their start.
    running
        What the job does at the start of the instance; None: it waits.
    delays
        Time that it waits for GPUs that move to it, by the start of a run, seconds.
    parts
        The runs in pieces with the same neighbours each, where the instance has interference.
    """
    yield from _check_clock(instance, job, runs)
    yield from _check_elasticity(instance, job, runs, running)
    if instance.interference:
        progress = follow_pieces(job, parts, running)
        yield from _check_neighbours(job, parts)
    else:
        progress = follow(job, runs, running, instance.downtime, delays)
    if progress.completion_s is None:
        yield Violation(
            "incomplete",
            (job.id,),
            progress.work_left,
            "work units",
            f'job "{job.id}" has {progress.work_left:g} of {job.work:g} work units left after its '
            "last run.",
        )
        return
    for field, limit in (("deadline_s", job.deadline_s), ("horizon_s", instance.horizon_s)):
        if limit is not None and progress.completion_s > limit + TIME_TOLERANCE_S:
            late = progress.completion_s - limit
            yield Violation(
                field.removesuffix("_s"),
                (job.id,),
                late,
                "s",
                f'job "{job.id}" completes at {progress.completion_s:g} s, {late:g} s after its '
                f"{field} {limit:g}.",
            )


def _check_neighbours(job: Job, parts: Sequence[Piece]) -> Iterator[Violation]:
    for part in parts:
        if part.factor <= 0:
            length_s = part.run.end_s - part.run.start_s
            yield Violation(
                "interference",
                (job.id,),
                length_s,
                "s",
                f'job "{job.id}" shares a GPU from {part.run.start_s:g} s to {part.run.end_s:g} s '
                "with a job that its model cannot share one with.",
            )
            return


def _check_clock(instance: Instance, job: Job, runs: Sequence[Run]) -> Iterator[Violation]:
    previous_end = None
    for run in runs:
        if not (math.isfinite(run.start_s) and math.isfinite(run.end_s)):
            # Comparisons with NaN are false: every rule below would hold.
            yield Violation(
                "not_finite",
                (job.id,),
                math.inf,
                "s",
                f'job "{job.id}" has a run from {run.start_s:g} s to {run.end_s:g} s.',
            )
            continue
        if run.start_s < job.arrival_s - TIME_TOLERANCE_S:
            yield Violation(
                "before_arrival",
                (job.id,),
                job.arrival_s - run.start_s,
                "s",
                f'job "{job.id}" runs from {run.start_s:g} s but arrives at {job.arrival_s:g} s.',
            )
        if run.end_s <= run.start_s:
            yield Violation(
                "empty_run",
                (job.id,),
                run.start_s - run.end_s,
                "s",
                f'job "{job.id}" has a run from {run.start_s:g} s to {run.end_s:g} s.',
            )
        if previous_end is not None and run.start_s < previous_end - TIME_TOLERANCE_S:
            yield Violation(
                "overlap",
                (job.id,),
                previous_end - run.start_s,
                "s",
                f'job "{job.id}" runs twice at {run.start_s:g} s.',
            )
        previous_end = run.end_s
        if instance.slot_s is not None:
            # A run that fails ends in the middle of a slot.
            fails = instance.downtime.fails(run.tasks, run.end_s)
            for moment in (run.start_s,) if fails else (run.start_s, run.end_s):
                off = abs(math.remainder(moment, instance.slot_s))
                if off > TIME_TOLERANCE_S:
                    yield Violation(
                        "off_slot",
                        (job.id,),
                        off,
                        "s",
                        f'job "{job.id}" starts or ends a run at {moment:g} s, which is not a '
                        f"multiple of the slot {instance.slot_s:g} s.",
                    )


def _check_elasticity(
    instance: Instance, job: Job, runs: Sequence[Run], running: Assignment | None
) -> Iterator[Violation]:
    used = {run.configuration for run in runs}
    if running is not None:
        used.add(running.configuration)
    if job.elasticity != "malleable" and len(used) > 1:
        yield Violation(
            "elasticity",
            (job.id,),
            len(used) - 1,
            "configurations",
            f'job "{job.id}" is {job.elasticity} but uses {len(used)} configurations.',
        )
    if job.preemptible:
        return
    ended = [(run.tasks, run.end_s) for run in runs]
    if running is not None:
        ended.insert(0, (running.tasks, 0.0))
    starts = [run.start_s for run in runs][len(runs) + 1 - len(ended) :]
    for (tasks, end), start in zip(ended, starts, strict=False):
        if start > end + TIME_TOLERANCE_S and not instance.downtime.fails(tasks, end):
            yield Violation(
                "preempted",
                (job.id,),
                start - end,
                "s",
                f'job "{job.id}" is not preemptible but pauses from {end:g} s to {start:g} s.',
            )
