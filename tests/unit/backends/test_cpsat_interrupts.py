"""Ctrl-C while CP-SAT works: it stops at once, keeps what it found, and Python hears of it."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from interrupting import press
from ortools.sat.python import cp_model

import alloc
from alloc.backends import SolverOptions, cpsat
from alloc.formulation import CpSatModel
from alloc.instances.projects import generate_dags
from alloc.instances.recipes.gangs import moldable

LONG_S = 500.0
"""A limit that no test waits for."""


@pytest.fixture
def split() -> CpSatModel:
    """Return equations with slack, far from proved in minutes (Cornuéjols, Dawande 1998)."""
    rng = np.random.default_rng(3)
    model = cp_model.CpModel()
    take = [model.new_bool_var(f"x{k}") for k in range(40)]
    off = []
    for r in range(5):
        sizes = rng.integers(1, 100, len(take)).tolist()
        off.append(model.new_int_var(0, 10_000, f"off{r}"))
        model.add_abs_equality(
            off[r], sum(s * x for s, x in zip(sizes, take, strict=True)) - sum(sizes) // 2
        )
    model.minimize(sum(off))
    return CpSatModel(model, (*take, *off), "min", 1.0)


@pytest.fixture
def ctrl_c_at_a_solution(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Press Ctrl-C when CP-SAT has its first solution; the list counts how often."""
    pressed: list[int] = []
    solve = cp_model.CpSolver.solve

    class Pressing(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            if not pressed:
                pressed.append(signal.SIGINT)
                press()

    def watched(self: cp_model.CpSolver, model: cp_model.CpModel) -> cp_model.CpSolverStatus:
        return solve(self, model, Pressing())

    monkeypatch.setattr(cp_model.CpSolver, "solve", watched)
    return pressed


@pytest.mark.parametrize("workers", [1, 2])
def test_it_stops_and_keeps_what_it_found(split, ctrl_c_at_a_solution, workers):
    raw = cpsat.solve(split, SolverOptions(LONG_S, workers=workers, stoppable=True))
    assert ctrl_c_at_a_solution
    assert (raw.status, raw.limit) == ("feasible", "interrupt")
    assert raw.values is not None
    assert raw.bound <= raw.objective
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_being_asked_the_interrupt_is_raised(split, ctrl_c_at_a_solution):
    """Callers that look at no limit must not go on as if nothing had been said."""
    with pytest.raises(KeyboardInterrupt):
        cpsat.solve(split, SolverOptions(LONG_S))
    assert ctrl_c_at_a_solution


def test_a_program_with_signals_of_its_own_keeps_them(split, ctrl_c_at_a_solution):
    class Own(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Own

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(Own):
            cpsat.solve(split, SolverOptions(LONG_S, stoppable=True))
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.long
@pytest.mark.parametrize(
    ("problem", "family", "objective"),
    [
        # More jobs than are listed by the sets that a host may run (62).
        (moldable("m", num_jobs=70, num_hosts=4, seed=1), "moldable", "makespan"),
        (generate_dags(num_jobs=10, num_gpus=10, seed=2), "project", "makespan"),
    ],
)
def test_a_method_that_asks_it_ends_with_its_best(problem, family, objective, ctrl_c_at_a_solution):
    result = alloc.solve(problem, family, objective=objective, limits=alloc.Limits(seconds=12.0))
    assert ctrl_c_at_a_solution
    assert result.certificate.limit == "interrupt"
    assert result.solution is not None
    assert result.certificate.verified
