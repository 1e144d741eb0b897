"""Any solver that Pyomo knows, on a Pyomo model: Gurobi, SCIP, CBC, GLPK, CPLEX, Xpress ...

What it says is its claim: bounds are taken as it reports them, and nothing is proved again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.errors import ApplicationError
from pyomo.common.log import LoggingIntercept
from pyomo.opt import TerminationCondition

from alloc.backends import SolverOptions
from alloc.errors import BackendUnavailableError, SolverError
from alloc.formulation import PyomoModel, RawResult, RawStatus

_LIMIT_OPTIONS = {"gurobi": "TimeLimit", "scip": "limits/time", "cplex": "timelimit"}
"""Names of the time limit where a solver wants it as an option; the others take Pyomo's own."""
_INFEASIBLE = (TerminationCondition.infeasible, TerminationCondition.infeasibleOrUnbounded)


def solve(drawn: PyomoModel, name: str, options: SolverOptions) -> RawResult:
    """Solve a Pyomo model with the solver of a name.

    Parameters
    ----------
    drawn
        The model, with whatever constraints its user added.
    name
        As `pyomo.environ.SolverFactory` knows it: ``gurobi``, ``scip``, ``cbc``, ``appsi_highs``.
    options
        Time limit; a seed and a gap are options of the solver's own that Pyomo has no word for.

    Raises
    ------
    BackendUnavailableError
        If Pyomo does not know the solver, or does not find it on this machine.
    SolverError
        If it fails.
    """
    with LoggingIntercept():  # what Pyomo warns of is said below, in a sentence
        solver = pyo.SolverFactory(name)
        is_here = _is_available(solver)
    if not is_here:
        raise BackendUnavailableError(
            f'solver "{name}" is not here, or has no licence; install it, or name one that is: '
            "appsi_highs comes with alloc."
        )
    try:
        found = _run(solver, name, drawn.model, options.time_limit_s)
    except (ApplicationError, RuntimeError, ValueError) as error:
        raise SolverError(f'solver "{name}" failed: {error}') from error
    condition = found.solver.termination_condition
    values = [variable.value for variable in drawn.variables]
    known = None if any(value is None for value in values) else np.array(values, dtype=float)
    if condition in _INFEASIBLE:
        known = None
    status: RawStatus = "no_solution" if known is None else "feasible"
    if condition == TerminationCondition.optimal and known is not None:
        status = "optimal"
    elif condition in _INFEASIBLE:
        status = "infeasible"
    objective = None if known is None else float(pyo.value(_objective(drawn.model)))
    bound = _bound(found, drawn.sense, status, objective)
    limit = "time" if condition == TerminationCondition.maxTimeLimit else None
    return RawResult(status, known, objective, bound, limit, str(condition))  # type: ignore[arg-type]


def _is_available(solver: Any) -> bool:
    try:
        return bool(solver.available(exception_flag=False))
    except Exception:  # an unknown name answers in its own way
        return False


def _run(solver: Any, name: str, model: Any, seconds: float) -> Any:
    if name.startswith("appsi_"):
        solver.config.time_limit = seconds
        solver.config.load_solution = False
        return solver.solve(model, load_solutions=True)
    option = next((o for known, o in _LIMIT_OPTIONS.items() if name.startswith(known)), None)
    if option is None:
        return solver.solve(model, timelimit=math.ceil(seconds))
    solver.options[option] = seconds
    return solver.solve(model)


def _objective(model: Any) -> Any:
    return next(model.component_data_objects(pyo.Objective, active=True))


def _bound(found: Any, sense: str, status: RawStatus, objective: float | None) -> float:
    """Return the bound that the solver reports, infinite where it reports none."""
    stated = found.problem.upper_bound if sense == "max" else found.problem.lower_bound
    worst = math.inf if sense == "max" else -math.inf
    if status == "infeasible":
        return -worst
    if stated is None or not math.isfinite(float(stated)):
        return objective if status == "optimal" and objective is not None else worst
    return float(stated)
