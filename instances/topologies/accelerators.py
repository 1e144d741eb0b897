"""Domains that cut through a tree of switches: NVLink domains as a level where they nest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from alloc.instances.topologies.node_labels import NVLINK_LEVEL
from alloc.instances.topologies.place import Place, shown
from alloc.topology import Domain, Host, Topology

PART_LEVEL = f"{NVLINK_LEVEL}-part"
"""Level of the parts of NVLink domains, for example the racks of one that spans several."""


@dataclass(frozen=True)
class Group:
    """Hosts that a file puts together beside the tree.

    Parameters
    ----------
    id
        The name of the group.
    hosts
        Ids of its hosts.
    where
        Where the file first says so.
    """

    id: str
    hosts: tuple[str, ...]
    where: Place


def groups_of(values: Mapping[str, tuple[str, Place]]) -> list[Group]:
    """Return the groups that hosts of the same value make."""
    hosts: dict[str, list[str]] = {}
    first: dict[str, Place] = {}
    for host, (value, where) in values.items():
        hosts.setdefault(value, []).append(host)
        first.setdefault(value, where)
    return [Group(value, tuple(ids), first[value]) for value, ids in hosts.items()]


def insert_groups(topology: Topology, level: str, groups: Sequence[Group]) -> Topology:
    """Return the topology with one more level, as far inside as its groups nest.

    Groups that are already there, with the same names and as one level, add nothing.

    Parameters
    ----------
    topology
        A topology with domains, or without.
    level
        Name of the level.
    groups
        Disjoint groups of its hosts.

    Raises
    ------
    InstanceError
        If a group holds some hosts of a domain and others outside it, or there is no one level for
        all of them.
    """
    if not groups:
        return topology
    rank = {name: k for k, name in enumerate(topology.levels)}
    sizes, above = _sizes_and_paths(topology)
    places = [_nesting(group, topology, sizes, above) for group in groups]
    if _are_there(topology, places):
        return topology
    after = min((rank[d.level] for p in places for d in p.inside), default=len(rank)) - 1
    for place in places:
        for domain in place.around:
            if rank[domain.level] > after:
                other = next(p for p in places if any(rank[d.level] == after + 1 for d in p.inside))
                raise place.group.where.error(
                    f"{level} {shown(place.group.id)} is within {domain.level} {shown(domain.id)}, "
                    f"but {shown(other.group.id)} is around a whole {topology.levels[after + 1]}, "
                    "so the levels do not nest; leave them out with accelerators=ignore."
                )
    return _inserted(topology, level, places, after)


@dataclass(frozen=True)
class _Nesting:
    """How a group lies to the domains of a tree.

    Parameters
    ----------
    group
        The group.
    around, equal, inside
        Domains with more hosts than the group, with the same, and with fewer, all of them within.
    """

    group: Group
    around: tuple[Domain, ...]
    equal: tuple[Domain, ...]
    inside: tuple[Domain, ...]


def _nesting(
    group: Group, topology: Topology, sizes: Sequence[int], above: Callable[[str], list[int]]
) -> _Nesting:
    counts = Counter(k for host in group.hosts for k in above(host))
    around, equal, inside = [], [], []
    for k, count in counts.items():
        domain = topology.domains[k]
        if count < min(sizes[k], len(group.hosts)):
            raise group.where.error(
                f"{shown(group.id)} has {count} of the {sizes[k]} hosts of {domain.level} "
                f"{shown(domain.id)} and others outside it, so the levels do not nest; leave it "
                "out with accelerators=ignore."
            )
        if count == sizes[k] == len(group.hosts):
            equal.append(domain)
        elif count == sizes[k]:
            inside.append(domain)
        else:
            around.append(domain)
    return _Nesting(group, tuple(around), tuple(equal), tuple(inside))


def _sizes_and_paths(topology: Topology) -> tuple[list[int], Callable[[str], list[int]]]:
    """Return the number of hosts in each domain, and a function to the domains above a host."""
    table = [topology.domain_of_host[level] for level in topology.levels]
    sizes = [0] * len(topology.domains)
    for column in table:
        for k in column[column >= 0]:
            sizes[k] += 1

    def above(host: str) -> list[int]:
        h = topology.host_index[host]
        return [int(column[h]) for column in table if column[h] >= 0]

    return sizes, above


def _are_there(topology: Topology, places: Sequence[_Nesting]) -> bool:
    """Return whether every group has the name and the hosts of a domain, all on one level."""
    levels = {d.level for p in places for d in p.equal if d.id == p.group.id}
    return len(levels) == 1 and all(any(d.id == p.group.id for d in p.equal) for p in places)


def _inserted(topology: Topology, level: str, places: Sequence[_Nesting], after: int) -> Topology:
    rank = {name: k for k, name in enumerate(topology.levels)}
    taken = {domain.id for domain in topology.domains} | set(topology.host_index)
    added: list[Domain] = []
    parent_of: dict[str, str] = {}
    for place in places:
        name = place.group.id if place.group.id not in taken else f"{level}:{place.group.id}"
        outer = [d for d in (*place.around, *place.equal) if rank[d.level] <= after]
        innermost = max(outer, key=lambda d: rank[d.level], default=None)
        added.append(Domain(name, level, innermost.id if innermost else None))
        parent_of |= {d.id: name for d in (*place.equal, *place.inside) if rank[d.level] > after}
        parent_of |= dict.fromkeys(place.group.hosts, name)
    by_id = {domain.id: domain for domain in topology.domains}

    def parent(id: str, current: str | None) -> str | None:
        # Only what hangs on the outer side of the new level moves.
        inner = current is not None and rank[by_id[current].level] > after
        return current if inner else parent_of.get(id, current)

    return topology.replace(
        levels=(*topology.levels[: after + 1], level, *topology.levels[after + 1 :]),
        domains=(
            *(Domain(d.id, d.level, parent(d.id, d.parent)) for d in topology.domains),
            *added,
        ),
        hosts=tuple(Host(h.id, h.type, parent(h.id, h.domain)) for h in topology.hosts),
    )
