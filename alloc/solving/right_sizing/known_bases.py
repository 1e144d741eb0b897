"""Bases of blocks that were solved, and which of them is nearest to the optimum of another.

All blocks have the same matrix and costs, so a basis that is optimal for one is dual feasible for
every other, and its dual solution says at least what that other costs. The dual simplex method
begins at the basis that says most: on planning-large two and a half times as fast as from the
basis that was optimal last.
"""

from __future__ import annotations

import numpy as np

from alloc.backends.linear_program import Basis
from alloc.models.right_sizing.data import Array, Ints

_MAX_KNOWN = 200
"""Bases that are kept, the latest: with 30 of them a block takes an eighth more iterations, and
with 1,000 as many, while to look through them takes longer."""
_CHARGE = 1e-9
"""Reduced costs, in units of money, down to which a column costs nothing at its upper bound: some
thirty of 5,000 columns cost more, and the rest is rounding."""


class KnownBases:
    """The latest optimal bases with their dual solutions.

    Parameters
    ----------
    rows
        Rows of the program.
    """

    def __init__(self, rows: int) -> None:
        self._duals = np.zeros((_MAX_KNOWN, rows))
        self._charged: Ints = np.zeros(0, dtype=np.int64)
        """Columns that some of them charge at their upper bounds."""
        self._charges = np.zeros((_MAX_KNOWN, 0))
        """Their reduced costs, 0 or less."""
        self._bases: list[Basis] = []
        self._next = 0
        self._last: int | None = None
        """Of these, the basis that the solver stands at."""

    def add_rows(self, count: int) -> None:
        """Take rows that are new: known duals are 0 there."""
        self._duals = np.pad(self._duals, ((0, 0), (0, count)))

    def nearest(self, right: Array, upper: Array) -> Basis | None:
        """Return the basis to begin at; None: where the solver stands.

        Parameters
        ----------
        right
            Right-hand sides, shape (rows,).
        upper
            Upper bounds, shape (columns,); infinite where there is none.
        """
        known = len(self._bases)
        if not known:
            return None
        worth = self._duals[:known] @ right + self._charges[:known] @ upper[self._charged]
        best = int(worth.argmax())
        last, self._last = self._last, None
        return None if last is not None and worth[last] == worth[best] else self._bases[best]

    def add(self, basis: Basis, duals: Array, reduced: Array) -> None:
        """Keep the basis that the solver has ended at.

        Parameters
        ----------
        basis
            The basis.
        duals
            Of the rows, shape (rows,).
        reduced
            Reduced costs of the columns that have an upper bound, 0 for others, shape (columns,).
        """
        new = np.setdiff1d(np.flatnonzero(reduced < -_CHARGE), self._charged)
        self._charged = np.concatenate([self._charged, new])
        self._charges = np.pad(self._charges, ((0, 0), (0, len(new))))
        at = self._next
        self._bases[at : at + 1] = [basis]
        self._duals[at] = duals
        self._charges[at] = np.minimum(reduced[self._charged], 0.0)
        self._last, self._next = at, (at + 1) % _MAX_KNOWN
