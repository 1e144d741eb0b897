"""Linear programs that grow or change and are solved again from their last basis.

The one door between a method and HiGHS for masters, subproblems and relaxations: numbers go in and
come out in the caller's units, and duals exist only in a `LinearSolution`, which there is only
after an optimum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import highspy
import numpy as np
import numpy.typing as npt

from alloc.backends import SolverOptions
from alloc.backends.highs import ANSWERED, highs_model, quiet_solver, run_warm
from alloc.backends.interrupts import Stop, stoppable
from alloc.backends.scaling import Scaling, factors, power_of_two, size_of_costs
from alloc.errors import OutOfTime, SolverError
from alloc.formulation import Array, ArrayModel
from alloc.objectives import Sense

Positions = npt.NDArray[np.integer[Any]] | Sequence[int]
Basis: TypeAlias = highspy.HighsBasis
"""Which columns and rows are basic, and at which bound the others are."""
_DRIFT = 2.0**3
"""By how much the size of the scaled costs may leave [1, 2) before all are scaled anew: less would
often do so for nothing, and 2^3 of the 1e-7 to which reduced costs hold are still small."""

CLOSELY = 1e-9
"""Tolerance of relaxations whose solution has to hold without any. HiGHS's own 1e-7 takes as long,
and 1e-10 is the least it knows."""
_ROUND_OFF = 1e-9
"""Scaled values below it are round-off: a hundredth of the 1e-7 to which HiGHS holds rows."""
_DEVEX = 1
"""HiGHS's number for Devex weights of the dual simplex method."""


class LinearSolution:
    """An optimum of a linear program, in the caller's units.

    Parameters
    ----------
    value
        The objective.
    raw
        What HiGHS holds.
    scaling
        The units it holds them in.
    """

    def __init__(self, value: float, raw: highspy.HighsSolution, scaling: Scaling) -> None:
        self.value = value
        self._raw, self._scaling = raw, scaling

    @cached_property
    def values(self) -> Array:
        """Values of the columns, shape (columns,)."""
        return np.array(self._raw.col_value) * self._scaling.columns

    @cached_property
    def cleaned(self) -> Array:
        """Values of the columns, 0 where they are round-off, shape (columns,).

        A column that should be 0 and is 1e-14 may be all of a row that it breaks.
        """
        is_nothing = np.abs(np.array(self._raw.col_value)) < _ROUND_OFF
        return np.where(is_nothing, 0.0, self.values)

    @cached_property
    def duals(self) -> Array:
        """What the objective changes by one more on each row's limit, shape (rows,)."""
        return np.array(self._raw.row_dual) * (self._scaling.rows / self._scaling.objective)

    @cached_property
    def reduced_costs(self) -> Array:
        """What the objective changes by one more of each column, shape (columns,)."""
        return np.array(self._raw.col_dual) / (self._scaling.columns * self._scaling.objective)


