"""Bandwidths between hosts, for many questions about many hosts at once."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.topology.network import Network
from alloc.topology.topology import Topology

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class HostBandwidths:
    """The widest ways between hosts, worked out once for all pairs of places in the fabric.

    Hosts that are plugged into the same nodes with the same widths are alike: pairs are looked at
    by these *ports*. A way that no link limits is as wide as the fastest link of the cluster.

    Parameters
    ----------
    topology
        The cluster.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._network = Network(topology)

    @cached_property
    def fastest(self) -> float:
        """Bandwidth of the fastest link of the cluster, GB/s; infinite if there is no link."""
        links = [link.bandwidth_gb_per_s for link in self._topology.links]
        links += [link.bandwidth_gb_per_s for t in self._topology.host_types for link in t.links]
        return max(links, default=float("inf"))

    @cached_property
    def inside(self) -> Array:
        """Bandwidth between the two GPUs of a host that are worst joined, GB/s, shape (hosts,)."""
        by_type: dict[str, float] = {}
        for host in self._topology.hosts:
            if host.type not in by_type:
                gpus = [f"{host.id}/gpu{g}" for g in range(self._topology.host_type(host).num_gpus)]
                widths = [self._network.bandwidth(a, b) for a, b in _pairs(gpus)]
                by_type[host.type] = min([self.fastest, *widths])
        return np.array([by_type[host.type] for host in self._topology.hosts])

    @cached_property
    def ports(self) -> tuple[Counts, Array]:
        """Port of each host, shape (hosts,), and bandwidth between ports, shape (ports, ports)."""
        plugs = self._network.ports()
        number: dict[tuple[tuple[str, float], ...], int] = {}
        port = [number.setdefault(tuple(sorted(own.items())), len(number)) for own in plugs]
        ways = [dict(key) for key in number]
        nodes = {name: k for k, name in enumerate(sorted({n for way in ways for n in way}))}
        out = np.zeros((len(ways), len(nodes)))
        for p, way in enumerate(ways):
            for node, width in way.items():
                out[p, nodes[node]] = width
        through = self._network.widest_between(list(nodes))
        # Of every way between two ports: out of one, through the fabric, into the other.
        reach = np.zeros_like(out)
        for k in range(len(nodes)):
            np.maximum(reach, np.minimum(out[:, k : k + 1], through[k][None, :]), out=reach)
        between = np.zeros((len(ways), len(ways)))
        for k in range(len(nodes)):
            np.maximum(between, np.minimum(reach[:, k : k + 1], out[:, k][None, :]), out=between)
        return np.array(port, dtype=np.int64), np.minimum(between, self.fastest)

    def between(self, hosts: Counts) -> Array:
        """Return the bandwidth between hosts, GB/s, shape (n, n); the fastest on the diagonal."""
        port, width = self.ports
        found: Array = width[np.ix_(port[hosts], port[hosts])]
        np.fill_diagonal(found, self.fastest)
        return found

    @cached_property
    def cuts(self) -> tuple[tuple[Counts, Array], ...]:
        """For the hosts and each level, the domain of each host and what leaves each domain, GB/s.

        Pairs of shapes (hosts,) (-1: in no domain) and (domains,). A domain that no link leaves
        limits nothing.
        """
        topology = self._topology
        found = []
        leaving = self._network.leaving()
        for level, domain in topology.domain_of_host.items():
            ids = [h.id for h in topology.hosts] if level == "host" else None
            ids = [d.id for d in topology.domains] if ids is None else ids
            found.append((domain, np.array([leaving.get(i, np.inf) for i in ids])))
        return tuple(found)

    def in_order(self, hosts: Counts) -> Counts:
        """Return the order of hosts in which those of a domain follow each other, shape (n,)."""
        table = self._topology.domain_of_host
        keys = [hosts, *(table[level][hosts] for level in reversed(self._topology.levels))]
        return np.lexsort(keys).astype(np.int64)


def _pairs(names: list[str]) -> Iterator[tuple[str, str]]:
    yield from ((a, b) for k, a in enumerate(names) for b in names[:k])


_KNOWN: dict[int, tuple[weakref.ref[Topology], HostBandwidths]] = {}


def bandwidths_of(topology: Topology) -> HostBandwidths:
    """Return the bandwidths of a topology; those of the last few topologies are kept."""
    known = _KNOWN.get(id(topology))
    if known is None or known[0]() is not topology:
        if len(_KNOWN) > 7:
            _KNOWN.clear()
        known = (weakref.ref(topology), HostBandwidths(topology))
        _KNOWN[id(topology)] = known
    return known[1]
