"""Add-drop local search over binary choices, each move valued by a warm linear program.

The choices stand in rows, such as a facility in each of its periods. A move takes or drops a row in
all columns, in the first or in the last ones (the add and drop moves of facility location [1]_).
With all choices fixed the relaxation is a small linear program whose last basis is nearly right for
the next one.

References
----------
.. [1] A. A. Kuehn, M. J. Hamburger, "A heuristic program for locating warehouses", Management
   Science 9(4), 1963.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from alloc.backends.linear_program import LinearProgram
from alloc.formulation import Array, ArrayModel

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_LEAST_GAIN = 1e-5
"""Relative gain that counts: far above the solver's tolerance, or moves would go in circles."""


def better_choices(
    model: ArrayModel, choices: Ints, chosen: Flags, seconds: float, rng: np.random.Generator
) -> tuple[Flags, float]:
    """Return choices from which no move gains, and what the relaxation costs with them.

    Parameters
    ----------
    model
        The program; its integers are relaxed.
    choices
        Columns of the choices, shape (rows, periods).
    chosen
        Where to start, of the same shape.
    seconds
        Time after which the search stops where it is.
    rng
        Draws the order of the moves.
    """
    search = _Search(model, choices, chosen)
    ends = time.perf_counter() + seconds
    idle, moves = 0, search.moves()
    while idle < len(moves) and time.perf_counter() < ends:
        for position in rng.permutation(len(moves)).tolist():
            idle = 0 if search.attempt(*moves[position]) else idle + 1
            if idle >= len(moves) or time.perf_counter() > ends:
                break
    return search.chosen, search.cost


class _Search:
    def __init__(self, model: ArrayModel, choices: Ints, chosen: Flags) -> None:
        self.choices, self.chosen = choices, chosen.copy()
        self.possible = model.upper[choices] > 0
        # Presolve would throw away the basis.
        self.program = LinearProgram(model, presolve=False)
        self._fix(choices.ravel(), self.chosen.ravel())
        self.cost = self._solve()

    def moves(self) -> list[tuple[int, int, int, bool]]:
        """Return the moves: a row, periods from first to before last, and what they become."""
        rows, periods = self.choices.shape
        spans = {(0, periods)}
        spans |= {(0, t) for t in range(1, periods)} | {(t, periods) for t in range(1, periods)}
        return [
            (row, first, last, wanted)
            for row in range(rows)
            for first, last in sorted(spans)
            for wanted in (False, True)
        ]

    def attempt(self, row: int, first: int, last: int, wanted: bool) -> bool:
        """Make a move if it gains."""
        span = slice(first, last)
        before = self.chosen[row, span].copy()
        after = self.possible[row, span] & wanted
        if (before == after).all():
            return False
        columns = self.choices[row, span]
        self._fix(columns, after)
        cost = self._solve()
        if cost < self.cost - _LEAST_GAIN * abs(self.cost):
            self.chosen[row, span] = after
            self.cost = cost
            return True
        self._fix(columns, before)
        return False

    def _fix(self, columns: Ints, values: Flags) -> None:
        bounds: Array = values.astype(float)
        self.program.set_column_bounds(columns, bounds, bounds)

    def _solve(self) -> float:
        found = self.program.solve()
        return float("inf") if found is None else found.value
