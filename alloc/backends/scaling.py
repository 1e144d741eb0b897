"""Scaling: the units in which a solver gets a program, and the way back to the user's.

The tolerances of HiGHS are absolute: reduced costs to 1e-7, rows to 1e-6, gaps to 1e-9. A program
whose objective is small is therefore "optimal" wherever the search stops. So costs go in with the
largest between 1 and 2 (in linear programs those that matter, see `size_of_costs`), rows and
columns of extreme size are brought back to ordinary ones, and everything that comes out is turned
back. The factors are powers of two, which rounding does not touch; only rows of whole numbers are
divided by their greatest common divisor, which is exact too. Integer columns keep their unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.formulation import Array, ArrayModel

_SMALLEST, _LARGEST = 2.0**-10, 2.0**20
"""Sizes of a row's or column's largest entry that are left alone. At 2^20 a tolerance of 1e-6 is
one unit of what the row counts (MiB, milli-GPU), and still less than that below it."""
_LARGEST_COLUMN = 2.0**10
"""The same for columns: the amount of one whose entries are larger is so small beside rows of
ordinary size that the tolerance of its own limits, 1e-7, would be a visible part of it."""
_CHEAP = 2.0**-20
"""Scaled costs below this are within ten times of the 1e-7 to which HiGHS holds reduced costs."""
_WIDE = 2.0**20
"""Range of a whole column up to which no false optimum by its cost is known, however small."""
_COST_TOLERANCE, _ROW_TOLERANCE, _LOST = 1e-7, 1e-6, 1e-9
"""HiGHS holds reduced costs and rows to these, and leaves out entries of up to the last."""
_TOO_LARGE = 1e15
"""HiGHS takes no program with an entry of this size: its option ``large_matrix_value``."""
_MAX_EXPONENT = 1022
"""Double precision ends a little above 2^1023."""
_FEW = 0.1
"""Share of the costs that may be less than those that matter: the least may be next to nothing, put
in to break ties, and of ten columns nine may be slacks with a penalty."""
MAX_COST = 2.0**30
"""With scaled costs beyond this, the rounding of double precision reaches HiGHS' tolerances."""


def power_of_two(size: float) -> float:
    """Return the power of two that brings a size into [1, 2), 1 for 0 and what is not finite."""
    if size == 0.0 or not math.isfinite(size):
        return 1.0
    exponent = math.frexp(size)[1] - 1
    return math.ldexp(1.0, -max(-_MAX_EXPONENT, min(exponent, _MAX_EXPONENT)))


def powers_of_two(sizes: Array) -> Array:
    """Return for each size the power of two that brings it into [1, 2), 1 for 0 and infinity."""
    ordinary = np.isfinite(sizes) & (sizes != 0)
    exponent = np.frexp(np.where(ordinary, sizes, 1.0))[1] - 1
    found: Array = np.ldexp(1.0, -np.clip(exponent, -_MAX_EXPONENT, _MAX_EXPONENT))
    return found


def factors(sizes: Array, largest: float = _LARGEST) -> Array:
    """Return the factor of rows or columns whose largest entries have these sizes.

    Parameters
    ----------
    sizes
        Absolute values of the largest entries, 0 or more, shape (k,).
    largest
        Size up to which a factor is 1.
    """
    found = np.ones(len(sizes))
    extreme = np.flatnonzero((sizes < _SMALLEST) | (sizes > largest))
    if len(extreme):
        found[extreme] = powers_of_two(sizes[extreme])
    return found


