"""Patterns of bays: the most valuable one at given prices."""

from __future__ import annotations

import numpy as np

from alloc.clock import check_time
from alloc.formulation import Array
from alloc.solving.placement.tables import Ints, Piece, fill_table, pieces, trace_back
from alloc.solving.placement.waiting import Waiting
from alloc.units import RESOURCES

_MAX_FILLED = 10**9
"""Cells filled in one round over all bays, some seconds: with more, a solve would have too few
rounds."""


class Knapsacks:
    """The free capacity of one host of each bay, filled with waiting tasks.

    Parameters
    ----------
    waiting
        The admission problem.

    Attributes
    ----------
    multiplicity
        Hosts of each bay, shape (bays,).
    """

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self.multiplicity: Ints = np.array([len(bay.hosts) for bay in waiting.bays], dtype=np.int64)
        useful = waiting.copies @ waiting.demand
        self._free = [np.minimum(bay.free, useful) for bay in waiting.bays]
        # A named resource that a bay has none of, or nobody asks for, is no axis of its table.
        every = np.arange(waiting.demand.shape[1])
        self._axes = [every[(free > 0) | (every < len(RESOURCES))] for free in self._free]

    @property
    def too_large(self) -> bool:
        """Whether one round over all bays takes too long."""
        copies = np.log2(np.minimum(self.waiting.copies, 64) + 1) + 1
        filled = 0.0
        for bay, free in zip(self.waiting.bays, self._free, strict=True):
            filled += float(np.prod(free + 1.0)) * float(copies[bay.classes].sum())
        return filled > _MAX_FILLED

    def solve(self, prices: list[Array]) -> tuple[list[Ints], Array]:
        """Return for each bay the most valuable pattern, made maximal, and its value.

        Parameters
        ----------
        prices
            For each bay, what a task of each class is worth, 0 or more.

        Raises
        ------
        OutOfTime
            If the time of `alloc.clock` is up.
        """
        found, worth = [], np.zeros(len(prices))
        for b, price in enumerate(prices):
            check_time()
            own = self._pieces(b, np.flatnonzero(price > 0))
            table = np.zeros(self._free[b][self._axes[b]] + 1)
            took = fill_table(table, own, price)
            worth[b] = -table.flat[0]
            counts = np.zeros(len(price), dtype=np.int64)
            trace_back(took, np.zeros((1, table.ndim), dtype=np.int64), counts[None])
            self._complete(b, counts)
            found.append(counts)
        return found, worth

    def _pieces(self, b: int, classes: Ints) -> list[Piece]:
        waiting, axes = self.waiting, self._axes[b]
        takes = np.intersect1d(classes, waiting.bays[b].classes)
        demand, free = waiting.demand[:, axes], self._free[b][axes]
        return [
            piece
            for c in takes
            for piece in pieces(int(c), int(waiting.copies[c]), demand[c], free)
        ]

    def _complete(self, b: int, counts: Ints) -> None:
        """Add tasks while one fits, large ones first."""
        waiting = self.waiting
        load = counts @ waiting.demand
        classes = waiting.bays[b].classes
        for c in classes[np.argsort(-waiting.demand[classes].sum(axis=1), kind="stable")]:
            while (
                counts[c] < waiting.copies[c] and (load + waiting.demand[c] <= self._free[b]).all()
            ):
                counts[c] += 1
                load += waiting.demand[c]
