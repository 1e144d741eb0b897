"""Slurm's queue at a moment: ``squeue --json`` as jobs that run on hosts and jobs that wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from alloc.errors import InstanceError
from alloc.instances.readers.assembly import assemble, tasks_label, ways_to_run
from alloc.instances.readers.cells import gpu_cell
from alloc.instances.readers.jobs import MAX_DURATION_S, MAX_GPUS, Tasks
from alloc.instances.readers.own_jobs import Common
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.slurm.nodes import (
    NodesLeft,
    cluster_of,
    read_slurm_accounts,
    read_slurm_nodes,
)
from alloc.instances.readers.table import UnreadableRowError
from alloc.problems.allocation.instance import Instance, Tenant, misfit
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.topology import Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job

_RUNS, _WAITS = ("RUNNING", "COMPLETING", "SUSPENDED"), ("PENDING",)
# Reasons for which a job waits whatever is free.
_CANNOT = ("JobHeldUser", "JobHeldAdmin", "Dependency", "DependencyNeverSatisfied", "BeginTime")
# For a job without a limit: longer than any schedule that is asked about.
_NO_LIMIT_S = 365 * 86400.0
_JUST_OVER_S = 60.0
_SIZES = ("cluster_gpus", "num_hosts", "load", "length_s", "max_jobs")

_ASSUMED = (
    "A job runs to its time limit.",
    "The GPUs of a job are spread evenly over its nodes; a job that runs and is left out leaves "
    "its GPUs free.",
    "GPUs alone are counted: CPU and memory are not, as jobs without GPUs, which hold them too, "
    "are left out.",
    "Partitions, features and reservations are not read: a waiting job may go to any hosts with "
    "GPUs of its type.",
)
_ASSUMED_WITH_NODES = (
    "A job runs to its time limit.",
    "What a job holds or asks for is spread evenly over its nodes.",
    "What nodes say is used, and no job here holds, is taken off them.",
    "Features, reservations, licences, limits of users and exclusive use are not read.",
)


def is_queue(document: Mapping[str, Any]) -> bool:
    """Return whether a document of Slurm is a queue, and not accounting."""
    return any(isinstance(job, dict) and "job_state" in job for job in document["jobs"])


def queue_instance(
    document: Mapping[str, Any],
    log: ReportLog,
    common: Common,
    name: str,
    *,
    nodes: str | PathLike[str] | None = None,
    accounts: str | PathLike[str] | None = None,
) -> tuple[Instance, ReadReport]:
    """Make an instance of a queue: the clock is 0 when it was taken.

    Parameters
    ----------
    document
        What ``squeue --json`` printed.
    log
        Counts what is left out or changed.
    common
        What the user chose; the cluster must be given, here or by its nodes.
    name
        Name of the file.
    nodes
        What ``scontrol show nodes --json`` printed: then states, CPU, memory and partitions count.
    accounts
        What ``sacctmgr show associations format=account,user,grptres --parsable2`` printed: limits
        on GPUs become quotas.

    Raises
    ------
    InstanceError
        If no cluster is given, an option has no meaning for a queue, or no job is left.
    """
    topology = common.get("topology")
    known = None
    if nodes is not None:
        known, report = read_slurm_nodes(nodes)
        log.also.append(report)
        topology = topology if topology is not None else cluster_of(known, "nodes")
    if topology is None:
        raise InstanceError(
            f"{name}: a queue does not say what the cluster is; give its topology, for example "
            "--topology topology.conf --host-type dgx-h100, or -O nodes=FILE."
        )
    if any(common.get(option) is not None for option in _SIZES):
        raise InstanceError(f"{name}: is a queue, a moment; leave {', '.join(_SIZES)} out.")
    log.files.append(name)
    now_s = _moment(document)
    left = None if known is None else NodesLeft(known, topology, log)
    queue = _Queue(topology if left is None else left.topology, log, common, now_s, left)
    for position, job in enumerate(document["jobs"], start=1):
        try:
            queue.read(job, position)
        except (UnreadableRowError, InstanceError) as reason:
            id = job.get("job_id") if isinstance(job, dict) else job
            log.skip(str(reason), position, f"job {id}")
        else:
            log.rows_read += 1
    assumed = _ASSUMED if left is None else _ASSUMED_WITH_NODES
    log.notes += assumed
    jobs = [job for _, _, job in sorted(queue.jobs, key=lambda entry: entry[:2])]
    if left is not None:
        topology = left.left()
        jobs = list(_startable(jobs, {a.job for a in queue.running}, topology, log))
    tenants: tuple[Tenant, ...] = ()
    if accounts is not None:
        tenants, report = read_slurm_accounts(accounts, topology.num_gpus)
        log.also.append(report)
    instance = assemble(
        common.get("name") or name.removesuffix(".gz").removesuffix(".json"),
        topology,
        jobs,
        log,
        slot_s=common.get("slot_s"),
        source={"source": f"Slurm queue {name}, a file of the user", "assumed": " ".join(assumed)},
        options={},
    )
    made = instance.replace(
        running=tuple(queue.running),
        tenants=tuple(queue.lessened(tenant) for tenant in tenants),
    )
    return made, log.report()


def _startable(
    jobs: Iterable[Job], running: set[str], topology: Topology, log: ReportLog
) -> Iterator[Job]:
    """Yield the jobs that run, and those that what is left of the cluster could ever hold."""
    for job in jobs:
        ways = tuple(way for way in job.configurations if misfit(topology, way) is None)
        if job.id in running or len(ways) == len(job.configurations):
            yield job
        elif ways:
            yield job.replace(
                configurations=ways, elasticity="rigid" if len(ways) == 1 else "moldable"
            )
        else:
            log.drop("can never start on what is left of the nodes: "
                     f"{misfit(topology, job.configurations[0])}", job.id)  # fmt: skip


def number_in(value: Any) -> float | None:
    """Return a number as Slurm's JSON has it, plain or with a word on whether it is set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Beyond is neither a time nor a count; nor is not-a-number, which compares as false.
    return value if abs(value) <= 2**53 else None


