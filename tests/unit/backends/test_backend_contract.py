"""Backends: no incumbent is None, no bound is infinite, and a limit never loses an incumbent."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest
from ortools.sat.python import cp_model
from scipy import sparse

from alloc.backends import BACKENDS, SolverOptions, backend, highs
from alloc.errors import InstanceError, SolverError
from alloc.formulation import ArrayModel, CpSatModel, PyomoModel

BRIEF = SolverOptions(time_limit_s=0.2, gap=0.0)
SENSES = ["min", "max"]


def market_split(sense: Any = "max", rows: int = 6, columns: int = 60) -> ArrayModel:
    """A knapsack in several rows that no solver proves in a moment; 0 is always feasible."""
    rng = np.random.default_rng(1)
    weights = rng.integers(100, 1000, (rows, columns)).astype(float)
    value = weights.sum(axis=0) + rng.integers(0, 50, columns)
    return ArrayModel(
        sense=sense,
        cost=value if sense == "max" else -value,
        matrix=sparse.csr_array(weights),
        row_lower=np.full(rows, -np.inf),
        row_upper=np.floor(weights.sum(axis=1) / 2),
        lower=np.zeros(columns),
        upper=np.ones(columns),
        integer=np.ones(columns, dtype=bool),
    )


def as_cpsat(model: ArrayModel, sense: Any = "max") -> CpSatModel:
    native = cp_model.CpModel()
    x = [native.new_bool_var(f"x{i}") for i in range(len(model.cost))]
    for row, limit in zip(model.matrix.toarray().astype(int), model.row_upper, strict=True):
        native.add(cp_model.LinearExpr.weighted_sum(x, row.tolist()) <= int(limit))
    goal = cp_model.LinearExpr.weighted_sum(x, np.rint(model.cost).astype(int).tolist())
    if sense == "max":
        native.maximize(goal)
    else:
        native.minimize(goal)
    return CpSatModel(native, tuple(x), sense, 1.0)


def as_pyomo(model: ArrayModel) -> PyomoModel:
    native = pyo.ConcreteModel()
    native.x = pyo.Var(range(len(model.cost)), domain=pyo.Binary)
    native.rows = pyo.ConstraintList()
    for row, limit in zip(model.matrix.toarray(), model.row_upper, strict=True):
        native.rows.add(pyo.quicksum(a * native.x[i] for i, a in enumerate(row)) <= limit)
    sense = pyo.maximize if model.sense == "max" else pyo.minimize
    native.goal = pyo.Objective(
        expr=pyo.quicksum(c * native.x[i] for i, c in enumerate(model.cost)), sense=sense
    )
    return PyomoModel(native, tuple(native.x.values()), model.sense)


def drawn(name: str, model: ArrayModel):
    if name == "cpsat":
        return as_cpsat(model, model.sense)
    return as_pyomo(model) if name == "pyomo" else model


@pytest.mark.parametrize("sense", SENSES)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_time_limit_keeps_incumbent_and_bound(name, sense):
    """What was found by then comes back with values, objective, and a bound on the right side."""
    model = market_split(sense)
    raw = backend(name).solve(drawn(name, model), BRIEF)
    assert raw.status == "feasible"
    assert raw.limit == "time"
    assert raw.values is not None
    assert (model.matrix @ raw.values <= model.row_upper + 1e-6).all()
    assert model.cost @ raw.values == pytest.approx(raw.objective)
    better = raw.bound - raw.objective if sense == "max" else raw.objective - raw.bound
    assert 0 < better < math.inf


@pytest.mark.long
@pytest.mark.parametrize("sense", SENSES)
def test_a_limit_of_nodes_keeps_incumbent_and_bound_and_ends_at_the_same_place(sense):
    model = market_split(sense)
    first, again = (highs.solve(model, SolverOptions(gap=0.0, nodes=3)) for _ in range(2))
    assert (first.status, first.limit) == ("feasible", "nodes")
    assert (first.values == again.values).all()
    assert (first.objective, first.bound) == (again.objective, again.bound)
    better = first.bound - first.objective if sense == "max" else first.objective - first.bound
    assert 0 < better < math.inf


@pytest.mark.long
@pytest.mark.parametrize("name", ["highs", "cpsat"])
def test_a_start_is_an_incumbent_from_the_first_moment(name):
    """A start that is good must not be lost, however short the time."""
    model = market_split()
    good = backend(name).solve(drawn(name, model), SolverOptions(time_limit_s=1.0, gap=0.0))
    options = SolverOptions(time_limit_s=0.3, gap=0.0, start=good.values)
    again = backend(name).solve(drawn(name, model), options)
    assert again.values is not None
    assert again.objective >= good.objective - 1e-6


def test_a_start_that_highs_trips_over_is_only_a_hint(monkeypatch):
    """HiGHS ends in "Solve error" where its completion of a partial start misses a tolerance."""
    quiet_solver = highs.quiet_solver
    told = []

    def stumbling(options):
        solver = quiet_solver(options)
        status, run, clear = solver.getModelStatus, solver.run, solver.clearSolver

        def status_of_run():
            return status() if "clear" in told else highspy.HighsModelStatus.kSolveError

        solver.getModelStatus = status_of_run
        solver.run = lambda: told.append("run") or run()
        solver.clearSolver = lambda: told.append("clear") or clear()
        return solver

    monkeypatch.setattr(highs, "quiet_solver", stumbling)
    model = market_split(rows=1, columns=8)
    start = np.array([1.0] + [np.nan] * 7)
    assert highs.solve(model, SolverOptions(start=start)).status == "optimal"
    assert told == ["run", "clear", "run"]


def test_a_program_that_fails_after_presolve_is_solved_without():
    """HiGHS (1.15) ends in "Solve error" where what presolve leaves misses a tolerance.

    To the last digit: with twelve of them it does not fail.
    """
    rows = [
        [1.9542768745549457, 1.9542768745549457, 0.24224835907881345],
        [-1.1670739431553896, 0.0, 0.0],
        [-0.3751826629787214, 1.1255479889361641, 0.02325345646893377],
    ]
    model = ArrayModel(
        "min",
        np.array([-1.9769444065021533, 0.0, -0.24505818223646]),
        sparse.csr_array(np.array(rows)),
        np.array([1.2943145976166825, -2.0423794005219316, -0.7011604054129692]),
        np.array([3.639446847082618, np.inf, np.inf]),
        np.zeros(3),
        np.array([1.0, 2.0, 8.067245045483004]),
        np.array([True, True, False]),
    )
    raw = highs.solve(model, SolverOptions(gap=0.0))
    # One whole unit and as much of the last column as the first row allows.
    rest = (model.row_upper[0] - rows[0][0]) / rows[0][2]
    assert raw.status == "optimal"
    assert raw.objective == pytest.approx(model.cost @ [1.0, 0.0, rest])
    assert raw.bound == pytest.approx(raw.objective)


@pytest.mark.parametrize("sense", SENSES)
@pytest.mark.parametrize("name", BACKENDS)
def test_infeasible_has_no_values_and_the_bound_of_an_empty_set(name, sense):
    """CP-SAT says objective 0 and bound 0 here; both would be claims."""
    model = ArrayModel(
        sense=sense,
        cost=np.ones(2),
        matrix=sparse.csr_array(np.array([[1.0, 1.0], [-1.0, -1.0]])),
        row_lower=np.full(2, -np.inf),
        row_upper=np.array([1.0, -2.0]),
        lower=np.zeros(2),
        upper=np.ones(2),
        integer=np.ones(2, dtype=bool),
    )
    raw = backend(name).solve(drawn(name, model), SolverOptions())
    assert raw.status == "infeasible"
    assert raw.values is None
    assert raw.objective is None
    assert raw.bound == (-math.inf if sense == "max" else math.inf)


@pytest.mark.parametrize(("sense", "nothing"), [("min", -math.inf), ("max", math.inf)])
def test_cpsat_without_an_answer_says_nothing(sense, nothing):
    """UNKNOWN comes with objective 0.0 and bound 0.0 from the solver; neither may get out."""
    rng = np.random.default_rng(2)
    model = cp_model.CpModel()
    x = [model.new_bool_var(f"x{i}") for i in range(60)]
    for _ in range(6):
        weights = rng.integers(100, 1000, 60).tolist()
        model.add(cp_model.LinearExpr.weighted_sum(x, weights) == sum(weights) // 2)
    goal = 5 * sum(x)
    if sense == "min":
        model.minimize(goal)
    else:
        model.maximize(goal)
    options = SolverOptions(time_limit_s=0.05)
    raw = backend("cpsat").solve(CpSatModel(model, tuple(x), sense, 1.0), options)
    assert raw.native_status == "UNKNOWN"
    assert raw.status == "no_solution"
    assert raw.values is None
    assert raw.objective is None
    assert raw.bound == nothing
    assert raw.limit == "time"


def test_cpsat_takes_rounding_off_its_bound_and_gives_original_units():
    """Scale, offset and slack are applied in one place, the right way round for either sense."""
    for sense, bound in (("min", 12.5 - 0.25), ("max", 12.5 + 0.25)):
        model = cp_model.CpModel()
        x = model.new_int_var(25, 25, "x")
        model.minimize(x) if sense == "min" else model.maximize(x)
        raw = backend("cpsat").solve(
            CpSatModel(model, (x,), sense, 10.0, offset=10.0, bound_slack=0.25),  # type: ignore[arg-type]
            SolverOptions(),
        )
        assert raw.objective == pytest.approx(12.5)
        assert raw.bound == pytest.approx(bound)


def test_cpsat_refuses_a_broken_model_with_its_reason():
    model = cp_model.CpModel()
    x = model.new_int_var(0, 2**62, "x")
    model.add(2**62 * x <= 5)
    with pytest.raises(SolverError, match="CP-SAT refuses the model"):
        backend("cpsat").solve(CpSatModel(model, (x,), "min", 1.0), SolverOptions())


def empty_model(lower: float) -> ArrayModel:
    nothing = np.zeros(0)
    return ArrayModel(
        "max",
        nothing,
        sparse.csr_array((1, 0)),
        np.array([lower]),
        np.array([5.0]),
        nothing,
        nothing,
        nothing.astype(bool),
        offset=3.0,
    )


def test_highs_solves_a_model_without_columns():
    """HiGHS has a status of its own for these; a cluster in which nothing fits draws one."""
    raw = backend("highs").solve(empty_model(-np.inf), SolverOptions())
    assert (raw.status, raw.objective, raw.bound) == ("optimal", 3.0, 3.0)
    assert raw.values.shape == (0,)
    raw = backend("highs").solve(empty_model(1.0), SolverOptions())
    assert (raw.status, raw.objective, raw.bound) == ("infeasible", None, -math.inf)


def test_highs_bounds_a_linear_program_by_its_optimum():
    model = market_split()
    linear = ArrayModel(**{**vars(model), "integer": np.zeros(len(model.cost), dtype=bool)})
    raw = backend("highs").solve(linear, SolverOptions())
    assert raw.status == "optimal"
    assert raw.bound == raw.objective


@pytest.mark.parametrize("name", BACKENDS)
def test_versions_are_named(name):
    """A certificate without the solver's version cannot be reproduced."""
    assert any(character.isdigit() for character in backend(name).version())


