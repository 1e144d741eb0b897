"""Questions to a topology: who is where, how wide is the way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.topology.host import Domain
from alloc.topology.network import Network
from alloc.topology.topology import HOST, Topology


def domains_at(topology: Topology, level: str) -> tuple[Domain, ...]:
    """Return the domains of a level, in the order of `Topology.domains`.

    Parameters
    ----------
    topology
        The cluster.
    level
        One of `Topology.levels`.

    Raises
    ------
    InstanceError
        If the topology has no such level of domains.
    """
    _require_level(topology, level, topology.levels)
    return tuple(domain for domain in topology.domains if domain.level == level)


def hosts_in(topology: Topology, domain_id: str) -> npt.NDArray[np.int64]:
    """Return the positions in `Topology.hosts` of the hosts in a domain, in increasing order.

    Hosts of the domains inside it are in it.

    Parameters
    ----------
    topology
        The cluster.
    domain_id
        Id of a domain of any level.

    Raises
    ------
    InstanceError
        If the topology has no such domain.
    """
    for k, domain in enumerate(topology.domains):
        if domain.id == domain_id:
            return np.flatnonzero(topology.domain_of_host[domain.level] == k).astype(np.int64)
    known = [domain.id for domain in topology.domains]
    raise InstanceError(
        f'topology "{topology.name}" has no domain "{domain_id}"{nearest(domain_id, known)}'
    )


def meeting_level(topology: Topology, a: str, b: str) -> str | None:
    """Return the innermost level at which two hosts meet, or None if they share no domain.

    A host meets itself at level ``"host"``.

    Parameters
    ----------
    topology
        The cluster.
    a, b
        Ids of hosts.

    Raises
    ------
    InstanceError
        If the topology has no such host.
    """
    h, k = _host_position(topology, a), _host_position(topology, b)
    for level in (HOST, *reversed(topology.levels)):
        domain = topology.domain_of_host[level]
        if domain[h] == domain[k] != -1:
            return level
    return None


def bottleneck_bandwidth(topology: Topology, a: str, b: str) -> float:
    """Return the bandwidth of the widest single way between two nodes, GB/s in one direction.

    What counts as a way is written in `alloc.topology.network`. For many pairs of one topology,
    build a `Network` once and ask it.

    Parameters
    ----------
    topology
        The cluster.
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
    return Network(topology).bandwidth(a, b)


def bisection_bandwidth(topology: Topology) -> float:
    """Return the most that the first half of the hosts can send to the second half, GB/s.

    A maximum flow over the links of the fabric, all in one direction; what happens inside hosts
    does not limit it. The halves follow the order of `Topology.hosts`, which in the fabrics of
    alloc goes leaf by leaf: for a leaf-spine with an even number of equal leaves it is the
    bisection bandwidth, half of the leaves times the lesser of a leaf's uplinks and its hosts'
    ports. With an odd number of hosts the second half has one more.

    Returns
    -------
    float
        Infinite if no link sets a limit, 0 if the halves are not joined.

    Raises
    ------
    InstanceError
        If the topology has one host.
    """
    return Network(topology).bisection_bandwidth()


def _require_level(topology: Topology, level: str, known: tuple[str, ...]) -> None:
    if level not in known:
        raise InstanceError(
            f'topology "{topology.name}" has no level "{level}"{nearest(level, known)}'
        )


def _host_position(topology: Topology, host_id: str) -> int:
    index = topology.host_index
    if host_id not in index:
        raise InstanceError(
            f'topology "{topology.name}" has no host "{host_id}"{nearest(host_id, index)}'
        )
    return index[host_id]