def size_of_costs(costs: Array) -> float:
    """Return the size of the costs that matter, 0 where all are 0.

    Beside penalties of 10,000 times the other costs, a tolerance of reduced costs in units of the
    largest is a thousandth of the others, and duals that prove less pass for optimal. So the size
    is a low quantile, as far as the largest costs are still exact in its units.

    Parameters
    ----------
    costs
        Scaled costs of the columns, of any sign and unit, shape (columns,).
    """
    sizes = np.abs(costs[costs != 0])
    if not len(sizes):
        return 0.0
    few = int(_FEW * len(sizes))
    return float(max(np.partition(sizes, few)[few], sizes.max() / MAX_COST))


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
        entries = _Entries.of(model)
        free = entries.sizes * (model.lower != model.upper)[entries.columns]
        # Where all columns of a row are fixed, HiGHS still looks at its entries.
        all_fixed = entries.largest_of_rows(free) == 0.0
        free = np.where(all_fixed[entries.rows], entries.sizes, free)
        whole = entries.largest_of_rows(free * model.integer[entries.columns])
        has_whole = whole > 0.0
        # Integer columns keep their unit, so theirs is the unit of the rows that they are in.
        sizes = np.where(has_whole, whole, entries.largest_of_rows(free))
        divisors = np.ones(len(sizes))
        for row in np.flatnonzero(sizes > _LARGEST).tolist():
            divisors[row] = _common_divisor(model, row)
        rows = factors(sizes / divisors) / divisors
        columns = np.ones(len(model.cost))
        if not model.integer.all():
            of_whole = np.where(has_whole, rows, 0.0)[entries.rows]
            beside = entries.largest_of_columns(entries.sizes * of_whole)
            columns = np.where(model.integer, 1.0, factors(beside, _LARGEST_COLUMN))
            # In units of more than all of it a column would be within the tolerances of its rows.
            ranges = model.upper - model.lower
            largest = 1.0 / powers_of_two(np.maximum(ranges, 1.0))
            columns = np.where(np.isfinite(ranges), np.minimum(columns, largest), columns)
            # What is little at most must not make the unit of a row, however large its entry is.
            little = ~model.integer & (beside == 0.0) & (ranges > 0.0) & (ranges < _SMALLEST)
            columns[little] = 1.0 / powers_of_two(ranges[little])
            # Rows of continuous columns alone follow these, and columns in no other row, them.
            scaled = entries.largest_of_rows(free * columns[entries.columns])
            rows = np.where(has_whole, rows, factors(scaled))
            amounts = entries.sizes * columns[entries.columns] * rows[entries.rows]
            alone = columns * factors(entries.largest_of_columns(amounts), _LARGEST_COLUMN)
            columns = np.where(model.integer | (beside > 0.0), columns, alone)
        costs = model.cost * columns
        # Whole columns keep their unit; beside them what costs next to nothing is refused, not made
        # larger (see `require_visible`). Penalties made no false optimum in 1,200 drawn programs.
        dearest = float(np.abs(costs).max(initial=0.0))
        objective = power_of_two(dearest if model.integer.any() else size_of_costs(costs))
        # Tolerances would hide what costs little a unit and has many: it comes in larger units.
        cost = np.abs(model.cost) * columns * objective
        cheap = ~model.integer & (cost > 0.0) & (cost < _CHEAP)
        if cheap.any():
            ranges = (model.upper - model.lower) / columns
            larger = np.minimum(ranges[cheap], _SMALLEST / cost[cheap])
            columns[cheap] /= powers_of_two(np.maximum(larger, 1.0))
            scaled = entries.largest_of_rows(entries.sizes * columns[entries.columns]) * rows
            rows = rows * np.where(scaled > _LARGEST, powers_of_two(scaled), 1.0)
        return Scaling(objective, rows, columns)

    def apply(self, model: ArrayModel) -> ArrayModel:
        """Return the program in scaled units."""
        matrix = model.matrix
        if (self.rows != 1.0).any() or (self.columns != 1.0).any():
            matrix = matrix.tocsr(copy=True)
            units = np.repeat(self.rows, np.diff(matrix.indptr)) * self.columns[matrix.indices]
            matrix.data = matrix.data * units
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
        most = 2.0**_MAX_EXPONENT / self.objective
        return replace(self, objective=self.objective * min(factor, most))


