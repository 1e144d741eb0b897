"""The fabric of one job: how fast the GPUs of its placement reach each other in a topology.

Inside a host, two GPUs reach each other over the widest way that leads through no other GPU: GPUs
do not relay. Between hosts the way is that of `alloc.topology.network`. Where the bandwidths inside
every host make nested islands (one NVSwitch; PCIe under sockets), the fabric is a tree of domains;
where they do not (NVLinks between some pairs, as in a hybrid cube mesh), it is a matrix of pairs.

In the tree, the bandwidth of a level is the least of

- what two GPUs of neighbouring children of its domains get alone: the widest single way or, between
  hosts, their share of the ways side by side, at most what their ports carry; and
- for levels above the host, a GPU's share when as many pairs as there can be send at the same time
  from one child of the domain to the others: the maximum flow over the number of pairs. This is
  where oversubscription shows. A topology that states no links at all, as most files of schedulers
  do, is taken not to block: a GPU gets its share of its host's NICs.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.topology.communication import (
    Array,
    CommunicationGraph,
    CommunicationTree,
    Fabric,
    Indices,
    require_gpus,
)
from alloc.topology.host import HostType
from alloc.topology.machines import nics_of
from alloc.topology.network import Network
from alloc.topology.topology import HOST, Topology
from alloc.units import require_non_negative

HOST_LATENCY_S = 3e-6
"""Latency between GPUs of a host, seconds: the size of it; measure yours with nccl-tests."""
NETWORK_LATENCY_S = 8e-6
"""Latency between hosts that meet on the innermost level of domains, seconds."""
HOP_LATENCY_S = 2e-6
"""What each further level adds, seconds."""

CLUSTER = "cluster"
"""Name of the level that joins GPUs which share no domain."""
ISLAND = "island"
"""Name of levels inside a host."""


def all_gpus(topology: Topology) -> tuple[str, ...]:
    """Return the ids of all GPUs, in the order of the hosts."""
    return tuple(
        f"{host.id}/gpu{g}"
        for host in topology.hosts
        for g in range(topology.host_type(host).num_gpus)
    )


def job_fabric(
    topology: Topology,
    gpus: Sequence[str] | None = None,
    latency_s: Mapping[str, float] | None = None,
    bandwidth_gb_per_s: Mapping[str, float] | None = None,
) -> Fabric:
    """Return the fabric of a job: a tree if the hosts' wiring allows, else a graph.

    Parameters
    ----------
    topology
        The cluster.
    gpus
        Ids of the GPUs of the placement (``"host-3/gpu0"``), or None for all.
    latency_s
        Latency by level, seconds, for levels that should not have the default.
    bandwidth_gb_per_s
        Bandwidth by level, GB/s, where it was measured or the topology states no links; only for
        trees.

    Raises
    ------
    InstanceError
        If a GPU or level is not in the topology, or GPUs have no way to each other.
    """
    return _Reading(topology, gpus, latency_s, bandwidth_gb_per_s).fabric()


def communication_graph(
    topology: Topology,
    gpus: Sequence[str] | None = None,
    latency_s: Mapping[str, float] | None = None,
) -> CommunicationGraph:
    """Return the bandwidth of every pair of GPUs, each way taken alone; see `job_fabric`.

    Parameters
    ----------
    topology
        The cluster.
    gpus
        Ids of the GPUs of one job, or None for all.
    latency_s
        Latency by level, seconds, for levels that should not have the default.
    """
    return _Reading(topology, gpus, latency_s).graph()


class _Reading:
    """One reading of a topology."""

    def __init__(
        self,
        topology: Topology,
        gpus: Sequence[str] | None,
        latency_s: Mapping[str, float] | None,
        bandwidth_gb_per_s: Mapping[str, float] | None = None,
    ) -> None:
        self.topology = topology
        self.gpus = tuple(gpus) if gpus is not None else all_gpus(topology)
        require_gpus(self.gpus)
        self.where = f'topology "{topology.name}"'
        places = [self._place(gpu) for gpu in self.gpus]
        self.host = np.array([h for h, _ in places], dtype=np.int64)
        self.slot = np.array([g for _, g in places], dtype=np.int64)
        self.network = Network(topology)
        self.given = dict(latency_s or {})
        self.measured = dict(bandwidth_gb_per_s or {})
        known = (CLUSTER, *topology.levels, HOST, ISLAND)
        for level, value in (*self.given.items(), *self.measured.items()):
            if level not in known:
                raise InstanceError(
                    f'{self.where}: latency or bandwidth is given for level "{level}"'
                    f"{nearest(level, known, ';')} known: {', '.join(known)}."
                )
            require_non_negative(value, self.where, f"latency or bandwidth of {level}")
        self._wide: dict[tuple[object, ...], float] = {}
        # Of each host type, the bandwidth between its GPUs.
        self.inside = {kind.name: _inside(kind) for kind in topology.host_types}

    def _place(self, gpu: str) -> tuple[int, int]:
        host, _, device = gpu.rpartition("/")
        index = self.topology.host_index
        if host not in index:
            raise InstanceError(
                f'{self.where}: GPU "{gpu}" is in no host of it{nearest(host, index, ";")} name '
                'GPUs like "host-3/gpu0".'
            )
        kind = self.topology.host_type(self.topology.hosts[index[host]])
        number = device.removeprefix("gpu")
        if not (device.startswith("gpu") and number.isdigit() and int(number) < kind.num_gpus):
            raise InstanceError(
                f'{self.where}: host "{host}" has no GPU "{device}"; it has {kind.num_gpus}, '
                "gpu0 and so on."
            )
        return index[host], int(number)

    def fabric(self) -> Fabric:
        if self._wired_outside.intersection(self.hosts()):
            inner: dict[int, Array] = {h: self._pairs_of(h) for h in self.hosts()}
        else:
            inner = {h: self._held(h) for h in self.hosts()}
        if not all(_is_nested(matrix) for matrix in inner.values()):
            return self.graph()
        return self._tree(inner)

    def hosts(self) -> list[int]:
        return [int(h) for h in np.unique(self.host)]

    @cached_property
    def _wired_outside(self) -> set[int]:
        """The hosts whose GPUs are plugged into the fabric themselves, as in an NVL72."""
        index = self.topology.host_index
        found = set()
        for link in self.topology.links:
            for end in (link.a, link.b):
                host, _, device = end.rpartition("/")
                if device.startswith("gpu") and host in index:
                    found.add(index[host])
        return found

    def _held(self, h: int) -> Array:
        """Return the bandwidths between the job's GPUs of a host."""
        slots = self.slot[self.host == h]
        return self.inside[self.topology.hosts[h].type][np.ix_(slots, slots)]

    def _pairs_of(self, h: int) -> Array:
        held = [self.gpus[k] for k in np.flatnonzero(self.host == h)]
        matrix = self._held(h).copy()
        for i, a in enumerate(held):
            for j, b in enumerate(held[:i]):
                width = max(matrix[i, j], self.network.bandwidth(a, b))
                matrix[i, j] = matrix[j, i] = width
        return matrix

    def graph(self) -> CommunicationGraph:
        n = len(self.gpus)
        width, wait = np.full((n, n), np.inf), np.zeros((n, n))
        for h in self.hosts():
            held = np.flatnonzero(self.host == h)
            outside = h in self._wired_outside
            width[np.ix_(held, held)] = self._pairs_of(h) if outside else self._held(h)
        depth, names = self._meeting()
        for i in range(n):
            for j in range(i):
                if self.host[i] != self.host[j]:
                    width[i, j] = width[j, i] = self.network.bandwidth(self.gpus[i], self.gpus[j])
        waits = np.array([self._latency(name, len(names) - 1 - k) for k, name in enumerate(names)])
        wait = waits[depth]
        return CommunicationGraph(self.gpus, width, wait)

    def _columns(self) -> tuple[list[str], Indices]:
        """Return the levels down to the host, and the domain of each GPU at each level."""
        topology = self.topology
        names, columns = [CLUSTER], [np.zeros(len(self.gpus), dtype=np.int64)]
        for level in (*topology.levels, HOST):
            domain = topology.domain_of_host[level][self.host]
            # A host outside all domains of a level is a domain of its own there.
            alone = len(topology.domains) + topology.num_hosts + self.host
            names.append(level)
            columns.append(np.where(domain < 0, alone, domain))
        return names, np.stack(columns, axis=1)

    def _meeting(self) -> tuple[Indices, list[str]]:
        """Return the level at which each pair of GPUs meets, and the names of the levels."""
        names, columns = self._columns()
        same = columns[:, None, :] == columns[None, :, :]
        # Inner levels count only where all outer ones agree.
        return np.cumprod(same, axis=2).sum(axis=2) - 1, names

    def _latency(self, name: str, above_host: int) -> float:
        if name in self.given:
            return self.given[name]
        if above_host <= 0:
            return HOST_LATENCY_S
        return NETWORK_LATENCY_S + HOP_LATENCY_S * (above_host - 1)

    def _tree(self, inner: Mapping[int, Array]) -> CommunicationTree:
        names, columns = self._columns()
        paths = _numbered(columns)
        widths, waits, kept = [], [], []
        for level, name in enumerate(names[:-1]):
            children = _neighbours(paths[:, level], paths[:, level + 1])
            if not children:
                continue  # nobody meets here
            given = self.measured.get(name)
            widths.append(self._level_bandwidth(paths, level, children) if given is None else given)
            waits.append(self._latency(name, len(names) - 1 - level))
            kept.append((name, paths[:, level]))
        for name, domains, width in self._islands(paths[:, -1], inner):
            widths.append(self.measured.get(name.partition("-")[0], width))
            waits.append(self.given.get(name.partition("-")[0], self._latency(HOST, 0)))
            kept.append((name, domains))
        # A way through an outer domain passes the inner ones.
        bandwidth = np.minimum.accumulate(np.array(widths)[::-1])[::-1]
        latency = np.maximum.accumulate(np.array(waits)[::-1])[::-1]
        return CommunicationTree(
            self.gpus,
            tuple(name for name, _ in kept),
            np.stack([domains for _, domains in kept], axis=1),
            bandwidth,
            latency,
        )

    def _level_bandwidth(
        self, paths: Indices, level: int, pairs: Sequence[tuple[int, int]]
    ) -> float:
        """Return what a GPU gets towards others that it meets at a level above the host."""
        width = min(self._pair_bandwidth(a, b) for a, b in pairs)
        if not self.topology.links:
            return min(width, self._share_of_nics())
        seen: set[tuple[object, ...]] = set()
        for domain in np.unique(paths[:, level]).tolist():
            members = paths[:, level] == domain
            for child in np.unique(paths[members, level + 1]).tolist():
                own = members & (paths[:, level + 1] == child)
                other = members & ~own
                if not other.any():
                    continue
                looks = (self._looks(own), self._looks(other))
                if looks in seen:
                    continue  # alike in all that the flow depends on
                seen.add(looks)
                flow = self.network.flow(self._ids(own), self._ids(other))
                width = min(width, flow / min(int(own.sum()), int(other.sum())))
        return width

    def _pair_bandwidth(self, a: int, b: int) -> float:
        """Return what GPUs of two hosts get when these two hosts alone send, each to its own."""
        one, other = self.gpus[a], self.gpus[b]
        width = self.network.bandwidth(one, other)
        if width == 0:
            raise InstanceError(
                f'{self.where}: nothing joins "{one}" and "{other}"; one job needs GPUs that reach '
                "each other."
            )
        plugs, _ = self._ports
        ends = [plugs[int(self.host[k])] for k in (a, b)]
        if not all(ends) or width >= min(max(w for _, w in own) for own in ends):
            return width
        # Narrower than the ports: many links of the fabric side by side may carry it.
        key = (width, *(self._looks(self.host == self.host[k]) for k in (a, b)))
        if key not in self._wide:
            exits = [
                max(self.network.bandwidth(gpu, end) for end, _ in own)
                for gpu, own in zip((one, other), ends, strict=True)
            ]
            sides = [self.host == self.host[k] for k in (a, b)]
            flow = self.network.flow(self._ids(sides[0]), self._ids(sides[1]))
            share = flow / min(int(side.sum()) for side in sides)
            self._wide[key] = max(width, min(share, *exits))
        return self._wide[key]

    def _share_of_nics(self) -> float:
        """Return what a GPU gets of its host's NICs, where the topology states no links."""
        share = np.inf
        for h in self.hosts():
            rates = nics_of(self.topology.host_type(self.topology.hosts[h])).values()
            if rates:
                held = int((self.host == h).sum())
                share = min(share, max(rates), sum(rates) / held)
        return share

    def _ids(self, gpus: npt.NDArray[np.bool_]) -> list[str]:
        return [self.topology.hosts[h].id for h in np.unique(self.host[gpus]).tolist()]

    def _looks(self, gpus: npt.NDArray[np.bool_]) -> tuple[object, ...]:
        """Return what tells sets of hosts apart: their number, GPUs, ports and the uplinks next."""
        hosts = np.unique(self.host[gpus]).tolist()
        plugs, uplinks = self._ports
        ends = sorted({end for h in hosts for end, _ in plugs[h]})
        return (
            len(hosts),
            int(gpus.sum()),
            tuple(sorted(width for h in hosts for _, width in plugs[h])),
            tuple(sorted(width for end in ends for width in uplinks[end])),
        )

    @cached_property
    def _ports(self) -> tuple[dict[int, list[tuple[str, float]]], dict[str, list[float]]]:
        """The links out of each host, and the further links of the nodes they end at."""
        index = self.topology.host_index
        plugs: dict[int, list[tuple[str, float]]] = defaultdict(list)
        uplinks: dict[str, list[float]] = defaultdict(list)
        for link in self.topology.links:
            owners = [index.get(e, index.get(e.rpartition("/")[0])) for e in (link.a, link.b)]
            ends = (link.a, link.b)
            for k in (0, 1):
                owner, other = owners[k], owners[1 - k]
                if owner is not None:
                    plugs[owner].append((ends[1 - k], link.bandwidth_gb_per_s))
                elif other is None:
                    uplinks[ends[k]].append(link.bandwidth_gb_per_s)
        return plugs, uplinks

    def _islands(
        self, host_of_gpu: Indices, inner: Mapping[int, Array]
    ) -> Iterable[tuple[str, Indices, float]]:
        """Yield the host level and the levels inside hosts: name, domains, bandwidth."""
        steps = {h: np.unique(m[~np.eye(len(m), dtype=bool)]) for h, m in inner.items()}
        depth = max((len(values) for values in steps.values()), default=0)
        if depth == 0:
            if len(self.gpus) == 1:
                yield HOST, host_of_gpu, np.inf
            return
        for k in range(depth):
            domains = np.zeros(len(self.gpus), dtype=np.int64)
            width = np.inf
            for h, matrix in inner.items():
                held = np.flatnonzero(self.host == h)
                values = steps[h]
                if len(values):
                    # Hosts with fewer steps repeat their last one.
                    least = values[min(k, len(values) - 1)]
                    width = min(width, float(least))
                    island = (matrix >= least).argmax(axis=1)
                else:
                    island = np.zeros(len(held), dtype=np.int64)
                domains[held] = held[island]
            yield (HOST if k == 0 else f"{ISLAND}-{k}" if k > 1 else ISLAND), domains, width


