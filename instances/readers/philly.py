"""Philly: the job table of Microsoft's cluster of 2017 by virtual cluster (VC).

The table read is the one derived for Pollux: 82,247 of the 117,325 published jobs, without status,
user, attempts and hosts. Which hosts belong to which VC is not published; the number of hosts of
eleven VCs is (``philly_vc.csv``, from Helios' study).

References
----------
M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
USENIX ATC 2019; data: github.com/msr-fiddle/philly-traces (CC BY 4.0).
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from os import PathLike

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.assembly import (
    JobRules,
    assemble,
    choose_cluster,
    rigid_jobs,
)
from alloc.instances.readers.jobs import MAX_DURATION_S, MAX_GPUS, TracedJob, select_window
from alloc.instances.readers.published import source_of
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.table import Row, UnreadableRowError, read_header, read_table
from alloc.problems.allocation.instance import Instance
from alloc.topology import Host, HostType, Topology

SOURCE = {
    "source": "Philly job table, Microsoft 2017 (Jeon et al., USENIX ATC 2019); "
    "github.com/msr-fiddle/philly-traces, as derived for Pollux",
    "licence": "CC BY 4.0; changed: filtered and reshaped by its derivers, then by this reader",
}
EPOCH = datetime(2017, 1, 1)
"""Zero of the clock of `read_philly`, local time of the trace."""

_COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
_MACHINE, _MACHINE_GPUS, _MACHINE_MEMORY = "machineId", "number of GPUs", "single GPU mem"


def read_philly(path: str | PathLike[str]) -> tuple[list[TracedJob], ReadReport]:
    """Read the Philly job table.

    Parameters
    ----------
    path
        Columns ``timestamp`` (submission, local time without zone), ``duration`` (s),
        ``num_gpus``, ``gpu_time`` (the product, which must agree), ``cluster`` (VC). Plain or gzip.

    Returns
    -------
    list of TracedJob, ReadReport
        The jobs in the order of the file (it is not sorted), submission in seconds since `EPOCH`,
        VC as tenant, ``philly-<line number>`` as id; and what was read. The hour that the end of
        daylight saving repeats (5 November 2017, 01:00) cannot be told apart.

    Raises
    ------
    InstanceError
        If the file cannot be read or has another header.
    """
    log = ReportLog()
    return _read(path, log), log.report()


def _read(path: str | PathLike[str], log: ReportLog) -> list[TracedJob]:
    return read_table(path, _COLUMNS, _job, log)


def _job(row: Row) -> TracedJob:
    duration_s = row.positive("duration", most=MAX_DURATION_S)
    num_gpus = row.integer("num_gpus", least=1, most=MAX_GPUS)
    gpu_s = row.number("gpu_time")
    # The two are redundant: if they disagree, one of three numbers is damaged.
    if abs(gpu_s - duration_s * num_gpus) > 1e-6 * gpu_s + num_gpus:
        raise UnreadableRowError("gpu_time is not duration times num_gpus")
    return TracedJob(
        id=f"philly-{row.line}",
        submit_s=(_timestamp(row) - EPOCH).total_seconds(),
        duration_s=duration_s,
        num_gpus=num_gpus,
        tenant=row.text("cluster"),
    )


def _timestamp(row: Row) -> datetime:
    try:
        return datetime.strptime(row.text("timestamp"), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        raise UnreadableRowError("timestamp is not YYYY-MM-DD HH:MM:SS") from None


def read_philly_vcs(path: str | PathLike[str]) -> tuple[dict[str, int], ReadReport]:
    """Read the number of hosts of each VC: columns ``vc`` and ``node num``.

    Raises
    ------
    InstanceError
        If the file cannot be read or has another header.
    """
    log = ReportLog()
    vcs: dict[str, int] = {}

    def parse(row: Row) -> None:
        vc, nodes = row.text("vc"), row.integer("node num", least=1, most=MAX_GPUS)
        if vc in vcs:
            raise UnreadableRowError("vc appears before")
        vcs[vc] = nodes

    read_table(path, ("vc", "node num"), parse, log)
    return vcs, log.report()


def read_philly_machines(path: str | PathLike[str]) -> tuple[Topology, ReadReport]:
    """Read a machine list of Philly, original or revised, as a flat cluster.

    The two lists disagree: the original sums to 2,490 GPUs, the list revised from the utilisation
    log to 3,205.

    Parameters
    ----------
    path
        Columns ``machineId``, ``number of GPUs`` and, in the original, ``single GPU mem`` (for
        example ``24GB``), which goes into the name of the host type. GPU models are not published,
        so the GPU type is ``"generic"``.

    Returns
    -------
    Topology, ReadReport
        Machines without GPUs are left out and counted.

    Raises
    ------
    InstanceError
        If the file cannot be read, has another header, or lists no GPU.
    """
    log = ReportLog()
    has_memory = _MACHINE_MEMORY in read_header(path)
    types: dict[str, HostType] = {}
    hosts: dict[str, Host] = {}

    def parse(row: Row) -> None:
        machine = row.text(_MACHINE)
        if machine in hosts:
            raise UnreadableRowError(f"{_MACHINE} appears before")
        num_gpus = row.integer(_MACHINE_GPUS, most=1000)
        if not num_gpus:
            log.drop("machine without GPUs", machine)
            return
        name = f"{num_gpus}-gpu" + (f"-{row.text(_MACHINE_MEMORY)}" if has_memory else "")
        types.setdefault(name, HostType(name, num_gpus, "generic"))
        hosts[machine] = Host(machine, name)

    read_table(path, (_MACHINE, _MACHINE_GPUS), parse, log)
    if not hosts:
        raise InstanceError(f"{path}: lists no machine with a GPU; give another machine list.")
    return Topology("philly", tuple(types.values()), tuple(hosts.values())), log.report()


def philly_instance(
    path: str | PathLike[str],
    *,
    vc: str | None = None,
    vcs: str | PathLike[str] | None = None,
    machines: str | PathLike[str] | None = None,
    topology: Topology | None = None,
    cluster_gpus: int | None = None,
    num_hosts: int | None = None,
    gpus_per_host: int = 8,
    load: float | None = None,
    start: str | None = None,
    length_s: float | None = None,
    max_jobs: int | None = None,
    slot_s: float | None = None,
    preemptible: bool = True,
    restart_cost_s: float = 0.0,
    name: str | None = None,
) -> tuple[Instance, ReadReport]:
    """Make an instance of rigid gangs of a window of the Philly job table.

    The cluster starts empty: what was submitted before the window and still ran is not there.

    Parameters
    ----------
    path
        The job table.
    vc
        Virtual cluster, for example ``"103959"``; None for all of them on one cluster.
    vcs
        The table of hosts of each VC; sizes the cluster (all its VCs together when `vc` is None).
    machines
        A machine list, for the whole cluster: only without `vc`, for no list says whose machines
        they are.
    topology
        The cluster, from elsewhere.
    cluster_gpus, num_hosts, load
        Other ways to size the cluster, as in `alloc.instances.readers.itp.itp_instance`. One of
        all these; by default a load of 0.85.
    gpus_per_host
        GPUs of each host; not with `machines`.
    start
        Start of the window, local time of the trace, ``YYYY-MM-DD`` or ``YYYY-MM-DD HH:MM:SS``; by
        default the first submission.
    length_s, max_jobs
        The window, as in `alloc.instances.readers.jobs.select_window`.
    slot_s
        Length of a slot, seconds; None for continuous time.
    preemptible
        Whether jobs may be paused.
    restart_cost_s
        Seconds lost each time a job resumes.
    name
        Name of the instance; by default from the VC.

    Returns
    -------
    Instance, ReadReport
        The instance, and every row that is not in it with the reason.

    Raises
    ------
    InstanceError
        If a file cannot be read, an option makes no sense, or no job is left.
    """
    log = ReportLog()
    name = name or f"philly-{vc or 'all'}"
    options = {
        "vc": vc,
        "start": start,
        "length_s": length_s,
        "max_jobs": max_jobs,
        "gpus_per_host": gpus_per_host,
        "load": load,
    }
    jobs = select_window(
        _of_vc(_read(path, log), vc, log),
        log,
        start_s=None if start is None else _seconds(start),
        length_s=length_s,
        max_jobs=max_jobs,
    )
    if machines is not None:
        others = (vc, vcs, topology, cluster_gpus, num_hosts, load)
        if any(other is not None for other in others):
            raise InstanceError(
                "machines describes the whole cluster, so it goes with neither vc nor another "
                "size; leave out machines, or vc, vcs, topology, cluster_gpus, num_hosts and load."
            )
        topology, report = read_philly_machines(machines)
        log.also.append(report)
    else:
        if vcs is not None:
            if num_hosts is not None:
                raise InstanceError("vcs and num_hosts both give the number of hosts; give one.")
            num_hosts = _vc_hosts(vcs, vc, log)
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
    made = rigid_jobs(jobs, topology, log, JobRules(preemptible, restart_cost_s))
    source = source_of("philly", SOURCE, path)
    instance = assemble(name, topology, made, log, slot_s=slot_s, source=source, options=options)
    return instance, log.report()


def _of_vc(jobs: list[TracedJob], vc: str | None, log: ReportLog) -> list[TracedJob]:
    if vc is None:
        return jobs
    counts = Counter(job.tenant for job in jobs)
    if vc not in counts:
        known = [str(tenant) for tenant, _ in counts.most_common()]
        raise InstanceError(
            f'vc "{vc}" has no jobs in the table{nearest(vc, known) or "."} '
            f"Its VCs are {', '.join(known[:20]) or 'none'}."
        )
    for job in jobs:
        if job.tenant != vc:
            log.drop("of another virtual cluster", job.id)
    return [job for job in jobs if job.tenant == vc]


def _vc_hosts(path: str | PathLike[str], vc: str | None, log: ReportLog) -> int:
    vcs, report = read_philly_vcs(path)
    log.also.append(report)
    if vc is None:
        return sum(vcs.values())
    if vc not in vcs:
        raise InstanceError(
            f'{path}: does not say how many hosts vc "{vc}" has{nearest(vc, vcs) or "."} '
            "Give num_hosts or load instead."
        )
    return vcs[vc]


def _seconds(start: str) -> float:
    """Return a moment of the trace as seconds since `EPOCH`."""
    try:
        moment = datetime.fromisoformat(start)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is not None:
        raise InstanceError(
            f'start is "{start}"; give local time without a zone, such as 2017-10-09 or '
            "2017-10-09 12:00:00."
        )
    return (moment - EPOCH) / timedelta(seconds=1)
