"""Columns and named rows of an `ArrayModel`, collected block by block or one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.clock import check_time
from alloc.formulation import Array, ArrayModel
from alloc.objectives import Sense

Index = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.floating[Any]] | npt.NDArray[np.integer[Any]] | float
Term = tuple[Index | int, Index | int, Numbers]
"""Row within its block, column, and value, broadcast against each other."""


class ModelBuilder:
    """Collects the columns and the named rows of a mixed-integer program.

    Parameters
    ----------
    families
        Names of constraints in the order of their rows: `ArrayModel.rows` has these even where no
        row was added, as an empty slice between their neighbours.
    """

    def __init__(self, *families: str) -> None:
        self.num_columns = 0
        self.num_rows = 0
        self._lower: list[Array] = []
        self._upper: list[Array] = []
        self._cost: list[Array] = []
        self._integer: list[npt.NDArray[np.bool_]] = []
        self._row: list[Index] = []
        self._column: list[Index] = []
        self._value: list[Array] = []
        self._row_lower: list[Array] = []
        self._row_upper: list[Array] = []
        self._declared = families
        self._families: dict[str, slice] = {}
        self._split: set[str] = set()
        # Single rows wait in plain lists: a NumPy array for each takes ten times as long.
        self._lengths: list[int] = []
        self._waiting: tuple[list[int], list[float], list[float], list[float]] = ([], [], [], [])

    def columns(
        self,
        shape: int | tuple[int, ...],
        upper: Numbers = math.inf,
        lower: Numbers = 0.0,
        *,
        cost: Numbers = 0.0,
        integer: bool | npt.NDArray[np.bool_] = True,
    ) -> Index:
        """Add columns and return their positions.

        Parameters
        ----------
        shape
            Number of columns, or shape of a block of them.
        upper, lower, cost, integer
            Limits, coefficients of the objective, and which must be whole; broadcast to `shape`.

        Returns
        -------
        ndarray
            Positions, in `shape`.
        """
        check_time()
        for parts, given in ((self._lower, lower), (self._upper, upper), (self._cost, cost)):
            parts.append(np.broadcast_to(np.asarray(given, dtype=float), shape).ravel())
        self._integer.append(np.broadcast_to(integer, shape).ravel())
        begin, self.num_columns = self.num_columns, self.num_columns + len(self._integer[-1])
        return np.arange(begin, self.num_columns, dtype=np.int64).reshape(shape)

    def rows(
        self,
        family: str,
        count: int,
        terms: Iterable[Term],
        lower: Numbers = -np.inf,
        upper: Numbers = np.inf,
    ) -> None:
        """Add a block of rows ``lower <= sum value x column <= upper``.

        Parameters
        ----------
        family
            Name of the constraint, as on the page of mathematics.
        count
            Number of rows, 0 or more.
        terms
            What the rows sum; what names an entry twice adds up.
        lower, upper
            Limits, broadcast to shape ``(count,)``.
        """
        check_time()
        self._take_single_rows()
        for row, column, value in terms:
            rows, columns, values = np.broadcast_arrays(row, column, value)
            self._row.append(rows.ravel().astype(np.int64) + self.num_rows)
            self._column.append(columns.ravel().astype(np.int64))
            self._value.append(values.ravel().astype(float))
        self._row_lower.append(np.broadcast_to(np.asarray(lower, dtype=float), count))
        self._row_upper.append(np.broadcast_to(np.asarray(upper, dtype=float), count))
        self._count(family, count)

    def row(
        self,
        family: str,
        terms: Iterable[tuple[Index | int, Numbers]],
        lower: float = -np.inf,
        upper: float = np.inf,
    ) -> int:
        """Add one row of columns and their values; return its position.

        Parameters
        ----------
        family
            Name of the constraint, as on the page of mathematics.
        terms
            Columns and their values; an array of columns has a value for each, or one for all. What
            names a column twice adds up.
        lower, upper
            Limits of the row.
        """
        check_time()
        columns, values, lowers, uppers = self._waiting
        before = len(columns)
        for column, value in terms:
            if isinstance(column, np.ndarray):
                columns += column.tolist()
                values += np.broadcast_to(value, column.shape).tolist()
            else:
                columns.append(column)
                values.append(value)  # type: ignore[arg-type]  # one column has one value
        self._lengths.append(len(columns) - before)
        lowers.append(lower)
        uppers.append(upper)
        self._count(family, 1)
        return self.num_rows - 1

    def model(self, sense: Sense, offset: float = 0.0, *, cost: Array | None = None) -> ArrayModel:
        """Return the program.

        Parameters
        ----------
        sense
            ``min`` or ``max``.
        offset
            Constant of the objective.
        cost
            Coefficients of the objective, shape (columns,); None: those of the columns.
        """
        self._take_single_rows()
        at = (_joined(self._row, np.int64), _joined(self._column, np.int64))
        from scipy import sparse  # slow to load, and many instances are solved without a model

        matrix = sparse.csr_array(
            (_joined(self._value), at), shape=(self.num_rows, self.num_columns)
        )
        matrix.sum_duplicates()
        return ArrayModel(
            sense=sense,
            cost=_joined(self._cost) if cost is None else cost,
            matrix=matrix,
            row_lower=_joined(self._row_lower),
            row_upper=_joined(self._row_upper),
            lower=_joined(self._lower),
            upper=_joined(self._upper),
            integer=_joined(self._integer, np.bool_),
            offset=offset,
            rows=self._slices(),
        )

    def _slices(self) -> dict[str, slice]:
        """Return the rows of every family that stands together."""
        found = {n: rows for n, rows in self._families.items() if n not in self._split}
        after = self.num_rows
        for name in reversed(self._declared):
            after = found.setdefault(name, slice(after, after)).start
        return found

    def _count(self, family: str, count: int) -> None:
        """Count the last rows in, as rows of a family."""
        begin, self.num_rows = self.num_rows, self.num_rows + count
        known = self._families.get(family, slice(begin, begin))
        if known.stop == begin:
            self._families[family] = slice(known.start, self.num_rows)
        elif count:
            self._split.add(family)

    def _take_single_rows(self) -> None:
        """Make arrays of the single rows that wait."""
        if not self._lengths:
            return
        columns, values, lowers, uppers = self._waiting
        first = self.num_rows - len(self._lengths)
        rows = np.arange(first, self.num_rows, dtype=np.int64)
        self._row.append(np.repeat(rows, self._lengths))
        self._column.append(np.array(columns, dtype=np.int64))
        self._value.append(np.array(values, dtype=float))
        self._row_lower.append(np.array(lowers, dtype=float))
        self._row_upper.append(np.array(uppers, dtype=float))
        for waiting in (self._lengths, *self._waiting):
            waiting.clear()


def _joined(parts: list[Any], kind: type = float) -> Any:
    return np.concatenate([np.zeros(0, dtype=kind), *parts])