def require_visible(model: ArrayModel, scaled: ArrayModel) -> None:
    """Refuse a program in which tolerances would decide how large a whole column is.

    Continuous columns come in larger units where they cost little; whole ones keep theirs. One that
    counts billions costs next to nothing a unit, or its entry is next to nothing beside others of
    its row, and yet all of it is no rounding: HiGHS then calls optimal what is not.

    Parameters
    ----------
    model, scaled
        The program in its own units, and as HiGHS is to get it.

    Raises
    ------
    UnsupportedFeatureError
        If there is such a column.
    """
    ranges = np.where(scaled.integer, scaled.upper - scaled.lower, 0.0)
    if (ranges <= _ROW_TOLERANCE / _LOST).all():
        return
    cost = np.abs(scaled.cost)
    cheap = np.flatnonzero((cost > 0.0) & (cost < _COST_TOLERANCE) & (ranges > _WIDE))
    cheap = cheap[cost[cheap] * ranges[cheap] > _ROW_TOLERANCE]
    entries = _Entries.of(scaled)
    small = np.flatnonzero((entries.sizes > 0.0) & (entries.sizes <= _LOST))
    lost = entries.columns[small]
    lost = lost[entries.sizes[small] * ranges[lost] > _ROW_TOLERANCE]
    if len(cheap) or len(lost):
        column = int(min([*cheap[:1], *lost]))
        rows = entries.rows[entries.columns == column]
        names = [name for name, at in model.rows.items() if np.isin(rows, np.r_[at]).any()]
        where = f', in rows "{names[0]}",' if names else ""
        count = f"{ranges[column]:.3g}" if np.isfinite(ranges[column]) else "any number of"
        raise UnsupportedFeatureError(
            f"whole column {column}{where} may take {count} values, and HiGHS cannot tell them "
            "apart: each costs or uses next to nothing beside other columns; count it in larger "
            "units (GiB for bytes), or use another backend."
        )


def out_of_range(model: ArrayModel) -> str:
    """Return which numbers HiGHS does not take, and what helps, for a program that it refuses.

    Parameters
    ----------
    model
        The program as HiGHS got it.
    """
    entries = _Entries.of(model)
    sizes = entries.sizes
    if not len(sizes) or sizes.max() < _TOO_LARGE:
        return "its numbers are out of range."
    at = int(sizes.argmax())
    names = [name for name, part in model.rows.items() if entries.rows[at] in np.r_[part]]
    where = f' in rows "{names[0]}"' if names else ""
    return (
        f"its numbers are out of range: one{where} is {sizes[at]:.2g} times what is of ordinary "
        f"size there, and {_TOO_LARGE:.0e} is too large; leave out what is so much dearer or "
        "larger than the rest, or choose amounts that are nearer to each other."
    )


@dataclass(frozen=True, eq=False)
class _Entries:
    """Rows, columns and sizes of the entries of a matrix, row by row.

    Plain arrays: of a small program, SciPy's matrices took ten times as long as its arithmetic.
    """

    rows: npt.NDArray[np.integer[Any]]
    columns: npt.NDArray[np.integer[Any]]
    sizes: Array
    shape: tuple[int, int]

    @staticmethod
    def of(model: ArrayModel) -> _Entries:
        """Return the entries of a program, doubled ones added up."""
        matrix = model.matrix.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return _Entries(rows, matrix.indices, np.abs(matrix.data).astype(float), matrix.shape)

    def largest_of_rows(self, sizes: Array) -> Array:
        """Return the largest of each row's entries, 0 where there are none."""
        found = np.zeros(self.shape[0])
        np.maximum.at(found, self.rows, sizes)
        return found

    def largest_of_columns(self, sizes: Array) -> Array:
        """Return the largest of each column's entries, 0 where there are none."""
        found = np.zeros(self.shape[1])
        np.maximum.at(found, self.columns, sizes)
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
