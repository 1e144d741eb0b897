"""openb: nodes and pods of an Alibaba cluster, 2023, with GPU shares and GPU type constraints.

The lists are a sample of pods for packing studies, not a load to replay: played by the clock they
never hold more than 66 of the 6,212 GPUs. `openb_instance` therefore also makes snapshots, in which
every pod asks at once, and clusters of every k-th node.

References
----------
Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023; data: github.com/hkust-adsl/kubernetes-scheduler-simulator
(Apache-2.0).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from alloc.errors import InstanceError
from alloc.instances.readers.assembly import assemble
from alloc.instances.readers.jobs import MAX_DURATION_S, TracedJob, select_window
from alloc.instances.readers.published import source_of
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.table import Row, UnreadableRowError, read_header, read_table
from alloc.problems.allocation.instance import Instance, misfit
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job, TaskGroup

SOURCE = {
    "source": "openb node and pod lists, Alibaba cluster-trace-gpu-v2023 (Weng et al., USENIX ATC "
    "2023); github.com/hkust-adsl/kubernetes-scheduler-simulator",
    "licence": "Apache-2.0",
}
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIME_COLUMNS = ("creation_time", "deletion_time", "scheduled_time")
_MAX_CPU_MILLI = 10_000_000
"""10,000 cores: no server has as many; a larger number is not in milli-cores."""
_MAX_MEMORY_MIB = 64 * 1024 * 1024
"""64 TiB: no server has as much; a larger number is not in MiB."""
_MAX_GPUS_PER_NODE = 1000
"""No server has as many; a larger number is in milli-GPU."""
_SNAPSHOT_S = 1.0
"""In a snapshot without slots all pods ask at once, so any one length will do."""


@dataclass(frozen=True)
class Pod:
    """A pod: one container group on one node.

    Parameters
    ----------
    name
        Unique name.
    cpu_milli, memory_mib
        CPU, milli-cores, and host memory, MiB, that it asks for.
    gpu_milli
        GPU that it asks for, milli-GPU: 0, a share of one GPU, or whole GPUs.
    gpu_types
        GPU types that it may use, sorted, each once; empty means any.
    quality
        Quality-of-service class: LS, BE, Burstable or Guaranteed; or None.
    created_s
        Submission, seconds on the clock of the trace, or None where the list has no times.
    duration_s
        Time from its placement to its deletion, seconds; None for pods never placed and where the
        list has no times.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    gpu_types: tuple[str, ...] = ()
    quality: str | None = None
    created_s: float | None = None
    duration_s: float | None = None


def read_openb_nodes(path: str | PathLike[str]) -> tuple[Topology, ReadReport]:
    """Read a node list as a flat cluster.

    Parameters
    ----------
    path
        Columns ``sn``, ``cpu_milli``, ``memory_mib``, ``gpu`` (whole GPUs), ``model`` (GPU type,
        empty without GPUs). Plain or gzip.

    Returns
    -------
    Topology, ReadReport
        Hosts in the order of the file, one host type per combination of GPUs, CPU and memory.

    Raises
    ------
    InstanceError
        If the file cannot be read, has another header, or lists no node.
    """
    log = ReportLog()
    return _read_nodes(path, log), log.report()


def _read_nodes(path: str | PathLike[str], log: ReportLog) -> Topology:
    types: dict[str, HostType] = {}
    hosts: dict[str, Host] = {}

    def parse(row: Row) -> None:
        node, kind = row.text("sn"), _host_type(row)
        if node in hosts:
            raise UnreadableRowError("sn appears before")
        types.setdefault(kind.name, kind)
        hosts[node] = Host(node, kind.name)

    read_table(path, _NODE_COLUMNS, parse, log)
    if not hosts:
        raise InstanceError(f"{path}: lists no node that can be read; {log.report()}")
    return Topology("openb", tuple(types.values()), tuple(hosts.values()))


def _host_type(row: Row) -> HostType:
    num_gpus = row.integer("gpu", most=_MAX_GPUS_PER_NODE)
    cpu = row.integer("cpu_milli", most=_MAX_CPU_MILLI)
    memory = row.integer("memory_mib", most=_MAX_MEMORY_MIB)
    if not num_gpus:
        return HostType(f"cpu-{cpu}m-{memory}mib", cpu_milli=cpu, memory_mib=memory)
    model = row.text("model")
    return HostType(f"{num_gpus}x{model}-{cpu}m-{memory}mib", num_gpus, model, cpu, memory)


