"""Bases of blocks that were solved, and which of them is nearest to the optimum of another.

All blocks have the same matrix and costs, so a basis that is optimal for one is dual feasible for
every other, and its dual solution says at least what that other costs. The dual simplex method
begins at the basis that says most: on planning-large two and a half times as fast as from the
basis that was optimal last.
"""

from __future__ import annotations

import highspy
import numpy as np

from alloc.models.right_sizing.data import Array

_MOST_KNOWN = 200
"""Bases that are kept, the latest: with 30 of them a block takes an eighth more iterations, and with
1,000 as many, while to look through them takes longer than these."""


class KnownBases:
    """The latest optimal bases with their dual solutions.

    Parameters
    ----------
    rows, columns
        Of the program, the columns that have an upper bound.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self._duals = np.zeros((_MOST_KNOWN, rows))
        self._charges = np.zeros((_MOST_KNOWN, columns))
        """Reduced costs below 0, which are paid for at the upper bounds."""
        self._bases: list[highspy.HighsBasis] = []
        self._next = 0
        self._last: int | None = None
        """Of these, the basis that the solver stands at."""

    def add_rows(self, count: int) -> None:
        """Take rows that are new: known duals are 0 there."""
        self._duals = np.pad(self._duals, ((0, 0), (0, count)))

    def nearest(self, right: Array, upper: Array) -> highspy.HighsBasis | None:
        """Return the basis to begin at; None: where the solver stands.

        Parameters
        ----------
        right
            Right-hand sides, shape (rows,).
        upper
            Upper bounds, shape (columns,).
        """
        known = len(self._bases)
        if not known:
            return None
        worth = self._duals[:known] @ right + self._charges[:known] @ upper
        best = int(worth.argmax())
        last, self._last = self._last, None
        return None if last is not None and worth[last] == worth[best] else self._bases[best]

    def add(self, basis: highspy.HighsBasis, duals: Array, reduced: Array) -> None:
        """Keep the basis that the solver has ended at.

        Parameters
        ----------
        basis
            The basis.
        duals
            Of the rows, shape (rows,).
        reduced
            Reduced costs of the columns, shape (columns,).
        """
        at = self._next
        self._bases[at : at + 1] = [basis]
        self._duals[at], self._charges[at] = duals, np.minimum(reduced, 0.0)
        self._last, self._next = at, (at + 1) % _MOST_KNOWN
