"""Units change nothing: what HiGHS is handed, what comes back, and what numpy proves of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog
from small_programs import EXACT, SIZES, best_of_all, random_program

from alloc.backends import SolverOptions, highs
from alloc.backends.column_bounds import bounded
from alloc.backends.highs import highs_model, quiet_solver
from alloc.backends.linear_program import LinearProgram
from alloc.backends.scaling import Scaling, out_of_range, power_of_two
from alloc.backends.second_proof import solve_and_prove
from alloc.backends.weak_duality import WeakDuality
from alloc.errors import SolverError
from alloc.formulation import ArrayModel, RawResult
from benchmarks.tiny.families import FAMILIES


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(6))
def test_an_integer_optimum_is_the_same_in_every_unit(seed: int, size: float) -> None:
    """Unscaled, HiGHS calls anything optimal below about 1e-6."""
    model = random_program(seed, size=size)
    raw = solve_and_prove(model, EXACT)
    expected = best_of_all(random_program(seed)) * size
    assert raw.status == "optimal"
    assert raw.objective == pytest.approx(expected, rel=1e-9, abs=0.0)
    assert raw.bound == pytest.approx(expected, rel=1e-6, abs=0.0)
    assert raw.bound_proof == "recomputed"


@pytest.mark.parametrize("row", [1e-30, 1e-9, 1.0, 1e9])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_any_unit_hold(seed: int, row: float) -> None:
    """HiGHS drops entries below 1e-9 and keeps rows to 1e-6, whatever they count."""
    model = random_program(seed)
    scaled = replace(
        model,
        matrix=model.matrix * row,
        row_lower=model.row_lower * row,
        row_upper=model.row_upper * row,
    )
    raw = highs.solve(scaled, EXACT)
    assert raw.objective == pytest.approx(best_of_all(model))


def test_a_fixed_column_does_not_set_the_unit_of_its_row() -> None:
    """A Pyomo model may hold a constant as a column; the others make 3e-9 of the row or nothing."""
    model = ArrayModel(
        "min",
        np.array([1.0, 1.0, 0.0]),
        sparse.csr_array(np.array([[1e-9, 2e-9, 1.0]])),
        np.array([2.5e-9]),
        np.array([np.inf]),
        np.zeros(3),
        np.array([1.0, 1.0, 0.0]),
        np.array([True, True, False]),
    )
    assert highs.solve(model, EXACT).objective == pytest.approx(2.0)


def test_large_whole_numbers_are_divided_exactly() -> None:
    """Rows of MiB: one too many is one too many, also where a power of two would hide it."""
    unit = 3 * 2.0**30
    model = ArrayModel(
        "max",
        np.array([2.0, 3.0]),
        sparse.csr_array(np.array([[2.0, 3.0]]) * unit),
        np.array([-np.inf]),
        np.array([4.0]) * unit,
        np.zeros(2),
        np.full(2, 5.0),
        np.ones(2, dtype=bool),
    )
    scaled = Scaling.of(model).apply(model)
    assert scaled.matrix.toarray().tolist() == [[2.0, 3.0]]
    assert highs.solve(model, EXACT).objective == 4.0


@pytest.mark.parametrize("huge", [1e3, 1e8, 1e15])
def test_a_weight_that_finds_no_room_does_not_decide_the_others(huge: float) -> None:
    """The tolerances are a share of the largest cost; the optimum here is far below it."""
    model = ArrayModel(
        "max",
        np.array([huge, 3.0, 2.0, 2.5]),
        sparse.csr_array(np.array([[9.0, 4.0, 2.0, 3.0], [2.0, 0.0, 0.0, 0.0]])),
        np.full(2, -np.inf),
        np.array([5.0, 1.0]),
        np.zeros(4),
        np.ones(4),
        np.ones(4, dtype=bool),
    )
    for program in (model, replace(model, sense="min", cost=-model.cost)):
        raw = highs.solve(program, EXACT)
        assert abs(raw.objective) == pytest.approx(4.5)
        better = raw.bound - raw.objective
        assert (better if program.sense == "max" else -better) >= -1e-9
        assert abs(better) <= 1e-6 * 4.5 or raw.bound_proof == "claimed"


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_huge_constant_does_not_decide_either(sign: float) -> None:
    """It says nothing of how far what is weighed lies below the largest cost."""
    model = ArrayModel(
        "max",
        np.array([1e9, 0.03, 0.02, 0.025]),
        sparse.csr_array(np.array([[9.0, 4.0, 2.0, 3.0], [2.0, 0.0, 0.0, 0.0]])),
        np.full(2, -np.inf),
        np.array([5.0, 1.0]),
        np.zeros(4),
        np.ones(4),
        np.array([True, False, False, False]),
    )
    with_constant = replace(model, offset=sign * 1e6)
    values = highs.solve(with_constant, EXACT).values
    assert model.cost @ values == pytest.approx(highs.solve(model, EXACT).objective, rel=1e-6)


def with_dear_columns(upper: float) -> ArrayModel:
    """Return a program of whole columns beside a dear one that is of no use, and a fixed one."""
    return ArrayModel(
        "min",
        np.array([2e6, 1e9, 3.0, 2.0, 2.5]),
        sparse.csr_array(np.array([[1.0, 0.0, 4.0, 2.0, 3.0]])),
        np.array([7.0]),
        np.full(1, np.inf),
        np.array([0.0, 2.0, 0.0, 0.0, 0.0]),
        np.array([upper, 2.0, 3.0, 3.0, 3.0]),
        np.array([True, True, True, True, False]),
        offset=-2e9,
    )


def test_what_fixed_columns_cost_sets_no_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first answer in units of them was false, and was given where time was up before another."""
    given: list[ArrayModel] = []
    solve = highs._solve_scaled
    monkeypatch.setattr(
        highs, "_solve_scaled", lambda model, options: given.append(model) or solve(model, options)
    )
    raw = highs.solve(with_dear_columns(0.0), EXACT)
    assert raw.objective == pytest.approx(3.0 + 2.5, rel=1e-6)
    assert raw.values[1] == 2.0
    assert len(given) == 1
    assert 1.0 <= np.abs(given[0].cost).max() < 2.0


