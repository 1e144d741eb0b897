"""Traced jobs: what a job table says of a job, before it becomes part of an instance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError
from alloc.instances.readers.report import ReportLog
from alloc.units import MILLI, require_finite, require_positive

# A century: no job runs longer, so a longer duration is in another unit.
MAX_DURATION_S = 100 * 365 * 86400.0
# Two orders above the largest cluster that a trace is known of.
MAX_GPUS = 1_000_000
DEFAULT_LOAD = 0.85
"""Share of the GPU time: well below it hardly a job waits, and near 1 queues grow without end."""


@dataclass(frozen=True)
class Tasks:
    """Equal tasks that run together, each on one host.

    Parameters
    ----------
    count
        Number of tasks, 1 or more.
    gpu_milli
        GPU of each, milli-GPU: a share of one GPU, or whole GPUs.
    cpu_milli, memory_mib
        CPU, milli-cores, and host memory, MiB, of each; 0: not said.
    gpu_types
        GPU types that will do, as the trace calls them; empty: any.
    """

    count: int
    gpu_milli: int
    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class TracedJob:
    """A job of a trace.

    Parameters
    ----------
    id
        Unique within the trace.
    submit_s
        Submission, seconds on the clock of the trace.
    duration_s
        Run time at the traced number of GPUs, seconds, without queueing.
    num_gpus
        GPUs held at once, 1 or more.
    tenant
        Tenant or virtual cluster, or None.
    model
        What is trained, or None.
    batch_size
        Global batch size, samples, or None.
    deadline_s
        Deadline, seconds on the clock of the trace, or None.
    tasks
        What runs on the hosts, where the trace says more than `num_gpus`; None: as many workers of
        one GPU each.
    weight
        Importance, above 0.
    """

    id: str
    submit_s: float
    duration_s: float
    num_gpus: int
    tenant: str | None = None
    model: str | None = None
    batch_size: int | None = None
    deadline_s: float | None = None
    tasks: Tasks | None = None
    weight: float = 1.0

    @property
    def gpu_s(self) -> float:
        """GPU time, GPU seconds; of a share of a GPU its share."""
        if self.tasks is None:
            return self.duration_s * self.num_gpus
        return self.duration_s * self.tasks.count * self.tasks.gpu_milli / MILLI


@dataclass(frozen=True)
class Demand:
    """How much GPU time a set of jobs asks for.

    Parameters
    ----------
    num_jobs
        Number of jobs.
    gpu_hours
        GPU time of all of them, GPU hours.
    window_s
        Time over which they are submitted, seconds.
    mean_busy_gpus
        GPU time over `window_s`: the GPUs that are busy on average if the window repeats itself.
    peak_busy_gpus
        Most GPUs held at once if every job starts when it is submitted.
    largest_gang
        Most GPUs that one job holds.
    """

    num_jobs: int
    gpu_hours: float
    window_s: float
    mean_busy_gpus: float
    peak_busy_gpus: int
    largest_gang: int


def demand_of(jobs: Sequence[TracedJob], *, window_s: float | None = None) -> Demand:
    """Measure the demand of jobs.

    Parameters
    ----------
    jobs
        At least one job.
    window_s
        Time over which the jobs are submitted, seconds; by default from the first submission to
        the last (or the longest job, if they all come at once).

    Raises
    ------
    InstanceError
        If there are no jobs or the window is not positive.
    """
    if not jobs:
        raise InstanceError("demand: there are no jobs to measure; widen the selection.")
    submits = np.array([job.submit_s for job in jobs])
    durations = np.array([job.duration_s for job in jobs])
    gpus = np.array([job.num_gpus for job in jobs], dtype=np.int64)
    if window_s is None:
        window_s = float(submits.max() - submits.min()) or float(durations.max())
    require_positive(window_s, "demand", "window_s")
    gpu_s = math.fsum(job.gpu_s for job in jobs)
    # What ends at a moment frees its GPUs before what starts then takes them.
    times = np.concatenate([submits, submits + durations])
    changes = np.concatenate([gpus, -gpus])
    held = np.cumsum(changes[np.lexsort((changes, times))])
    return Demand(
        num_jobs=len(jobs),
        gpu_hours=gpu_s / 3600,
        window_s=window_s,
        mean_busy_gpus=gpu_s / window_s,
        peak_busy_gpus=int(held.max()),
        largest_gang=int(gpus.max()),
    )


def suggest_gpus(
    jobs: Sequence[TracedJob],
    *,
    load: float = DEFAULT_LOAD,
    window_s: float | None = None,
    gpus_per_host: int = 8,
) -> int:
    """Return the number of GPUs at which jobs load a cluster as wished.

    Parameters
    ----------
    jobs
        At least one job.
    load
        GPU time asked for over GPU time there is, above 0. Near 1 and above, queues grow for as
        long as jobs come.
    window_s
        As in `demand_of`.
    gpus_per_host
        The answer is a multiple of this, at least one host, rounded to the nearest load.

    Returns
    -------
    int
        GPUs. Jobs larger than that do not fit; see `Demand.largest_gang`.
    """
    require_positive(load, "suggest_gpus", "load")
    require_positive(gpus_per_host, "suggest_gpus", "gpus_per_host")
    wanted = demand_of(jobs, window_s=window_s).mean_busy_gpus / load
    require_finite(wanted, "suggest_gpus", "number of GPUs")
    return max(1, round(wanted / gpus_per_host)) * gpus_per_host


def select_window(
    jobs: Iterable[TracedJob],
    log: ReportLog,
    *,
    start_s: float | None = None,
    length_s: float | None = None,
    max_jobs: int | None = None,
) -> list[TracedJob]:
    """Return the jobs submitted in a window, in order, with the clock set to 0 at its start.

    Parameters
    ----------
    jobs
        Jobs in any order.
    log
        Counts the jobs that are left out.
    start_s
        Start of the window on the clock of the trace, seconds; by default the first submission.
    length_s
        Length of the window, seconds; by default to the end of the trace.
    max_jobs
        Keep the first so many.

    Raises
    ------
    InstanceError
        If a bound makes no sense, or no job is left.
    """
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    if not ordered:
        raise InstanceError(_no_job(log))
    first, last = ordered[0].submit_s, ordered[-1].submit_s
    start_s = first if start_s is None else start_s
    require_finite(start_s, "window", "start_s")
    if length_s is not None:
        require_positive(length_s, "window", "length_s")
    if max_jobs is not None:
        require_positive(max_jobs, "window", "max_jobs")
    # A century at most: later is a submission in another unit, which no instance can hold.
    end_s = start_s + min(MAX_DURATION_S, math.inf if length_s is None else length_s)
    chosen: list[TracedJob] = []
    for job in ordered:
        if not start_s <= job.submit_s < end_s:
            log.drop("submitted outside the window", job.id)
        elif max_jobs is not None and len(chosen) >= max_jobs:
            log.drop(f"after the first {max_jobs} jobs", job.id)
        else:
            chosen.append(_rebased(job, start_s))
    if not chosen:
        raise InstanceError(
            f"no job is submitted from {start_s:g} s to {end_s:g} s; submissions run from "
            f"{first:g} s to {last:g} s, so move the window."
        )
    return chosen


def _no_job(log: ReportLog) -> str:
    """Say why nothing is left of a trace: the file's own troubles, the most frequent first."""
    report = log.report()
    reasons = sorted((*report.skipped, *report.dropped), key=lambda tally: -tally.count)
    why = "; ".join(map(str, reasons[:3])) or "it has no rows"
    return (
        f"{', '.join(report.files) or 'the trace'}: holds no job that can be read: {why}. Correct "
        "the file, or the options that say how to read it."
    )


def _rebased(job: TracedJob, start_s: float) -> TracedJob:
    # Field by field: dataclasses.replace takes three times as long, and files have many jobs.
    return TracedJob(
        job.id,
        job.submit_s - start_s,
        job.duration_s,
        job.num_gpus,
        job.tenant,
        job.model,
        job.batch_size,
        None if job.deadline_s is None else job.deadline_s - start_s,
        job.tasks,
        job.weight,
    )
