"""The tree of a topology file, checked: every format builds its topology through here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from alloc.errors import InstanceError, nearest
from alloc.instances.topologies.host_types import HostTypeChoice
from alloc.instances.topologies.place import Place, shown
from alloc.topology import Domain, Host, HostType, NetworkLink, Topology
from alloc.topology.topology import GPU, HOST

MAX_HOSTS = 1_000_000
"""Most hosts that a file may name; a short hostlist can name billions."""

# Real fabrics have up to 5. Arrays have a row for each level.
_MAX_LEVELS = 32
_TIERS = ("leaf", "spine", "core")


@dataclass(frozen=True)
class _Stand:
    """That something lies in a domain, and where the file says so."""

    parent: str
    where: Place


class TreeBuilder:
    """Collects hosts and domains with their places in a file, and builds the topology.

    Things may be added in any order; who lies in whom is checked in `build`.

    Parameters
    ----------
    file
        The file, as the user named it.
    domain_word, host_word
        What the format calls a domain and a host, for messages: ``"switch"`` and ``"node"``.
    """

    def __init__(self, file: str, *, domain_word: str = "domain", host_word: str = "host") -> None:
        self.file = Place(file)
        self.domain_word = domain_word
        self.host_word = host_word
        self._places: dict[str, Place] = {}
        self._hosts: dict[str, HostType | None] = {}
        self._domains: dict[str, str | None] = {}
        self._stands: dict[str, _Stand] = {}
        self._links: list[NetworkLink] = []

    @property
    def hosts(self) -> tuple[str, ...]:
        """Ids of the hosts added so far, in order."""
        return tuple(self._hosts)

    @property
    def unplaced_hosts(self) -> tuple[str, ...]:
        """Ids of the hosts that nothing was said about where they stand, in order."""
        return tuple(host for host in self._hosts if host not in self._stands)

    def has_domain(self, id: str) -> bool:
        """Return whether a domain was added."""
        return id in self._domains

    def domain(self, id: str, where: Place, *, level: str | None = None) -> None:
        """Add a domain.

        Parameters
        ----------
        id
            Its name, unique among hosts and domains.
        where
            Where the file defines it.
        level
            Its level. Either every domain of a tree has one, or none has; without, levels follow
            from the tree: a domain of hosts is a leaf, and any other is one level above the highest
            of the domains in it.

        Raises
        ------
        InstanceError
            If the name is empty or taken.
        """
        self._require_new(id, where, self.domain_word)
        self._places[id] = where
        self._domains[id] = level

    def host(self, id: str, where: Place, *, host_type: HostType | None = None) -> None:
        """Add a host; its type where the file tells it, else the user's is taken.

        Parameters
        ----------
        id
            Name of the host.
        where
            Where in the file it stands.
        host_type
            Its type, or None.

        Raises
        ------
        InstanceError
            If the name is empty or taken, or there are too many hosts.
        """
        self._require_new(id, where, self.host_word)
        if len(self._hosts) >= MAX_HOSTS:
            raise where.error(
                f"here are more than {MAX_HOSTS:,} {self.host_word}s; check the ranges of names."
            )
        self._places[id] = where
        self._hosts[id] = host_type

    def put(self, child: str, parent: str, where: Place, *, again: bool = False) -> None:
        """Say that a host or domain lies in a domain; either may be added later.

        Parameters
        ----------
        child, parent
            Their ids.
        where
            Where the file says so.
        again
            Whether it may say the same more than once, as formats do that give each host its whole
            path.

        Raises
        ------
        InstanceError
            If something else was said before about where the child lies.
        """
        before = self._stands.get(child)
        if before is None:
            if len(self._stands) >= 2 * MAX_HOSTS:
                raise where.error(
                    f"more than {2 * MAX_HOSTS:,} names are listed in others up "
                    "to here; check the ranges of names."
                )
            self._stands[child] = _Stand(parent, where)
            return
        if again and before.parent == parent:
            return
        is_host = child in self._hosts or child not in self._domains
        word = self.host_word if is_host else self.domain_word
        if before.parent == parent:
            raise where.error(
                f"{word} {shown(child)} is listed twice in {shown(parent)}"
                f"{_unless_same(before.where, where)}; list it once."
            )
        raise where.error(
            f"{word} {shown(child)} lies in {shown(parent)} and also in {shown(before.parent)}"
            f"{before.where.on_line}; "
            + (
                "a host stands in one leaf, so take it out of the other."
                if is_host
                else f"a {self.domain_word} has one parent, so take it out of the other."
            )
        )

    def link(self, link: NetworkLink) -> None:
        """Add a link of the fabric."""
        self._links.append(link)

    def build(
        self,
        name: str,
        *,
        host_types: HostTypeChoice,
        levels: Sequence[str] | None = None,
        one_piece: bool = True,
    ) -> Topology:
        """Return the topology.

        Parameters
        ----------
        name
            Name of the topology.
        host_types
            The user's choice for hosts whose type the file does not tell.
        levels
            Names of the levels, outermost first. They are required when domains were added with
            levels; otherwise None names them ``leaf``, ``spine``, ``core``, ``tier-3`` ... from the
            inside out.
        one_piece
            Whether a tree that falls into pieces is refused.

        Raises
        ------
        InstanceError
            If a child or parent is unknown, containment has a cycle, the tree falls into pieces,
            levels do not nest, or a host has no type.
        """
        if not self._hosts:
            raise self.file.error(
                f"names no {self.host_word}s; a topology needs at least one {self.host_word}."
            )
        self._require_known()
        heights = self._heights()
        if one_piece:
            self._require_one_piece()
        level_of, ordered = self._levels(heights, levels)
        self._require_level_names(ordered)
        self._require_nested(level_of, ordered)
        types = {
            host: own if own is not None else host_types.of(host)
            for host, own in self._hosts.items()
        }
        return Topology(
            name,
            _distinct(types.values(), self.file),
            tuple(Host(host, kind.name, self._parent(host)) for host, kind in types.items()),
            ordered,
            tuple(Domain(d, level_of[d], self._parent(d)) for d in self._domains),
            tuple(self._links),
        )

    def _parent(self, id: str) -> str | None:
        stand = self._stands.get(id)
        return None if stand is None else stand.parent

    def _require_new(self, id: str, where: Place, word: str) -> None:
        if not id:
            raise where.error(f"a {word} has an empty name; name it.")
        if not id.isprintable():
            raise where.error(
                f"{word} {shown(id)} has a control character in its name; take it out."
            )
        if id not in self._places:
            return
        first = self._places[id]
        other = self.host_word if id in self._hosts else self.domain_word
        named = f"is named twice{_unless_same(first, where)}"
        if other != word:
            named = f"has the name of a {other}{first.on_line}"
        raise where.error(f"{word} {shown(id)} {named}; give every {word} a name of its own.")

    def _require_known(self) -> None:
        for child, stand in self._stands.items():
            if child not in self._places:
                raise stand.where.error(
                    f"{self.domain_word} {shown(stand.parent)} contains {shown(child)}, which is "
                    "not defined"
                    f"{nearest(child, self._places, '; define it, or take it out of the list.')}"
                )
            if stand.parent in self._hosts:
                raise stand.where.error(
                    f"{shown(child)} lies in {shown(stand.parent)}, which is a {self.host_word}; "
                    f"name a {self.domain_word}."
                )
            if stand.parent not in self._domains:
                raise stand.where.error(
                    f"{shown(child)} lies in {self.domain_word} {shown(stand.parent)}, which is "
                    f"not defined{nearest(stand.parent, self._domains, '; define it.')}"
                )

    def _heights(self) -> dict[str, int]:
        """Return the height of every domain above its lowest: 0 when no domain lies in it."""
        waiting = dict.fromkeys(self._domains, 0)
        for domain in self._domains:
            parent = self._parent(domain)
            if parent is not None:
                waiting[parent] += 1
        heights = dict.fromkeys(self._domains, 0)
        ready = [domain for domain, count in waiting.items() if not count]
        # From the leaves up; what is never ready lies on a cycle or above one.
        for domain in ready:
            parent = self._parent(domain)
            if parent is not None:
                heights[parent] = max(heights[parent], heights[domain] + 1)
                waiting[parent] -= 1
                if not waiting[parent]:
                    ready.append(parent)
        if len(ready) < len(self._domains):
            raise self._cycle({d for d, count in waiting.items() if count})
        return heights

    def _cycle(self, suspects: set[str]) -> InstanceError:
        """Return the error for the cycle that is reached from any suspect by going up."""
        domain = next(d for d in self._domains if d in suspects)
        seen: dict[str, None] = {}
        while domain not in seen:
            seen[domain] = None
            domain = self._stands[domain].parent
        circle = [*seen][[*seen].index(domain) :]
        # From the one that the file says first, so that the message does not depend on the way.
        names = [shown(d) for d in [*reversed(circle), circle[-1]][:6]]
        dots = " - ..." if len(circle) > 5 else ""
        return self._stands[domain].where.error(
            f"{self.domain_word} {' contains '.join(names)}{dots}: a circle; take one out of the "
            "other."
        )

    def _require_one_piece(self) -> None:
        inner = {stand.parent for stand in self._stands.values()}
        roots = [d for d in self._domains if d not in self._stands and d in inner]
        roots += [d for d in self._domains if d not in self._stands and d not in inner]
        roots += [h for h in self._hosts if h not in self._stands]
        if len(roots) < 2 or not self._domains:
            return
        listed = ", ".join(f"{shown(r)}{self._places[r].on_line}" for r in roots[:3])
        more = ", ..." if len(roots) > 3 else ""
        raise self._places[roots[1]].error(
            f"the topology falls into {len(roots)} pieces with nothing above them: {listed}{more}; "
            f"put them in one {self.domain_word}, or allow pieces (allow_pieces=True)."
        )

    def _levels(
        self, heights: dict[str, int], names: Sequence[str] | None
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the level of every domain, and the levels, outermost first."""
        if any(level is not None for level in self._domains.values()):
            if names is None or None in self._domains.values():
                raise ValueError("domains with levels need the list of levels, and all need one")
            return {d: level for d, level in self._domains.items() if level is not None}, tuple(
                names
            )
        count = max(heights.values(), default=-1) + 1
        if count > _MAX_LEVELS:
            top = max(heights, key=heights.__getitem__)
            raise self._places[top].error(
                f"{self.domain_word} {shown(top)} stands on {count - 1} levels of others; at "
                f"most {_MAX_LEVELS} levels are read, so flatten the tree."
            )
        ordered = tier_names(count) if names is None else tuple(names)
        if len(ordered) != count:
            raise self.file.error(
                f"has {count} levels of domains, and {len(ordered)} names were given for them "
                f"({', '.join(ordered)}); name every level, outermost first."
            )
        return {d: ordered[count - 1 - height] for d, height in heights.items()}, ordered

    def _require_level_names(self, levels: Sequence[str]) -> None:
        for k, level in enumerate(levels):
            if level in (HOST, GPU):
                raise self.file.error(
                    f"calls a level {shown(level)}, which every topology has already; name it anew."
                )
            if level in levels[:k]:
                raise self.file.error(
                    f"calls two levels {shown(level)}; give each a name of its own."
                )
            if not level or not level.isprintable():
                raise self.file.error(f"calls a level {shown(level)}; give it a name to print.")

    def _require_nested(self, level_of: dict[str, str], ordered: tuple[str, ...]) -> None:
        rank = {level: k for k, level in enumerate(ordered)}
        for domain in self._domains:
            if level_of[domain] not in rank:
                raise self._places[domain].error(
                    f"{self.domain_word} {shown(domain)} is on level {shown(level_of[domain])}, "
                    f"which is not one of the levels {', '.join(ordered)}"
                    f"{nearest(level_of[domain], rank, '; add it to them.')}"
                )
        for domain in self._domains:
            stand = self._stands.get(domain)
            if stand is None:
                continue
            outer = level_of[stand.parent]
            if rank[outer] >= rank[level_of[domain]]:
                raise stand.where.error(
                    f"{self.domain_word} {shown(domain)} of level {level_of[domain]} lies in "
                    f"{shown(stand.parent)} of level {outer}, so the levels do not nest; put it in "
                    f"a {self.domain_word} of a level outside {level_of[domain]}."
                )


def tier_names(count: int) -> tuple[str, ...]:
    """Return names for so many levels of switches, outermost first.

    Examples
    --------
    >>> tier_names(2), tier_names(4)
    (('spine', 'leaf'), ('tier-3', 'core', 'spine', 'leaf'))
    """
    return tuple(_TIERS[k] if k < len(_TIERS) else f"tier-{k}" for k in reversed(range(count)))


def _distinct(types: Iterable[HostType], file: Place) -> tuple[HostType, ...]:
    by_name: dict[str, HostType] = {}
    for kind in _unique(types):
        if by_name.setdefault(kind.name, kind) != kind:
            raise file.error(
                f"two different host types have the name {shown(kind.name)}; name one of them anew."
            )
    return tuple(by_name.values())


def _unique(types: Iterable[HostType]) -> Iterator[HostType]:
    """Yield every object once: a million hosts share a few types, which are slow to compare."""
    seen: set[int] = set()
    for kind in types:
        if id(kind) not in seen:
            seen.add(id(kind))
            yield kind


def _unless_same(first: Place, second: Place) -> str:
    line = first.line
    return "" if line is None or line == second.line else f", first on line {line}"