def _inside(kind: HostType) -> Array:
    """Return the bandwidth between the GPUs of a host, no GPU relaying, GB/s."""
    arcs: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for link in kind.links:
        arcs[link.a].append((link.b, link.bandwidth_gb_per_s))
        arcs[link.b].append((link.a, link.bandwidth_gb_per_s))
    names = [f"gpu{g}" for g in range(kind.num_gpus)]
    matrix = np.full((len(names), len(names)), np.inf)
    for i, start in enumerate(names):
        best = {start: np.inf}
        queue = [(-np.inf, start)]
        while queue:
            negative, node = heapq.heappop(queue)
            if -negative < best[node] or (node != start and node in names):
                continue
            for other, wire in arcs[node]:
                width = min(-negative, wire)
                if width > best.get(other, 0.0):
                    best[other] = width
                    heapq.heappush(queue, (-width, other))
        for j, end in enumerate(names):
            # A GPU that nothing is wired to reaches the others without limit, over the host.
            wired = arcs[start] and arcs[end]
            if i != j and wired:
                matrix[i, j] = best.get(end, 0.0)
    return matrix


def _is_nested(matrix: Array) -> bool:
    """Say whether a way over a third is never wider: then bandwidths make nested islands."""
    if not (matrix > 0).all():
        return False
    third = np.minimum(matrix[:, :, None], matrix[None, :, :])
    n = len(matrix)
    index = np.arange(n)
    third[:, index, index] = 0.0
    third[index, index, :] = 0.0
    return bool((matrix >= third.max(axis=1, initial=0.0) - 1e-12).all())


def _numbered(columns: Indices) -> Indices:
    """Return the columns with domains numbered so that those of different parents differ."""
    return np.stack(
        [
            np.unique(columns[:, : k + 1], axis=0, return_inverse=True)[1].reshape(-1)
            for k in range(columns.shape[1])
        ],
        axis=1,
    )


def _neighbours(domain: Indices, child: Indices) -> list[tuple[int, int]]:
    """Return, for children of the same domain one after the other, a GPU of each."""
    _, first = np.unique(child, return_index=True)
    pairs = []
    last: dict[int, int] = {}
    for gpu in first.tolist():
        above = int(domain[gpu])
        if above in last:
            pairs.append((last[above], gpu))
        last[above] = gpu
    return pairs