class LinearProgram:
    """A linear program, solved from the last basis after each change.

    Parameters
    ----------
    model
        What to begin with, its demand for whole numbers left out; None: nothing.
    sense
        ``min`` or ``max``, where there is no model.
    seed
        Random seed.
    presolve
        Whether the first solve may simplify; without, a basis is never thrown away.
    method
        ``choose``, or ``simplex`` where a basis is wanted whatever HiGHS thinks best.
    devex
        Whether the dual simplex method prices rows by Devex weights, not by steepest edges: fewer
        iterations where only limits of rows change from solve to solve, and many of them.
    by_largest
        Whether the largest cost is the unit of all, not the usual ones
        (`alloc.backends.scaling.size_of_costs`): for an optimum that may be rough, in which what is
        far too dear should be none at all, not the solver's round-off.
    tolerance
        By how much a scaled row or column may miss its limits.
    """

    def __init__(
        self,
        model: ArrayModel | None = None,
        *,
        sense: Sense = "min",
        seed: int = 0,
        presolve: bool = True,
        method: str = "choose",
        devex: bool = False,
        by_largest: bool = False,
        tolerance: float = 1e-7,
    ) -> None:
        self._solver = quiet_solver(SolverOptions(time_limit_s=1e9, seed=seed))
        self._solver.setOptionValue("solver", method)
        self._solver.setOptionValue("primal_feasibility_tolerance", tolerance)
        if not presolve:
            self._solver.setOptionValue("presolve", "off")
        if devex:
            self._solver.setOptionValue("simplex_dual_edge_weight_strategy", _DEVEX)
        self._sense: Sense = sense
        self._by_largest = by_largest
        self._scaling = Scaling(1.0, np.zeros(0), np.zeros(0))
        self._cost: Array = np.zeros(0)
        self._has_new_costs = True
        self._offset = 0.0
        self.interrupted = False
        """Whether Ctrl-C ended the last solve."""
        self._late = False
        """Whether the last solve had used up its time, whatever word HiGHS ended with."""
        if model is not None:
            self._begin_with(model)
        elif sense == "max":
            self._solver.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def _begin_with(self, model: ArrayModel) -> None:
        relaxed = replace(model, integer=np.zeros(len(model.cost), dtype=bool))
        self._sense, self._scaling = model.sense, Scaling.of(relaxed)
        self._cost, self._offset = model.cost.astype(float), model.offset
        given = highs_model(self._scaling.apply(relaxed))
        if self._solver.passModel(given) == highspy.HighsStatus.kError:
            raise SolverError("HiGHS refuses a linear program; its numbers are out of range.")

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self._cost)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self._scaling.rows)

    def add_rows(
        self,
        lower: Array,
        upper: Array,
        starts: Positions = (),
        index: Positions = (),
        value: Array | Sequence[float] = (),
    ) -> None:
        """Add rows, by default without entries, which later columns bring.

        Parameters
        ----------
        lower, upper
            Limits, shape (new rows,).
        starts
            Where the entries of each row begin.
        index, value
            Column and value of each entry.
        """
        count = len(lower)
        begin = _positions(starts) if len(starts) else np.zeros(count, dtype=np.int32)
        columns = _positions(index)
        entries = np.asarray(value, dtype=float) * self._scaling.columns[columns]
        rows = factors(_largest_of(entries, begin))
        done = self._solver.addRows(
            count,
            lower * rows,
            upper * rows,
            len(columns),
            begin,
            columns,
            entries * np.repeat(rows, _lengths(begin, len(columns))),
        )
        _require(done, "rows")
        self._scaling = replace(self._scaling, rows=np.concatenate([self._scaling.rows, rows]))

    def add_columns(
        self,
        cost: Array,
        lower: Array,
        upper: Array,
        starts: Positions,
        index: Positions,
        value: Array | Sequence[float],
    ) -> None:
        """Add columns with their entries, laid out as in `add_rows`.

        Parameters
        ----------
        cost
            Costs, shape (columns,).
        lower, upper
            Bounds, shape (columns,); infinite where there is none.
        starts
            For each column, where its entries begin in `index` and `value`, shape
            (columns,).
        index
            Row of each entry.
        value
            Value of each entry.
        """
        begin, rows = _positions(starts), _positions(index)
        entries = np.asarray(value, dtype=float) * self._scaling.rows[rows]
        columns = factors(_largest_of(entries, begin))
        done = self._solver.addCols(
            len(cost),
            cost * (columns * self._scaling.objective),
            lower / columns,
            upper / columns,
            len(rows),
            begin,
            rows,
            entries * np.repeat(columns, _lengths(begin, len(rows))),
        )
        _require(done, "columns")
        self._cost, self._has_new_costs = np.concatenate([self._cost, cost]), True
        known = np.concatenate([self._scaling.columns, columns])
        self._scaling = replace(self._scaling, columns=known)

    def delete_rows(self, rows: Positions) -> None:
        """Delete rows; those after them move up. Of slack rows the basis stays."""
        at = _positions(rows)
        _require(self._solver.deleteRows(len(at), at), "to delete rows")
        kept = np.delete(self._scaling.rows, at)
        self._scaling = replace(self._scaling, rows=kept)

    def set_costs(self, columns: Positions, costs: Array) -> None:
        """Set the costs of some columns.

        Parameters
        ----------
        columns
            Positions of the columns, shape (k,).
        costs
            Their costs, shape (k,).
        """
        at = _positions(columns)
        self._cost[at], self._has_new_costs = costs, True
        scaled = costs * (self._scaling.columns[at] * self._scaling.objective)
        self._solver.changeColsCost(len(at), at, scaled)

    def set_column_bounds(self, columns: Positions, lower: Array, upper: Array) -> None:
        """Set the bounds of some columns.

        Parameters
        ----------
        columns
            Positions of the columns, shape (k,).
        lower, upper
            Their bounds, shape (k,); infinite where there is none.
        """
        at = _positions(columns)
        unit = self._scaling.columns[at]
        self._solver.changeColsBounds(len(at), at, lower / unit, upper / unit)

    def set_row_bounds(self, rows: Positions, lower: Array, upper: Array) -> None:
        """Set the limits of some rows.

        Parameters
        ----------
        rows
            Positions of the rows, shape (k,).
        lower, upper
            Their limits, shape (k,); infinite where there is none.
        """
        at = _positions(rows)
        unit = self._scaling.rows[at]
        self._solver.changeRowsBounds(len(at), at, lower * unit, upper * unit)

    def set_coefficient(self, row: int, column: int, value: float) -> None:
        """Set an entry of the matrix.

        Parameters
        ----------
        row
            Position of the row.
        column
            Position of the column.
        value
            The entry, in the units of the caller.
        """
        unit = float(self._scaling.rows[row] * self._scaling.columns[column])
        self._solver.changeCoeff(row, column, value * unit)

    def solve(
        self, seconds: float = math.inf, *, stop_on_interrupt: bool = False
    ) -> LinearSolution | None:
        """Solve from the last basis.

        Parameters
        ----------
        seconds
            Wall time, seconds.
        stop_on_interrupt
            Whether Ctrl-C ends the solve, which then returns None with `interrupted` set.

        Returns
        -------
        LinearSolution or None
            The optimum, or None where there is none or none was found; `status` says which.
        """
        self._rescale()
        ends = time.perf_counter() + seconds
        with stoppable(self._solver) if stop_on_interrupt else nullcontext(Stop()) as stop:
            run_warm(self._solver, seconds)
        self.interrupted = stop.pressed
        _, limit_s = self._solver.getOptionValue("time_limit")
        # HiGHS looks at a clock of its own, by which time may be up a little sooner.
        self._late = time.perf_counter() >= ends or self._solver.getRunTime() >= limit_s
        status = self._solver.getModelStatus()
        if status not in (
            highspy.HighsModelStatus.kOptimal,
            highspy.HighsModelStatus.kModelEmpty,
        ):
            return None
        value = float(self._solver.getInfo().objective_function_value) / self._scaling.objective
        return LinearSolution(value, self._solver.getSolution(), self._scaling)

    def end_with(self, stop: Stop) -> None:
        """Let every solve from now on end when somebody presses Ctrl-C, as `stop` learns."""
        stop.watch(self._solver)

    def optimum(self, what: str, seconds: float = math.inf) -> LinearSolution:
        """Solve a program that has an optimum.

        Parameters
        ----------
        what
            What the program is, for the message: "the master of the plan".
        seconds
            Wall time, seconds.

        Raises
        ------
        OutOfTime
            If the time was too short for it.
        SolverError
            If HiGHS ends otherwise.
        """
        found = self.solve(seconds)
        if found is None and self.is_stopped:
            raise OutOfTime
        if found is None:
            raise SolverError(f'HiGHS ended {what} with "{self.status}", not with an optimum.')
        return found

    @property
    def status(self) -> str:
        """How the last solve ended, in HiGHS' words."""
        return str(self._solver.modelStatusToString(self._solver.getModelStatus()))

    @property
    def is_stopped(self) -> bool:
        """Whether the last solve was ended by its limit or by Ctrl-C."""
        status = self._solver.getModelStatus()
        if status in (highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kInterrupt):
            return True
        # Broken off in the middle of the interior point method, HiGHS says "Unknown".
        return self._late and status not in ANSWERED

    @property
    def is_infeasible(self) -> bool:
        """Whether the last solve proved that there is no solution.

        "Unbounded or infeasible" is counted: every program here has an objective with an end.
        """
        return self._solver.getModelStatus() in (
            highspy.HighsModelStatus.kInfeasible,
            highspy.HighsModelStatus.kUnboundedOrInfeasible,
        )

    def infeasibility_ray(self) -> Array | None:
        """Return multipliers of the rows that show infeasibility, or None; needs no presolve."""
        _, known = self._solver.getDualRayExist()
        if not known:
            return None
        _, _, ray = self._solver.getDualRay()
        return np.array(ray) * self._scaling.rows

    @property
    def iterations(self) -> int:
        """Iterations of the simplex method in the last solve."""
        return int(self._solver.getInfo().simplex_iteration_count)

    def basis(self) -> Basis:
        """Return the last basis, to go back to."""
        return self._solver.getBasis()

    def set_basis(self, basis: Basis) -> None:
        """Start the next solve from a basis of before; rows added since then are slack in it."""
        more = self.num_rows - len(basis.row_status)
        if more:
            slack = [highspy.HighsBasisStatus.kBasic] * more
            basis.row_status = [*basis.row_status, *slack]
        self._solver.setBasis(basis)

    def integer_model(self) -> ArrayModel:
        """Return the program as it is now, all columns whole."""
        from scipy import sparse  # slow to load, and most programs never come here

        lp = self._solver.getLp()
        shape, scaling = (self.num_rows, self.num_columns), self._scaling
        parts = (np.array(a) for a in (lp.a_matrix_.value_, lp.a_matrix_.index_))
        by_column = lp.a_matrix_.format_ == highspy.MatrixFormat.kColwise
        kind = sparse.csc_array if by_column else sparse.csr_array
        matrix = kind((*parts, np.array(lp.a_matrix_.start_)), shape=shape)
        unscaled = sparse.diags_array(1 / scaling.rows) @ matrix
        unscaled = unscaled @ sparse.diags_array(1 / scaling.columns)
        return ArrayModel(
            self._sense,
            self._cost.copy(),
            unscaled.tocsr(),
            np.array(lp.row_lower_) / scaling.rows,
            np.array(lp.row_upper_) / scaling.rows,
            np.array(lp.col_lower_) * scaling.columns,
            np.array(lp.col_upper_) * scaling.columns,
            np.ones(self.num_columns, dtype=bool),
            self._offset,
        )

    def _rescale(self) -> None:
        """Scale all costs anew if those that matter are no longer of ordinary size."""
        if not self._has_new_costs:
            return
        self._has_new_costs = False
        costs = self._cost * self._scaling.columns
        largest = float(np.abs(costs).max(initial=0.0))
        size = largest if self._by_largest else size_of_costs(costs)
        if size == 0.0 or 1 / _DRIFT <= size * self._scaling.objective <= _DRIFT:
            return
        factor = power_of_two(size)
        self._scaling = replace(self._scaling, objective=factor)
        every = np.arange(len(costs), dtype=np.int32)
        self._solver.changeColsCost(len(costs), every, costs * factor)
        self._solver.changeObjectiveOffset(self._offset * factor)


def _require(status: highspy.HighsStatus, what: str) -> None:
    """Refuse to go on without what HiGHS did not take."""
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS refuses {what} of a program; their numbers are out of range.")


def _positions(of: Positions) -> npt.NDArray[np.int32]:
    return np.asarray(of, dtype=np.int32)


def _lengths(starts: npt.NDArray[np.int32], total: int) -> npt.NDArray[np.int64]:
    ends = np.append(starts[1:], total).astype(np.int64)
    return np.asarray(ends - starts, dtype=np.int64)


def _largest_of(entries: Array, starts: npt.NDArray[np.int32]) -> Array:
    """Return the largest size among the entries of each row or column, 0 where there is none."""
    found = np.zeros(len(starts))
    filled = _lengths(starts, len(entries)) > 0
    if filled.any():
        found[filled] = np.maximum.reduceat(np.abs(entries), starts[filled])
    return found
