"""Bounds that multipliers prove, in plain numpy: no word of a solver is in them.

For any multipliers y of the rows, ``min c x, L <= A x <= U, l <= x <= u`` is at least ``y`` times
the limits on its side plus, for each column, the least that its reduced cost ``c - A'y`` makes
between its bounds. Rounding is counted against the bound (Neumaier and Shcherbina 2004), so that it
holds for the numbers as they are, however the multipliers were found.

References
----------
A. Neumaier, O. Shcherbina, "Safe bounds in linear and mixed-integer linear programming",
Mathematical Programming 99 (2004).
"""

from __future__ import annotations

import numpy as np

from alloc.formulation import Array, ArrayModel

_EPSILON = float(np.finfo(float).eps)


class WeakDuality:
    """What multipliers prove of one program, for any limits of its columns.

    Parameters
    ----------
    model
        The program; columns may be integer, which the bounds do not use.
    """

    def __init__(self, model: ArrayModel) -> None:
        self._model = model
        self._sign = 1.0 if model.sense == "min" else -1.0
        self._columns = model.matrix.T.tocsr()
        self._sizes = abs(self._columns)
        self._length = np.diff(self._columns.indptr) + 2

    def bound(
        self, multipliers: Array, lower: Array | None = None, upper: Array | None = None
    ) -> float:
        """Return the bound on the optimum that multipliers of the rows prove.

        Parameters
        ----------
        multipliers
            One for each row, of any sign and quality, shape (rows,): change of the objective by the
            row's limit. Of a sign that the row's limits do not allow, it counts as 0.
        lower, upper
            Limits of the columns, shape (columns,); None: the program's.

        Returns
        -------
        float
            In minimisation a lower bound, in maximisation an upper one; infinite, and so no bound,
            where a column without limit has a reduced cost on its side.
        """
        value, error = self._least(
            self._sign * self._model.cost, self._sign * multipliers, lower, upper
        )
        return self._sign * (value - error) + self._model.offset

    def proves_infeasible(
        self, ray: Array, lower: Array | None = None, upper: Array | None = None
    ) -> bool:
        """Return whether multipliers prove that no solution exists (Farkas' lemma, either sign).

        Parameters
        ----------
        ray
            One for each row, shape (rows,).
        lower, upper
            As in `bound`.
        """
        nothing = np.zeros(len(self._model.cost))
        found = (self._least(nothing, sign * ray, lower, upper) for sign in (1.0, -1.0))
        return any(value - error > 0 for value, error in found)

    def _least(
        self, cost: Array, multipliers: Array, lower: Array | None, upper: Array | None
    ) -> tuple[float, float]:
        """Return the Lagrangian function of a minimisation, and what rounding may have added."""
        model = self._model
        lower, upper = (
            model.lower if lower is None else lower,
            model.upper if upper is None else upper,
        )
        price = np.where(np.isfinite(multipliers), multipliers, 0.0)
        price = np.where(np.isneginf(model.row_lower), np.minimum(price, 0.0), price)
        price = np.where(np.isposinf(model.row_upper), np.maximum(price, 0.0), price)
        limit = np.where(price > 0, model.row_lower, model.row_upper)
        paid = price * np.where(price == 0, 0.0, limit)
        reduced = cost - self._columns @ price
        off = _EPSILON * self._length * (np.abs(cost) + self._sizes @ np.abs(price))
        with np.errstate(invalid="ignore"):
            corners = np.array(
                [(reduced + side * off) * limit for side in (-1.0, 1.0) for limit in (lower, upper)]
            )
        # 0 times infinity: a column that costs nothing adds nothing.
        least = np.where(np.isnan(corners), 0.0, corners).min(axis=0, initial=np.inf)
        terms = np.concatenate([paid, least])
        if not np.isfinite(terms).all():
            return -np.inf, 0.0
        return float(terms.sum()), _EPSILON * len(terms) * float(np.abs(terms).sum())
