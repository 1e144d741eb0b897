"""Assembly: traced jobs and a cluster become an instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.jobs import TracedJob, suggest_gpus
from alloc.instances.readers.report import ReportLog
from alloc.problems.allocation.instance import Instance, misfit
from alloc.topology import HostType, Topology
from alloc.topology.topology import flat_cluster
from alloc.units import require_positive
from alloc.workload import Configuration, Elasticity, Job, rigid_gang

Deadlines = Literal["soft", "hard", "none"]

DEFAULT_LOAD = 0.85


def uniform_cluster(num_hosts: int, gpus_per_host: int, name: str) -> Topology:
    """Return a flat cluster of equal hosts with GPUs of type ``"generic"``.

    The job tables name no GPU type, CPU or memory, so hosts offer GPUs only.
    """
    require_positive(num_hosts, "cluster", "num_hosts")
    require_positive(gpus_per_host, "cluster", "gpus_per_host")
    # Guards against a number of bytes or seconds in the wrong option.
    for field, value, most in (
        ("num_hosts", num_hosts, 1_000_000),
        ("gpus_per_host", gpus_per_host, 1000),
    ):
        if value > most:
            raise InstanceError(f"cluster: {field} is {value}; give at most {most}.")
    kind = HostType(f"{gpus_per_host}-gpu-host", gpus_per_host, "generic")
    return flat_cluster(name, kind, num_hosts)


def choose_num_hosts(
    jobs: Sequence[TracedJob],
    *,
    cluster_gpus: int | None,
    num_hosts: int | None,
    gpus_per_host: int,
    load: float | None,
    window_s: float | None,
) -> int:
    """Return the number of hosts: as given, or so that the jobs load the cluster as wished.

    Raises
    ------
    InstanceError
        If more than one of `cluster_gpus`, `num_hosts`, `load` is given, or the GPUs do not fill
        whole hosts.
    """
    given = [x is not None for x in (cluster_gpus, num_hosts, load)]
    if sum(given) > 1:
        raise InstanceError(
            "cluster: more than one of cluster_gpus, num_hosts and load is given; they say the "
            "same thing three ways, so give one."
        )
    require_positive(gpus_per_host, "cluster", "gpus_per_host")
    if num_hosts is not None:
        return num_hosts
    if cluster_gpus is None:
        load = DEFAULT_LOAD if load is None else load
        cluster_gpus = suggest_gpus(jobs, load=load, window_s=window_s, gpus_per_host=gpus_per_host)
    if cluster_gpus < 1 or cluster_gpus % gpus_per_host:
        raise InstanceError(
            f"cluster: cluster_gpus is {cluster_gpus}, which is not a multiple of gpus_per_host "
            f"{gpus_per_host}; give whole hosts."
        )
    return cluster_gpus // gpus_per_host


def rigid_configurations(sizes: Iterable[int]) -> dict[int, tuple[Configuration, ...]]:
    """Return one shared tuple per gang size: rate 1, so that work is seconds of run time."""
    return {size: (rigid_gang(size),) for size in sorted(set(sizes))}


@dataclass(frozen=True)
class JobRules:
    """What a trace does not say of its jobs, and what becomes of what it says.

    Parameters
    ----------
    preemptible
        Whether jobs may be paused.
    restart_cost_s
        Seconds lost each time a job resumes or changes.
    deadlines
        What traced deadlines become: ``soft`` due dates, ``hard`` deadlines, or ``none``.
    """

    preemptible: bool = True
    restart_cost_s: float = 0.0
    deadlines: Deadlines = "soft"

    def __post_init__(self) -> None:
        known = get_args(Deadlines)
        if self.deadlines not in known:
            raise InstanceError(
                f'deadlines is "{self.deadlines}"{nearest(str(self.deadlines), known) or "."} '
                f"Give one of {', '.join(known)}."
            )

    def job(
        self,
        traced: TracedJob,
        work: float,
        configurations: tuple[Configuration, ...],
        elasticity: Elasticity,
    ) -> Job:
        """Return the job that a traced job becomes."""
        return Job(
            id=traced.id,
            arrival_s=traced.submit_s,
            work=work,
            configurations=configurations,
            deadline_s=traced.deadline_s if self.deadlines == "hard" else None,
            due_date_s=traced.deadline_s if self.deadlines == "soft" else None,
            elasticity=elasticity,
            preemptible=self.preemptible,
            restart_cost_s=self.restart_cost_s,
            tenant=traced.tenant,
            model=traced.model,
        )


def rigid_jobs(
    traced: Sequence[TracedJob], topology: Topology, log: ReportLog, rules: JobRules
) -> list[Job]:
    """Return gangs that hold their traced GPUs for their traced time.

    Jobs larger than the cluster are dropped and counted.
    """
    gangs = rigid_configurations(job.num_gpus for job in traced)
    too_large = {size for size, (gang,) in gangs.items() if misfit(topology, gang) is not None}
    jobs: list[Job] = []
    for job in traced:
        if job.num_gpus in too_large:
            log.drop(larger_than(topology), f"{job.id} ({job.num_gpus} GPUs)")
        else:
            jobs.append(rules.job(job, job.duration_s, gangs[job.num_gpus], "rigid"))
    return jobs


def larger_than(topology: Topology) -> str:
    """Return the reason for dropping a job that a cluster cannot hold."""
    return f"larger than the cluster of {topology.num_gpus} GPUs"


def assemble(
    name: str,
    topology: Topology,
    jobs: Sequence[Job],
    log: ReportLog,
    *,
    slot_s: float | None,
    source: Mapping[str, str],
    options: Mapping[str, object],
) -> Instance:
    """Put an instance together and describe where it comes from.

    Raises
    ------
    InstanceError
        If no job is left.
    """
    if not jobs:
        raise InstanceError(
            f'instance "{name}": no job is left for it; the reader left out: '
            f"{'; '.join(map(str, log.report().dropped)) or 'nothing'}. Choose a larger cluster "
            "or another window."
        )
    report = log.report()
    chosen = {key: value for key, value in options.items() if value is not None}
    description = {
        **source,
        "files": ", ".join(report.files),
        "options": ", ".join(f"{key}={value}" for key, value in chosen.items()) or "default",
        "rows": f"{report.rows_read} read, {report.rows_skipped} unreadable, "
        f"{report.num_dropped} left out, {len(jobs)} jobs",
        "gpus": f"{topology.num_gpus} on {topology.num_hosts} hosts",
    }
    if report.dropped:
        description["left out"] = "; ".join(f"{t.count} x {t.reason}" for t in report.dropped)
    if report.altered:
        description["changed"] = "; ".join(f"{t.count} x {t.reason}" for t in report.altered)
    return Instance(name, topology, tuple(jobs), slot_s=slot_s, description=description)
