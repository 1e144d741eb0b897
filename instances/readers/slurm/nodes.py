"""Slurm's nodes at a moment: ``scontrol show nodes --json``, and what is left of them.

References
----------
SchedMD. scontrol(1), sacctmgr(1). https://slurm.schedmd.com/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from alloc.documents.files import read_bytes
from alloc.documents.parsing import parse_json
from alloc.errors import InstanceError
from alloc.instances.readers.cells import gpu_cell
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.table import UnreadableRowError
from alloc.problems.allocation.instance import Tenant
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI

_CLOSED = frozenset(
    ("DOWN", "DRAIN", "DRAINED", "DRAINING", "POWER_DRAIN", "FAIL", "FAILING", "MAINT",
     "MAINTENANCE", "NOT_RESPONDING", "NO_RESPOND", "REBOOT_REQUESTED", "REBOOT_ISSUED",
     "RESERVED", "UNKNOWN", "INVALID", "INVALID_REG", "FUTURE", "DYNAMIC_FUTURE", "ERROR")
)  # fmt: skip
"""States in which a node takes no new jobs. One that is powered down is started when needed."""
# Before Slurm 22.05 one is the base state and the others are flags.
_STATES = ("state", "state_flags")
_USED = ("gres_used", "tres_used")


@dataclass(frozen=True)
class SlurmNode:
    """A node.

    Parameters
    ----------
    kind
        What it offers to jobs.
    used
        What jobs hold of it: GPUs, milli-cores and MiB, under ``gpu``, ``cpu`` and ``memory``.
    closed
        The states for which it takes no new jobs; empty: it does.
    partitions
        The partitions that it is in.
    """

    kind: HostType
    used: Counter[str]
    closed: tuple[str, ...]
    partitions: frozenset[str]


def read_slurm_nodes(path: str | PathLike[str]) -> tuple[dict[str, SlurmNode], ReadReport]:
    """Read the nodes of a cluster with their states.

    Parameters
    ----------
    path
        What ``scontrol show nodes --json`` printed, plain or gzip.

    Returns
    -------
    dict, ReadReport
        The nodes by name, in the order of the file; and the account.

    Raises
    ------
    InstanceError
        If the file is something else, or holds no node that can be read.
    """
    document = parse_json(read_bytes(path), str(path))
    listed = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise InstanceError(
            f'{path}: has no list "nodes"; take it with scontrol show nodes --json.'
        )
    log = ReportLog()
    log.files.append(str(path))
    found: dict[str, SlurmNode] = {}
    for position, item in enumerate(listed, start=1):
        name = item.get("name") if isinstance(item, dict) else None
        try:
            if not isinstance(name, str) or not name or name in found:
                raise UnreadableRowError("name is missing or appears before")
            found[name] = _node(name, item, log)
        except (UnreadableRowError, InstanceError) as reason:
            log.skip(str(reason), position, f"node {name}")
            continue
        log.rows_read += 1
        if found[name].closed:
            log.alter(f"takes no new jobs: {' and '.join(found[name].closed)}", name)
    if not found:
        raise InstanceError(f"{path}: holds no node that can be read; take it again.")
    return found, log.report()


def _node(name: str, item: Mapping[str, Any], log: ReportLog) -> SlurmNode:
    # Loads every topology format, of which only this one part is needed.
    from alloc.instances.topologies.place import Place
    from alloc.instances.topologies.slurm_nodes import SlurmNodes

    cpus = _whole(item, "effective_cpus") or _whole(item, "cpus")
    memory = _whole(item, "real_memory") - _whole(item, "specialized_memory")
    reader = SlurmNodes(log)
    place = Place(f"node {name}")
    values = {"nodename": name, "cpus": str(cpus), "realmemory": str(max(memory, 0))}
    reader.read({**values, "gres": str(item.get("gres") or "")}, place)
    if set(reader.host_types) != {name}:
        raise UnreadableRowError("name is that of several nodes")
    kind = reader.host_types[name]
    # Of other kinds of GRES neither what jobs ask for is read nor what hosts have.
    plain = f"{kind.num_gpus}x{kind.gpu_type}" if kind.num_gpus else "cpu"
    kind = HostType(f"{plain}-{cpus}c-{max(memory, 0)}mib", kind.num_gpus, kind.gpu_type,
                    kind.cpu_milli, kind.memory_mib)  # fmt: skip
    found = [word.rstrip("*#$@+!%-^~") for key in _STATES for word in _words(item.get(key))]
    closed = tuple(word for word in found if word in _CLOSED or word.startswith("POWERING_DOWN"))
    partitions = item.get("partitions")
    return SlurmNode(
        kind,
        Counter(
            # Some versions say only one of the two.
            gpu=max(gpu_cell(str(item.get(key) or ""), key).gpu_milli for key in _USED) // MILLI,
            cpu=_whole(item, "alloc_cpus") * MILLI,
            memory=_whole(item, "alloc_memory"),
        ),
        closed,
        frozenset(map(str, partitions if isinstance(partitions, list) else ())),
    )


def _words(states: Any) -> list[str]:
    """Return states in capitals: of a list, or of a text such as ``idle+drain``."""
    words = states if isinstance(states, list) else str(states or "").split("+")
    return [str(word).upper() for word in words]


def _whole(item: Mapping[str, Any], key: str) -> int:
    value = item.get(key)
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else None
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**40:
        raise UnreadableRowError(f"{key} is no whole number of 0 or more")
    return value


def cluster_of(nodes: Mapping[str, SlurmNode], name: str) -> Topology:
    """Return nodes as a flat cluster, where no file says how they are connected.

    Parameters
    ----------
    nodes
        The nodes by name.
    name
        Name of the topology.
    """
    kinds = {node.kind.name: node.kind for node in nodes.values()}
    hosts = tuple(Host(id, node.kind.name) for id, node in nodes.items())
    return Topology(name, tuple(kinds.values()), hosts)


@dataclass
class NodesLeft:
    """What the jobs of an instance find on nodes that other jobs use too.

    Parameters
    ----------
    nodes
        The nodes by name.
    topology
        The cluster.
    log
        Counts nodes that are left out or closed.
    """

    nodes: Mapping[str, SlurmNode]
    topology: Topology
    log: ReportLog
    held: dict[str, Counter[str]] = field(default_factory=dict)
    """What the jobs of the instance hold on each host."""
    _marked: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.nodes:
            if name not in self.topology.host_index:
                self.log.alter("node is not in the topology and is left out", name)
        kinds: dict[str, HostType] = {}
        hosts = []
        for host in self.topology.hosts:
            node = self.nodes.get(host.id)
            kind = self.topology.host_type(host) if node is None else node.kind
            if node is None:
                self.log.alter("host is not in the list of nodes and takes nothing", host.id)
            elif node.kind.num_gpus == self.topology.host_type(host).num_gpus:
                links = self.topology.host_type(host).links
                kind = replace(kind, links=links)
            kinds.setdefault(kind.name, kind)
            hosts.append(Host(host.id, kind.name, host.domain))
        self.topology = self.topology.replace(host_types=tuple(kinds.values()), hosts=tuple(hosts))

    def is_open(self, host: str) -> bool:
        """Return whether a host takes new jobs."""
        return host in self.nodes and not self.nodes[host].closed

    def partition(
        self, text: str, gpu_types: set[str | None], stands: tuple[str, ...]
    ) -> str | None:
        """Return the resource that says which partitions a job may use, None where none is needed.

        Parameters
        ----------
        text
            Its partitions, with commas.
        gpu_types
            GPU types that it may use; None among them: any.
        stands
            Hosts on which it runs.
        """
        wanted = {part.strip() for part in text.split(",")} - {""}
        could = {
            name
            for name, node in self.nodes.items()
            if not node.closed
            and node.kind.num_gpus
            and (None in gpu_types or node.kind.gpu_type in gpu_types)
        }
        within = {name for name, node in self.nodes.items() if node.partitions & wanted}
        if not wanted or could <= within:
            return None
        name = "_".join(f"partition:{'|'.join(sorted(wanted))}".split())
        self._marked.setdefault(name, set(within)).update(stands)
        return name

    def left(self) -> Topology:
        """Return the cluster with what the jobs of the instance hold, and what is free."""
        kinds: dict[HostType, str] = {}
        names: Counter[str] = Counter()
        hosts = []
        made: list[HostType] = []
        for host in self.topology.hosts:
            kind = self._left(host)
            if kind not in kinds:
                names[kind.name] += 1
                number = names[kind.name]
                kinds[kind] = kind.name if number == 1 else f"{kind.name}.{number}"
                made.append(replace(kind, name=kinds[kind]))
            hosts.append(Host(host.id, kinds[kind], host.domain))
        return self.topology.replace(host_types=tuple(made), hosts=tuple(hosts))

    def _left(self, host: Host) -> HostType:
        kind, own = self.topology.host_type(host), self.held.get(host.id, Counter())
        offers = {"gpu": kind.num_gpus, "cpu": kind.cpu_milli, "memory": kind.memory_mib}
        if self.is_open(host.id):
            used = self.nodes[host.id].used
            # What the node says is used and no job of the instance holds, others hold.
            left = {r: offers[r] - max(used[r] - own[r], 0) for r in offers}
        else:
            left = dict.fromkeys(offers, 0)
        left = {r: max(left[r], own[r]) for r in offers}
        named = {name: max(kind.num_gpus, own["gpu"]) for name, on in self._marked.items()
                 if host.id in on}  # fmt: skip
        count, cpu, memory = left["gpu"], left["cpu"], left["memory"]
        name = f"{count}x{kind.gpu_type}" if count else "cpu"
        return HostType(f"{name}-{cpu / MILLI:g}c-{memory}mib", count,
                        kind.gpu_type if count else None, cpu, memory,
                        kind.links if count == kind.num_gpus else (),
                        {n: a for n, a in named.items() if a})  # fmt: skip


def read_slurm_accounts(
    path: str | PathLike[str], cluster_gpus: int
) -> tuple[tuple[Tenant, ...], ReadReport]:
    """Read the limits of accounts on GPUs as quotas of tenants.

    Parameters
    ----------
    path
        What ``sacctmgr show associations format=account,user,grptres --parsable2`` printed, plain
        or gzip.
    cluster_gpus
        GPUs of the cluster: a limit above limits nothing.

    Raises
    ------
    InstanceError
        If the file is something else.
    """
    from alloc.documents.files import require_plain

    data = read_bytes(path)
    require_plain(data, str(path))
    lines = data.decode("utf-8-sig", errors="replace").splitlines()
    header = [name.strip().lower() for name in (lines[0] if lines else "").split("|")]
    if not {"account", "grptres"} <= set(header):
        raise InstanceError(
            f"{path}: has no columns Account and GrpTRES; take it with sacctmgr show associations "
            "format=account,user,grptres --parsable2."
        )
    log = ReportLog()
    log.files.append(Path(path).name)
    found: dict[str, Tenant] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = dict(zip(header, (cell.strip() for cell in line.split("|")), strict=False))
        account, limit = cells.get("account", ""), cells.get("grptres", "")
        log.rows_read += 1
        if cells.get("user"):
            if limit:
                log.drop("limit of a user, which is not read", f"{account}/{cells['user']}")
            continue
        try:
            known = "gpu" in limit
            gpus = gpu_cell(limit, "grptres").gpu_milli if known else 0
        except UnreadableRowError as reason:
            log.skip(str(reason), number, line)
            continue
        if cells.get("parentname") not in (None, "", "root") and known:
            log.alter("account lies in another, whose limit is not applied to it", account)
        if known and account in found:
            log.skip("account appears before", number, line)
        elif known:
            found[account] = Tenant(account, min(gpus, cluster_gpus * MILLI))
    return tuple(found.values()), log.report()