def test_an_unknown_backend_gets_the_nearest_name():
    with pytest.raises(InstanceError, match=r'unknown backend "cp-sat".*Known: auto, highs'):
        backend("cp-sat")


def limits_above_a_whole_number() -> ArrayModel:
    """Hosts of 1 rack unit and 2 ports under limits of 1.0001 and 2: one host serves all.

    HiGHS 1.13.1 calls it infeasible; with a limit of 1 it does not. Columns: three orders, hosts of
    each, GPUs of two pools, GPUs in use.
    """
    rows: list[tuple[dict[int, float], float, float]] = [
        ({0: -1, 3: 1}, 0.0, 0.0),
        ({0: -1, 1: -1, 4: 1}, 0.0, 0.0),
        ({2: -1, 5: 1}, 0.0, 0.0),
        ({4: 1, 5: 1}, 0.0, 1.0001),
        ({4: 2, 5: 1}, -np.inf, 2.0),
        ({3: -4, 6: 1}, -np.inf, 0.0),
        ({5: -2, 7: 1}, -np.inf, 0.0),
        ({8: 0.14}, 0.51, np.inf),
        ({6: 1, 8: -1}, 0.0, np.inf),
    ]
    matrix = sparse.lil_array((len(rows), 9))
    for r, (entries, _, _) in enumerate(rows):
        for column, value in entries.items():
            matrix[r, column] = value
    return ArrayModel(
        sense="min",
        cost=np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        matrix=matrix.tocsr(),
        row_lower=np.array([low for _, low, _ in rows]),
        row_upper=np.array([high for _, _, high in rows]),
        lower=np.zeros(9),
        upper=np.array([1.0, 1.0, 1.0, 5.0, 5.0, 3.0, 9.0, 1.0, 9.0]),
        integer=np.array([True] * 3 + [False] * 6),
    )


