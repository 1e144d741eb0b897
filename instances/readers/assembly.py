"""Assembly: traced jobs and a cluster become an instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.jobs import DEFAULT_LOAD, Tasks, TracedJob, suggest_gpus
from alloc.instances.readers.report import ReportLog
from alloc.problems.allocation.instance import Instance, misfit
from alloc.topology import HostType, Topology
from alloc.topology.topology import flat_cluster
from alloc.units import MILLI, require_positive
from alloc.workload import Configuration, Elasticity, Job, TaskGroup, rigid_gang

Deadlines = Literal["soft", "hard", "refusable", "none"]

_MAKER = re.compile(r"^((nvidia|tesla|geforce)-)+")


def uniform_cluster(
    num_hosts: int, gpus_per_host: int, name: str, gpu_type: str = "generic"
) -> Topology:
    """Return a flat cluster of equal hosts with GPUs of one type.

    Few job tables say what the hosts are, and none their CPU or memory: hosts offer GPUs only.

    Parameters
    ----------
    num_hosts
        Hosts, 1 to a million.
    gpus_per_host
        GPUs of each, 1 to 1,000.
    name
        Name of the topology.
    gpu_type
        Name of the type of all GPUs.
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
    kind = HostType(f"{gpus_per_host}-gpu-host", gpus_per_host, gpu_type)
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

    Parameters
    ----------
    jobs
        The traced jobs, whose GPU time is the load.
    cluster_gpus
        GPUs of all hosts, or None.
    num_hosts
        Number of hosts, or None.
    gpus_per_host
        GPUs of each host, 1 or more.
    load
        Share of the GPU time that the jobs ask for, above 0; None for `DEFAULT_LOAD` if no
        size is given.
    window_s
        Length of the traced time, seconds; None for what the jobs span.

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


def choose_cluster(
    jobs: Sequence[TracedJob],
    topology: Topology | None,
    name: str,
    *,
    cluster_gpus: int | None,
    num_hosts: int | None,
    gpus_per_host: int,
    load: float | None,
    window_s: float | None,
    gpu_type: str = "generic",
) -> Topology:
    """Return the cluster that was given, or a flat one of the size that was asked for.

    Parameters
    ----------
    jobs
        The traced jobs, whose GPU time is the load.
    topology
        The cluster, or None for one of equal hosts.
    name
        Name of such a cluster.
    cluster_gpus, num_hosts, gpus_per_host, load, window_s
        As in `choose_num_hosts`.
    gpu_type
        Name of the type of all its GPUs.

    Raises
    ------
    InstanceError
        If a topology is given and a size too, or `choose_num_hosts` refuses.
    """
    if topology is not None:
        if any(size is not None for size in (cluster_gpus, num_hosts, load)):
            raise InstanceError(
                "cluster: a topology is given, and cluster_gpus, num_hosts or load too; leave the "
                "size out, or the topology."
            )
        return topology
    hosts = choose_num_hosts(
        jobs,
        cluster_gpus=cluster_gpus,
        num_hosts=num_hosts,
        gpus_per_host=gpus_per_host,
        load=load,
        window_s=window_s,
    )
    return uniform_cluster(hosts, gpus_per_host, name, gpu_type)


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
        What traced deadlines become: ``soft`` due dates, ``hard`` deadlines, ``refusable`` for hard
        ones of jobs that may be refused, or ``none``.
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
        """Return the job that a traced job becomes.

        Parameters
        ----------
        traced
            The traced job.
        work
            Work to do, above 0, in the unit of the rates.
        configurations
            The ways in which it can run.
        elasticity
            ``rigid``, ``moldable`` or ``malleable``.
        """
        return Job(
            id=traced.id,
            arrival_s=traced.submit_s,
            work=work,
            configurations=configurations,
            weight=traced.weight,
            deadline_s=traced.deadline_s if self.deadlines in ("hard", "refusable") else None,
            due_date_s=traced.deadline_s if self.deadlines == "soft" else None,
            elasticity=elasticity,
            preemptible=self.preemptible,
            restart_cost_s=self.restart_cost_s,
            refusable=self.deadlines == "refusable" and traced.deadline_s is not None,
            tenant=traced.tenant,
            model=traced.model,
        )