@pytest.mark.parametrize("found", ["better", "worse", "nothing"])
def test_a_proof_that_is_done_again_in_a_finer_unit_counts_as_far_as_it_got(
    monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """And what was found before it stays, unless it finds better."""
    units: list[float] = []
    solve = highs._solve_scaled

    def limited(model: ArrayModel, options: SolverOptions) -> RawResult:
        raw, unit = solve(model, options), float(model.cost[2]) / 3.0
        units.append(unit)
        if len(units) == 1:
            return raw
        again = replace(raw, status="feasible", limit="time", bound=4.0 * unit)
        if found == "worse":
            values = np.array([0.0, 0.0, 3.0, 3.0, 0.0])
            return replace(again, values=values, objective=15.0 * unit)
        if found == "nothing":
            return replace(again, status="no_solution", values=None, objective=None)
        return again

    monkeypatch.setattr(highs, "_solve_scaled", limited)
    raw = highs.solve(replace(with_dear_columns(3.0), offset=0.0, lower=np.zeros(5)), EXACT)
    assert units[1] > 1000 * units[0]
    assert (raw.status, raw.limit) == ("feasible", "time")
    # The first unit hides a half.
    wanted, close = (5.5, 1e-5) if found == "better" else (6.0, 0.5)
    assert raw.objective == pytest.approx(wanted, abs=close)
    assert raw.bound == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_what_costs_nearly_make_up_for_does_not_decide_either(seed: int) -> None:
    """Of two billion served all but a few: the few that are not are the objective."""
    model = random_program(seed)
    model = replace(model, sense="min", cost=-np.abs(np.rint(3 * model.cost)))
    cost = np.append(model.cost, -1e9)
    rows = sparse.csr_array(np.pad(model.matrix.toarray(), ((0, 1), (0, 1))))
    upper = np.append(np.minimum(model.upper, 17.0), 2.0)
    low, high = np.append(model.row_lower, -np.inf), np.append(model.row_upper, np.inf)
    whole = np.ones(len(cost), dtype=bool)
    served = replace(
        model,
        cost=cost,
        matrix=rows,
        row_lower=low,
        row_upper=high,
        lower=np.zeros(len(cost)),
        upper=upper,
        integer=whole,
        offset=2e9 + 50.0,
    )
    raw = highs.solve(served, EXACT)
    assert raw.objective == pytest.approx(50.0 + best_of_all(model), abs=1e-6)


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_a_linear_program_answers_in_the_callers_units(size: float) -> None:
    """Values, duals and reduced costs, of a program that grows and changes."""
    model = random_program(4, integer=False, size=size)
    program = LinearProgram(model)
    found = program.optimum("a test")
    # Of scipy's own HiGHS, in units of about one.
    matrix = model.matrix.toarray()
    expected = linprog(
        model.cost / size,
        np.vstack([matrix, -matrix[:1]]),
        np.append(model.row_upper, -model.row_lower[0]),
        bounds=[(0, None if np.isinf(u) else u) for u in model.upper],
    )
    assert found.value == pytest.approx(expected.fun * size)
    assert found.values @ model.cost == pytest.approx(found.value)
    assert WeakDuality(bounded(model)).bound(found.duals) == pytest.approx(found.value, rel=1e-9)
    reduced = model.cost - model.matrix.T @ found.duals
    assert found.reduced_costs == pytest.approx(reduced, abs=1e-9 * size)
    # A dearer column that covers more, then a cheaper one, then a limit, then a coefficient.
    program.add_columns(np.array([1e4 * size]), np.zeros(1), np.ones(1), [0], [0], [2.0])
    assert program.optimum("a test").value == pytest.approx(found.value)
    program.set_costs([program.num_columns - 1], np.zeros(1))
    assert program.optimum("a test").value == pytest.approx(0.0, abs=1e-9 * size)
    program.set_coefficient(0, program.num_columns - 1, 1.0)
    half = program.optimum("a test").value
    assert half == pytest.approx(found.value / 2)
    program.add_rows(np.array([2.0]), np.array([np.inf]), [0], [program.num_columns - 1], [1.0])
    assert program.solve() is None
    assert program.is_infeasible
    with pytest.raises(SolverError, match='HiGHS ended a test with "Infeasible"'):
        program.optimum("a test")
    program.set_row_bounds([program.num_rows - 1], np.zeros(1), np.array([np.inf]))
    assert program.optimum("a test").value == pytest.approx(half)


def test_a_program_is_scaled_anew_where_its_costs_have_grown_small() -> None:
    """A master begins with dear artificial columns; what counts comes later."""
    program = LinearProgram(sense="max")
    program.add_rows(np.full(1, -np.inf), np.array([4.0]))
    program.add_columns(np.array([1e9]), np.zeros(1), np.ones(1), [0], [0], [4.0])
    assert program.optimum("a test").value == pytest.approx(1e9)
    program.set_costs([0], np.zeros(1))
    program.add_columns(np.array([1e-9, 3e-9]), np.zeros(2), np.ones(2), [0, 1], [0, 0], [1.0, 4.0])
    assert program.optimum("a test").value == pytest.approx(3.25e-9, rel=1e-9, abs=0.0)
    assert program.integer_model().cost.tolist() == [0.0, 1e-9, 3e-9]


@pytest.mark.parametrize("size", [2.0**-300, 2.0**-21, 2.0**-12, 1.0, 2.0**12, 2.0**300])
def test_no_amount_that_integers_make_is_small_to_the_solver(size: float) -> None:
    """It keeps limits to 1e-7: a millionth, left as it is, would be right to a tenth."""
    model = ArrayModel(
        "min",
        np.array([1.0, 0.0]),
        sparse.csr_array(np.array([[1.0, -size]])),
        np.zeros(1),
        np.full(1, np.inf),
        np.array([0.0, 1.0]),
        np.array([np.inf, 3.0]),
        np.array([False, True]),
    )
    scaled = Scaling.of(model).apply(model)
    entries = abs(scaled.matrix.toarray()[0])
    assert entries[0] / entries[1] <= 2.0**10


@pytest.mark.parametrize("seed", range(30))
def test_derived_bounds_lose_no_optimum(seed: int) -> None:
    """Every column has them here, because every program has an optimum of finite size."""
    model = random_program(seed)
    finite = bounded(model)
    assert np.isfinite(finite.upper).all()
    assert best_of_all(finite) == best_of_all(model)
    assert (finite.lower == model.lower).all()


def test_a_cost_that_is_only_pushed_down_is_bounded_by_what_its_rows_ask() -> None:
    """Masters of Benders have such columns: no row limits them, and no optimum needs more."""
    model = ArrayModel(
        "min",
        np.array([1.0, 5.0]),
        sparse.csr_array(np.array([[1.0, 2.0], [1.0, -3.0]])),
        np.array([4.0, 1.0]),
        np.full(2, np.inf),
        np.zeros(2),
        np.array([np.inf, 6.0]),
        np.array([False, True]),
    )
    upper = bounded(model).upper[0]
    assert upper == pytest.approx(19.0)
    assert highs.solve(model, EXACT).objective == pytest.approx(4.0)


def test_presolve_is_off_where_a_column_stays_without_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HiGHS' presolve can crash the process on such integer programs."""
    seen: list[str] = []
    native = highs.quiet_solver

    def watched(options: SolverOptions):
        solver = native(options)
        run = solver.run
        solver.run = lambda: seen.append(solver.getOptionValue("presolve")[1]) or run()
        return solver

    monkeypatch.setattr(highs, "quiet_solver", watched)
    model = ArrayModel(
        "max",
        np.array([1.0, -1.0]),
        sparse.csr_array(np.array([[1.0, -1.0]])),
        np.array([-np.inf]),
        np.array([0.5]),
        np.zeros(2),
        np.full(2, np.inf),
        np.ones(2, dtype=bool),
    )
    assert np.isinf(bounded(model).upper).any()
    assert highs.solve(model, EXACT).objective == pytest.approx(0.0)
    assert set(seen) == {"off"}


def test_powers_of_two_are_exact_and_defined_everywhere() -> None:
    for size in (1e-320, 1e-9, 1.0, 3.0, 1e9, 1e300):
        factor = power_of_two(size)
        assert np.log2(factor) == round(np.log2(factor))
        assert 1.0 <= size * factor < 2.0 or size < 1e-300
    assert power_of_two(0.0) == power_of_two(np.inf) == 1.0


def test_highs_itself_is_wrong_without_scaling() -> None:
    """Why all this is here; if HiGHS learns to scale, this test says so."""
    model = replace(random_program(1, size=1e-9), upper=np.full(len(random_program(1).cost), 3.0))
    solver = quiet_solver(EXACT)
    solver.passModel(highs_model(model))
    solver.run()
    claimed = solver.getInfo().objective_function_value
    assert claimed != pytest.approx(best_of_all(model), rel=1e-6, abs=0.0)


def test_rows_and_columns_that_highs_refuses_are_an_error() -> None:
    """Left out without a word, they would make a bound of another program."""
    program = LinearProgram()
    program.add_columns(np.ones(1), np.zeros(1), np.ones(1), [0], [], [])
    with pytest.raises(SolverError, match="refuses rows"):
        program.add_rows(np.array([2.0]), np.array([np.nan]), [0], [0], [1.0])


@pytest.mark.parametrize("dear", [1e6, 1e9, 1e12])
def test_what_costs_little_a_unit_and_has_many_comes_in_larger_units(dear: float) -> None:
    """Beside a dear refusal: rooms of `dear` units at a price of 1 each, of which one is needed."""
    # Columns: units of a room, and whether the request is refused.
    model = ArrayModel(
        sense="min",
        cost=np.array([1.0, 4 * dear]),
        offset=0.0,
        matrix=sparse.csr_matrix([[1.0, dear]]),
        row_lower=np.array([dear]),
        row_upper=np.array([np.inf]),
        lower=np.zeros(2),
        upper=np.array([2 * dear, 1.0]),
        integer=np.array([False, True]),
    )
    scaled = Scaling.of(model).apply(model)
    assert scaled.cost.min() >= 2.0**-11
    assert scaled.upper[0] >= 1.0
    assert abs(scaled.matrix).max() <= 2.0**20
    raw = highs.solve(model, SolverOptions(time_limit_s=10.0))
    assert raw.status == "optimal"
    assert raw.objective == pytest.approx(dear)


@pytest.mark.long
def test_no_column_comes_in_units_of_more_than_all_of_it() -> None:
    """Beside a host of 1e12 in a row of money, nine rented GPUs came in units of billions.

    HiGHS then left the row of what is asked for, and called it optimal to rent nothing.
    """
    money, own, demand = [1e12, 500.0, 0.0], [-10.0, 0.0, 1.0], [0.0, 1.0, 1.0]
    model = ArrayModel(
        sense="min",
        cost=np.array([1e12, 500.0, 0.0]),
        matrix=sparse.csr_array(np.array([money, own, demand])),
        row_lower=np.array([-np.inf, -np.inf, 9.0]),
        row_upper=np.array([1e13, 0.0, np.inf]),
        lower=np.zeros(3),
        upper=np.array([1.0, 10.0, 10.0]),
        integer=np.array([True, False, False]),
    )
    assert Scaling.of(model).columns.max() <= 10.0
    raw = highs.solve(model, EXACT)
    assert raw.objective == pytest.approx(4500.0)
    assert raw.values == pytest.approx([0.0, 9.0, 0.0])


def test_what_is_little_at_most_does_not_make_the_unit_of_a_row() -> None:
    """An entry of 3e7, of which 3e-7 can be had, once hid what is asked for: 0 was optimal."""
    model = ArrayModel(
        sense="min",
        cost=np.array([3.0, 1e8]),
        matrix=sparse.csr_array(np.array([[0.04, 3e7]])),
        row_lower=np.array([0.02]),
        row_upper=np.array([np.inf]),
        lower=np.zeros(2),
        upper=np.array([350.0, 3e-7]),
        integer=np.zeros(2, dtype=bool),
    )
    raw = highs.solve(model, EXACT)
    assert raw.objective == pytest.approx(0.02 * 1e8 / 3e7)
    assert raw.bound <= raw.objective * (1 + 1e-7)


def test_an_operation_at_large_prices_is_not_refused_as_a_whole() -> None:
    """HiGHS once called ten times the optimum optimal: hosts cost 4e-9 of a refusal, each."""
    family = FAMILIES["operation-scaled"]
    problem = family.problem(107, large=True)
    by_pyomo, by_own_method = (family.solve(problem, way, 60.0) for way in ("pyomo", "highs"))
    assert by_pyomo.statuses == by_own_method.statuses == ("optimal",)
    assert by_pyomo.values == pytest.approx(by_own_method.values)


def test_an_entry_that_highs_does_not_take_is_named_with_the_cure():
    """Whole columns keep their unit, and a column beside them has an entry of 4e15."""
    model = ArrayModel(
        sense="min",
        cost=np.ones(2),
        matrix=sparse.csr_array(np.array([[1.0, 4e15]])),
        row_lower=np.array([0.5]),
        row_upper=np.array([np.inf]),
        lower=np.zeros(2),
        upper=np.full(2, 4.0),
        integer=np.array([True, True]),
        rows={"C1": slice(0, 1)},
    )
    assert 'one in rows "C1" is 4e+15 times' in out_of_range(model)
    assert "leave out what is so much dearer" in out_of_range(model)
    ordinary = replace(model, matrix=sparse.csr_array(np.array([[1.0, 4.0]])))
    assert out_of_range(ordinary) == "its numbers are out of range."
