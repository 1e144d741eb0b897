"""How data travels in a topology.

Links that are stated carry data at their bandwidth, in either direction. Containment carries data
without limit, but only where no link says otherwise:

- a host or domain with links to the outside is reached over these links, not through its parent;
- two devices of a host that are wired or plugged in meet over links, not through the host as a
  whole;
- data leaves a host at any device or link that is plugged into the network; from another device it
  gets there over the links between the two or, where there are none, without limit;
- hosts pass nothing on: a way between two hosts leads through no third.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.topology.host import HostType
from alloc.topology.topology import Topology

if TYPE_CHECKING:
    import networkx as nx  # it takes as long to load as all of `alloc.topology`

_UNLIMITED = float("inf")

# Of a node, its neighbours and the bandwidth to each, GB/s.
_Arcs = Mapping[str, list[tuple[str, float]]]


class Network:
    """The ways through a topology, made ready once for many questions.

    Parameters
    ----------
    topology
        The cluster.

    Examples
    --------
    >>> from alloc.topology import dgx_h100, leaf_spine
    >>> network = Network(leaf_spine(dgx_h100(), 2, 2, num_spines=2))
    >>> network.bandwidth("host-0/gpu0", "host-0/gpu7"), network.bandwidth("host-0", "host-1")
    (450.0, 50.0)
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._parts = {kind.name: _wired_parts(kind) for kind in topology.host_types}
        self._parent_of = {domain.id: domain.parent for domain in topology.domains}
        # Between nodes outside hosts.
        self._fabric: dict[str, list[tuple[str, float]]] = defaultdict(list)
        # Of each host, its links to the outside: own node, node outside, bandwidth.
        self._plugs: dict[int, list[tuple[str, str, float]]] = defaultdict(list)
        self._add_links()
        self._add_containment()

    def bandwidth(self, a: str, b: str) -> float:
        """Return the bandwidth of the widest single way between two nodes, GB/s in one direction.

        Parameters
        ----------
        a, b
            Ids of hosts, of domains, of devices in hosts (``"host-3/gpu0"``) or of other nodes that
            links name. A host stands for whichever of its devices is best placed.

        Returns
        -------
        float
            Infinite if no link on the way sets a limit, 0 if there is no way.

        Raises
        ------
        InstanceError
            If a node is not in the topology.
        """
        h, k = self._host_of(a), self._host_of(b)
        for node, host in ((a, h), (b, k)):
            self._require_node(node, host)
        if a == b:
            return _UNLIMITED
        if h is not None and h == k:
            return self._bandwidth_inside(h, a, b)
        reached = _widest(self._fabric, self._outside(h, a))
        return max(
            (min(width, reached.get(node, 0.0)) for node, width in self._outside(k, b).items()),
            default=0.0,
        )

    def ports(self) -> list[dict[str, float]]:
        """Return for each host the nodes outside that it is joined to, and how wide, GB/s."""
        hosts = self._topology.hosts
        return [self._outside(h, host.id) for h, host in enumerate(hosts)]

    def widest_between(self, nodes: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the widest ways between nodes outside hosts, GB/s, shape (n, n).

        Unlimited on the diagonal, 0 where there is no way. A largest spanning forest has the
        widest way between any two of its nodes (Hu 1961), so links are joined widest first.
        """
        widths = np.zeros((len(nodes), len(nodes)))
        np.fill_diagonal(widths, _UNLIMITED)
        own = {node: k for k, node in enumerate(nodes)}
        part = {node: node for node in {*self._fabric, *nodes}}
        members = {node: [own[node]] if node in own else [] for node in part}
        links = ((w, a, b) for a, arcs in self._fabric.items() for b, w in arcs)
        for width, a, b in sorted(links, reverse=True):
            a, b = _root(part, a), _root(part, b)
            if a == b:
                continue
            for here, there in ((members[a], members[b]), (members[b], members[a])):
                for k in here:
                    widths[k, there] = width
            part[b] = a
            members[a] += members.pop(b)
        return widths

    def leaving(self) -> dict[str, float]:
        """Return the bandwidth of all links that leave a host or domain, GB/s, where any does."""
        found: dict[str, float] = {}
        for link in self._topology.links:
            ends = [
                {*self._held_by(end), *((host,) if (host := self._host_id(end)) else ())}
                for end in (link.a, link.b)
            ]
            for node in ends[0] ^ ends[1]:
                found[node] = found.get(node, 0.0) + link.bandwidth_gb_per_s
        return found

    def _host_id(self, node: str) -> str | None:
        h = self._host_of(node)
        return None if h is None else self._topology.hosts[h].id

    def bisection_bandwidth(self) -> float:
        """Return the most that the first half of the hosts can send to the second half, GB/s.

        See `alloc.topology.bisection_bandwidth`.
        """
        topology = self._topology
        if topology.num_hosts < 2:
            raise InstanceError(
                f'topology "{topology.name}": has one host; a bisection needs at least two.'
            )
        half = topology.num_hosts // 2
        ids = [host.id for host in topology.hosts]
        return self.flow(ids[:half], ids[half:])

    def flow(self, senders: Iterable[str], receivers: Iterable[str]) -> float:
        """Return the most that some hosts together can send to others, GB/s.

        A maximum flow over the links of the fabric; what happens inside hosts does not limit it.

        Parameters
        ----------
        senders, receivers
            Ids of hosts, none in both.

        Returns
        -------
        float
            Infinite if no link sets a limit, 0 if nothing joins them.

        Raises
        ------
        InstanceError
            If a host is not in the topology.
        """
        import networkx as nx

        source, sink = ("source",), ("sink",)
        flow = nx.DiGraph()
        flow.add_nodes_from((source, sink))
        for hosts, sends in ((senders, True), (receivers, False)):
            for host in hosts:
                if host not in self._topology.host_index:
                    known = nearest(host, self._topology.host_index)
                    raise InstanceError(
                        f'topology "{self._topology.name}" has no host "{host}"{known}'
                    )
                for _, node, width in self._plugs.get(self._topology.host_index[host], ()):
                    ends = (source, node) if sends else (node, sink)
                    _widen(flow, ends[0], ends[1], width)
        for node, neighbours in self._fabric.items():
            for other, width in neighbours:
                _widen(flow, node, other, width)
        try:
            return float(nx.maximum_flow_value(flow, source, sink, capacity="gb_per_s"))
        except nx.NetworkXUnbounded:
            return _UNLIMITED

    def _host_of(self, node: str) -> int | None:
        """Return the position of the host that a node is or lies in, or None."""
        index = self._topology.host_index
        if node in index:
            return index[node]
        # An id may hold a slash itself, so the name of the device is what follows the last one.
        return index.get(node.rpartition("/")[0])

    def _add_links(self) -> None:
        for link in self._topology.links:
            width = link.bandwidth_gb_per_s
            h, k = self._host_of(link.a), self._host_of(link.b)
            if h is None and k is None:
                self._fabric[link.a].append((link.b, width))
                self._fabric[link.b].append((link.a, width))
            elif h is not None and k is not None:
                # A cable from host to host: a node of its own outside both.
                cable = f"{link.a} to {link.b}"
                self._plugs[h].append((link.a, cable, width))
                self._plugs[k].append((link.b, cable, width))
            elif h is not None:
                self._plugs[h].append((link.a, link.b, width))
            elif k is not None:
                self._plugs[k].append((link.b, link.a, width))

    def _add_containment(self) -> None:
        """Join hosts and domains to what holds them, unless they have links to the outside."""
        topology = self._topology
        leaves_by_link: set[str] = set()
        for link in topology.links:
            leaves_by_link.update(set(self._held_by(link.a)) ^ set(self._held_by(link.b)))
        for domain in topology.domains:
            if domain.parent is not None and domain.id not in leaves_by_link:
                self._fabric[domain.id].append((domain.parent, _UNLIMITED))
                self._fabric[domain.parent].append((domain.id, _UNLIMITED))
        for h, host in enumerate(topology.hosts):
            if host.domain is not None and h not in self._plugs:
                self._plugs[h].append((host.id, host.domain, _UNLIMITED))

    def _held_by(self, node: str) -> Iterator[str]:
        """Yield the domains that a node is or lies in, innermost first."""
        h = self._host_of(node)
        domain = node if h is None else self._topology.hosts[h].domain
        while domain is not None and domain in self._parent_of:
            yield domain
            domain = self._parent_of[domain]

    def _outside(self, h: int | None, node: str) -> dict[str, float]:
        """Return the nodes outside hosts that data from a node comes out at, and how wide."""
        if h is None:
            return {node: _UNLIMITED}
        arcs = self._wires(h)
        host = self._topology.hosts[h]
        parts = self._parts[host.type]
        start = parts.get(node.rpartition("/")[2]) if node != host.id else None
        if node != host.id and start is None:
            arcs[node].append((host.id, _UNLIMITED))
        for device, part in parts.items():
            own = f"{host.id}/{device}"
            # Up to the host from where data starts, down from it elsewhere: no way leads up and
            # down again within one wired part.
            if part == start:
                arcs[own].append((host.id, _UNLIMITED))
            else:
                arcs[host.id].append((own, _UNLIMITED))
        for own, _, _ in self._plugs.get(h, ()):
            if own != host.id and own.rpartition("/")[2] not in parts:
                arcs[host.id].append((own, _UNLIMITED))
        reached = _widest(arcs, {node: _UNLIMITED})
        ways: dict[str, float] = {}
        for own, outside, width in self._plugs.get(h, ()):
            ways[outside] = max(ways.get(outside, 0.0), min(width, reached.get(own, 0.0)))
        return ways

    def _bandwidth_inside(self, h: int, a: str, b: str) -> float:
        """Return the bandwidth between a host and its device, or between two of its devices."""
        host = self._topology.hosts[h]
        arcs = self._wires(h)
        plugged = {own for own, _, _ in self._plugs.get(h, ())}
        if host.id in (a, b) or any(end not in arcs and end not in plugged for end in (a, b)):
            return _UNLIMITED
        inner = _widest(arcs, {a: _UNLIMITED})
        # The way over the network, for hosts whose devices are plugged in one by one.
        out: dict[str, float] = {}
        for own, outside, width in self._plugs.get(h, ()):
            if own != host.id:
                out[outside] = max(out.get(outside, 0.0), min(width, inner.get(own, 0.0)))
        reached = _widest(self._fabric, out)
        back = _widest(arcs, {b: _UNLIMITED})
        around = (
            min(width, back.get(own, 0.0), reached.get(outside, 0.0))
            for own, outside, width in self._plugs.get(h, ())
            if own != host.id
        )
        return max(inner.get(b, 0.0), *around, 0.0)

    def _wires(self, h: int) -> dict[str, list[tuple[str, float]]]:
        """Return the links between the devices of a host."""
        host = self._topology.hosts[h]
        arcs: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for link in self._topology.host_type(host).links:
            x, y = f"{host.id}/{link.a}", f"{host.id}/{link.b}"
            arcs[x].append((y, link.bandwidth_gb_per_s))
            arcs[y].append((x, link.bandwidth_gb_per_s))
        return arcs

    def _require_node(self, node: str, h: int | None) -> None:
        topology = self._topology
        if node in topology.host_index or node in self._fabric or node in self._parent_of:
            return
        outside: Iterable[str] = (*topology.host_index, *self._parent_of, *self._fabric)
        if h is not None:
            host = topology.hosts[h]
            plugged = {own for own, _, _ in self._plugs.get(h, ())}
            devices = {f"{host.id}/{device}" for device in self._parts[host.type]} | plugged
            if node in devices:
                return
            outside = sorted(devices)
        elif any(node == end for plugs in self._plugs.values() for _, end, _ in plugs):
            return
        raise InstanceError(
            f'topology "{topology.name}" has no node "{node}"{nearest(node, outside)}'
        )


def _wired_parts(kind: HostType) -> dict[str, int]:
    """Return for each device of a host the number of the part of devices it is wired to."""
    import networkx as nx

    wires = nx.Graph()
    wires.add_nodes_from(f"gpu{g}" for g in range(kind.num_gpus))
    wires.add_edges_from((link.a, link.b) for link in kind.links)
    return {
        device: part
        for part, devices in enumerate(nx.connected_components(wires))
        for device in devices
    }


def _widest(arcs: _Arcs, start: Mapping[str, float]) -> dict[str, float]:
    """Return the widest way from the start to each node that it reaches (Dijkstra's order)."""
    best = {node: width for node, width in start.items() if width > 0}
    queue = [(-width, node) for node, width in best.items()]
    heapq.heapify(queue)
    while queue:
        negative, node = heapq.heappop(queue)
        if -negative < best[node]:
            continue
        for other, link in arcs.get(node, ()):
            width = min(-negative, link)
            if width > best.get(other, 0.0):
                best[other] = width
                heapq.heappush(queue, (-width, other))
    return best


def _root(part: dict[str, str], node: str) -> str:
    """Return the node that stands for a node's part, and shorten the way to it."""
    while part[node] != node:
        part[node] = part[part[node]]
        node = part[node]
    return node


def _widen(flow: nx.DiGraph, a: object, b: object, width: float) -> None:
    """Add bandwidth to an arc of a flow network."""
    have = flow.get_edge_data(a, b, {"gb_per_s": 0.0})["gb_per_s"]
    flow.add_edge(a, b, gb_per_s=have + width)
