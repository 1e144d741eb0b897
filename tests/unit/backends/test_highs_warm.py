"""A linear program that comes to nothing from its last basis is solved without it."""

import highspy
import numpy as np
import pytest
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.backends.highs import highs_model, quiet_solver, run_warm
from alloc.backends.linear_program import LinearProgram
from alloc.errors import OutOfTime
from alloc.formulation import ArrayModel


@pytest.fixture
def covering() -> ArrayModel:
    """Random covering rows: a few dozen steps of the simplex method."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(0.1, 1.0, (40, 60))
    return ArrayModel(
        cost=rng.uniform(1.0, 2.0, 60),
        matrix=sparse.csr_array(rows),
        row_lower=np.full(40, 5.0),
        row_upper=np.full(40, np.inf),
        lower=np.zeros(60),
        upper=np.full(60, np.inf),
        integer=np.zeros(60, dtype=bool),
        sense="min",
    )


@pytest.fixture
def solver(covering: ArrayModel) -> highspy.Highs:
    solver = quiet_solver(SolverOptions(time_limit_s=1e9))
    solver.setOptionValue("solver", "simplex")
    solver.setOptionValue("presolve", "off")
    solver.passModel(highs_model(covering))
    return solver


@pytest.mark.parametrize("patience_s", [10.0, 0.0])
def test_a_run_that_is_broken_off_ends_in_the_same_optimum(
    covering: ArrayModel, solver: highspy.Highs, patience_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any patience it is the interior point method that answers, and only this time."""
    monkeypatch.setattr(highs, "_PATIENCE_S", patience_s)
    run_warm(solver)
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    expected = highs.solve(covering, SolverOptions(10.0)).objective
    assert solver.getInfo().objective_function_value == pytest.approx(expected, rel=1e-6)
    assert (solver.getInfo().simplex_iteration_count > 0) == (patience_s > 0)
    assert solver.getOptionValue("solver")[1] == "simplex"


def test_the_time_of_earlier_runs_does_not_count(
    solver: highspy.Highs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_warm(solver)
    begun = solver.getRunTime()
    while solver.getRunTime() - begun < 0.05:
        solver.clearSolver()
        run_warm(solver)
    monkeypatch.setattr(highs, "_PATIENCE_S", 0.04)
    run_warm(solver)
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    solver.changeRowBounds(0, 6.0, np.inf)
    run_warm(solver)
    assert 0 < solver.getInfo().simplex_iteration_count < 40


def test_what_is_infeasible_is_not_tried_again(solver: highspy.Highs) -> None:
    for column in range(60):
        solver.changeColBounds(column, 0.0, 0.01)
    run_warm(solver)
    assert solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible
    assert solver.getOptionValue("solver")[1] == "simplex"


def test_a_run_out_of_time_says_so_whatever_clock_is_behind(
    solver: highspy.Highs, covering: ArrayModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status was cleared after the last try, and what was found so far was lost to an error."""
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)
    run_warm(solver, 1e-9)
    assert solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit
    with pytest.raises(OutOfTime):
        LinearProgram(covering).optimum("a program", 1e-9)


def test_rows_that_are_deleted_are_gone_and_the_others_move_up(covering: ArrayModel) -> None:
    program = LinearProgram(covering)
    before = program.optimum("the covering")
    slack = np.flatnonzero(before.duals < 1e-9)
    program.delete_rows(slack)
    after = program.optimum("the covering")
    assert 0 < program.num_rows == 40 - len(slack) < 40
    assert after.value == pytest.approx(before.value)
    np.testing.assert_allclose(after.duals, np.delete(before.duals, slack), atol=1e-9)
    program.set_row_bounds([0], np.array([50.0]), np.array([np.inf]))
    kept = np.delete(np.arange(40), slack)[0]
    assert covering.matrix[[kept]] @ program.optimum("the covering").values >= 50 - 1e-6
