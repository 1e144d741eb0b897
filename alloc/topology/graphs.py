"""Topologies from networkx graphs: the way back from `Topology.graph`, and a way in for others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alloc.errors import InstanceError, nearest
from alloc.topology.host import Domain, GpuLink, Host, HostType, NetworkLink
from alloc.topology.topology import GPU, HOST, RESOURCE, Topology

if TYPE_CHECKING:
    import networkx as nx  # it takes as long to load as all of `alloc.topology`

_DEVICE = "device"
_CONTAINS = "contains"


def from_graph(
    graph: nx.Graph, *, levels: Sequence[str] | None = None, name: str | None = None
) -> Topology:
    """Return the topology that a graph describes; the inverse of `Topology.graph`.

    Parameters
    ----------
    graph
        An undirected graph. Nodes carry ``level``: a domain level, ``"host"``, ``"gpu"`` or
        ``"device"``. Hosts carry ``type`` (name of the host type) and, if they offer any,
        ``cpu_milli``, ``memory_mib`` and other resources as ``"resource:NAME"``, which the graph
        itself carries for the cluster; GPUs carry ``type`` (name of the GPU type). GPUs and other
        devices of a host are named after it: ``"host-3/gpu0"``. Edges carry ``kind``
        (``"contains"``, or the kind of a link; ``"network"`` if left out) and links
        ``bandwidth_gb_per_s``. A host or domain lies in the domain that an edge of kind
        ``"contains"`` joins it to or, without one, in the domain of an outer level that it is
        linked to.
    levels
        Names of the domain levels, outermost first; None takes the graph's attribute ``levels``.
    name
        Name of the topology; None takes the graph's name.

    Returns
    -------
    Topology
        Hosts, domains and links in the order of the graph.

    Raises
    ------
    InstanceError
        If a level is unknown, levels do not nest, something lies in two domains, containment has a
        cycle, hosts of one type differ, or the graph falls into pieces although it has domains or
        network links.
    """
    return _Reader(graph, levels, name).read()


def _resources(attributes: Mapping[Any, Any]) -> dict[str, int]:
    """Return the named resources among the attributes of a node or a graph."""
    return {
        key.removeprefix(RESOURCE): value
        for key, value in attributes.items()
        if isinstance(key, str) and key.startswith(RESOURCE)
    }


class _Reader:
    """One reading of a graph."""

    def __init__(self, graph: nx.Graph, levels: Sequence[str] | None, name: str | None) -> None:
        self.name = name or graph.name or "graph"
        self.where = f'graph "{self.name}"'
        if graph.is_directed() or graph.is_multigraph():
            raise InstanceError(
                f"{self.where}: is directed or has parallel edges; give a plain networkx.Graph."
            )
        stated = levels if levels is not None else graph.graph.get("levels")
        if stated is None:
            raise InstanceError(
                f"{self.where}: says no levels; pass levels=, outermost first, "
                'for example ("pod", "leaf").'
            )
        self.graph = graph
        self.levels = tuple(level for level in stated if level not in (HOST, GPU))
        self._levels: dict[str, str] = dict(graph.nodes(data="level"))
        self.rank = {level: k for k, level in enumerate((*self.levels, HOST))}

    def read(self) -> Topology:
        known = (*self.levels, HOST, GPU, _DEVICE)
        for node, level in self._levels.items():
            if not isinstance(node, str):
                raise InstanceError(
                    f"{self.where}: node {node!r} is not named by a string; relabel it, "
                    "for example with networkx.relabel_nodes(graph, str)."
                )
            if level not in known:
                raise InstanceError(
                    f'{self.where}: node "{node}" is on level "{level}", which is not in levels'
                    f"{nearest(str(level), known)}"
                )
        host_ids = [node for node in self.graph if self.level(node) == HOST]
        self.owner = {node: self.host_of(node) for node in self.graph}
        parents = {node: self.parent(node) for node in self.graph if self.level(node) in self.rank}
        self.require_no_cycle()
        domains = tuple(
            Domain(node, self.level(node), parents[node])
            for node in self.graph
            if self.level(node) in self.levels
        )
        wires, links = self.links()
        self.require_connected(bool(domains or links))
        types = self.host_types(host_ids, wires)
        hosts = tuple(
            Host(node, self.graph.nodes[node]["type"], parents[node]) for node in host_ids
        )
        own = _resources(self.graph.graph)
        return Topology(self.name, types, hosts, self.levels, domains, links, own)

    def level(self, node: str) -> str:
        return self._levels[node]

    def host_of(self, node: str) -> str | None:
        """Return the host that a node is or lies in; None for domains and switches."""
        if self.level(node) == HOST:
            return node
        host = str(node).rpartition("/")[0]
        inside = host in self.graph and self.level(host) == HOST
        if self.level(node) == GPU and not inside:
            raise InstanceError(
                f'{self.where}: GPU "{node}" is not named after a host; '
                'name it like "host-3/gpu0", where "host-3" is a host.'
            )
        return host if inside and self.level(node) in (GPU, _DEVICE) else None

    def parent(self, node: str) -> str | None:
        """Return the domain that a host or domain lies in."""
        contains: list[str] = []
        linked: list[str] = []
        for other, data in self.graph[node].items():
            if self.level(other) not in self.levels:
                continue
            kind = data.get("kind", "network")
            if kind == _CONTAINS and self.level(other) == self.level(node):
                raise InstanceError(
                    f'{self.where}: "{node}" and "{other}" contain each other, both on level '
                    f'"{self.level(node)}"; levels do not nest, so put one on an outer level.'
                )
            if self.rank[self.level(other)] < self.rank[self.level(node)]:
                (contains if kind == _CONTAINS else linked).append(other)
        candidates = contains or linked
        by_level = defaultdict(list)
        for other in candidates:
            by_level[self.level(other)].append(other)
        for level, others in by_level.items():
            if len(others) > 1:
                raise InstanceError(
                    f'{self.where}: {self.level(node)} "{node}" lies in two domains of level '
                    f'"{level}", "{others[0]}" and "{others[1]}"; it can lie in one, so mark that '
                    'edge with kind="contains" and no other.'
                )
        # Linked to its leaf and also, say, to its pod: it lies in the innermost.
        return max(candidates, key=lambda other: self.rank[self.level(other)], default=None)

    def require_no_cycle(self) -> None:
        import networkx as nx

        contains = nx.Graph()
        for a, b, kind in self.graph.edges(data="kind"):
            if kind == _CONTAINS and self.level(a) in self.rank and self.level(b) in self.rank:
                contains.add_edge(a, b)
        try:
            cycle = [a for a, _ in nx.find_cycle(contains)] if contains else []
        except nx.NetworkXNoCycle:
            return
        if cycle:
            raise InstanceError(
                f"{self.where}: containment has a cycle, {' - '.join(map(str, cycle))}; "
                "a domain lies in one parent, so remove one of these edges."
            )

    def links(self) -> tuple[dict[str, list[GpuLink]], tuple[NetworkLink, ...]]:
        """Return the links inside each host and the links of the fabric."""
        wires: dict[str, list[GpuLink]] = defaultdict(list)
        fabric = []
        for a, b, data in self.graph.edges(data=True):
            kind = data.get("kind", "network")
            if kind == _CONTAINS:
                self.require_one_host(a, b)
                continue
            if "bandwidth_gb_per_s" not in data:
                raise InstanceError(
                    f'{self.where}: edge "{a}" - "{b}" has no bandwidth_gb_per_s; '
                    'give it in GB/s, or mark the edge with kind="contains".'
                )
            width = data["bandwidth_gb_per_s"]
            host = self.owner[a]
            if host is not None and host == self.owner[b] and kind != "network":
                devices = [str(end)[len(host) + 1 :] for end in (a, b)]
                wires[host].append(GpuLink(devices[0], devices[1], kind, width))
            else:
                fabric.append(NetworkLink(a, b, width))
        return wires, tuple(fabric)

    def require_one_host(self, a: str, b: str) -> None:
        """Refuse containment of a device in a host that it is not named after."""
        for node, other in ((a, b), (b, a)):
            if self.level(node) in (GPU, _DEVICE) and self.owner[node] != self.owner[other]:
                raise InstanceError(
                    f'{self.where}: {self.level(node)} "{node}" is contained in "{other}"; only '
                    'devices of a host are contained, and are named after it: "host-3/gpu0".'
                )

    def host_types(
        self, host_ids: list[str], wires: dict[str, list[GpuLink]]
    ) -> tuple[HostType, ...]:
        gpus: dict[str, list[str]] = defaultdict(list)
        for node, host in self.owner.items():
            if host is not None and self.level(node) == GPU:
                gpus[host].append(node)
        types: dict[str, HostType] = {}
        for host in host_ids:
            kind = self.host_type(host, gpus[host], tuple(wires[host]))
            if types.setdefault(kind.name, kind) != kind:
                raise InstanceError(
                    f'{self.where}: host "{host}" is of type "{kind.name}" but differs from the '
                    "first host of that type in devices, links or resources; name its type anew."
                )
        return tuple(types.values())

    def host_type(self, host: str, gpus: list[str], links: tuple[GpuLink, ...]) -> HostType:
        data = self.graph.nodes[host]
        if "type" not in data:
            raise InstanceError(
                f'{self.where}: host "{host}" has no type; give it the node attribute "type".'
            )
        if set(gpus) != {f"{host}/gpu{g}" for g in range(len(gpus))}:
            raise InstanceError(
                f'{self.where}: the GPUs of host "{host}" are {", ".join(sorted(gpus))}; '
                f"number them {host}/gpu0, {host}/gpu1 and so on."
            )
        kinds = {self.graph.nodes[gpu].get("type", "generic") for gpu in gpus}
        if len(kinds) > 1:
            raise InstanceError(
                f'{self.where}: host "{host}" has GPUs of types {", ".join(sorted(kinds))}; '
                "a host has GPUs of one type, so split it in two."
            )
        return HostType(
            data["type"],
            len(gpus),
            kinds.pop() if kinds else None,
            data.get("cpu_milli", 0),
            data.get("memory_mib", 0),
            links,
            _resources(data),
        )

    def require_connected(self, networked: bool) -> None:
        """Refuse pieces, but for a flat cluster: hosts without domains or links."""
        import networkx as nx

        if not networked or nx.is_connected(self.graph):
            return
        first, second = (next(iter(part)) for part in list(self.pieces())[:2])
        raise InstanceError(
            f'{self.where}: is not connected, nothing joins "{first}" and "{second}"; '
            "add the domain or link between them."
        )

    def pieces(self) -> list[list[str]]:
        """Return the connected pieces, nodes in the order of the graph."""
        import networkx as nx

        order = {node: k for k, node in enumerate(self.graph)}
        parts = nx.connected_components(self.graph)
        return sorted(
            (sorted(part, key=order.__getitem__) for part in parts), key=lambda p: order[p[0]]
        )
