"""HiGHS through Pyomo: the whiteboard's own solver."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pyomo.environ as pyo
from pyomo.contrib.appsi.base import Results, TerminationCondition
from pyomo.contrib.appsi.solvers import Highs

from alloc.backends import SolverOptions
from alloc.backends.highs import NO_AGGREGATOR, SECONDS_FOR_SECOND, refutes, threads
from alloc.errors import SolverError
from alloc.formulation import ArrayModel, CpSatModel, PyomoModel, RawResult

DRAWING = "pyomo"

_LONGEST_S = 2.0
"""For a second opinion, seconds."""
_REFUSED = (TerminationCondition.infeasible, TerminationCondition.infeasibleOrUnbounded)


def version() -> str:
    """Return the solver's name and version."""
    import pyomo.version

    from alloc.backends import highs

    return f"Pyomo {pyomo.version.version} with {highs.version()}"


def solve(model: ArrayModel | CpSatModel | PyomoModel, options: SolverOptions) -> RawResult:
    """Solve a Pyomo model, an incumbent never lost at a limit."""
    assert isinstance(model, PyomoModel)
    if next(model.model.component_data_objects(pyo.Var), None) is None:
        # HiGHS answers a model without variables with a status that Pyomo calls unknown.
        constant = float(pyo.value(next(model.model.component_data_objects(pyo.Objective))))
        return RawResult("optimal", np.zeros(0), constant, constant, None, "Empty")
    began = time.perf_counter()
    with threads(options.workers):
        result = _run(model, options)
        if _is_doubtful(result, time.perf_counter() - began):
            brief = replace(options, time_limit_s=min(_LONGEST_S, options.time_limit_s))
            second = _run(model, brief, presolve="off")
            if _refutes(second, result, model.sense):
                result = second
    word = str(result.termination_condition)
    worst = math.inf if model.sense == "max" else -math.inf
    if result.termination_condition in _REFUSED:
        return RawResult("infeasible", None, None, -worst, None, word)
    if result.termination_condition not in (
        TerminationCondition.optimal,
        TerminationCondition.maxTimeLimit,
    ):
        raise SolverError(f'Pyomo stopped with "{word}", which alloc does not expect.')
    bound = result.best_objective_bound
    bound = worst if bound is None or not math.isfinite(bound) else float(bound)
    limit = None if result.termination_condition == TerminationCondition.optimal else "time"
    if result.best_feasible_objective is None or not math.isfinite(result.best_feasible_objective):
        return RawResult("no_solution", None, None, bound, "time", word)
    primals = result.solution_loader.get_primals(list(model.variables))
    values = np.array([primals[v] for v in model.variables], dtype=float)
    return RawResult(
        "optimal" if limit is None else "feasible",
        values,
        float(result.best_feasible_objective),
        bound,
        "time" if limit else None,
        word,
    )


def _is_doubtful(result: Results, seconds: float) -> bool:
    """Return whether presolve alone may have given an answer; see `alloc.backends.highs`.

    Pyomo does not say whether there was a search, but where it took its time there was.
    """
    found = result.termination_condition
    quick = found == TerminationCondition.optimal and seconds < SECONDS_FOR_SECOND
    return quick or found in _REFUSED


def _refutes(second: Results, first: Results, sense: str) -> bool:
    value, bound = second.best_feasible_objective, first.best_objective_bound
    if value is None or first.termination_condition in _REFUSED:
        return value is not None
    return bound is not None and refutes(value, bound, sense)


def _run(model: PyomoModel, options: SolverOptions, **native: str) -> Results:
    """Return what HiGHS says of a model, with some options of its own."""
    solver = Highs()
    solver.config.load_solution = False
    solver.config.stream_solver = False
    solver.config.time_limit = max(options.time_limit_s, 0.01)
    solver.config.mip_gap = options.gap
    solver.highs_options = {
        "random_seed": options.seed % (2**31),
        "threads": options.workers,
        "presolve_rule_off": NO_AGGREGATOR,
        **native,
    }
    return solver.solve(model.model)