def read_openb_pods(path: str | PathLike[str]) -> tuple[list[Pod], ReadReport]:
    """Read a pod list.

    Parameters
    ----------
    path
        Columns ``name``, ``cpu_milli``, ``memory_mib``, ``num_gpu``, ``gpu_milli`` (of each GPU),
        and in most lists ``gpu_spec`` (allowed types, ``|`` between them), ``qos``,
        ``creation_time``, ``deletion_time``, ``scheduled_time`` (s). Plain or gzip.

    Returns
    -------
    list of Pod, ReadReport
        The pods in the order of the file, and what was read.

    Raises
    ------
    InstanceError
        If the file cannot be read or has another header.
    """
    log = ReportLog()
    return _read_pods(path, log), log.report()


def _read_pods(path: str | PathLike[str], log: ReportLog) -> list[Pod]:
    seen: set[str] = set()

    def parse(row: Row) -> Pod:
        pod = _pod(row)
        if pod.name in seen:
            raise UnreadableRowError("name appears before")
        seen.add(pod.name)
        return pod

    # Either a list has all the times or it has none.
    has_times = not set(_TIME_COLUMNS).isdisjoint(read_header(path))
    columns = _POD_COLUMNS + (_TIME_COLUMNS if has_times else ())
    return read_table(path, columns, parse, log)


def _pod(row: Row) -> Pod:
    types = row.values.get("gpu_spec", "")
    created_s = row.time_s("creation_time") if row.values.get("creation_time") else None
    pod = Pod(
        name=row.text("name"),
        cpu_milli=row.integer("cpu_milli", most=_MAX_CPU_MILLI),
        memory_mib=row.integer("memory_mib", most=_MAX_MEMORY_MIB),
        gpu_milli=_gpu_milli(row),
        gpu_types=tuple(sorted({name.strip() for name in types.split("|")} - {""})),
        quality=row.values.get("qos") or None,
        created_s=created_s,
        duration_s=_duration_s(row, created_s),
    )
    # Shares that no configuration accepts spoil their row, not the reading.
    _task(pod)
    return pod


def _task(pod: Pod) -> TaskGroup:
    return TaskGroup("pod", 1, pod.gpu_milli, pod.cpu_milli, pod.memory_mib)


def _gpu_milli(row: Row) -> int:
    """Return the GPU of a pod in all; shares of several GPUs do not occur and are refused."""
    num_gpus = row.integer("num_gpu", most=_MAX_GPUS_PER_NODE)
    share = row.integer("gpu_milli", most=MILLI)
    if (num_gpus == 0) != (share == 0):
        raise UnreadableRowError("num_gpu and gpu_milli do not agree on whether it uses GPUs")
    if num_gpus > 1 and share < MILLI:
        raise UnreadableRowError("asks for a share of several GPUs")
    return num_gpus * share


def _duration_s(row: Row, created_s: float | None) -> float | None:
    if not row.values.get("scheduled_time"):
        return None
    scheduled_s, deleted_s = row.time_s("scheduled_time"), row.time_s("deletion_time")
    if created_s is None or scheduled_s < created_s:
        raise UnreadableRowError("scheduled_time is before creation_time")
    if not 0 < deleted_s - scheduled_s <= MAX_DURATION_S:
        raise UnreadableRowError("deletion_time is not after scheduled_time")
    return deleted_s - scheduled_s