def test_what_presolve_alone_calls_infeasible_is_solved():
    """A false "infeasible" is the worst answer there is: it is believed and proves nothing."""
    model = limits_above_a_whole_number()
    found = highs.solve(model, SolverOptions(time_limit_s=10))
    assert found.status == "optimal"
    assert found.objective == pytest.approx(1.0)
    nothing = ArrayModel(**{**vars(model), "upper": np.zeros(9)})
    assert highs.solve(nothing, SolverOptions(time_limit_s=10)).status == "infeasible"


def test_the_whiteboard_does_not_believe_presolve_either():
    model = limits_above_a_whole_number()
    matrix = model.matrix.tocsr()
    drawn = pyo.ConcreteModel()
    drawn.x = pyo.Var(range(9), bounds=lambda _, j: (0, model.upper[j]))
    for j in range(3):
        drawn.x[j].domain = pyo.Integers
    drawn.rows = pyo.ConstraintList()
    for r in range(9):
        at = slice(matrix.indptr[r], matrix.indptr[r + 1])
        body = sum(v * drawn.x[j] for j, v in zip(matrix.indices[at], matrix.data[at], strict=True))
        ends = [
            None if np.isinf(end[r]) else float(end[r])
            for end in (model.row_lower, model.row_upper)
        ]
        drawn.rows.add((ends[0], body, ends[1]))
    drawn.cost = pyo.Objective(expr=sum(drawn.x[j] for j in range(3)))
    found = backend("pyomo").solve(PyomoModel(drawn, (), "min"), SolverOptions(time_limit_s=10))
    assert found.status == "optimal"
    assert found.objective == pytest.approx(1.0)