def _moment(document: Mapping[str, Any]) -> float:
    """Return when a queue was taken, Unix seconds: what it says, or its last event."""
    said = number_in(document.get("last_update"))
    if said:
        return float(said)
    times = [
        number_in(job.get(key)) or 0.0
        for job in document["jobs"]
        if isinstance(job, dict)
        for key in ("submit_time", *(("start_time",) if _state(job) in _RUNS else ()))
    ]
    return float(max(times))


def _state(job: Mapping[str, Any]) -> str:
    state = job.get("job_state")
    return str(state[0] if isinstance(state, list) and state else state)


@dataclass
class _Queue:
    """Collects the jobs of a queue.

    Parameters
    ----------
    topology
        The cluster.
    log
        Counts what is left out or changed.
    common
        What the user chose.
    now_s
        When the queue was taken, Unix seconds.
    left
        The nodes with their states, where these are known.
    """

    topology: Topology
    log: ReportLog
    common: Common
    now_s: float
    left: NodesLeft | None = None
    jobs: list[tuple[float, float, Job]] = field(default_factory=list)
    """The jobs with what orders them: what runs first, then by submission."""
    running: list[Assignment] = field(default_factory=list)
    _taken: Counter[str] = field(default_factory=Counter)
    _left_out: Counter[str] = field(default_factory=Counter)
    _seen: set[str] = field(default_factory=set)

    def read(self, job: Any, position: int) -> None:
        """Read a job of the queue."""
        if not isinstance(job, dict):
            raise UnreadableRowError("is no object")
        id = str(job.get("job_id") or "")
        if not id or id in self._seen:
            raise UnreadableRowError("job_id is missing or appears before")
        self._seen.add(id)
        state = _state(job)
        runs = state in _RUNS
        if not runs and state not in _WAITS:
            self.log.drop(f"is neither running nor waiting: {state}", id)
            return
        if not runs and job.get("state_reason") in _CANNOT:
            self.log.drop(f"waits whatever is free: {job['state_reason']}", id)
            return
        if not runs and job.get("array_task_string"):
            self.log.alter("is an array of waiting jobs, read as the first of them", id)
        tasks = self._tasks(job, runs)
        if tasks is None:
            self.log.drop("asks for no GPU", id)
            return
        hosts = self._hosts(job, id) if runs else ()
        ways = ways_to_run(tasks, self.topology)
        account = str(job["account"]) if job.get("account") else None
        if isinstance(ways, str):
            self.log.drop(ways, f"{id} ({tasks_label(tasks)})")
            self._count_left_out(account, tasks, runs)
            return
        pinned = False
        if runs:
            which = self._stand(id, tasks, [w.gpu_type for w in ways], hosts)
            if which is None:
                self._count_left_out(account, tasks, runs)
                return
            ways, which = (ways[which],), 0
            per_host = tasks.count // len(hosts)
            places = tuple(TaskPlacement(host, "worker", per_host) for host in hosts)
            self.running.append(Assignment(id, which, places))
            if self.left is not None:
                held = Counter(
                    gpu=per_host * tasks.gpu_milli // MILLI,
                    cpu=per_host * tasks.cpu_milli,
                    memory=per_host * tasks.memory_mib,
                )
                for host in hosts:
                    self.left.held.setdefault(host, Counter()).update(held)
                    pinned |= not self.left.is_open(host)
        if pinned:
            self.log.alter("stands on a node that takes no new jobs, and stays there", id)
        ways = self._within_partition(job, ways, hosts)
        work, done = self._work(job, id, runs)
        made = Job(
            id=id,
            arrival_s=0.0,
            work=work,
            work_done=done,
            configurations=ways,
            elasticity="rigid" if len(ways) == 1 else "moldable",
            tenant=account,
            preemptible=self.common.get("preemptible", True) and not pinned,
            restart_cost_s=self.common.get("restart_cost_s", 0.0),
        )
        submitted = number_in(job.get("submit_time"))
        if submitted is None and not runs:
            self.log.alter("submit_time is no time; it is read as the first that waits", id)
        self.jobs.append((0.0 if runs else 1.0, submitted or 0.0, made))

    def _count_left_out(self, account: str | None, tasks: Tasks, runs: bool) -> None:
        if account is not None and runs:
            self._left_out[account] += tasks.count * tasks.gpu_milli

    def lessened(self, tenant: Tenant) -> Tenant:
        """Return a tenant without the quota that its running jobs hold which are left out."""
        less = self._left_out[tenant.name]
        return replace(tenant, gpu_quota_milli=max(tenant.gpu_quota_milli - less, 0))

    def _within_partition(
        self, job: Mapping[str, Any], ways: tuple[Configuration, ...], hosts: tuple[str, ...]
    ) -> tuple[Configuration, ...]:
        """Return the ways to run a job on the nodes of its partitions, where these are known."""
        if self.left is None:
            return ways
        types = {way.gpu_type for way in ways}
        name = self.left.partition(str(job.get("partition") or ""), types, hosts)
        if name is None:
            return ways
        return tuple(
            replace(way, tasks=tuple(replace(g, resources={name: 1}) for g in way.tasks))
            for way in ways
        )

    def _tasks(self, job: Mapping[str, Any], runs: bool) -> Tasks | None:
        """Return a task for each node of a job, or workers of one GPU where they do not divide."""
        text = str((job.get("tres_alloc_str") if runs else None) or job.get("tres_req_str") or "")
        cell = gpu_cell(text, "tres_alloc_str" if runs else "tres_req_str")
        total = cell.gpu_milli // MILLI
        if not total:
            return None
        if total > MAX_GPUS:
            raise UnreadableRowError(f"asks for more than {MAX_GPUS} GPUs")
        nodes = int(number_in(job.get("node_count")) or cell.tasks or 0)
        types = () if cell.gpu_type is None else (cell.gpu_type,)
        count = total if nodes < 1 or total % nodes else nodes
        cpu = memory = 0
        if self.left is not None:
            cpu, memory = (
                -(-(amount or 0) // count) for amount in (cell.cpu_milli, cell.memory_mib)
            )
        return Tasks(count, total // count * MILLI, cpu, memory, types)

    def _hosts(self, job: Mapping[str, Any], id: str) -> tuple[str, ...]:
        # Loads every topology format, of which only a queue needs this one part.
        from alloc.instances.topologies.hostlist import expand_hostlist
        from alloc.instances.topologies.place import Place

        hosts = expand_hostlist(str(job.get("nodes") or ""), Place(f"job {id}"))
        if len(set(hosts)) < len(hosts):
            raise UnreadableRowError("nodes names a node twice")
        return hosts

    def _stand(
        self, id: str, tasks: Tasks, types: list[str | None], hosts: tuple[str, ...]
    ) -> int | None:
        """Return the configuration in which a job stands on hosts; count it where it cannot."""
        index = self.topology.host_index
        unknown = [host for host in hosts if host not in index]
        if unknown or not hosts:
            what = "runs on nodes that the topology has not" if unknown else "runs on no node"
            self.log.drop(what, f"{id} ({', '.join(unknown[:3])})" if unknown else id)
            return None
        if tasks.count % len(hosts):
            self.log.drop("runs with unequal numbers of GPUs on its nodes, which are not read", id)
            return None
        found = {self.topology.gpu_types[index[host]] for host in hosts}
        fitting = [k for k, kind in enumerate(types) if kind is None or found == {kind}]
        each = tasks.count // len(hosts) * tasks.gpu_milli
        full = [
            host
            for host in hosts
            if self._taken[host] + each > self.topology.capacity[index[host], 0]
        ]
        if full or not fitting:
            what = "has not so many GPUs left" if full else "has no GPUs of its type"
            self.log.drop(f"runs where the topology {what}", f"{id} ({(full or hosts)[0]})")
            return None
        for host in hosts:
            self._taken[host] += each
        return fitting[0]

    def _work(self, job: Mapping[str, Any], id: str, runs: bool) -> tuple[float, float]:
        """Return the length of a job and how long it ran already, seconds."""
        minutes = number_in(job.get("time_limit")) or 0.0
        if minutes <= 0:
            self.log.alter("has no time limit; taken to run for a year", id)
        limit_s = min(minutes * 60.0, MAX_DURATION_S) if minutes > 0 else _NO_LIMIT_S
        start_s = number_in(job.get("start_time")) if runs else None
        done = 0.0 if start_s is None else max(self.now_s - start_s, 0.0)
        if done >= limit_s:
            self.log.alter("is past its time limit; taken to end in a minute", id)
            limit_s = done + _JUST_OVER_S
        return limit_s, done
