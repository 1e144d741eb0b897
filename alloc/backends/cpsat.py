"""CP-SAT of OR-Tools."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from importlib import metadata

import numpy as np
from ortools.sat.python import cp_model

from alloc.backends import SolverOptions
from alloc.backends.interrupts import stoppable
from alloc.errors import SolverError
from alloc.formulation import ArrayModel, CpSatModel, PyomoModel, RawResult

MODEL_KIND = "cpsat"

_LOOK_S = 0.05
"""Seconds between two looks at whether Ctrl-C was pressed: short for a person."""


def version() -> str:
    """Return the solver's name and version."""
    return f"CP-SAT {metadata.version('ortools')}"


def new_solver(options: SolverOptions) -> cp_model.CpSolver:
    """Return a CP-SAT solver with the options set."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(options.time_limit_s, 0.01)
    solver.parameters.random_seed = options.seed % (2**31)
    solver.parameters.num_workers = options.workers
    solver.parameters.relative_gap_limit = options.gap
    if not options.linear:
        solver.parameters.linearization_level = 0
    if options.by_bound:
        solver.parameters.use_objective_lb_search = True
    # Versions 9.12 to 9.15 return wrong optima on multi-mode jobs with this on (their default).
    solver.parameters.use_disjunctive_constraint_in_cumulative = False
    # It would stop at Ctrl-C without saying so, and leave Python deaf to the next.
    solver.parameters.catch_sigint_signal = False
    return solver


def solve(model: ArrayModel | CpSatModel | PyomoModel, options: SolverOptions) -> RawResult:
    """Solve a CP-SAT model, an incumbent never lost at a limit.

    Parameters
    ----------
    model
        A `CpSatModel`.
    options
        Limits of the search, a start, and what the solver may do.

    Raises
    ------
    KeyboardInterrupt
        At Ctrl-C, if the options do not say that it stops the solver and no more.
    """
    assert isinstance(model, CpSatModel)
    solver = new_solver(options)
    if options.start is not None:
        model.model.clear_hints()
        for variable, value in zip(model.variables, options.start, strict=True):
            if math.isfinite(value):
                model.model.add_hint(variable, round(value))
    native, pressed = _run(solver, model.model)
    if pressed and not options.stoppable:
        raise KeyboardInterrupt
    raw = _read(solver, native, model)
    return replace(raw, limit="interrupt") if pressed else raw


def _run(
    solver: cp_model.CpSolver, model: cp_model.CpModel
) -> tuple[cp_model.CpSolverStatus, bool]:
    """Return how a run ended, and whether Ctrl-C was pressed: it ends the run at once.

    Python hears of a signal in its main thread only, and there only between two steps of its own:
    so CP-SAT works in another.
    """
    if threading.current_thread() is not threading.main_thread():
        return solver.solve(model), False
    with stoppable() as stop, ThreadPoolExecutor(1) as pool:
        running = pool.submit(solver.solve, model)
        try:
            while wait([running], _LOOK_S).not_done:
                if stop.pressed:
                    solver.stop_search()
        except BaseException:  # who has handlers of signals of their own may raise what they like
            while wait([running], _LOOK_S).not_done:
                solver.stop_search()
            raise
        return running.result(), stop.pressed


def _read(
    solver: cp_model.CpSolver, native: cp_model.CpSolverStatus, model: CpSatModel
) -> RawResult:
    """Return what CP-SAT says, in the words of all backends."""
    word = solver.status_name(native)
    worst = math.inf if model.sense == "max" else -math.inf
    if native == cp_model.MODEL_INVALID:
        raise SolverError(f"CP-SAT refuses the model: {model.model.validate()}")
    if native == cp_model.INFEASIBLE:
        return RawResult("infeasible", None, None, -worst, None, word)
    if native == cp_model.UNKNOWN:
        # CP-SAT reports objective 0 and bound 0 here; both would be false claims.
        return RawResult("no_solution", None, None, worst, "time", word)
    values = np.array([solver.value(v) for v in model.variables], dtype=float)
    objective = solver.objective_value / model.scale + model.offset
    slack = model.bound_slack if model.sense == "max" else -model.bound_slack
    bound = solver.best_objective_bound / model.scale + model.offset + slack
    if model.trivial_bound is not None:
        closer = min if model.sense == "max" else max
        bound = closer(bound, model.trivial_bound)
    if native == cp_model.OPTIMAL:
        return RawResult("optimal", values, objective, bound, None, word)
    return RawResult("feasible", values, objective, bound, "time", word)
