"""The topology of a cluster: hosts in nested domains, joined by links."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.resources import amounts_of, on_axis
from alloc.tabular import Tabular
from alloc.topology.host import Domain, Host, HostType, NetworkLink
from alloc.units import RESOURCES

if TYPE_CHECKING:
    import networkx as nx  # it takes as long to load as all of `alloc.topology`

HOST = "host"
GPU = "gpu"


class Memory(dict[Hashable, Any]):
    """What was worked out of an object and is kept with it; copies begin with none of it."""

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        return Memory, ()


@dataclass(frozen=True)
class Topology(Tabular):
    """Hosts in nested domains, joined by links; the graph and the arrays derive from them.

    Parameters
    ----------
    name
        Name for people.
    host_types
        The kinds of servers, names unique.
    hosts
        The servers, in the order of every host-indexed array.
    levels
        Names of the domain levels, outermost first, without host and GPU; for example
        ``("pod", "leaf")``.
    domains
        The domains of those levels; each names its parent.
    links
        Links of the fabric. Devices inside a host are wired by its type.
    resources
        What the cluster as a whole offers, and no host by itself: licences, power, network egress;
        whole amounts by name, for example ``{"licence_x": 4}``; see `alloc.resources`.
    """

    name: str
    host_types: tuple[HostType, ...]
    hosts: tuple[Host, ...]
    levels: tuple[str, ...] = ()
    domains: tuple[Domain, ...] = ()
    links: tuple[NetworkLink, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f'topology "{self.name}"'
        if not self.hosts:
            raise InstanceError(f"{where}: has no hosts; a cluster needs at least one.")
        _require_unique((t.name for t in self.host_types), where, "host type")
        _require_unique(
            [host.id for host in self.hosts] + [domain.id for domain in self.domains],
            where,
            "host or domain",
        )
        for level in self.levels:
            if level in (HOST, GPU):
                raise InstanceError(f'{where}: level "{level}" is implied; leave it out of levels.')
        _require_unique(self.levels, where, "level")
        self._check_domains(where)
        own = amounts_of(self.resources, where)
        object.__setattr__(self, "resources", own)
        for kind in self.host_types:
            for name in kind.resources:
                if name in own:
                    raise InstanceError(
                        f'{where}: resource "{name}" is offered by hosts of type "{kind.name}" and '
                        "by the cluster; give one of the two another name."
                    )
        types = {t.name for t in self.host_types}
        parents = {domain.id for domain in self.domains}
        for host in self.hosts:
            if host.type not in types:
                raise InstanceError(
                    f'{where}: host "{host.id}" is of type "{host.type}", which is not defined'
                    f"{nearest(host.type, types, '; define it in host_types.')}"
                )
            if host.domain is not None and host.domain not in parents:
                raise InstanceError(
                    f'{where}: host "{host.id}" stands in domain "{host.domain}", which is not '
                    f"defined{nearest(host.domain, parents, '; define it in domains.')}"
                )

    def _check_domains(self, where: str) -> None:
        """Levels must be known and parents must lie on an outer level: then there is no cycle."""
        rank = {level: k for k, level in enumerate(self.levels)}
        by_id = {domain.id: domain for domain in self.domains}
        for domain in self.domains:
            if domain.level not in rank:
                raise InstanceError(
                    f'{where}: domain "{domain.id}" is on level "{domain.level}", which is not in '
                    f"levels{nearest(domain.level, rank, '; add it there.')}"
                )
            if domain.parent is None:
                continue
            if domain.parent not in by_id:
                raise InstanceError(
                    f'{where}: domain "{domain.id}" has parent "{domain.parent}", which is not '
                    f"defined{nearest(domain.parent, by_id, '; define it in domains.')}"
                )
            if rank[by_id[domain.parent].level] >= rank[domain.level]:
                raise InstanceError(
                    f'{where}: domain "{domain.id}" ({domain.level}) lies in "{domain.parent}" '
                    f"({by_id[domain.parent].level}), which is not an outer level; "
                    "list levels from the outside in."
                )

    @property
    def num_hosts(self) -> int:
        """Number of hosts."""
        return len(self.hosts)

    @cached_property
    def num_gpus(self) -> int:
        """Number of whole GPUs."""
        return sum(self.host_type(host).num_gpus for host in self.hosts)

    @cached_property
    def _type_by_name(self) -> dict[str, HostType]:
        return {t.name: t for t in self.host_types}

    def host_type(self, host: Host) -> HostType:
        """Return the type of a host."""
        return self._type_by_name[host.type]

    @cached_property
    def host_index(self) -> dict[str, int]:
        """Position of each host id in `hosts`."""
        return {host.id: h for h, host in enumerate(self.hosts)}

    @cached_property
    def gpu_types(self) -> tuple[str | None, ...]:
        """GPU type of each host, shape (hosts,)."""
        return tuple(self.host_type(host).gpu_type for host in self.hosts)

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """The axis of every vector of amounts: GPU, CPU, memory, then the others, sorted."""
        given = (self.resources, *(kind.resources for kind in self.host_types))
        return (*RESOURCES, *sorted({name for own in given for name in amounts_of(own).names}))

    @cached_property
    def cluster_columns(self) -> tuple[int, ...]:
        """Positions in `resource_names` of what the cluster offers and no host by itself."""
        of_hosts = {*RESOURCES, *(name for kind in self.host_types for name in kind.resources)}
        return tuple(r for r, name in enumerate(self.resource_names) if name not in of_hosts)

    @cached_property
    def capacity(self) -> npt.NDArray[np.int64]:
        """What a host can give, shape (hosts, resources), in the order of `resource_names`.

        Of a cluster resource every host can give all that there is: what all hosts together can
        give is in `totals`.
        """
        names = self.resource_names[len(RESOURCES) :]
        rows = {
            kind.name: (
                *kind.capacity,
                *(kind.resources.get(name, 0) or self.resources.get(name, 0) for name in names),
            )
            for kind in self.host_types
        }
        found = [rows[host.type] for host in self.hosts]
        return _read_only(np.array(found, dtype=np.int64).reshape(len(found), -1))

    @cached_property
    def totals(self) -> npt.NDArray[np.int64]:
        """What the whole cluster offers, shape (resources,), in the order of `resource_names`."""
        return _read_only(self.sum_over(np.full(self.num_hosts, True)))

    def sum_over(self, hosts: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return what some hosts, shape (hosts,), can give together, shape (resources,)."""
        total: npt.NDArray[np.int64] = self.capacity[hosts].sum(axis=0)
        columns = list(self.cluster_columns)
        total[columns] = self.capacity[0, columns]
        return total

    def host_amounts(self, row: Iterable[int]) -> dict[str, int]:
        """Return the named amounts of a host from its row on the axis, shape (resources,)."""
        return self._named(row, of_cluster=False)

    def cluster_amounts(self, row: Iterable[int]) -> dict[str, int]:
        """Return the amounts of the cluster's own from any host's row, shape (resources,)."""
        return self._named(row, of_cluster=True)

    def _named(self, row: Iterable[int], *, of_cluster: bool) -> dict[str, int]:
        named = list(zip(self.resource_names, row, strict=True))[len(RESOURCES) :]
        columns = {self.resource_names[r] for r in self.cluster_columns}
        return {name: int(n) for name, n in named if (name in columns) is of_cluster}

    def with_resources(self, names: Iterable[str]) -> Topology:
        """Return the topology with more names on its axis; of those it offers 0.

        Parameters
        ----------
        names
            Names beyond GPU, CPU and memory; some may be there already.
        """
        if set(names) <= set(self.resource_names):
            return self
        return self.replace(resources=on_axis(self.resources, names))

    def without_hosts(self, leaving: Collection[str]) -> Topology:
        """Return the topology without some hosts, and their links; domains stay.

        Parameters
        ----------
        leaving
            Ids of the hosts, not all of them.
        """
        return self.replace(
            hosts=tuple(host for host in self.hosts if host.id not in leaving),
            links=tuple(
                link
                for link in self.links
                if link.a.split("/")[0] not in leaving and link.b.split("/")[0] not in leaving
            ),
        )

    @cached_property
    def domain_of_host(self) -> Mapping[str, npt.NDArray[np.int64]]:
        """For each level, the position in `domains` of the domain that holds each host.

        Arrays of shape (hosts,); -1 where a host lies in no domain of that level. The level
        ``"host"`` maps each host to itself.
        """
        index = {domain.id: k for k, domain in enumerate(self.domains)}
        table = {level: np.full(self.num_hosts, -1, dtype=np.int64) for level in self.levels}
        for h, host in enumerate(self.hosts):
            domain_id = host.domain
            while domain_id is not None:
                domain = self.domains[index[domain_id]]
                table[domain.level][h] = index[domain_id]
                domain_id = domain.parent
        table[HOST] = np.arange(self.num_hosts, dtype=np.int64)
        return {level: _read_only(array) for level, array in table.items()}

    @cached_property
    def known_gangs(self) -> dict[Hashable, bool | None]:
        """Which gangs can run on the empty cluster: the memory of `alloc.packing.stands_alone`."""
        return {}

    @cached_property
    def standing_gangs(self) -> dict[Hashable, list[tuple[int, ...]]]:
        """Of gangs that stand on it, for tasks of each kinds the counts: `alloc.packing` again."""
        return {}

    @cached_property
    def known_burdens(self) -> Memory:
        """How tables of configurations compare on it: the memory of `alloc.models.round.data`."""
        return Memory()

    @cached_property
    def graph(self) -> nx.Graph:
        """The cluster as an undirected networkx graph.

        Nodes carry ``level`` (a domain level, ``"host"``, ``"gpu"`` or ``"device"``), hosts and
        GPUs their type, and hosts their ``cpu_milli`` and ``memory_mib``; edges carry
        ``bandwidth_gb_per_s`` and ``kind``. Containment without a link of its own is an edge of
        kind ``"contains"`` and unlimited bandwidth. Other resources are attributes of the host, or
        of the graph if they are the cluster's: ``"resource:nvme_gib"``.
        """
        import networkx as nx

        graph = nx.Graph(name=self.name, levels=[*self.levels, HOST, GPU])
        graph.graph.update(_attributes(self.resources))
        for domain in self.domains:
            graph.add_node(domain.id, level=domain.level)
        for host in self.hosts:
            self._add_host(graph, host)
        for link in self.links:
            for end in (link.a, link.b):
                if end not in graph:
                    graph.add_node(end, level="device")
            graph.add_edge(
                link.a, link.b, kind="network", bandwidth_gb_per_s=link.bandwidth_gb_per_s
            )
        for child, parent in self._containment():
            if parent is not None and not graph.has_edge(child, parent):
                graph.add_edge(child, parent, kind="contains", bandwidth_gb_per_s=float("inf"))
        return nx.freeze(graph)

    def _containment(self) -> Iterable[tuple[str, str | None]]:
        yield from ((domain.id, domain.parent) for domain in self.domains)
        yield from ((host.id, host.domain) for host in self.hosts)

    def _add_host(self, graph: nx.Graph, host: Host) -> None:
        kind = self.host_type(host)
        graph.add_node(
            host.id,
            level=HOST,
            type=kind.name,
            cpu_milli=kind.cpu_milli,
            memory_mib=kind.memory_mib,
            **_attributes(kind.resources),
        )
        for g in range(kind.num_gpus):
            gpu = f"{host.id}/gpu{g}"
            graph.add_node(gpu, level=GPU, type=kind.gpu_type)
            graph.add_edge(host.id, gpu, kind="contains", bandwidth_gb_per_s=float("inf"))
        for link in kind.links:
            ends = (f"{host.id}/{link.a}", f"{host.id}/{link.b}")
            for end in ends:
                if end not in graph:
                    graph.add_node(end, level="device")
                    graph.add_edge(host.id, end, kind="contains", bandwidth_gb_per_s=float("inf"))
            graph.add_edge(*ends, kind=link.kind, bandwidth_gb_per_s=link.bandwidth_gb_per_s)

    def replace(self, **changes: Any) -> Topology:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def flat_cluster(name: str, host_type: HostType, num_hosts: int) -> Topology:
    """Return a cluster of identical hosts without domains, for models where only counts matter.

    Parameters
    ----------
    name
        Name of the topology.
    host_type
        What each host offers.
    num_hosts
        Number of hosts, 1 or more.
    """
    width = len(str(num_hosts - 1))
    hosts = tuple(Host(f"host-{h:0{width}d}", host_type.name) for h in range(num_hosts))
    return Topology(name, (host_type,), hosts)


RESOURCE = "resource:"
"""What the attributes of a graph begin with that hold named resources."""


def _attributes(resources: Mapping[str, int]) -> dict[str, int]:
    return {f"{RESOURCE}{name}": amount for name, amount in resources.items()}


def _require_unique(names: Iterable[str], where: str, what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InstanceError(f'{where}: {what} "{name}" appears twice; ids must be unique.')
        seen.add(name)


def _read_only(array: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    array.setflags(write=False)
    return array
