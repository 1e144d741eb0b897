"""Columns and rows of a linear program, collected block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from alloc.formulation import Array, ArrayModel
from alloc.objectives import Sense

Index = npt.NDArray[np.int64]
Limits = npt.NDArray[np.floating[Any]] | npt.NDArray[np.integer[Any]] | float
Term = tuple[Index | int, Index | int, Limits]


class Lines:
    """Collects the columns and rows of a mixed-integer program."""

    def __init__(self) -> None:
        self._lower: list[Array] = []
        self._upper: list[Array] = []
        self._integer: list[npt.NDArray[np.bool_]] = []
        self.num_columns = 0
        self._row: list[Index] = []
        self._column: list[Index] = []
        self._value: list[Array] = []
        self._row_lower: list[Array] = []
        self._row_upper: list[Array] = []
        self.num_rows = 0
        self.families: dict[str, list[int]] = {}

    def columns(
        self,
        size: int,
        upper: Limits,
        lower: Limits = 0.0,
        *,
        integer: bool = True,
    ) -> Index:
        """Add columns and return their positions."""
        self._lower.append(np.broadcast_to(np.asarray(lower, dtype=float), size))
        self._upper.append(np.broadcast_to(np.asarray(upper, dtype=float), size))
        self._integer.append(np.full(size, integer))
        self.num_columns += size
        return np.arange(self.num_columns - size, self.num_columns, dtype=np.int64)

    def rows(
        self,
        family: str,
        count: int,
        terms: Sequence[Term],
        lower: Limits = -np.inf,
        upper: Limits = np.inf,
    ) -> None:
        """Add `count` rows; terms are (row within the block, column, value), broadcast."""
        if not count:
            return
        for row, column, value in terms:
            rows, columns, values = np.broadcast_arrays(row, column, value)
            self._row.append(rows.ravel().astype(np.int64) + self.num_rows)
            self._column.append(columns.ravel().astype(np.int64))
            self._value.append(values.ravel().astype(float))
        self._row_lower.append(np.broadcast_to(np.asarray(lower, dtype=float), count))
        self._row_upper.append(np.broadcast_to(np.asarray(upper, dtype=float), count))
        self.families.setdefault(family, []).extend(range(self.num_rows, self.num_rows + count))
        self.num_rows += count

    def row(
        self,
        family: str,
        columns: Sequence[tuple[Index | int, Limits]],
        lower: float = -np.inf,
        upper: float = np.inf,
    ) -> None:
        """Add one row."""
        self.rows(family, 1, [(0, c, value) for c, value in columns], lower, upper)

    def model(self, sense: Sense, cost: Array, offset: float) -> ArrayModel:
        """Return the program."""
        none: list[Array] = [np.zeros(0)]
        whole = [np.zeros(0, dtype=np.int64)]
        matrix = sparse.csr_array(
            (
                np.concatenate(none + self._value),
                (np.concatenate(whole + self._row), np.concatenate(whole + self._column)),
            ),
            shape=(self.num_rows, self.num_columns),
        )
        matrix.sum_duplicates()
        return ArrayModel(
            sense=sense,
            cost=cost,
            matrix=matrix,
            row_lower=np.concatenate(none + self._row_lower),
            row_upper=np.concatenate(none + self._row_upper),
            lower=np.concatenate(none + self._lower),
            upper=np.concatenate(none + self._upper),
            integer=np.concatenate([np.zeros(0, dtype=bool), *self._integer]),
            offset=offset,
            rows={
                name: slice(at[0], at[-1] + 1)
                for name, at in self.families.items()
                if at[-1] - at[0] + 1 == len(at)
            },
        )
