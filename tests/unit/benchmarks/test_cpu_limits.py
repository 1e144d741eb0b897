"""Limits of benchmarks that count CPU seconds."""

from __future__ import annotations

import itertools
import math
import time

import pytest
from ortools.sat.python import cp_model

from benchmarks.cpu_limits import count_cpu_time, stopped_at

HARD = 13
"""Marks of a Golomb ruler: its optimum takes CP-SAT minutes."""


def ruler(marks: int) -> cp_model.CpModel:
    """Return the model of the shortest ruler on which no two pairs of marks are as far apart."""
    model = cp_model.CpModel()
    at = [model.new_int_var(0, marks**2, "") for _ in range(marks)]
    model.add(at[0] == 0)
    for low, high in itertools.pairwise(at):
        model.add(low < high)
    model.add_all_different([high - low for low, high in itertools.combinations(at, 2)])
    model.minimize(at[-1])
    return model


def solver() -> cp_model.CpSolver:
    found = cp_model.CpSolver()
    found.parameters.num_workers = 1
    found.parameters.max_time_in_seconds = 600.0
    return found


def test_a_solver_is_stopped_when_the_process_has_had_its_time():
    one = solver()
    with stopped_at(one, 0.0):
        assert one.solve(ruler(HARD)) in (cp_model.UNKNOWN, cp_model.FEASIBLE)


def test_without_a_limit_a_solver_goes_on_to_the_end():
    one = solver()
    with stopped_at(one, math.inf):
        assert one.solve(ruler(5)) == cp_model.OPTIMAL
    assert one.objective_value == 11


def test_all_limits_count_the_clock_of_the_process(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", time.perf_counter)
    monkeypatch.setattr(cp_model.CpSolver, "solve", cp_model.CpSolver.solve)
    ticks = itertools.count(step=1000.0)
    monkeypatch.setattr(time, "process_time", lambda: next(ticks))
    count_cpu_time()
    one = solver()
    assert one.solve(ruler(HARD)) in (cp_model.UNKNOWN, cp_model.FEASIBLE)
    assert one.parameters.max_time_in_seconds == pytest.approx(600.0)
    assert time.perf_counter() >= 1000.0
