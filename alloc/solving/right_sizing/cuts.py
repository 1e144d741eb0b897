"""Cuts: what the dual of one block says about all of them.

All blocks have the same matrix and costs, so a dual solution of one is a dual solution of every
other: ``Q(w, t; z, v) >= alpha[w, t] + beta[w, t] @ z + gamma[w, t] v`` by weak duality, with
reduced costs below 0 charged at the upper bounds. Only for whether levels are open does beta differ
from block to block (`Opening`). So one solve gives a cut for every scenario and quarter,
and no cut rests on a solver's tolerance: alpha, beta and gamma are worked out here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from alloc.models.right_sizing.data import Array, Ints
from alloc.solving.right_sizing.blocks import BlockData

ZERO_CUT = 0
"""Position of the cut that says: at least 0."""


class CutPool:
    """Dual solutions with what they are worth in every block.

    The first, at position `ZERO_CUT`, is 0: no block costs less than nothing.

    Parameters
    ----------
    data
        The blocks.
    """

    def __init__(self, data: BlockData) -> None:
        self.data = data
        self._transposed = data.matrix.T.tocsr()
        rows, linked = data.matrix.shape[0], data.first_stage.shape[1]
        shape = data.right.shape[:2]
        self.dual = np.zeros((1, rows))
        self.alpha = np.zeros((1, *shape))
        self.beta = np.zeros((1, linked))
        self.gamma = np.zeros((1, *shape))
        self._known = {self.dual[0].tobytes()}
        self._at_opening = self._of_opening(self.dual)
        """The duals in the rows that tie jobs to open levels: few are not 0."""

    def change(self, data: BlockData) -> None:
        """Take blocks with other costs or more rows; a known dual is 0 in rows that are new."""
        more = data.matrix.shape[0] - self.dual.shape[1]
        self.data, self._transposed = data, data.matrix.T.tocsr()
        if more:
            self.dual = np.pad(self.dual, ((0, 0), (0, more)))
            self._known = {np.round(dual, 9).tobytes() for dual in self.dual}
        self._at_opening = self._of_opening(self.dual)

    def _of_opening(self, duals: Array) -> sparse.csr_array:
        return sparse.csr_array(duals[:, self.data.opening.rows])

    def __len__(self) -> int:
        return len(self.dual)

    def add(self, duals: list[Array]) -> None:
        """Add dual solutions, those that are new."""
        new = []
        for dual in duals:
            key = np.round(dual, 9).tobytes()
            if key not in self._known:
                self._known.add(key)
                new.append(dual)
        if not new:
            return
        data = self.data
        pis = np.array(new)
        reduced = np.minimum(data.cost - (self._transposed @ pis.T).T, 0.0)
        # Slack columns have no upper bound: their penalty bounds the duals.
        priced = pis.copy()
        over = reduced[:, data.own :].min(axis=1, initial=0.0) < 0
        if over.any():
            priced, reduced = self._within_prices(pis, reduced, over)
        fixed = reduced[:, : data.own] @ data.fixed_upper[: data.own]
        change = data.upper - data.fixed_upper[data.varying]
        alpha = np.einsum("km,wtm->kwt", priced, data.right) + fixed[:, None, None]
        if len(data.varying):
            alpha += np.einsum("kn,wtn->kwt", reduced[:, data.varying], change)
        self.dual = np.concatenate([self.dual, priced])
        self.alpha = np.concatenate([self.alpha, alpha])
        self.beta = np.concatenate([self.beta, -(data.first_stage.T @ priced.T).T])
        lift = np.einsum("km,wtm->kwt", priced, data.waived) if data.waived.any() else 0 * alpha
        self.gamma = np.concatenate([self.gamma, -lift])
        self._at_opening = sparse.vstack([self._at_opening, self._of_opening(priced)], "csr")

    def _within_prices(self, pis: Array, reduced: Array, over: Array) -> tuple[Array, Array]:
        """Scale duals that exceed the penalties by rounding."""
        data, scaled = self.data, pis.copy()
        slack = data.matrix[:, [*range(data.own, data.matrix.shape[1])]].tocsc()
        used = (slack.T @ pis.T).T
        most = (used / data.cost[data.own :]).max(axis=1)
        scaled[over] /= np.maximum(most[over], 1.0)[:, None] * (1 + 1e-12)
        reduced = np.minimum(data.cost - (self._transposed @ scaled.T).T, 0.0)
        reduced[:, data.own :] = 0.0
        return scaled, reduced

    def values(self, linked: Array, waived: Array, since: int = 0) -> Array:
        """Return what each cut from a position on says about each block.

        The shape is (cuts, scenarios, quarters).

        Parameters
        ----------
        linked
            What links to the blocks, shape (quarters, linked).
        waived
            How far each scenario is waived, 0 to 1, shape (scenarios,).
        since
            Position of the first cut that is asked for.
        """
        alpha, gamma = self.alpha[since:], self.gamma[since:]
        found = alpha + (self.beta[since:] @ linked.T)[:, None, :] + gamma * waived[:, None]
        opening = self.data.opening
        if len(opening.rows):
            opened = self.data.opened(linked).reshape(-1, len(opening.rows))
            found -= (self._at_opening[since:] @ opened.T).reshape(found.shape)
        return np.asarray(found)

    def slopes(self, at: Sequence[int] | Ints, w: int, t: int) -> Array:
        """Return the slopes of some cuts of a block in what links to it, shape (cuts, linked).

        Parameters
        ----------
        at
            Positions of the cuts.
        w, t
            Scenario and quarter.
        """
        found, opening = self.beta[at], self.data.opening
        if len(opening.rows):
            opened = self.dual[at][:, opening.rows] * opening.share[w, t]
            np.subtract.at(found.T, opening.columns, opened.T)
        return found

    def expected(self, at: Ints, share: Array, t: int) -> tuple[float, Array, Array]:
        """Return the sum over the scenarios of one cut of each in a quarter.

        Parameters
        ----------
        at
            Positions of the cuts, shape (scenarios,).
        share
            What each scenario counts, shape (scenarios,).
        t
            The quarter.

        Returns
        -------
        constant, slope, lift
            The last two in what links, shape (linked,), and in what is waived, (scenarios,).
        """
        worlds, opening = np.arange(len(at)), self.data.opening
        slope = share @ self.beta[at]
        if len(opening.rows):
            opened = self.dual[np.ix_(at, opening.rows)] * opening.share[:, t]
            np.subtract.at(slope, opening.columns, share @ opened)
        return (
            float(share @ self.alpha[at, worlds, t]),
            slope,
            share * self.gamma[at, worlds, t],
        )
