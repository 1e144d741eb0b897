"""HiGHS through Pyomo: the whiteboard's own solver."""

from __future__ import annotations

import math

import numpy as np
import pyomo.environ as pyo
from pyomo.contrib.appsi.base import Results, TerminationCondition
from pyomo.contrib.appsi.solvers import Highs

from alloc.backends import SolverOptions
from alloc.backends.highs import threads
from alloc.errors import SolverError
from alloc.formulation import ArrayModel, CpSatModel, PyomoModel, RawResult

DRAWING = "pyomo"

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
    with threads(options.workers):
        result = _run(model, options)
        if result.termination_condition in _REFUSED:
            # Presolve has refused programs that have a solution; see `alloc.backends.highs`.
            second = _run(model, options, presolve="off")
            if second.best_feasible_objective is not None:
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
        **native,
    }
    return solver.solve(model.model)
