"""Any solver that Pyomo knows, on a Pyomo model: Gurobi, SCIP, CBC, GLPK, CPLEX, Xpress ...

What it says is its claim: bounds are taken as it reports them, and nothing is proved again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.log import LoggingIntercept
from pyomo.opt import SolverStatus, TerminationCondition
from pyomo.repn import generate_standard_repn

from alloc.backends import SolverOptions
from alloc.backends.scaling import power_of_two
from alloc.errors import BackendUnavailableError, SolverError
from alloc.formulation import PyomoModel, RawResult, RawStatus

_LIMIT_OPTIONS = {"gurobi": "TimeLimit", "scip": "limits/time", "cplex": "timelimit"}
"""Names of the time limit where a solver wants it as an option; the others take Pyomo's own."""


def solve(drawn: PyomoModel, name: str, options: SolverOptions) -> RawResult:
    """Solve a Pyomo model with the solver of a name.

    The objective is handed over in units of its largest coefficient: solvers have absolute
    tolerances, in which a small one would be nothing.

    Parameters
    ----------
    drawn
        The model, with whatever constraints its user added.
    name
        As `pyomo.environ.SolverFactory` knows it: ``gurobi``, ``scip``, ``cbc``, ``appsi_highs``.
    options
        The time limit. Seeds, threads and gaps are options of the solver's own that Pyomo has no
        word for.

    Raises
    ------
    BackendUnavailableError
        If Pyomo does not know the solver, or does not find it on this machine.
    SolverError
        If it fails.
    """
    # What Pyomo warns of is said in sentences.
    with LoggingIntercept():
        solver = pyo.SolverFactory(name)
        if not _is_available(solver):
            raise BackendUnavailableError(
                f'solver "{name}" is not here, or has no licence; install it, or name one that '
                "is: appsi_highs comes with alloc."
            )
        for variable in drawn.model.component_data_objects(pyo.Var):
            if not variable.fixed:  # what an earlier solve left is not an answer to this one
                variable.set_value(None, skip_validation=True)
        with _in_its_own_unit(drawn.model) as unit:
            try:
                found = _run(solver, name, drawn.model, options.time_limit_s)
            except Exception as error:  # each solver has errors of its own
                raise SolverError(f'solver "{name}" failed: {error}') from error
    condition = found.solver.termination_condition
    values = [variable.value for variable in drawn.variables]
    failed = found.solver.status in (SolverStatus.error, SolverStatus.aborted, SolverStatus.unknown)
    known = None
    if not failed and not any(value is None for value in values):
        known = np.array(values, dtype=float)
    status: RawStatus = "no_solution" if known is None else "feasible"
    if condition == TerminationCondition.optimal and known is not None:
        status = "optimal"
    elif condition == TerminationCondition.infeasible:
        status, known = "infeasible", None
    objective = None if known is None else float(pyo.value(_objective(drawn.model)))
    bound = _bound(found, drawn.sense, status, objective, unit)
    limit = "time" if condition == TerminationCondition.maxTimeLimit else None
    return RawResult(status, known, objective, bound, limit, str(condition))  # type: ignore[arg-type]


def _is_available(solver: Any) -> bool:
    try:
        return bool(solver.available(exception_flag=False))
    except Exception:  # an unknown name answers in its own way
        return False


def _run(solver: Any, name: str, model: Any, seconds: float) -> Any:
    if name.startswith("appsi_"):
        # Asked to load a solution that is not there it raises an error of its own.
        solver.config.time_limit = seconds
        found = solver.solve(model, load_solutions=False)
        if found.solver.termination_condition == TerminationCondition.optimal or _has(found):
            solver.load_vars()
        return found
    option = next((o for known, o in _LIMIT_OPTIONS.items() if name.startswith(known)), None)
    if option is None:
        return solver.solve(model, timelimit=math.ceil(seconds))
    solver.options[option] = seconds
    return solver.solve(model)


def _has(found: Any) -> bool:
    """Return whether a solver stopped at a limit with a solution."""
    if found.solver.termination_condition == TerminationCondition.infeasible:
        return False
    lower, upper = found.problem.lower_bound, found.problem.upper_bound
    incumbent = upper if str(found.problem.sense).startswith("min") else lower
    return incumbent is not None and math.isfinite(float(incumbent))


@contextmanager
def _in_its_own_unit(model: Any) -> Iterator[float]:
    """Let the objective be in units of its largest coefficient; yield the factor."""
    own = _objective(model)
    parts = generate_standard_repn(own.expr, compute_values=True)
    largest = max((abs(float(c)) for c in parts.linear_coefs or ()), default=0.0)
    unit = power_of_two(largest)
    scaled = pyo.Objective(expr=unit * own.expr, sense=own.sense)
    own.deactivate()
    model.add_component("objective_in_its_own_unit", scaled)
    try:
        yield unit
    finally:
        model.del_component(scaled)
        own.activate()


def _objective(model: Any) -> Any:
    return next(model.component_data_objects(pyo.Objective, active=True))


def _bound(
    found: Any, sense: str, status: RawStatus, objective: float | None, unit: float
) -> float:
    """Return the bound that the solver reports, infinite where it reports none."""
    stated = found.problem.upper_bound if sense == "max" else found.problem.lower_bound
    worst = math.inf if sense == "max" else -math.inf
    if status == "infeasible":
        return -worst
    if stated is None or not math.isfinite(float(stated)):
        return objective if status == "optimal" and objective is not None else worst
    return float(stated) / unit
