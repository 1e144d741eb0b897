"""Probing: local search over which pools are open, each move valued by a warm linear program.

Opening a pool costs its spare hosts, so plans differ in where work is brought together. A move
closes or opens a level of a pool in all quarters, in the first or in the last ones (the add and
drop moves of facility location [1]_). With all switches fixed the quarterly program's relaxation is
a small linear program whose last basis is nearly right for the next one.

References
----------
.. [1] A. A. Kuehn, M. J. Hamburger, "A heuristic program for locating warehouses", Management
   Science 9(4), 1963.
"""

from __future__ import annotations

import time

import highspy
import numpy as np
import numpy.typing as npt

from alloc.backends import SolverOptions
from alloc.backends.highs import highs_model, quiet_solver
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.data import Array, Ints
from alloc.solving.capacity.right_sizing_state import linear_relaxation

Flags = npt.NDArray[np.bool_]
_LEAST_GAIN = 1e-5
"""Relative gain that counts."""


def better_switches(
    model: ArrayModel, switches: Ints, opened: Flags, seconds: float, rng: np.random.Generator
) -> tuple[Flags, float]:
    """Return switches from which no move gains, and what the relaxation costs with them.

    Parameters
    ----------
    model
        The quarterly program; its integers are relaxed.
    switches
        Columns of the switches, shape (levels, quarters).
    opened
        Where to start, shape (levels, quarters).
    seconds
        Time after which the search stops where it is.
    rng
        Draws the order of the moves.
    """
    search = _Search(model, switches, opened)
    ends = time.perf_counter() + seconds
    idle, moves = 0, search.moves()
    while idle < len(moves) and time.perf_counter() < ends:
        for position in rng.permutation(len(moves)).tolist():
            level, first, last, wanted = moves[position]
            idle = 0 if search.attempt(level, first, last, wanted) else idle + 1
            if idle >= len(moves) or time.perf_counter() > ends:
                break
    return search.opened, search.cost


class _Search:
    def __init__(self, model: ArrayModel, switches: Ints, opened: Flags) -> None:
        self.switches, self.opened = switches, opened.copy()
        self.solver = quiet_solver(SolverOptions(time_limit_s=1e9))
        # Presolve would throw away the basis.
        self.solver.setOptionValue("presolve", "off")
        self.solver.passModel(highs_model(linear_relaxation(model)))
        self._fix(switches.ravel(), self.opened.ravel())
        self.cost = self._solve()

    def moves(self) -> list[tuple[int, int, int, bool]]:
        """Return the moves: a level, quarters from first to before last, and what they become."""
        levels, quarters = self.switches.shape
        spans = {(0, quarters)}
        spans |= {(0, t) for t in range(1, quarters)} | {(t, quarters) for t in range(1, quarters)}
        return [
            (level, first, last, wanted)
            for level in range(levels)
            for first, last in sorted(spans)
            for wanted in (False, True)
        ]

    def attempt(self, level: int, first: int, last: int, wanted: bool) -> bool:
        """Make a move if it gains."""
        span = slice(first, last)
        before = self.opened[level, span].copy()
        if (before == wanted).all():
            return False
        columns = self.switches[level, span]
        self._fix(columns, np.full(len(columns), wanted))
        cost = self._solve()
        if cost < self.cost - _LEAST_GAIN * abs(self.cost):
            self.opened[level, span] = wanted
            self.cost = cost
            return True
        self._fix(columns, before)
        return False

    def _fix(self, columns: Ints, values: Flags) -> None:
        bounds: Array = values.astype(float)
        self.solver.changeColsBounds(len(columns), columns.astype(np.int32), bounds, bounds)

    def _solve(self) -> float:
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return float("inf")
        return float(self.solver.getInfo().objective_function_value)
