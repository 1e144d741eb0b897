"""Domains from labels: the tree that the values of some labels on hosts mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.tree import TreeBuilder

ROOT = "cluster"
"""The domain, and its level, above several that no label joins."""


@dataclass(frozen=True)
class Labelled:
    """A host with the values of its labels.

    Parameters
    ----------
    id
        Its name.
    where
        Where the file says so.
    values
        The value of each level, outermost first; nothing where it has none.
    """

    id: str
    where: Place
    values: tuple[str, ...]


def insert_nested(hosts: Sequence[Labelled], levels: Sequence[str], extra: Mapping[str, str],
                  level: str) -> tuple[list[Labelled], tuple[str, ...]]:  # fmt: skip
    """Put another level where it nests: as far in as its domains lie in one domain each.

    Parameters
    ----------
    hosts, levels
        Hosts with the values of some levels.
    extra
        The value of the other level by host; hosts may be missing.
    level
        Its name.

    Returns
    -------
    list of Labelled, tuple of str
        The same with the level.

    Raises
    ------
    InstanceError
        If it nests nowhere.
    """
    depth = len(levels)
    prefixes: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for host in hosts:
        if host.id in extra:
            prefixes[extra[host.id]].add(host.values)
    while depth and any(len({p[:depth] for p in ps}) > 1 for ps in prefixes.values()):
        depth -= 1
    _require_whole(hosts, levels, depth, extra, level)
    inserted = [
        Labelled(h.id, h.where, (*h.values[:depth], extra.get(h.id, ""), *h.values[depth:]))
        for h in hosts
    ]
    return inserted, (*levels[:depth], level, *levels[depth:])


def _require_whole(
    hosts: Sequence[Labelled],
    levels: Sequence[str],
    depth: int,
    extra: Mapping[str, str],
    level: str,
) -> None:
    """Refuse that a domain just inside another level lies in it only in part, or in two of it."""
    first: dict[tuple[str, ...], Labelled] = {}
    for host in hosts if depth < len(levels) else ():
        inner = host.values[: depth + 1]
        one, other = extra.get(first.setdefault(inner, host).id, ""), extra.get(host.id, "")
        if one != other:
            raise host.where.error(
                f"{levels[depth]} {shown(inner[-1])} has hosts of {level} {_or_none(one)} (host "
                f"{first[inner].id}) and of {_or_none(other)} (host {host.id}), and neither lies "
                "in the other, so the levels do not nest; correct the labels, or leave "
                f"{level} out."
            )


def _or_none(value: str) -> str:
    return shown(value) if value else "none"


def _completed(hosts: Sequence[Labelled], local_names: bool) -> list[Labelled]:
    """Give every host the values above those that it has, as far as they can be known.

    A value that is unique lies where other hosts say that it lies. One that is not means nothing
    without the values above it: then the host stands in the last domain that is told.
    """
    if local_names:
        told = [h.values.index("") if "" in h.values else len(h.values) for h in hosts]
        return [
            Labelled(h.id, h.where, h.values[:n] + ("",) * (len(h.values) - n))
            for h, n in zip(hosts, told, strict=True)
        ]
    above: dict[tuple[int, str], str] = {}
    for host in hosts:
        for k in range(1, len(host.values)):
            if host.values[k] and host.values[k - 1]:
                above.setdefault((k, host.values[k]), host.values[k - 1])
    completed = []
    for host in hosts:
        values = list(host.values)
        for k in range(len(values) - 1, 0, -1):
            values[k - 1] = values[k - 1] or above.get((k, values[k]), "")
        completed.append(Labelled(host.id, host.where, tuple(values)))
    return completed


def add_domains(
    builder: TreeBuilder, hosts: Sequence[Labelled], levels: Sequence[str], local_names: bool
) -> tuple[str, ...]:
    """Add the domains that labels mean to a builder that has the hosts, and put the hosts in them.

    Parameters
    ----------
    builder
        Has the hosts.
    hosts, levels
        Hosts with their values, by level.
    local_names
        Whether the same value below two domains means two domains; else it means that the levels
        do not nest.

    Returns
    -------
    tuple of str
        The levels, outermost first: a level above all is added where the rest falls into pieces.

    Raises
    ------
    InstanceError
        If the levels do not nest.
    """
    _require_nested(hosts, levels, local_names)
    hosts = _completed(hosts, local_names)
    paths = {host.id: _path(host.values) for host in hosts}
    every = dict.fromkeys(path[:k] for path in paths.values() for k in range(1, len(path) + 1))
    names = _names(every, builder.hosts)
    roots = {path[:1] for path in paths.values()}
    ordered = tuple(levels)
    root: str | None = None
    if len(roots) > 1 and every:
        level = ROOT if ROOT not in levels else f"whole-{ROOT}"
        root, ordered = _free(ROOT, {*names.values(), *builder.hosts}), (level, *levels)
        builder.domain(root, builder.file, level=level)
    places = {path: host.where for host in reversed(hosts) for path in _heads(paths[host.id])}
    for path in every:
        builder.domain(names[path], places[path], level=levels[path[-1][0]])
        above = names[path[:-1]] if len(path) > 1 else root
        if above is not None:
            builder.put(names[path], above, places[path])
    for host in hosts:
        path = paths[host.id]
        stands = names[path] if path else root
        if stands is not None:
            builder.put(host.id, stands, host.where)
    return ordered


# Position of the level and value, of each level in which a host has a value.
_Path = tuple[tuple[int, str], ...]


def _path(values: Sequence[str]) -> _Path:
    return tuple((k, value) for k, value in enumerate(values) if value)


def _heads(path: _Path) -> Iterable[_Path]:
    return (path[:k] for k in range(1, len(path) + 1))


def _names(paths: Iterable[_Path], hosts: Iterable[str]) -> dict[_Path, str]:
    """Name domains by their values where these tell them apart, else by the end of the way there.

    All domains of a level are named alike: ``p1/s3`` beside ``p2/s3`` and ``p2/s4``.
    """
    by_level: dict[int, list[_Path]] = defaultdict(list)
    for path in paths:
        by_level[path[-1][0]].append(path)
    taken = set(hosts)
    names: dict[_Path, str] = {}
    for level in sorted(by_level):
        longest = max(map(len, by_level[level]))
        for length in range(1, longest + 1):
            ends = {
                path: "/".join(value for _, value in path[-length:]) for path in by_level[level]
            }
            if len(set(ends.values())) == len(ends) and taken.isdisjoint(ends.values()):
                break
        for path, end in ends.items():
            names[path] = _free(end, taken)
            taken.add(names[path])
    return names


def _free(name: str, taken: Iterable[str]) -> str:
    """Return the name, with a number if it is taken."""
    taken, free, k = set(taken) if not isinstance(taken, set) else taken, name, 2
    while free in taken:
        free, k = f"{name}-{k}", k + 1
    return free


def _require_nested(hosts: Sequence[Labelled], levels: Sequence[str], local_names: bool) -> None:
    for inner in range(1, len(levels)):
        outer = inner - 1
        above: dict[str, dict[str, Labelled]] = defaultdict(dict)
        below: dict[str, set[str]] = defaultdict(set)
        for host in hosts:
            if host.values[inner] and host.values[outer]:
                above[host.values[inner]].setdefault(host.values[outer], host)
                below[host.values[outer]].add(host.values[inner])
        split = {value: others for value, others in above.items() if len(others) > 1}
        if not split:
            continue
        turned = all(len(values) == 1 for values in below.values())
        if local_names and not turned:
            continue
        value, others = next(iter(split.items()))
        (a, first), (b, second) = list(others.items())[:2]
        cure = (
            f"give {levels[inner]} before {levels[outer]}"
            if turned
            else "correct the labels, or leave one of the levels out"
        )
        raise second.where.error(
            f"{levels[inner]} {shown(value)} lies in {levels[outer]} {shown(a)} (host {first.id}) "
            f"and in {shown(b)} (host {second.id}), so the levels do not nest; {cure}."
        )
