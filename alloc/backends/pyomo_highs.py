"""HiGHS on a Pyomo model: Pyomo writes it out as a matrix, and `alloc.backends.highs` solves that.

So a Pyomo model gets the same finite bounds, the same scaling and the same second look at what
presolve says as one that is written as arrays.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pyomo.environ as pyo
import pyomo.version
from pyomo.common.errors import InfeasibleConstraintException
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.backends.second_proof import solve_and_prove
from alloc.clock import time_limit
from alloc.errors import OutOfTime
from alloc.formulation import Array, ArrayModel, CpSatModel, PyomoModel, RawResult

MODEL_KIND = "pyomo"


def version() -> str:
    """Return the solver's name and version."""
    return f"Pyomo {pyomo.version.version} with {highs.version()}"


def solve(model: ArrayModel | CpSatModel | PyomoModel, options: SolverOptions) -> RawResult:
    """Solve a Pyomo model, an incumbent never lost at a limit.

    The objective that the Pyomo model states decides the sense. A start is not used: its values are
    in the order of the model's variables, not of the columns that Pyomo writes out.

    Parameters
    ----------
    model
        A `PyomoModel`.
    options
        Limits of the search, and what the solver may do.
    """
    assert isinstance(model, PyomoModel)
    worst = np.inf if model.sense == "max" else -np.inf
    ends = time.perf_counter() + options.time_limit_s
    try:
        with time_limit(options.time_limit_s):
            arrays, columns = as_arrays(model)
    except OutOfTime:
        return RawResult(
            "no_solution", None, None, worst, "time", "while the model was written out"
        )
    except InfeasibleConstraintException as proof:
        return RawResult("infeasible", None, None, -worst, None, str(proof))
    left = max(ends - time.perf_counter(), 0.0)
    raw = solve_and_prove(arrays, replace(options, start=None, time_limit_s=left))
    if raw.values is None:
        return raw
    # A variable that no row and no cost mentions has any value.
    found = {id(column): value for column, value in zip(columns, raw.values, strict=True)}
    values = [found[id(v)] if id(v) in found else _any_value(v) for v in model.variables]
    return replace(raw, values=np.array(values, dtype=float))


def as_arrays(model: PyomoModel) -> tuple[ArrayModel, list[pyo.Var]]:
    """Return the program as arrays, and the variable of each column.

    Raises
    ------
    InfeasibleConstraintException
        If a constraint without variables is broken.
    """
    form = LinearStandardFormCompiler().write(model.model, mixed_form=True, set_sense=None)
    # 1 for a row that is at most, -1 for one that is at least, 0 for one that is equal.
    kind = np.array([row.bound_type for row in form.rows], dtype=int)
    limit = np.asarray(form.rhs, dtype=float)
    bounds = np.array([column.bounds for column in form.columns], dtype=float).reshape(-1, 2)
    arrays = ArrayModel(
        "min" if form.objectives[0].sense == pyo.minimize else "max",
        np.asarray(form.c.toarray(), dtype=float).ravel(),
        sparse.csr_array(form.A),
        np.where(kind <= 0, limit, -np.inf),
        np.where(kind >= 0, limit, np.inf),
        _or(bounds[:, 0], -np.inf),
        _or(bounds[:, 1], np.inf),
        np.array([not column.is_continuous() for column in form.columns], dtype=bool),
        float(np.asarray(form.c_offset)[0]),
    )
    return arrays, list(form.columns)


def _or(values: Array, otherwise: float) -> Array:
    """Return values, with a number where there is none (NaN)."""
    return np.where(np.isnan(values), otherwise, values)


def _any_value(variable: pyo.Var) -> float:
    """Return a value between a variable's bounds: its own if it is fixed, else the nearest to 0."""
    if variable.fixed:
        return float(pyo.value(variable))
    low = -np.inf if variable.lb is None else float(variable.lb)
    high = np.inf if variable.ub is None else float(variable.ub)
    return float(np.clip(0.0, low, high))
