"""Which hosts a gang gets: the fewest domains, from the outside in, and of those the tightest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alloc.solving.gang.room import Counts, Tree
from alloc.topology.topology import HOST


def choose_hosts(
    tree: Tree, room: dict[str, Counts], within: Counts, count: int
) -> list[tuple[int, int]]:
    """Return (host, tasks) for a gang inside some hosts that have room for it.

    Level by level from the outside in, the tasks go to the fewest domains that hold them: the
    roomiest first, and the last of them the tightest one that takes the rest (Kueue's best fit;
    fewest domains at the outermost level where they differ is exact, ties and inner levels follow).

    Parameters
    ----------
    tree
        The domains.
    room
        Room of every unit by level, as `room_by_level` returns it.
    within
        Positions of the hosts to choose from.
    count
        Tasks of the gang, a multiple of every slice size.
    """
    return _fill(tree, room, within, count, tuple(reversed(tree.levels)))


def _fill(
    tree: Tree,
    room: dict[str, Counts],
    hosts: Counts,
    count: int,
    levels: Sequence[str],
) -> list[tuple[int, int]]:
    level, *inside = levels
    units = np.unique(tree.unit[level][hosts])
    shares = fewest(room[level][units], count)
    if level == HOST:
        first = len(tree.topology.domains)
        return [(int(units[k]) - first, share) for k, share in shares]
    chosen: list[tuple[int, int]] = []
    for k, share in shares:
        part = hosts[tree.unit[level][hosts] == units[k]]
        chosen += _fill(tree, room, part, share, inside)
    return chosen


def fewest(room: Counts, count: int) -> list[tuple[int, int]]:
    """Return (position, share) for the fewest parts that hold `count`, the last the tightest.

    Parameters
    ----------
    room
        Room of each part, shape (parts,); its sum is at least `count`.
    count
        What to share out.
    """
    order = np.argsort(-room, kind="stable")
    needed = int(np.searchsorted(np.cumsum(room[order]), count)) + 1
    shares = [(int(k), int(room[k])) for k in order[: needed - 1]]
    rest = count - sum(share for _, share in shares)
    # The tightest part that takes the rest, not the roomiest: the others stay whole.
    others = order[needed - 1 :]
    able = others[room[others] >= rest]
    return [*shares, (int(able[np.argmin(room[able])]), rest)]
