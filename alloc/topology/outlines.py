"""The outline of a topology: what is in it, in numbers and as a tree with like parts together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alloc.topology.host import HostType
from alloc.topology.topology import HOST, Topology

SWITCH = "switch"
"""What a node that only links name counts as: a switch without hosts of its own."""


@dataclass(frozen=True)
class LevelOutline:
    """A level of domains.

    Parameters
    ----------
    name
        Its name.
    domains
        How many domains it has.
    fewest_hosts, most_hosts
        Hosts of its smallest and its largest domain.
    hosts_outside
        Hosts that lie in no domain of it.
    """

    name: str
    domains: int
    fewest_hosts: int
    most_hosts: int
    hosts_outside: int


@dataclass(frozen=True)
class LinkOutline:
    """Links of the fabric between nodes of the same two levels.

    Parameters
    ----------
    between
        The levels; ``"host"`` for hosts and their devices, ``"switch"`` for a node that is neither
        host nor domain.
    links
        How many.
    least_gb_per_s, max_gb_per_s
        Bandwidth of the narrowest and of the widest, GB/s in one direction.
    """

    between: tuple[str, str]
    links: int
    least_gb_per_s: float
    max_gb_per_s: float


@dataclass(frozen=True)
class Outline:
    """A topology in numbers.

    Parameters
    ----------
    hosts, gpus
        How many.
    gpus_by_type
        GPUs by their type, most first.
    hosts_by_type
        Hosts by the name of their type, in the order of the types.
    levels
        The levels, outermost first.
    links
        The links of the fabric.
    """

    hosts: int
    gpus: int
    gpus_by_type: Mapping[str, int]
    hosts_by_type: Mapping[str, int]
    levels: tuple[LevelOutline, ...]
    links: tuple[LinkOutline, ...]


@dataclass(frozen=True)
class Branch:
    """Like parts of a topology: hosts of one type, or domains with the same in them.

    Parameters
    ----------
    level
        Their level, ``"host"`` for hosts.
    ids
        Their ids, in the order of the topology.
    host_type
        Of hosts: their type.
    hosts, gpus
        Hosts and GPUs in each of them.
    below
        What lies in each of them, as it is in the first.
    """

    level: str
    ids: tuple[str, ...]
    host_type: HostType | None
    hosts: int
    gpus: int
    below: tuple[Branch, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ids)


def outline(topology: Topology) -> Outline:
    """Return a topology in numbers.

    Examples
    --------
    >>> from alloc.topology import dgx_h100, leaf_spine
    >>> numbers = outline(leaf_spine(dgx_h100(), num_leaves=2, hosts_per_leaf=4, num_spines=2))
    >>> numbers.gpus, [(level.name, level.domains) for level in numbers.levels]
    (64, [('spine', 1), ('leaf', 2)])
    """
    by_type = Counter(host.type for host in topology.hosts)
    gpus: Counter[str] = Counter()
    for kind in topology.host_types:
        if kind.gpu_type is not None and by_type[kind.name] and kind.num_gpus:
            gpus[kind.gpu_type] += by_type[kind.name] * kind.num_gpus
    return Outline(
        topology.num_hosts,
        topology.num_gpus,
        dict(gpus.most_common()),
        {kind.name: by_type[kind.name] for kind in topology.host_types if by_type[kind.name]},
        tuple(_level(topology, level) for level in topology.levels),
        tuple(_links(topology)),
    )


def _level(topology: Topology, level: str) -> LevelOutline:
    of_host = topology.domain_of_host[level].tolist()
    sizes = Counter(of_host)
    outside = sizes.pop(-1, 0)
    domains = [k for k, domain in enumerate(topology.domains) if domain.level == level]
    counts = [sizes[k] for k in domains] or [0]
    return LevelOutline(level, len(domains), min(counts), max(counts), outside)


def _links(topology: Topology) -> Sequence[LinkOutline]:
    level_of = {domain.id: domain.level for domain in topology.domains}

    def level(node: str) -> str:
        if node in level_of:
            return level_of[node]
        host = node.rpartition("/")[0]
        inside = node in topology.host_index or host in topology.host_index
        return HOST if inside else SWITCH

    rank = {name: k for k, name in enumerate((SWITCH, *topology.levels, HOST))}
    widths: dict[tuple[str, str], list[float]] = defaultdict(list)
    for link in topology.links:
        a, b = sorted((level(link.a), level(link.b)), key=rank.__getitem__)
        widths[a, b].append(link.bandwidth_gb_per_s)
    order = sorted(widths, key=lambda pair: (rank[pair[0]], rank[pair[1]]))
    return [LinkOutline(p, len(widths[p]), min(widths[p]), max(widths[p])) for p in order]


def branches(topology: Topology, *, fold: bool = True) -> tuple[Branch, ...]:
    """Return the tree of a topology, with parts that are alike together.

    Two hosts are alike that stand in the same domain and are of the same type; two domains are
    alike that lie in the same domain and have the same numbers of like parts in them.

    Parameters
    ----------
    topology
        The cluster.
    fold
        Whether like parts are put together; else every branch is one domain or host.

    Returns
    -------
    tuple of Branch
        What lies in no domain, in the order of the topology: hosts after domains.

    Examples
    --------
    >>> from alloc.topology import dgx_h100, leaf_spine
    >>> (spine,) = branches(leaf_spine(dgx_h100(), 2, 4, num_spines=2))
    >>> [(branch.ids, branch.gpus) for branch in spine.below]
    [(('leaf-0', 'leaf-1'), 32)]
    """
    return _Folder(topology, fold).under(None)


# What a part of the topology looks like: equal for like parts.
_Shape = int


class _Folder:
    """One folding of a topology."""

    def __init__(self, topology: Topology, fold: bool) -> None:
        self._topology = topology
        self._fold = fold
        self._domains: dict[str | None, list[str]] = defaultdict(list)
        self._hosts: dict[str | None, list[int]] = defaultdict(list)
        for domain in topology.domains:
            self._domains[domain.parent].append(domain.id)
        for h, host in enumerate(topology.hosts):
            self._hosts[host.domain].append(h)
        self._level = {domain.id: domain.level for domain in topology.domains}
        self._numbers: dict[object, _Shape] = {}
        self._shape_of: dict[str, _Shape] = {}
        rank = {level: k for k, level in enumerate(topology.levels)}
        # From the inside out: then what lies in a domain is known before it.
        for domain in sorted(topology.domains, key=lambda d: -rank[d.level]):
            self._shape_of[domain.id] = self._shape(domain.id)

    def _shape(self, domain: str) -> _Shape:
        parts = Counter(self._shape_of[child] for child in self._domains[domain])
        hosts = Counter(self._topology.hosts[h].type for h in self._hosts[domain])
        key = (self._level[domain], frozenset(parts.items()), frozenset(hosts.items()))
        return self._numbers.setdefault(key, len(self._numbers))

    def under(self, domain: str | None) -> tuple[Branch, ...]:
        """Return what lies in a domain, or in none."""
        groups: dict[object, list[str]] = defaultdict(list)
        for child in self._domains[domain]:
            groups[self._shape_of[child] if self._fold else child].append(child)
        made = [self._branch(ids) for ids in groups.values()]
        by_type: dict[object, list[int]] = defaultdict(list)
        for h in self._hosts[domain]:
            by_type[self._topology.hosts[h].type if self._fold else h].append(h)
        for members in by_type.values():
            hosts = [self._topology.hosts[h] for h in members]
            kind = self._topology.host_type(hosts[0])
            ids = tuple(host.id for host in hosts)
            made.append(Branch(HOST, ids, kind, 1, kind.num_gpus))
        return tuple(made)

    def _branch(self, ids: Sequence[str]) -> Branch:
        below = self.under(ids[0])
        return Branch(
            self._level[ids[0]],
            tuple(ids),
            None,
            sum(part.hosts * part.count for part in below),
            sum(part.gpus * part.count for part in below),
            below,
        )


def inner_links(kind: HostType) -> Mapping[str, tuple[float, ...]]:
    """Return the bandwidths of the links inside a host by kind, GB/s, each once, widest first.

    Examples
    --------
    >>> from alloc.topology import dgx_h100
    >>> inner_links(dgx_h100())["nvswitch"]
    (450.0,)
    """
    widths: dict[str, set[float]] = defaultdict(set)
    for link in kind.links:
        widths[link.kind].add(link.bandwidth_gb_per_s)
    return {name: tuple(sorted(found, reverse=True)) for name, found in widths.items()}
