"""Jobs from one's own files: what their readers share, from the window to the instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypedDict

from alloc.instances.readers.assembly import (
    Deadlines,
    JobRules,
    assemble,
    choose_cluster,
    shaped_jobs,
    uniform_cluster,
)
from alloc.instances.readers.jobs import (
    DEFAULT_LOAD,
    Tasks,
    TracedJob,
    demand_of,
    select_window,
    suggest_gpus,
)
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.problems.allocation.instance import Instance
from alloc.topology import Topology
from alloc.units import MILLI


class Common(TypedDict, total=False):
    """What all readers of one's own jobs can be told.

    Parameters
    ----------
    topology
        The cluster; None for a flat one of hosts with GPUs only.
    cluster_gpus, num_hosts, load
        Size of the flat cluster, one of: GPUs, hosts, or the load that the window's jobs shall put
        on it (GPU time asked for over GPU time in the window). By default a load of 0.85, but room
        for the largest job, and no more than would be busy if none waited.
    gpus_per_host
        GPUs of each host of the flat cluster; by default 8.
    length_s, max_jobs
        Length of the window, seconds, and the number of its first jobs to keep.
    slot_s
        Length of a slot, seconds; None for continuous time.
    preemptible
        Whether jobs may be paused; by default true.
    restart_cost_s
        Seconds lost each time a job resumes or changes; by default 0.
    deadlines
        What deadlines of the file become: ``soft`` due dates (the default), ``hard``,
        ``refusable``, ``none``.
    name
        Name of the instance; by default from the file.
    """

    topology: Topology | None
    cluster_gpus: int | None
    num_hosts: int | None
    load: float | None
    gpus_per_host: int
    length_s: float | None
    max_jobs: int | None
    slot_s: float | None
    preemptible: bool
    restart_cost_s: float
    deadlines: Deadlines
    name: str | None


def own_instance(
    jobs: Sequence[TracedJob],
    log: ReportLog,
    common: Common,
    *,
    name: str,
    source: Mapping[str, str],
    start_s: float | None = None,
) -> tuple[Instance, ReadReport]:
    """Make an instance of jobs that hold their GPUs for their run time.

    Parameters
    ----------
    jobs
        The jobs of the file, in any order.
    log
        Counts what is left out or changed, and is told what is assumed.
    common
        What the user chose.
    name
        Name of the instance where the user chose none.
    source
        Where the jobs come from.
    start_s
        Start of the window on the clock of the jobs, seconds; None: the first submission.

    Raises
    ------
    InstanceError
        If an option makes no sense or no job is left.
    """
    name = common.get("name") or name
    length_s, max_jobs = common.get("length_s"), common.get("max_jobs")
    chosen = select_window(jobs, log, start_s=start_s, length_s=length_s, max_jobs=max_jobs)
    given = common.get("topology")
    gpu_type = None if given is not None else _one_type(chosen)
    topology = _cluster(chosen, common, name, gpu_type or "generic")
    assumed = _assumptions(chosen, topology)
    if given is None and gpu_type is None:
        for job in chosen:
            if job.tasks is not None and job.tasks.gpu_types:
                log.alter(
                    "asks for a GPU type, of which the cluster made here has only one", job.id
                )
    log.notes += assumed
    source = {**source, "assumed": " ".join(assumed)}
    if given is None:
        hosts = "1 host" if topology.num_hosts == 1 else f"{topology.num_hosts} equal hosts"
        source["cluster"] = f"made up, {hosts} with GPUs only"
        log.notes.append(f"The cluster is {source['cluster']}; a topology file gives the real one.")
    rules = JobRules(
        common.get("preemptible", True),
        common.get("restart_cost_s", 0.0),
        common.get("deadlines", "soft"),
    )
    asked = partial(_as_offered, topology=topology, types=given is not None)
    made = shaped_jobs(chosen, topology, log, rules, asked)
    options = {key: value for key, value in common.items() if key not in ("topology", "name")}
    instance = assemble(
        name,
        topology,
        made,
        log,
        slot_s=common.get("slot_s"),
        source=source,
        options={**options, "start_s": start_s},
    )
    return instance, log.report()


def _cluster(jobs: Sequence[TracedJob], common: Common, name: str, gpu_type: str) -> Topology:
    """Return the cluster that was given, or a flat one.

    Where nothing says its size: the usual load, but no less than the largest job, which did run,
    and no more than would be busy if no job ever waited.
    """
    size = {key: common.get(key) for key in ("cluster_gpus", "num_hosts", "load")}
    length_s, per_host = common.get("length_s"), common.get("gpus_per_host", 8)
    window_s = None if common.get("max_jobs") is not None else length_s
    if common.get("topology") is None and all(value is None for value in size.values()):
        demand = demand_of(jobs, window_s=window_s)
        usual = suggest_gpus(jobs, load=DEFAULT_LOAD, window_s=window_s, gpus_per_host=per_host)
        busy = -(-min(usual, demand.peak_busy_gpus) // per_host)
        hosts = max(busy, max(_hosts_needed(job, per_host) for job in jobs))
        return uniform_cluster(hosts, per_host, name, gpu_type)
    return choose_cluster(
        jobs,
        common.get("topology"),
        name,
        cluster_gpus=common.get("cluster_gpus"),
        num_hosts=common.get("num_hosts"),
        load=common.get("load"),
        gpus_per_host=per_host,
        window_s=window_s,
        gpu_type=gpu_type,
    )


def _hosts_needed(job: TracedJob, per_host: int) -> int:
    """Return how many hosts a job needs alone; of a task larger than a host what its GPUs would."""
    tasks = job.tasks
    on_each = 0 if tasks is None else per_host * MILLI // tasks.gpu_milli
    if tasks is None or not on_each:
        return -(-job.num_gpus // per_host)
    return -(-tasks.count // on_each)


def _one_type(jobs: Sequence[TracedJob]) -> str | None:
    """Return the GPU type that every job asks for, or None if they differ or do not say."""
    asked = {job.tasks.gpu_types if job.tasks is not None else () for job in jobs}
    types = next(iter(asked)) if len(asked) == 1 else ()
    return types[0] if len(types) == 1 else None


def _as_offered(tasks: Tasks, *, topology: Topology, types: bool) -> Tasks:
    """Return tasks that ask for CPU and memory only where the cluster says what it has of them.

    And for GPU types only if `types`.
    """
    _, cpu, memory, *_ = topology.totals
    return Tasks(
        tasks.count,
        tasks.gpu_milli,
        tasks.cpu_milli if cpu else 0,
        tasks.memory_mib if memory else 0,
        tasks.gpu_types if types else (),
    )


def _assumptions(jobs: Sequence[TracedJob], topology: Topology) -> list[str]:
    """Say what the file leaves open and the instance decides."""
    said = [
        "Jobs are rigid: each holds its GPUs for its run time, as the file says nothing of how "
        "it scales."
    ]
    if len({name for name in topology.gpu_types if name}) > 1:
        said.append("A job runs as long on one GPU type as on another that it may use.")
    if any(_is_anywhere(job) for job in jobs):
        said.append(
            "Where the file does not say how many hosts a job used, its GPUs may be on any."
        )
    return said


def _is_anywhere(job: TracedJob) -> bool:
    """Return whether a job is a gang of one-GPU workers."""
    tasks = job.tasks or Tasks(job.num_gpus, MILLI)
    return tasks.count > 1 and tasks.gpu_milli == MILLI
