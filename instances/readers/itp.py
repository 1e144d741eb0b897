"""ITP: the job tables of ten clusters, Microsoft 2021, raw and in ElasticFlow's variant.

A table is a cluster; cluster sizes are not published. The variant adds a model, a batch size and a
deadline to every job, drawn at random by its authors; arrivals, sizes and durations are the same.

References
----------
D. Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning",
ASPLOS 2023, doi:10.1145/3575693.3575721; data: github.com/microsoft/elasticflow-traces (MIT).
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from alloc.instances.readers.assembly import (
    Deadlines,
    JobRules,
    assemble,
    choose_cluster,
    rigid_jobs,
)
from alloc.instances.readers.elastic import elastic_jobs
from alloc.instances.readers.jobs import MAX_DURATION_S, MAX_GPUS, TracedJob, select_window
from alloc.instances.readers.published import source_of
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.scaling import ScalingTable, read_scaling_tables
from alloc.instances.readers.table import Row, UnreadableRowError, read_table
from alloc.problems.allocation.instance import Instance
from alloc.topology import Topology
from alloc.workload import Elasticity

SOURCE = {
    "source": "ITP job table, Microsoft 2021 (Gu et al., ElasticFlow, ASPLOS 2023); "
    "github.com/microsoft/elasticflow-traces",
    "licence": "MIT",
}
_COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")


def read_itp(path: str | PathLike[str]) -> tuple[list[TracedJob], ReadReport]:
    """Read an ITP job table, raw or in ElasticFlow's variant.

    Parameters
    ----------
    path
        Columns ``job_id``, ``submission_time`` (s), ``duration`` (s), ``num_gpu``; the variant adds
        ``model_name``, ``batch_size``, ``deadline`` (s). Plain or gzip.

    Returns
    -------
    list of TracedJob, ReadReport
        The jobs in the order of the file, and what was read.

    Raises
    ------
    InstanceError
        If the file cannot be read or has another header.
    """
    log = ReportLog()
    return _read(path, log), log.report()


def _read(path: str | PathLike[str], log: ReportLog) -> list[TracedJob]:
    seen: set[str] = set()

    def parse(row: Row) -> TracedJob:
        job = _job(row)
        if job.id in seen:
            raise UnreadableRowError("job_id appears before")
        seen.add(job.id)
        return job

    return read_table(path, _COLUMNS, parse, log)


def _job(row: Row) -> TracedJob:
    submit_s = row.time_s("submission_time")
    deadline_s = row.time_s("deadline") if row.values.get("deadline") else None
    if deadline_s is not None and deadline_s <= submit_s:
        raise UnreadableRowError("deadline is not after submission_time")
    has_batch = bool(row.values.get("batch_size"))
    return TracedJob(
        id=row.text("job_id"),
        submit_s=submit_s,
        duration_s=row.positive("duration", most=MAX_DURATION_S),
        num_gpus=row.integer("num_gpu", least=1, most=MAX_GPUS),
        model=row.values.get("model_name") or None,
        batch_size=row.integer("batch_size", least=1, most=2**31) if has_batch else None,
        deadline_s=deadline_s,
    )


def itp_instance(
    path: str | PathLike[str],
    *,
    topology: Topology | None = None,
    cluster_gpus: int | None = None,
    num_hosts: int | None = None,
    gpus_per_host: int = 8,
    load: float | None = None,
    start_s: float | None = None,
    length_s: float | None = None,
    max_jobs: int | None = None,
    slot_s: float | None = None,
    scaling: str | PathLike[str] | Mapping[str, ScalingTable] | None = None,
    elasticity: Elasticity = "malleable",
    preemptible: bool = True,
    restart_cost_s: float = 0.0,
    deadlines: Deadlines = "soft",
    name: str | None = None,
) -> tuple[Instance, ReadReport]:
    """Make an instance of a window of an ITP job table.

    The cluster starts empty: what was submitted before the window and still ran is not there.

    Parameters
    ----------
    path
        The job table.
    topology
        The cluster; None for a flat one of `gpus_per_host` GPUs a host.
    cluster_gpus, num_hosts, load
        Size of the cluster, one of: GPUs, hosts, or the load that the window's jobs shall put on it
        (GPU time asked for over GPU time in the window). By default a load of 0.85.
    gpus_per_host
        GPUs of each host.
    start_s, length_s, max_jobs
        The window, as in `alloc.instances.readers.jobs.select_window`.
    slot_s
        Length of a slot, seconds; None for continuous time.
    scaling
        Scaling tables, or the folder to read them from; then jobs are elastic. None: rigid gangs,
        with work in seconds.
    elasticity
        ``malleable`` or ``moldable``, for elastic jobs.
    preemptible
        Whether jobs may be paused.
    restart_cost_s
        Seconds lost each time a job resumes or changes.
    deadlines
        What the variant's deadlines become: ``soft`` due dates, ``hard`` deadlines (about half of
        them cannot be met at the traced size), ``refusable`` for hard ones of jobs that may be
        refused, or ``none``.
    name
        Name of the instance; by default from the file.

    Returns
    -------
    Instance, ReadReport
        The instance, and every row that is not in it with the reason.

    Raises
    ------
    InstanceError
        If the file cannot be read, an option makes no sense, or no job is left.
    """
    log = ReportLog()
    stem = Path(path).name.removesuffix(".gz").removesuffix(".csv")
    name = name or f"itp-{stem}"
    options = {
        "start_s": start_s,
        "length_s": length_s,
        "max_jobs": max_jobs,
        "gpus_per_host": gpus_per_host,
        "load": load,
        "elastic": None if scaling is None else elasticity,
        "deadlines": deadlines,
    }
    jobs = select_window(
        _read(path, log), log, start_s=start_s, length_s=length_s, max_jobs=max_jobs
    )
    topology = choose_cluster(
        jobs,
        topology,
        name,
        cluster_gpus=cluster_gpus,
        num_hosts=num_hosts,
        gpus_per_host=gpus_per_host,
        load=load,
        window_s=None if max_jobs is not None else length_s,
    )
    rules = JobRules(preemptible, restart_cost_s, deadlines)
    source = source_of("itp", SOURCE, path)
    if scaling is None:
        made = rigid_jobs(jobs, topology, log, rules)
    else:
        tables = _tables(scaling, log)
        made = elastic_jobs(jobs, tables, topology, log, rules, elasticity=elasticity)
        names = [file for report in log.also for file in report.files]
        source = {
            **source,
            "scaling": f"measured rates from {', '.join(names) or 'the tables given'}; work in "
            "iterations, as many as keep the traced duration at the traced size",
        }
    instance = assemble(name, topology, made, log, slot_s=slot_s, source=source, options=options)
    return instance, log.report()


def _tables(
    scaling: str | PathLike[str] | Mapping[str, ScalingTable], log: ReportLog
) -> Mapping[str, ScalingTable]:
    if isinstance(scaling, Mapping):
        return scaling
    tables, report = read_scaling_tables(scaling)
    log.also.append(report)
    return tables