def rigid_jobs(
    traced: Sequence[TracedJob], topology: Topology, log: ReportLog, rules: JobRules
) -> list[Job]:
    """Return gangs that hold their traced GPUs for their traced time.

    Jobs larger than the cluster are dropped and counted.

    Parameters
    ----------
    traced
        The traced jobs.
    topology
        The cluster.
    log
        Counts the jobs that are dropped.
    rules
        What the trace does not say of its jobs.
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


def shaped_jobs(
    traced: Sequence[TracedJob],
    topology: Topology,
    log: ReportLog,
    rules: JobRules,
    asked: Callable[[Tasks], Tasks],
) -> list[Job]:
    """Return jobs that hold what their tasks ask for, for their traced time.

    A job that several GPU types of the cluster will do for has a configuration for each. Jobs that
    the cluster cannot hold are dropped and counted.

    Parameters
    ----------
    traced
        The jobs.
    topology, log, rules
        The cluster, the account, and what the trace does not say.
    asked
        What of the tasks in the trace is asked for here.
    """
    known: dict[Tasks, tuple[Configuration, ...] | str] = {}
    jobs: list[Job] = []
    for job in traced:
        tasks = job.tasks or Tasks(job.num_gpus, MILLI)
        if tasks not in known:
            known[tasks] = ways_to_run(asked(tasks), topology)
        found = known[tasks]
        if isinstance(found, str):
            log.drop(found, f"{job.id} ({tasks_label(tasks)})")
        else:
            kind: Elasticity = "rigid" if len(found) == 1 else "moldable"
            jobs.append(rules.job(job, job.duration_s, found, kind))
    return jobs


def ways_to_run(tasks: Tasks, topology: Topology) -> tuple[Configuration, ...] | str:
    """Return the ways tasks can run on a cluster at rate 1, or why there is none.

    Parameters
    ----------
    tasks
        What the tasks of a job ask for.
    topology
        The cluster.
    """
    group = TaskGroup("worker", tasks.count, tasks.gpu_milli, tasks.cpu_milli, tasks.memory_mib)
    types: list[str | None] = [None]
    if tasks.gpu_types:
        types = [*_types_meant(tasks.gpu_types, topology)]
        if not types:
            return f"asks for GPUs that the cluster has not: {', '.join(tasks.gpu_types)}"
    if tasks.count * tasks.gpu_milli > topology.num_gpus * MILLI:
        return larger_than(topology)
    ways = (Configuration((group,), 1.0, name) for name in types)
    fitting = tuple(way for way in ways if misfit(topology, way) is None)
    return fitting or "fits no hosts of the cluster, though it has as many GPUs"


def tasks_label(tasks: Tasks) -> str:
    """Return what tasks ask for in a few words: ``2 x 8 GPUs``."""
    each = f"{tasks.gpu_milli / MILLI:g} GPU{'' if tasks.gpu_milli == MILLI else 's'}"
    types = f" of {' or '.join(tasks.gpu_types)}" if tasks.gpu_types else ""
    return f"{tasks.count} x {each}{types}"


def _types_meant(names: Iterable[str], topology: Topology) -> tuple[str, ...]:
    """Return the GPU types of a cluster that names of a job table mean, sorted.

    ``a100`` means each version of it; a product name such as ``NVIDIA A100-SXM4-80GB`` means its
    type.
    """
    # Only a table with GPU types needs it, and it loads every topology format.
    from alloc.instances.topologies.products import type_of_product

    present = {name for name in topology.gpu_types if name is not None}
    meant: set[str] = set()
    for name in names:
        plain = _MAKER.sub("", "-".join(re.split(r"[\s_-]+", name.strip().lower())))
        versions = {t for t in present if t.lower() == plain or t.lower().startswith(f"{plain}-")}
        meant |= versions or {type_of_product(name)} & present
    return tuple(sorted(meant))


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

    Parameters
    ----------
    name
        Name of the instance.
    topology
        The cluster.
    jobs
        The jobs; at least one.
    log
        What was read, dropped and changed.
    slot_s
        Length of a slot, seconds, or None for continuous time.
    source
        Where the trace comes from: title, address and the like.
    options
        How it was read; those that are None are left out.

    Raises
    ------
    InstanceError
        If no job is left.
    """
    report = log.report()
    if not jobs:
        reasons = "; ".join(map(str, (*report.dropped, *report.skipped)))
        raise InstanceError(
            f'instance "{name}": no job is left for it; the reader left out: '
            f"{reasons or 'nothing'}. Choose a larger cluster or another window."
        )
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
