"""Slurm's topologies, whichever of its two files says them: trees, blocks and rings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alloc.instances.readers.report import ReportLog
from alloc.instances.topologies.formats import Request
from alloc.instances.topologies.hostlist import expand_hostlist
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.tree import TreeBuilder
from alloc.topology import Topology

BLOCK = "block"
RING = "ring"

_MAX_IN_RING = 16
"""Slurm's own limit."""


@dataclass(frozen=True)
class Switch:
    """A switch, block or ring, as a line or an entry says it.

    Parameters
    ----------
    name
        Its name.
    where
        Where it is said.
    nodes, children
        Hostlist expressions of its nodes and of its switches, each with its place; None where it
        has none.
    """

    name: str
    where: Place
    nodes: tuple[str, Place] | None = None
    children: tuple[str, Place] | None = None


def tree_topology(switches: Sequence[Switch], file: str, request: Request) -> Topology:
    """Return the topology of a tree of switches; leaves hold nodes, all others switches.

    Parameters
    ----------
    switches
        The switches of the file.
    file
        Its name, for messages.
    request
        What the user wants of the reading.

    Raises
    ------
    InstanceError
        If a switch has both or neither, or they make no tree.
    """
    tree = TreeBuilder(file, domain_word="switch", host_word="node")
    for switch in switches:
        if (switch.nodes is None) == (switch.children is None):
            has = "neither nodes nor switches" if switch.nodes is None else "nodes and switches"
            raise switch.where.error(
                f"switch {shown(switch.name)} has {has}; give it either nodes or switches."
            )
        tree.domain(switch.name, switch.where)
        if switch.children is not None:
            for child in expand_hostlist(*switch.children):
                tree.put(child, switch.name, switch.children[1])
    for switch in switches:
        _add_nodes(tree, switch)
    return tree.build(
        request.name,
        host_types=request.host_types,
        levels=request.levels,
        one_piece=not request.allow_pieces,
    )


def block_topology(
    blocks: Sequence[Switch],
    sizes: Sequence[tuple[int, Place]],
    file: str,
    request: Request,
    log: ReportLog,
) -> Topology:
    """Return the topology of blocks, and of the blocks of blocks that their sizes make.

    Slurm pairs blocks that follow each other: with sizes 30, 60, 120 every two blocks from the
    first make one of 60, every four one of 120. Each size but the first is a level of its own,
    named after the size, as soon as there is more than one block; what is left at the end makes a
    smaller one, unless the next smaller size already holds it. The innermost level is ``block``.
    Such domains are named after their first and last block: ``rack1..rack4``.

    Parameters
    ----------
    blocks
        The blocks, in the order of the file.
    sizes
        The block sizes, in nodes, the planning base block size first; empty where there are none.
    file, request, log
        The file, what the user wants, and the account.

    Raises
    ------
    InstanceError
        If a size is not a power of two times the first, or a block has fewer nodes than the first.
    """
    tree = TreeBuilder(file, domain_word="block", host_word="node")
    multiples = _multiples(sizes)
    used = [m for k, m in enumerate(multiples) if k == 0 or multiples[k - 1] < len(blocks)]
    for multiple in multiples[len(used) :]:
        log.drop("block size beyond all blocks together", f"{multiple * sizes[0][0]} nodes")
    base = sizes[0][0] if sizes else 1
    names = [f"{BLOCK}-{multiple * base}" for multiple in reversed(used[1:])] + [BLOCK]
    levels = request.levels or tuple(names)
    if len(levels) != len(names):
        raise tree.file.error(
            f"has {len(names)} levels of blocks, and {len(levels)} names were given for them "
            f"({', '.join(levels)}); name every level, outermost first."
        )
    for block in blocks:
        if block.nodes is None:
            raise block.where.error(f"block {shown(block.name)} has no nodes; name them.")
        tree.domain(block.name, block.where, level=levels[-1])
        count = _add_nodes(tree, block)
        if count < base:
            raise block.where.error(
                f"block {shown(block.name)} has {count} nodes, fewer than the base block size "
                f"{base}; lower the size or complete the block."
            )
        if count > base and sizes:
            log.alter("block has more nodes than the base block size", block.name)
    _aggregate(tree, blocks, used, levels)
    # Blocks need nothing above them: any of them may serve one job.
    return tree.build(request.name, host_types=request.host_types, levels=levels, one_piece=False)


def ring_topology(rings: Sequence[Switch], file: str, request: Request) -> Topology:
    """Return the topology of rings: hosts in ring order, each ring one domain.

    That neighbours are closer than others is not in the topology; the order of the hosts is.

    Parameters
    ----------
    rings
        The rings of the file.
    file
        Its name, for messages.
    request
        What the user wants of the reading.

    Raises
    ------
    InstanceError
        If a ring has no nodes, or more than Slurm's 16.
    """
    tree = TreeBuilder(file, domain_word="ring", host_word="node")
    levels = request.levels or (RING,)
    if len(levels) != 1:
        raise tree.file.error(
            f"has one level, its rings, and {len(levels)} names were given for it "
            f"({', '.join(levels)}); give one name."
        )
    for ring in rings:
        if ring.nodes is None:
            raise ring.where.error(f"ring {shown(ring.name)} has no nodes; name them in order.")
        tree.domain(ring.name, ring.where, level=levels[0])
        count = _add_nodes(tree, ring)
        if count > _MAX_IN_RING:
            raise ring.where.error(
                f"ring {shown(ring.name)} has {count} nodes; Slurm allows {_MAX_IN_RING} in a "
                "ring, so split it."
            )
    return tree.build(request.name, host_types=request.host_types, levels=levels, one_piece=False)


def _add_nodes(tree: TreeBuilder, domain: Switch) -> int:
    """Add the nodes of a leaf, block or ring; return their number."""
    if domain.nodes is None:
        return 0
    names = expand_hostlist(*domain.nodes)
    where = domain.nodes[1]
    for name in names:
        # Before the host itself: a node in two leaves is that, and not a node named twice.
        tree.put(name, domain.name, where)
        tree.host(name, where)
    return len(names)


def _multiples(sizes: Sequence[tuple[int, Place]]) -> list[int]:
    """Return how many base blocks each size takes, in increasing order, the first being 1."""
    if not sizes:
        return [1]
    base = sizes[0][0]
    multiples = {1}
    for size, where in sizes:
        multiple, rest = divmod(size, base)
        if rest or multiple & (multiple - 1) or not multiple:
            raise where.error(
                f"block size {size} is not 1, 2, 4, 8 ... times the base block size {base}; "
                f"write for example {base},{2 * base},{4 * base}."
            )
        multiples.add(multiple)
    return sorted(multiples)


def _aggregate(
    tree: TreeBuilder, blocks: Sequence[Switch], multiples: Sequence[int], levels: Sequence[str]
) -> None:
    """Add the blocks of blocks, from the inside out."""
    # The innermost domain so far that holds each block.
    inside = [block.name for block in blocks]
    for j in range(1, len(multiples)):
        for first in range(0, len(blocks), multiples[j]):
            left = len(blocks) - first
            if multiples[j] > left and multiples[j - 1] >= left:
                continue
            part = slice(first, first + multiples[j])
            name = f"{blocks[part][0].name}..{blocks[part][-1].name}"
            where = blocks[first].where
            tree.domain(name, where, level=levels[-1 - j])
            for child in dict.fromkeys(inside[part]):
                tree.put(child, name, where)
            inside[part] = [name] * len(blocks[part])
