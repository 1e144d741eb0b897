"""Metrics: what a simulation is judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.objectives import in_time
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.simulation.result import SimulationResult, gpus_over_time
from alloc.units import MILLI
from alloc.workload import Configuration, Job

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Metrics:
    """What a simulation is judged by.

    A job that did not complete counts with infinite completion time, as in the objectives. One that
    may be refused has none then: times and fairness are those of the other jobs, NaN without any.

    Parameters
    ----------
    num_jobs, num_unfinished
        Jobs of the instance, and those of them that did not complete.
    mean_jct_s, median_jct_s, p95_jct_s, p99_jct_s
        Job completion time (completion minus arrival), seconds. A percentile is the smallest time
        that so many percent of the jobs do not exceed; it is not interpolated.
    makespan_s
        Completion of the last job, seconds since the start of the instance.
    utilisation
        GPU time held until the makespan over GPU time there was, hosts that were down left out, 0
        to 1; NaN without GPUs.
    mean_fairness, max_fairness
        Finish-time fairness rho, more than 0; above 1 a job did worse than alone in its fair share
        (see `finish_time_fairness`); NaN where a job has stages.
    mean_decision_s, p99_decision_s
        Wall time of a decision, seconds.
    restarts, migrations
        Resumptions that cost a restart, and how many of them were on other hosts.
    failures
        Runs that failed with a host.
    lost_gpu_h
        GPU time whose work was lost by them, GPU h.
    num_late
        Jobs that completed after their deadline or the horizon.
    num_promised_late
        Those of them that may not be refused.
    deadlines_met
        Part of the jobs with a deadline that completed within it and the horizon, 0 to 1; NaN
        without such jobs.
    value
        Sum of the weights of these jobs; NaN likewise.
    deadline_gpu_h
        GPU time that the jobs with a deadline held, GPU h; NaN likewise.
    """

    num_jobs: int
    num_unfinished: int
    mean_jct_s: float
    median_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    makespan_s: float
    utilisation: float
    mean_fairness: float
    max_fairness: float
    mean_decision_s: float
    p99_decision_s: float
    restarts: int
    migrations: int
    failures: int
    lost_gpu_h: float
    num_late: int
    num_promised_late: int
    deadlines_met: float
    value: float
    deadline_gpu_h: float


def metrics_of(result: SimulationResult) -> Metrics:
    """Return the metrics of a simulation."""
    instance = result.instance
    jobs = instance.jobs
    counts = np.array([not _is_left_out(job, result.completion_s) for job in jobs])
    ends = _ends(result)[counts]
    jcts = completion_times_s(result)[counts]
    fairness = finish_time_fairness(instance, result.completion_s)
    rho = np.array([fairness[job.id] for job, own in zip(jobs, counts, strict=True) if own])
    last_s = float(ends.max()) if len(ends) else math.inf
    decisions = result.decision_s
    dated = [job for job in jobs if job.deadline_s is not None]
    kept = in_time(instance, result.schedule) if dated else frozenset()
    met = [job for job in dated if job.id in kept]
    return Metrics(
        num_jobs=len(jobs),
        num_unfinished=len(result.unfinished),
        mean_jct_s=float(jcts.mean()) if len(jcts) else math.nan,
        median_jct_s=_percentile(jcts, 50),
        p95_jct_s=_percentile(jcts, 95),
        p99_jct_s=_percentile(jcts, 99),
        makespan_s=last_s if len(ends) else math.nan,
        utilisation=utilisation(instance, result.schedule, last_s),
        mean_fairness=float(rho.mean()) if len(rho) else math.nan,
        max_fairness=float(rho.max()) if len(rho) else math.nan,
        mean_decision_s=float(decisions.mean()) if len(decisions) else math.nan,
        p99_decision_s=_percentile(decisions, 99),
        restarts=result.restarts,
        migrations=result.migrations,
        failures=result.failures,
        lost_gpu_h=result.lost_gpu_s / 3600,
        num_late=len(result.late),
        num_promised_late=sum(not instance.job(job).refusable for job in result.late),
        deadlines_met=len(met) / len(dated) if dated else math.nan,
        value=math.fsum(job.weight for job in met) if dated else math.nan,
        deadline_gpu_h=_gpu_h(result.schedule, dated) if dated else math.nan,
    )


def _gpu_h(schedule: Schedule, jobs: Sequence[Job]) -> float:
    """Return the GPU time that jobs hold, GPU h."""
    return math.fsum(
        part.configurations[run.configuration].demand[0] / MILLI * (run.end_s - run.start_s) / 3600
        for job in jobs
        for part in job.parts
        for run in schedule.runs_of.get(part.id, ())
    )


def completion_times_s(result: SimulationResult) -> Array:
    """Return the completion time of each job, seconds, shape (jobs,); infinite if unfinished."""
    return np.asarray(_ends(result) - np.array([job.arrival_s for job in result.instance.jobs]))


def _is_left_out(job: Job, completion_s: Mapping[str, float | None]) -> bool:
    """Return whether a job may be refused and does not complete: nobody waits for it."""
    return job.refusable and completion_s[job.id] is None


def _ends(result: SimulationResult) -> Array:
    """Return when each job completes, seconds, shape (jobs,); infinite if it does not."""
    given = [result.completion_s[job.id] for job in result.instance.jobs]
    return np.array([math.inf if end is None else end for end in given])


def utilisation(instance: Instance, schedule: Schedule, until_s: float = math.inf) -> float:
    """Return the part of all GPU time that a schedule holds, 0 to 1.

    Parameters
    ----------
    instance, schedule
        The problem and who runs when.
    until_s
        Time up to which to count, seconds; no later than the end of the last run.

    Returns
    -------
    float
        NaN without GPUs or runs.
    """
    num_gpus = instance.topology.num_gpus
    times, level = gpus_over_time(instance, schedule)
    if not num_gpus or not len(times):
        return math.nan
    until_s = min(until_s, float(times[-1]))
    spans = np.diff(np.append(np.minimum(times, until_s), until_s))
    return float(level @ spans) / (num_gpus * until_s - _down_gpu_s(instance, until_s))


def _down_gpu_s(instance: Instance, until_s: float) -> float:
    """Return the GPU time of hosts that were down up to a time, GPU seconds."""
    topology = instance.topology
    return math.fsum(
        topology.host_type(topology.hosts[topology.host_index[outage.host]]).num_gpus
        * max(min(until_s, math.inf if outage.end_s is None else outage.end_s) - outage.start_s, 0)
        for outage in instance.outages
    )


def finish_time_fairness(
    instance: Instance, completion_s: Mapping[str, float | None]
) -> dict[str, float]:
    """Return the finish-time fairness rho of each job, infinite if it did not complete.

    Themis defines rho as the time a job takes in the shared cluster over the time it would take
    alone in a 1/N share of it, N being the jobs it contends with. Here, for job j,

    - ``N_j`` is the time average of the number of jobs in the system (arrived, not complete) over
      j's stay, 1 or more; without the jobs that may be refused and do not complete;
    - alone in the share, j runs in its best configuration c for the part of the time that the share
      pays for: ``rate = max_c r_c * min(1, min_k B_k / (N_j * a_ck))`` with its demand a_ck and the
      cluster's capacity B_k of resource k (of the configuration's GPU type, where it names one);
    - ``rho_j = JCT_j * rate / (work left at the start)``.

    A job that completes as fast as in its share has rho 1; below 1 it gained by sharing. Of a job
    with stages rho is not known, NaN: what it takes alone in a share is a schedule of its own.

    Parameters
    ----------
    instance
        The problem.
    completion_s
        Completion of every job, seconds, or None.

    References
    ----------
    Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020, section 3.
    """
    contention = _contention(instance, completion_s)
    rho: dict[str, float] = {}
    for job, rivals in zip(instance.jobs, contention.tolist(), strict=True):
        end_s = completion_s[job.id]
        if end_s is None:
            rho[job.id] = math.inf
        elif job.stages:
            rho[job.id] = math.nan
        else:
            rate = _rate_alone(instance, job, rivals)
            rho[job.id] = (end_s - job.arrival_s) * rate / job.work_left
    return rho


def _contention(instance: Instance, completion_s: Mapping[str, float | None]) -> Array:
    """Return the mean number of jobs in the system during each job's stay, shape (jobs,)."""
    arrivals = np.array([job.arrival_s for job in instance.jobs])
    given = [
        job.arrival_s if _is_left_out(job, completion_s) else completion_s[job.id]
        for job in instance.jobs
    ]
    last_s = max([float(arrivals.max()), *(end for end in given if end is not None)])
    # Jobs that did not complete stay for as long as anything happens.
    ends = np.array([last_s if end is None else end for end in given])
    moments = np.unique(np.concatenate([arrivals, ends]))
    arrived = np.searchsorted(np.sort(arrivals), moments, side="right")
    present = arrived - np.searchsorted(np.sort(ends), moments, side="right")
    # Job-seconds in the system up to each moment; a job's stay is a difference of two of them.
    area = np.concatenate([[0.0], np.cumsum(present[:-1] * np.diff(moments))])
    inside = area[np.searchsorted(moments, ends)] - area[np.searchsorted(moments, arrivals)]
    stay = ends - arrivals
    mean = np.divide(inside, stay, out=np.ones_like(stay), where=stay > 0)
    return np.asarray(np.maximum(mean, 1.0))


def _rate_alone(instance: Instance, job: Job, rivals: float) -> float:
    """Return the rate of a job alone in a share of one in `rivals` of the cluster."""
    topology = instance.topology
    totals: dict[str | None, list[int]] = {None: topology.totals.tolist()}
    for gpu_type in {configuration.gpu_type for configuration in job.configurations} - {None}:
        its = [t == gpu_type for t in topology.gpu_types]
        totals[gpu_type] = topology.sum_over(np.array(its)).tolist()
    return max(
        configuration.rate * _share(totals[configuration.gpu_type], configuration, rivals)
        for configuration in job.configurations
    )


def _share(totals: Sequence[int], configuration: Configuration, rivals: float) -> float:
    """Return the part of the time that a share pays for a configuration, 0 to 1."""
    return min(
        [1.0]
        + [
            total / (rivals * need)
            for need, total in zip(configuration.demand, totals, strict=True)
            if need
        ]
    )


def _percentile(values: Array, percent: float) -> float:
    # Not interpolated: beside an infinite value that would be no number.
    return float(np.percentile(values, percent, method="inverted_cdf")) if len(values) else math.nan
