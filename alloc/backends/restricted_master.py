"""Restricted masters of column generation: a linear program over the columns met so far.

What the methods share is here: columns that are known are not added again, the program is solved
from its last basis and cut off and started afresh where the simplex circles
(`alloc.backends.highs.run_warm`), prices exist only after an optimum
(`alloc.backends.linear_program`), and the columns met make an integer program.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from alloc.backends import SolverOptions
from alloc.backends.linear_program import LinearProgram, LinearSolution, Positions
from alloc.backends.second_proof import solve_and_prove
from alloc.formulation import Array, RawResult

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, eq=False)
class MasterColumn(Generic[Key]):
    """A column of a restricted master.

    Parameters
    ----------
    key
        What it stands for; of two with one key the master takes the first.
    cost
        Its coefficient in the objective.
    rows, values
        Its entries.
    upper
        Its upper limit in the linear program.
    """

    key: Key
    cost: float
    rows: Positions
    values: Array | Sequence[float]
    upper: float = math.inf


class RestrictedMaster(Generic[Key]):
    """A linear program that grows by columns.

    Parameters
    ----------
    what
        What it is, for messages: "the master of profiles".
    program
        The program with its rows, and with columns of its own if it has any.
    known
        Keys of its last columns that count as generated already.

    Attributes
    ----------
    keys
        Keys of the generated columns, in order.
    """

    def __init__(self, what: str, program: LinearProgram, known: Iterable[Key] = ()) -> None:
        self.what = what
        self.program = program
        self.keys: list[Key] = []
        self._known: set[Key] = set()
        self._positions: list[int] = []
        self.count_in(known)

    def __contains__(self, key: Key) -> bool:
        """Return whether a column is known."""
        return key in self._known

    def count_in(self, keys: Iterable[Key]) -> None:
        """Count the last columns of the program, one for each key, as generated ones."""
        new = list(keys)
        self.keys += new
        self._known.update(new)
        self._positions += range(self.program.num_columns - len(new), self.program.num_columns)

    def add(self, columns: Iterable[MasterColumn[Key]]) -> int:
        """Add the columns that are new; return how many."""
        new: dict[Key, MasterColumn[Key]] = {}
        for column in columns:
            if column.key not in self._known:
                new.setdefault(column.key, column)
        if not new:
            return 0
        of = list(new.values())
        self.program.add_columns(
            np.array([column.cost for column in of]),
            np.zeros(len(of)),
            np.array([column.upper for column in of]),
            np.cumsum([0, *(len(column.rows) for column in of[:-1])]),
            np.concatenate([np.asarray(column.rows, dtype=np.int64) for column in of]),
            np.concatenate([np.asarray(column.values, dtype=float) for column in of]),
        )
        self.count_in(new)
        return len(of)

    def solve(self, seconds: float = math.inf) -> LinearSolution:
        """Solve the linear program, which has an optimum, within some seconds of wall time.

        Raises
        ------
        OutOfTime
            If the time was too short: what there is then are no prices.
        SolverError
            If HiGHS ends otherwise than with an optimum.
        """
        return self.program.optimum(self.what, seconds)

    def generated(self, values: Array) -> Array:
        """Return of something about every column the part of the generated ones, in order."""
        return np.asarray(values[self._positions], dtype=float)

    def solve_integer(self, options: SolverOptions, upper: Array | None = None) -> RawResult:
        """Choose whole numbers of the columns met; a small optimum is proved a second time.

        Parameters
        ----------
        options
            Limits.
        upper
            Upper limits of the generated columns, shape (generated,); None: as in the program.
            Limits that no solution reaches do no harm, and HiGHS' presolve needs some.
        """
        model = self.program.integer_model()
        if upper is not None:
            limits = model.upper.copy()
            limits[self._positions] = upper
            model = replace(model, upper=limits)
        return solve_and_prove(model, options)