def sharing_of_two_gpus() -> ArrayModel:
    """Four jobs' ways, of which two gain 0.3 each and fit together; what F5 drew for a test."""
    rows = [
        ({0: 1, 1: 1}, -np.inf, 1.0),
        ({2: 1, 3: 1}, -np.inf, 1.0),
        ({0: -1, 2: -1, 4: 1}, 0.0, 0.0),
        ({1: -1, 3: -1, 5: 1}, 0.0, 0.0),
        ({4: 1, 6: -1}, -np.inf, 0.0),
        ({5: 1, 7: -2}, -np.inf, 0.0),
        ({6: 1, 7: 1}, -np.inf, 2.0),
    ]
    matrix = sparse.lil_array((len(rows), 8))
    for r, (entries, _, _) in enumerate(rows):
        for column, value in entries.items():
            matrix[r, column] = value
    return ArrayModel(
        sense="max",
        cost=np.array([0.0, 0.3, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0]),
        matrix=matrix.tocsr(),
        row_lower=np.array([low for _, low, _ in rows]),
        row_upper=np.array([high for _, _, high in rows]),
        lower=np.zeros(8),
        upper=np.array([1.0, 1.0, 1.0, 1.0, np.inf, np.inf, 2.0, 2.0]),
        integer=np.ones(8, dtype=bool),
    )


