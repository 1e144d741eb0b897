"""Tables of loads: a knapsack over the grid of loads of a host, filled item by item.

Each cell of a table is the least cost of completing a load. Of an item of which there is always
another, one pass takes any number: the loads are gone through from the fullest to the emptiest, in
blocks that do not reach into each other. Of a scarce item, pieces of 1, 2, 4 ... tasks are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_Block = tuple[tuple[slice, ...], tuple[slice, ...], tuple[int, ...]]
_MAX_LAID_OUT = 4096
"""Layouts of blocks that are remembered: some times the items of a large instance."""


class Piece(NamedTuple):
    """Some tasks of an item taken together.

    Parameters
    ----------
    item, times
        The item, and how many of its tasks.
    shift
        Their load in grid steps.
    repeats
        Whether the piece may be taken again and again.
    """

    item: int
    times: int
    shift: tuple[int, ...]
    repeats: bool


Took = list[tuple[Piece, Flags]]
"""Pieces in the order in which they were offered, and the loads that take each."""


def max_copies(demand: Ints, room: Ints) -> float:
    """Return how many tasks of a demand fit into an empty host; infinite if they need nothing.

    Parameters
    ----------
    demand
        What a task needs of each resource, 0 or more, in grid steps, shape (resources,).
    room
        What an empty host has, in the same steps.
    """
    needed = demand > 0
    return float((room[needed] // demand[needed]).min()) if needed.any() else np.inf


def pieces(item: int, copies: int, demand: Ints, room: Ints) -> Iterator[Piece]:
    """Yield pieces of which any number of tasks up to `copies` is a sum, as far as they fit.

    Parameters
    ----------
    item
        Number of the item.
    copies
        Most tasks of it, 0 or more.
    demand, room
        As in `max_copies`.
    """
    fit = max_copies(demand, room)
    if 1 < fit <= copies:
        yield Piece(item, 1, tuple(demand.tolist()), repeats=True)
        return
    left, times = int(min(copies, fit)), 1
    while left > 0:
        times = min(times, left)
        yield Piece(item, times, tuple((times * demand).tolist()), repeats=False)
        left -= times
        times *= 2


def cells(shape: Sequence[int], piece: Piece) -> int:
    """Return how many cells of a table a piece fills.

    Parameters
    ----------
    shape
        Shape of the table: grid steps of each resource, and one.
    piece
        The piece, which fits.
    """
    return int(np.prod([n - s for n, s in zip(shape, piece.shift, strict=True)]))


@lru_cache(maxsize=_MAX_LAID_OUT)
def _blocks(shape: tuple[int, ...], shift: tuple[int, ...], repeats: bool) -> tuple[_Block, ...]:
    """Return where a load takes a piece, where that leads, and the size, block by block.

    Within a block no load leads to another; blocks are cut along the axis that makes fewest.
    """
    size = [n - s for n, s in zip(shape, shift, strict=True)]
    axis = max(range(len(shape)), key=lambda a: shift[a] / shape[a])
    starts = [0]
    step = size[axis]
    if repeats:
        step = shift[axis]
        starts = list(range(size[axis] - step, 0, -step))
        starts.append(0)
    blocks = []
    end = size[axis]
    for start in starts:
        here = [slice(0, n) for n in size]
        there = [slice(s, None) for s in shift]
        here[axis] = slice(start, end)
        there[axis] = slice(start + shift[axis], end + shift[axis])
        extent = tuple(end - start if a == axis else n for a, n in enumerate(size))
        blocks.append((tuple(here), tuple(there), extent))
        end = start
    return tuple(blocks)


def fill_table(
    table: Array, items: Sequence[Piece], worth: Array, pool: Flags | None = None
) -> Took:
    """Let every load of a table take each piece where that is cheaper; return where it is.

    Parameters
    ----------
    table
        Least cost of each load without the pieces, changed in place. Costs do not decrease with
        the load, so what is worth nothing is not taken.
    items
        The pieces.
    worth
        What a task of each item is worth.
    pool
        Memory for the flags, to be used again: fresh memory would take longer than the sums.
    """
    took: Took = []
    buffer = np.empty(table.size)
    for piece in items:
        if worth[piece.item] <= 0:
            continue
        if pool is None:
            flags = np.zeros(table.shape, dtype=bool)
        else:
            flags = pool[len(took) * table.size :][: table.size].reshape(table.shape)
            flags[...] = False
        price = piece.times * worth[piece.item]
        for here, there, extent in _blocks(table.shape, piece.shift, piece.repeats):
            without = table[here]
            taking = buffer[: without.size].reshape(extent)
            np.subtract(table[there], price, out=taking)
            np.less(taking, without, out=flags[here])
            np.minimum(taking, without, out=without)
        took.append((piece, flags))
    return took


def trace_back(took: Took, load: Ints, counts: npt.NDArray[np.signedinteger[Any]]) -> None:
    """Follow the pieces that loads took, latest first, adding them to loads and counts.

    Parameters
    ----------
    took
        What `fill_table` returned.
    load
        Load of each host in grid steps, shape (hosts, resources), changed in place.
    counts
        Tasks of each item, shape (hosts, items), changed in place.
    """
    if not took:
        return
    shape = took[0][1].shape
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    position = load @ strides
    for piece, flags in reversed(took):
        flat = flags.reshape(-1)
        shift = np.array(piece.shift)
        at = np.flatnonzero(flat[position])
        while len(at):
            load[at] += shift
            position[at] += int(shift @ strides)
            counts[at, piece.item] += piece.times
            at = at[flat[position[at]]] if piece.repeats else at[:0]
