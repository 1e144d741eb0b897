"""Elastic jobs: traced jobs with measured scaling tables become malleable or moldable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from alloc.errors import InstanceError
from alloc.instances.readers.assembly import (
    JobRules,
    larger_than,
    rigid_jobs,
)
from alloc.instances.readers.jobs import TracedJob
from alloc.instances.readers.report import ReportLog
from alloc.instances.readers.scaling import ScalingTable, scaling_configurations
from alloc.topology import Topology
from alloc.workload import Configuration, Elasticity, Job


def elastic_jobs(
    traced: Sequence[TracedJob],
    tables: Mapping[str, ScalingTable],
    topology: Topology,
    log: ReportLog,
    rules: JobRules,
    *,
    elasticity: Elasticity = "malleable",
) -> list[Job]:
    """Return jobs that may run at any size measured for their model and batch size.

    The work of a job is in iterations, as many as its model does in the traced time at the traced
    number of GPUs (the best rate measured at that size): a scheduler that gives it its traced GPUs
    finds its traced duration. A job of which the tables do not know the speed at the traced size
    stays a rigid gang, and is counted.

    Parameters
    ----------
    traced
        Jobs, in order.
    tables
        Scaling tables by model.
    topology
        The cluster; sizes beyond it are left out.
    log
        Counts jobs that stay rigid and jobs that the cluster cannot hold.
    rules
        What the trace does not say.
    elasticity
        ``malleable`` or ``moldable``. A job with one size left is rigid.

    Raises
    ------
    InstanceError
        If `elasticity` is ``rigid`` or no job names a model.
    """
    if elasticity not in ("malleable", "moldable"):
        raise InstanceError(
            f'elasticity is "{elasticity}"; elastic jobs are malleable or moldable.'
        )
    if not any(job.model and job.batch_size for job in traced):
        raise InstanceError(
            "the job table names no model and batch size, so scaling tables cannot be applied; "
            "take the ElasticFlow variant of the trace."
        )
    shared: dict[tuple[str, int], tuple[Configuration, ...]] = {}
    made: dict[str, Job] = {}
    rest: list[TracedJob] = []
    for job in traced:
        rate = _traced_rate(job, tables)
        if rate is None or job.model is None or job.batch_size is None:
            log.alter("no rate measured at the traced size, stays a rigid gang", job.id)
            rest.append(job)
            continue
        kind = (job.model, job.batch_size)
        if kind not in shared:
            shared[kind] = scaling_configurations(tables[job.model], job.batch_size, topology)
        configurations = shared[kind]
        if not configurations:
            log.drop(larger_than(topology), f"{job.id} ({job.num_gpus} GPUs)")
            continue
        made[job.id] = rules.job(
            job,
            rate * job.duration_s,
            configurations,
            elasticity if len(configurations) > 1 else "rigid",
        )
    rigid = rigid_jobs(rest, topology, log, rules)
    made |= {job.id: job for job in rigid}
    return [made[job.id] for job in traced if job.id in made]


def _traced_rate(job: TracedJob, tables: Mapping[str, ScalingTable]) -> float | None:
    """Return the best rate measured at the size that the job had, iterations per second."""
    if job.model is None or job.batch_size is None or job.model not in tables:
        return None
    points = tables[job.model].points(job.batch_size)
    return max((p.rate for p in points if p.num_gpus == job.num_gpus), default=None)
