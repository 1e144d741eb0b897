"""Limits that count CPU seconds: what a whole core would have done, however busy the machine is."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ortools.sat.python import cp_model

_LOOK_S = 0.02
"""Seconds between two looks at the CPU time that CP-SAT has had: little of any limit."""
_BUSIEST = 100.0
"""Wall seconds that a CPU second of CP-SAT may take at most."""


@contextmanager
def stopped_at(solver: cp_model.CpSolver, cpu_s: float) -> Iterator[None]:
    """Stop a solver when this process has used so much CPU time.

    Parameters
    ----------
    solver
        The solver, which counts wall time only.
    cpu_s
        CPU time of the process since it began, seconds; infinite: it is not stopped.
    """
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_S):
            if time.process_time() >= cpu_s:
                solver.stop_search()  # again and again: it may not have begun

    if math.isinf(cpu_s):
        yield
        return
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def count_cpu_time() -> None:
    """Make all limits of this process count CPU seconds, those of CP-SAT too."""
    time.perf_counter = time.process_time
    solve = cp_model.CpSolver.solve

    def within(
        solver: cp_model.CpSolver,
        model: cp_model.CpModel,
        solution_callback: cp_model.CpSolverSolutionCallback | None = None,
    ) -> cp_model.CpSolverStatus:
        limit_s = solver.parameters.max_time_in_seconds
        solver.parameters.max_time_in_seconds = _BUSIEST * limit_s
        try:
            with stopped_at(solver, time.process_time() + limit_s):
                return solve(solver, model, solution_callback)
        finally:
            solver.parameters.max_time_in_seconds = limit_s

    cp_model.CpSolver.solve = within  # type: ignore[assignment, method-assign]