@pytest.mark.parametrize("sense", SENSES)
def test_what_presolve_alone_calls_optimal_is(sense: Any) -> None:
    """HiGHS 1.12 to 1.15 call 0.3 optimal; a proof that is false spoils every gap."""
    model = sharing_of_two_gpus()
    sign = 1.0 if sense == "max" else -1.0
    found = highs.solve(replace(model, sense=sense, cost=sign * model.cost), SolverOptions())
    assert found.status == "optimal"
    assert sign * found.objective == pytest.approx(0.6)
    assert sign * found.bound == pytest.approx(0.6)
    assert found.values[[1, 3]] == pytest.approx(1.0)


def test_what_presolve_makes_false_and_then_searches_is_solved() -> None:
    """Here presolve leaves something to search; HiGHS as it comes says 2.8 and calls it optimal.

    By hand: one of column 6 lets both of column 1 in, which gain 2.5 each; two of column 5 instead
    let in one of column 2, which gains 2.5.
    """
    model = sharing_of_two_gpus()
    rows = [
        ({0: 1, 1: 1}, -np.inf, 2.0),
        ({2: 1}, -np.inf, 2.0),
        ({0: -1, 2: -2, 3: 1}, 0.0, 0.0),
        ({1: -1, 4: 1}, 0.0, 0.0),
        ({3: 1, 5: -1}, -np.inf, 0.0),
        ({4: 1, 6: -2}, -np.inf, 0.0),
        ({5: 1, 6: 1}, -np.inf, 2.0),
    ]
    matrix = sparse.lil_array((7, 7))
    for r, (entries, _, _) in enumerate(rows):
        for column, value in entries.items():
            matrix[r, column] = value
    searched = replace(
        model,
        cost=np.array([0.3, 2.5, 2.5, 0.0, 0.0, 0.0, 0.0]),
        matrix=matrix.tocsr(),
        row_lower=np.array([low for _, low, _ in rows]),
        row_upper=np.array([high for _, _, high in rows]),
        lower=np.zeros(7),
        upper=np.array([2.0, 2.0, 2.0, np.inf, np.inf, 4.0, 4.0]),
        integer=np.ones(7, dtype=bool),
    )
    found = highs.solve(searched, SolverOptions())
    assert found.objective == pytest.approx(5.0)
    assert found.bound == pytest.approx(5.0)


def test_the_whiteboard_does_not_believe_it_either() -> None:
    model = sharing_of_two_gpus()
    drawn = pyo.ConcreteModel()
    upper = [None if np.isinf(u) else u for u in model.upper]
    drawn.x = pyo.Var(range(8), domain=pyo.Integers, bounds=lambda _, j: (0, upper[j]))
    drawn.rows = pyo.ConstraintList()
    for row, low, high in zip(
        model.matrix.toarray(), model.row_lower, model.row_upper, strict=True
    ):
        body = sum(float(row[j]) * drawn.x[j] for j in np.flatnonzero(row))
        drawn.rows.add((None if np.isinf(low) else float(low), body, float(high)))
    gain = sum(float(c) * drawn.x[j] for j, c in enumerate(model.cost) if c)
    drawn.gain = pyo.Objective(expr=gain, sense=pyo.maximize)
    found = backend("pyomo").solve(PyomoModel(drawn, (), "max"), SolverOptions())
    assert found.objective == pytest.approx(0.6)
    assert found.bound == pytest.approx(0.6)