def every_kth_host(topology: Topology, num_hosts: int) -> Topology:
    """Return a smaller cluster of evenly spaced hosts, so that the mix of types stays.

    Parameters
    ----------
    topology
        The whole cluster.
    num_hosts
        Hosts that stay, 1 to all.

    Raises
    ------
    InstanceError
        If the cluster has fewer hosts than that.
    """
    if not 1 <= num_hosts <= topology.num_hosts:
        raise InstanceError(
            f'topology "{topology.name}" has {topology.num_hosts} hosts, so num_hosts cannot be '
            f"{num_hosts}; give 1 to {topology.num_hosts}."
        )
    hosts = tuple(topology.hosts[k * topology.num_hosts // num_hosts] for k in range(num_hosts))
    used = {host.type for host in hosts}
    types = tuple(kind for kind in topology.host_types if kind.name in used)
    return topology.replace(host_types=types, hosts=hosts)


def pod_configurations(pod: Pod, gpu_types: Iterable[str]) -> tuple[Configuration, ...]:
    """Return the ways a pod can run on a cluster with those GPU types, at rate 1.

    One configuration when any type will do, else one per allowed type that the cluster has.

    Parameters
    ----------
    pod
        The pod.
    gpu_types
        Names of the GPU types that the cluster has.
    """
    task = _task(pod)
    if not pod.gpu_types or not pod.gpu_milli:
        return (Configuration((task,), 1.0),)
    present = set(gpu_types)
    return tuple(Configuration((task,), 1.0, name) for name in pod.gpu_types if name in present)


def openb_instance(
    nodes: str | PathLike[str],
    pods: str | PathLike[str],
    *,
    snapshot: bool = False,
    gpu_pods_only: bool = False,
    num_hosts: int | None = None,
    start_s: float | None = None,
    length_s: float | None = None,
    max_jobs: int | None = None,
    slot_s: float | None = None,
    preemptible: bool = False,
    name: str | None = None,
) -> tuple[Instance, ReadReport]:
    """Make an instance of an openb node list and pod list.

    Parameters
    ----------
    nodes, pods
        The lists.
    snapshot
        True: all pods ask at time 0, for one slot (1 s without slots), in the order of the list;
        the packing question of the paper, and the only one for lists without times. False: real
        arrivals and durations; pods that were never placed have no duration and are dropped.
    gpu_pods_only
        Leave out pods without GPUs.
    num_hosts
        Take only so many evenly spaced hosts; by default all.
    start_s, length_s, max_jobs
        The window, as in `alloc.instances.readers.jobs.select_window`; a snapshot knows `max_jobs`
        only.
    slot_s
        Length of a slot, seconds; None for continuous time.
    preemptible
        Whether pods may be paused.
    name
        Name of the instance; by default from the pod list.

    Returns
    -------
    Instance, ReadReport
        The instance, and every pod that is not in it with the reason. A pod allowed on several GPU
        types is moldable, with a configuration per type. Classes of service are not carried over.

    Raises
    ------
    InstanceError
        If a file cannot be read, an option makes no sense, or no pod is left.
    """
    log = ReportLog()
    topology, report = read_openb_nodes(nodes)
    log.also.append(report)
    if num_hosts is not None:
        topology = every_kth_host(topology, num_hosts)
    stem = Path(pods).name.removesuffix(".gz").removesuffix(".csv")
    name = name or f"{stem}{'-snapshot' if snapshot else ''}"
    options = {
        "snapshot": snapshot,
        "gpu_pods_only": gpu_pods_only,
        "num_hosts": num_hosts,
        "start_s": start_s,
        "length_s": length_s,
        "max_jobs": max_jobs,
    }
    found = _wanted(_read_pods(pods, log), log, gpu_pods_only=gpu_pods_only)
    if snapshot:
        if start_s is not None or length_s is not None:
            raise InstanceError(
                "a snapshot has no clock, so start_s and length_s mean nothing; leave them out."
            )
        found = [
            dataclasses.replace(pod, created_s=0.0, duration_s=slot_s or _SNAPSHOT_S)
            for pod in found
        ]
    traced = select_window(
        _timed(found, log), log, start_s=start_s, length_s=length_s, max_jobs=max_jobs
    )
    by_name = {pod.name: pod for pod in found}
    made = _jobs(traced, by_name, topology, log, preemptible=preemptible)
    source = source_of("openb", SOURCE, nodes, pods)
    instance = assemble(name, topology, made, log, slot_s=slot_s, source=source, options=options)
    return instance, log.report()


def _wanted(pods: Sequence[Pod], log: ReportLog, *, gpu_pods_only: bool) -> list[Pod]:
    if not gpu_pods_only:
        return list(pods)
    for pod in pods:
        if not pod.gpu_milli:
            log.drop("without GPUs", pod.name)
    return [pod for pod in pods if pod.gpu_milli]


def _timed(pods: Iterable[Pod], log: ReportLog) -> list[TracedJob]:
    """Return pods as traced jobs; those without times are dropped and counted."""
    timed: list[TracedJob] = []
    for pod in pods:
        if pod.created_s is None or pod.duration_s is None:
            log.drop("never placed, so without duration (or a list without times)", pod.name)
        else:
            gpus = -(-pod.gpu_milli // MILLI)
            timed.append(TracedJob(pod.name, pod.created_s, pod.duration_s, gpus))
    return timed


def _jobs(
    traced: Iterable[TracedJob],
    pods: dict[str, Pod],
    topology: Topology,
    log: ReportLog,
    *,
    preemptible: bool,
) -> list[Job]:
    # Pods of one shape share their configurations: there are a few hundred shapes.
    shared: dict[tuple[object, ...], tuple[Configuration, ...]] = {}
    present = {kind.gpu_type for kind in topology.host_types if kind.gpu_type is not None}
    jobs: list[Job] = []
    for job in traced:
        pod = pods[job.id]
        shape = (pod.cpu_milli, pod.memory_mib, pod.gpu_milli, pod.gpu_types)
        if shape not in shared:
            shared[shape] = tuple(
                configuration
                for configuration in pod_configurations(pod, present)
                if misfit(topology, configuration) is None
            )
        configurations = shared[shape]
        if not configurations:
            log.drop("fits no host of the cluster", job.id)
            continue
        jobs.append(
            Job(
                id=job.id,
                arrival_s=job.submit_s,
                work=job.duration_s,
                configurations=configurations,
                elasticity="rigid" if len(configurations) == 1 else "moldable",
                preemptible=preemptible,
            )
        )
    return jobs
