"""Scaling: the units in which a solver gets a program, and the way back to the user's.

The tolerances of HiGHS are absolute: reduced costs to 1e-7, rows to 1e-6, gaps to 1e-9. A program
whose objective is small is therefore "optimal" wherever the search stops. So costs go in with the
largest between 1 and 2, rows and columns of extreme size are brought back to ordinary ones, and
everything that comes out is turned back. The factors are powers of two, which rounding does not
touch; only rows of whole numbers are divided by their greatest common divisor, which is exact too.
Integer columns keep their unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from alloc.formulation import Array, ArrayModel

_SMALLEST, _LARGEST = 2.0**-10, 2.0**20
"""Sizes of a row's or column's largest entry that are left alone. At 2^20 a tolerance of 1e-6 is
one unit of what the row counts (MiB, milli-GPU), and still less than that below it."""
_LARGEST_COLUMN = 2.0**10
"""The same for columns: the amount of one whose entries are larger is so small beside rows of
ordinary size that the tolerance of its own limits, 1e-7, would be a visible part of it."""
_MOST_EXPONENT = 1022
"""Double precision ends a little above 2^1023."""


def power_of_two(size: float) -> float:
    """Return the power of two that brings a size into [1, 2), 1 for 0 and what is not finite."""
    if size == 0.0 or not math.isfinite(size):
        return 1.0
    exponent = math.frexp(size)[1] - 1
    return math.ldexp(1.0, -max(-_MOST_EXPONENT, min(exponent, _MOST_EXPONENT)))


def powers_of_two(sizes: Array) -> Array:
    """Return for each size the power of two that brings it into [1, 2), 1 for 0 and infinity."""
    ordinary = np.isfinite(sizes) & (sizes != 0)
    exponent = np.frexp(np.where(ordinary, sizes, 1.0))[1] - 1
    found: Array = np.ldexp(1.0, -np.clip(exponent, -_MOST_EXPONENT, _MOST_EXPONENT))
    return found


def factors(sizes: Array, largest: float = _LARGEST) -> Array:
    """Return the factor of rows or columns whose largest entries have these sizes."""
    found = np.ones(len(sizes))
    extreme = np.flatnonzero((sizes < _SMALLEST) | (sizes > largest))
    if len(extreme):
        found[extreme] = powers_of_two(sizes[extreme])
    return found


@dataclass(frozen=True, eq=False)
class Scaling:
    """Factors of a program: ``scaled = rows * (matrix * columns)``, ``x = columns * scaled x``.

    Parameters
    ----------
    objective
        Units of the scaled objective in one of the user's.
    rows
        Factor of each row, shape (rows,).
    columns
        Factor of each column, shape (columns,); 1 for integer columns.
    """

    objective: float
    rows: Array
    columns: Array

    @staticmethod
    def of(model: ArrayModel) -> Scaling:
        """Return the factors that suit a program."""
        matrix = abs(model.matrix)
        free = _without(matrix, model.lower == model.upper)
        # Where all columns of a row are fixed, HiGHS still looks at its entries.
        free = free + _times(matrix, (_largest(free.tocsr(), 1) == 0.0).astype(float))
        whole = _largest(_without(free, ~model.integer).tocsr(), 1)
        has_whole = whole > 0.0
        # Integer columns keep their unit, so theirs is the unit of the rows that they are in.
        sizes = np.where(has_whole, whole, _largest(free.tocsr(), 1))
        divisors = np.ones(len(sizes))
        for row in np.flatnonzero(sizes > _LARGEST).tolist():
            divisors[row] = _common_divisor(model, row)
        rows = factors(sizes / divisors) / divisors
        columns = np.ones(len(model.cost))
        if not model.integer.all():
            beside = _largest(_times(matrix, np.where(has_whole, rows, 0.0)).tocsc(), 0)
            columns = np.where(model.integer, 1.0, factors(beside, _LARGEST_COLUMN))
            # Rows of continuous columns alone follow these, and columns in no other row, them.
            scaled = _times(free.T, columns).T
            rows = np.where(has_whole, rows, factors(_largest(scaled.tocsr(), 1)))
            sizes = _largest(_times(matrix, rows).tocsc(), 0)
            alone = factors(sizes, _LARGEST_COLUMN)
            columns = np.where(model.integer | (beside > 0.0), columns, alone)
        largest = float(np.abs(model.cost * columns).max(initial=0.0))
        return Scaling(power_of_two(largest), rows, columns)

    def apply(self, model: ArrayModel) -> ArrayModel:
        """Return the program in scaled units."""
        matrix = model.matrix
        if (self.rows != 1.0).any():
            matrix = _times(matrix, self.rows)
        if (self.columns != 1.0).any():
            matrix = _times(matrix.T, self.columns).T.tocsr()
        return replace(
            model,
            cost=model.cost * (self.columns * self.objective),
            offset=model.offset * self.objective,
            matrix=matrix,
            row_lower=model.row_lower * self.rows,
            row_upper=model.row_upper * self.rows,
            lower=model.lower / self.columns,
            upper=model.upper / self.columns,
        )

    def finer(self, factor: float) -> Scaling:
        """Return the same with a larger scaled objective."""
        most = 2.0**_MOST_EXPONENT / self.objective
        return replace(self, objective=self.objective * min(factor, most))


def _without(matrix: Any, columns: npt.NDArray[np.bool_]) -> Any:
    """Return a matrix of sizes without some columns; a fixed one decides nothing about a row."""
    if not columns.any():
        return matrix
    return matrix @ sparse.diags_array((~columns).astype(float))


def _largest(matrix: Any, axis: int) -> Array:
    """Return the largest entry of each row (axis 1) or column (axis 0) of a matrix of sizes."""
    if not matrix.nnz:
        return np.zeros(matrix.shape[1 - axis])
    return np.asarray(matrix.max(axis=axis).toarray(), dtype=float).ravel()


def _times(matrix: Any, rows: Array) -> Any:
    """Return a matrix with each row times its factor."""
    found = matrix.tocsr(copy=True)
    found.data = found.data * np.repeat(rows, np.diff(found.indptr))
    return found


def _common_divisor(model: ArrayModel, row: int) -> float:
    """Return the greatest common divisor of a row of whole numbers, its limits included, else 1."""
    matrix = model.matrix.tocsr()
    at = slice(matrix.indptr[row], matrix.indptr[row + 1])
    limits = np.array([model.row_lower[row], model.row_upper[row]])
    numbers = np.concatenate([matrix.data[at], limits[np.isfinite(limits)]])
    if not model.integer[matrix.indices[at]].all() or (numbers != np.rint(numbers)).any():
        return 1.0
    return float(math.gcd(*(int(number) for number in numbers)))
