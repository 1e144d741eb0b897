"""Hypothesis strategies for topologies that files can hold: trees of domains, blocks of hosts."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

from alloc.topology import Domain, Host, HostType, Topology

BOX = HostType("box", 8, "h100")

# Numbers with and without zeros in front, several numbers in a name, none at all, any script.
_STEMS = ("n", "gpu-", "r1n", "node", "a1b2-", "ñ", "x_")
_SUFFIXES = ("", "", "", "-x", "z9y")


@st.composite
def host_names(draw: st.DrawFn, count: int) -> Any:
    """Distinct names that hostlists compress in every way; none of them that of a domain."""
    names: dict[str, None] = {}
    while len(names) < count:
        stem, suffix = draw(st.sampled_from(_STEMS)), draw(st.sampled_from(_SUFFIXES))
        width, first = draw(st.integers(0, 4)), draw(st.integers(0, 110))
        numbered = (f"{stem}{k:0{width}d}{suffix}" for k in itertools.count(first))
        new = (name for name in numbered if name not in names)
        more = draw(st.integers(1, count - len(names)))
        names |= dict.fromkeys(itertools.islice(new, more))
    return list(names)


@st.composite
def trees(draw: st.DrawFn, *, max_hosts: int = 12) -> Any:
    """Trees of one piece, levels by height, hosts in leaves only: what switches can say.

    Hosts of a leaf need not follow each other, nor domains their parents.
    """
    layers = [[f"leaf-{k}" for k in range(draw(st.integers(1, 5)))]]
    parents: dict[str, str | None] = {}
    for tier in range(1, draw(st.integers(1, 4))):
        layer = [f"tier{tier}-{k}" for k in range(draw(st.integers(1, 3)))]
        below = [d for lower in layers for d in lower if d not in parents]
        # Every domain of a tier holds one of the tier below, so that heights are tiers.
        if len(layers[-1]) < len(layer):
            layer = layer[: len(layers[-1])]
        order = draw(st.permutations(layers[-1]))
        for k, domain in enumerate(order):
            parents[domain] = layer[k] if k < len(layer) else draw(st.sampled_from(layer))
        for domain in below:
            if domain not in parents and draw(st.booleans()):
                parents[domain] = draw(st.sampled_from(layer))
        layers.append(layer)
    roots = [d for layer in layers for d in layer if d not in parents]
    if len(roots) > 1:
        layers.append(["root"])
        parents |= dict.fromkeys(roots, "root")
    levels = [f"level-{k}" for k in range(len(layers))]
    level_of = {d: levels[k] for k, layer in enumerate(layers) for d in layer}
    order = draw(st.permutations(list(level_of)))
    domains = tuple(Domain(d, level_of[d], parents.get(d)) for d in order)
    leaves = layers[0]
    names = draw(host_names(draw(st.integers(len(leaves), max_hosts))))
    stands = leaves + [draw(st.sampled_from(leaves)) for _ in names[len(leaves) :]]
    hosts = tuple(Host(name, BOX.name, leaf) for name, leaf in zip(names, stands, strict=True))
    return Topology("drawn", (BOX,), hosts, tuple(reversed(levels)), domains)


@st.composite
def forests(draw: st.DrawFn, *, max_hosts: int = 10) -> Any:
    """Any nested domains, also with hosts beside domains, hosts in none, and several roots."""
    levels = ("pod", "nvlink-domain", "leaf")[draw(st.integers(0, 2)) :]
    domains: list[Domain] = []
    for level in levels:
        above = [None, *(d.id for d in domains)]
        for k in range(draw(st.integers(0, 3))):
            domains.append(Domain(f"{level}-{k}", level, draw(st.sampled_from(above))))
    names = draw(host_names(draw(st.integers(1, max_hosts))))
    stands = st.sampled_from([None, *(d.id for d in domains)])
    hosts = tuple(Host(name, BOX.name, draw(stands)) for name in names)
    return Topology("drawn", (BOX,), hosts, levels, tuple(domains))
