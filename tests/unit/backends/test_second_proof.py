"""What numpy proves: bounds by weak duality, and the search that closes every leaf by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from small_programs import (
    EXACT,
    SIZES,
    best_of_all,
    mixed_program,
    random_program,
    solutions_of,
)

from alloc.backends import highs
from alloc.backends.column_bounds import bounded
from alloc.backends.interrupts import Stop
from alloc.backends.linear_program import LinearProgram
from alloc.backends.second_proof import (
    _Tree,
    solve_and_prove,
    solve_small,
    with_proof,
)
from alloc.backends.weak_duality import WeakDuality
from alloc.formulation import Array, ArrayModel, RawResult


@pytest.mark.parametrize("seed", range(40))
def test_any_multipliers_prove_a_bound(seed: int) -> None:
    """Weak duality holds whatever they are; a bound that needs good ones would be the solver's."""
    rng = np.random.default_rng(seed)
    model = bounded(random_program(seed, size=10.0 ** rng.integers(-12, 12)))
    optimum = best_of_all(model)
    size = float(np.abs(model.cost).max())
    for multipliers in rng.normal(0.0, 0.3 * size, (20, len(model.row_lower))):
        bound = WeakDuality(model).bound(multipliers)
        assert bound >= optimum if model.sense == "max" else bound <= optimum


def test_rounding_counts_against_a_bound() -> None:
    """Reduced costs that are 0 but for rounding are not, times a million."""
    model = ArrayModel(
        "min",
        np.array([0.1 + 0.2]),
        sparse.csr_array(np.array([[1.0]])),
        np.array([0.0]),
        np.array([np.inf]),
        np.zeros(1),
        np.array([1e6]),
        np.zeros(1, dtype=bool),
    )
    assert -1e-6 < WeakDuality(model).bound(np.array([0.3 + 1e-17])) <= 0.0
    assert -1e-6 < WeakDuality(model).bound(np.array([0.1 + 0.2])) < 0.0


def test_multipliers_prove_that_there_is_no_solution() -> None:
    """Two columns of at most 1 each do not make 3; any other multipliers prove nothing."""
    model = ArrayModel(
        "max",
        np.ones(2),
        sparse.csr_array(np.ones((1, 2))),
        np.array([3.0]),
        np.array([np.inf]),
        np.zeros(2),
        np.ones(2),
        np.ones(2, dtype=bool),
    )
    assert WeakDuality(model).proves_infeasible(np.array([1.0]))
    assert not WeakDuality(model).proves_infeasible(np.array([0.0]))
    assert not WeakDuality(replace(model, row_lower=np.array([2.0]))).proves_infeasible(
        np.array([1.0])
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_false_optimum_is_found_out(seed: int) -> None:
    """What a solver claims is put right where the tree is small enough to see it."""
    model = random_program(seed)
    true = best_of_all(model)
    columns = len(model.cost)
    worse = np.zeros(columns)
    worse[int(model.cost.argmax() if model.sense == "min" else model.cost.argmin())] = 2.0
    value = float(model.cost @ worse)
    claim = RawResult("optimal", worse, value, value, None, "Optimal")
    raw = with_proof(model, claim, EXACT)
    assert raw.objective == pytest.approx(true)
    assert raw.status == "optimal"
    assert raw.bound_proof == "recomputed"
    assert model.cost @ raw.values == pytest.approx(true)


@pytest.mark.parametrize("claimed", ["optimum", "worse"])
@pytest.mark.parametrize("seed", range(12))
def test_a_bound_that_is_enough_ends_the_proof_and_is_none_above_the_optimum(
    seed: int, claimed: str
) -> None:
    """Of a claim, true or false, no more is proved than is asked for."""
    model = random_program(seed)
    sign = 1.0 if model.sense == "min" else -1.0
    best = best_of_all(model)
    values = np.zeros(len(model.cost))
    values[int((sign * model.cost).argmax())] = 2.0
    if claimed == "optimum":
        exact = highs.solve(model, EXACT)
        assert exact.values is not None
        values = exact.values
    value = float(model.cost @ values)
    claim = RawResult("optimal", values, value, value, None, "Optimal")
    for part in (0.2, 0.02, 0.0, -0.1):
        enough = best - sign * part * abs(best)
        raw = with_proof(model, claim, EXACT, enough)
        assert raw.bound_proof == "recomputed"
        assert model.cost @ raw.values == pytest.approx(raw.objective)
        # No bound is better than the optimum, and none short of what was asked or of the optimum.
        assert sign * raw.bound <= sign * best + 1e-6 * abs(best)
        assert sign * raw.bound >= min(sign * enough, sign * best) - 1e-6 * abs(best)
        assert sign * raw.objective >= sign * best - 1e-6 * abs(best)
        is_optimal = raw.objective == pytest.approx(raw.bound, rel=2e-6)
        assert raw.status == ("optimal" if is_optimal else "feasible")
        if part <= 0:
            assert raw.objective == pytest.approx(best)


def test_a_bound_that_is_enough_takes_fewer_relaxations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the proof of an optimum is cut off, that of less is not."""
    monkeypatch.setattr("alloc.backends.second_proof._MAX_NODES", 1)
    monkeypatch.setattr("alloc.backends.second_proof._BRIEF_S", 0.0)
    helped = 0
    for seed in range(12):
        model = random_program(seed)
        raw = solve_and_prove(model, EXACT)
        if raw.bound_proof == "recomputed":
            continue
        far = raw.bound - (5.0 if model.sense == "min" else -5.0) * abs(raw.bound)
        again = solve_and_prove(model, EXACT, far)
        helped += again.bound_proof == "recomputed"
    assert helped > 0


@pytest.mark.parametrize("seed", range(12))
def test_a_value_within_the_tolerance_of_rows_does_not_weaken_the_bound(seed: int) -> None:
    """A solver keeps rows to 1e-6, and may claim a value that no solution has."""
    model = random_program(seed, integer=False)
    found = highs.solve(model, EXACT)
    assert found.objective is not None
    better = -2e-6 if model.sense == "min" else 2e-6
    claim = replace(found, objective=found.objective * (1 + better))
    raw = with_proof(model, claim, EXACT)
    assert raw.bound_proof == "recomputed"
    assert raw.bound == pytest.approx(found.objective, rel=1e-9)


def test_multipliers_past_the_largest_number_prove_nothing() -> None:
    """What infinity less infinity leaves of a reduced cost is not 0."""
    model = ArrayModel(
        "min",
        np.array([-1.0, -1.0]),
        sparse.csr_array(np.array([[1e10, -1e10], [-1e10, 1e10]])),
        np.full(2, -np.inf),
        np.zeros(2),
        np.zeros(2),
        np.full(2, 5.0),
        np.ones(2, dtype=bool),
    )
    duality = WeakDuality(model)
    for size in (0.0, 1.0, 1e290, 1e299, 1e308):
        assert duality.bound(np.full(2, -size)) <= -10.0
        assert not duality.proves_infeasible(np.full(2, -size))


@pytest.mark.parametrize("size", SIZES)
def test_what_the_search_alone_calls_optimal_is(size: float) -> None:
    """Costs of both signs, so that doing nothing is neither all nor none of it."""
    solved = 0
    for seed in range(30):
        plain = random_program(seed)
        sign = np.where(np.arange(len(plain.cost)) % 3 == 2, -1.0, 1.0)
        if plain.sense == "min":
            sign = -sign
        free = replace(
            plain, cost=plain.cost * sign, row_lower=np.full(len(plain.row_lower), -np.inf)
        )
        raw = solve_small(replace(free, cost=free.cost * size, offset=size), EXACT)
        if raw is None:
            continue
        solved += 1
        expected = (best_of_all(free) + 1.0) * size
        assert raw.objective == pytest.approx(expected, rel=1e-6, abs=0.0)
        assert raw.bound == pytest.approx(expected, rel=1e-6, abs=0.0)
        assert raw.bound_proof == "recomputed"
    assert solved >= 10


def require_true(raw: RawResult, model: ArrayModel, solutions: Array) -> None:
    """Hold an answer against all solutions."""
    sign = 1.0 if model.sense == "min" else -1.0
    if not len(solutions):
        assert raw.status != "optimal"
        return
    values = sign * (solutions @ model.cost + model.offset)
    best = float(values.min())
    assert raw.status == "optimal"
    assert raw.objective is not None
    assert raw.values is not None
    assert (solutions == np.rint(raw.values)).all(axis=1).any()
    # What the terms of a value are, of which less may be left; and a billionth of the least cost.
    terms = np.abs(model.cost) @ np.maximum(np.abs(model.lower), np.abs(model.upper))
    least = np.abs(model.cost[model.cost != 0]).min(initial=np.inf)
    rounding = 1e-12 * float(terms + abs(model.offset))
    rounding += 1e-9 * float(least) if model.cost.any() else 0.0
    assert sign * raw.objective == pytest.approx(best, rel=1e-6, abs=rounding)
    assert sign * raw.bound <= best + rounding
    if raw.bound_proof == "recomputed":
        assert sign * raw.bound == pytest.approx(best, rel=1e-6, abs=2 * rounding)


@pytest.mark.long
@pytest.mark.parametrize("nodes", [2, 5, 100])
def test_no_answer_is_worse_than_any_solution(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows and costs of both signs, in any unit, however early the search ends."""
    monkeypatch.setattr("alloc.backends.second_proof._MAX_NODES", nodes)
    monkeypatch.setattr("alloc.backends.second_proof._FEW_NODES", nodes)
    alone = long = 0
    for seed in range(60):
        model = mixed_program(seed)
        solutions = solutions_of(model)
        require_true(solve_and_prove(model, EXACT), model, solutions)
        raw = solve_small(model, EXACT)
        if raw is not None:
            alone += 1
            require_true(raw, model, solutions)
        if len(solutions):
            # Any solution may be called optimal by mistake.
            any_one = solutions[seed % len(solutions)]
            value = float(any_one @ model.cost) + model.offset
            claim = RawResult("optimal", any_one, value, value, None, "Optimal")
            found = with_proof(model, claim, EXACT)
            require_true(found, model, solutions)
            long += found.bound_proof != "recomputed"
    assert alone >= 15
    assert (long > 0) == (nodes < 100)


@pytest.mark.long
def test_a_small_program_begins_with_any_solution_that_is_known() -> None:
    """Also where the lower limits are none; what is no solution proves nothing."""
    begun = 0
    for seed in range(200):
        model = mixed_program(seed)
        solutions = solutions_of(model)
        limits = np.concatenate([model.lower, model.upper])
        whole = model.integer.all() and (limits == np.rint(limits)).all()
        if not whole or not len(solutions):
            continue
        start = solutions[seed % len(solutions)].astype(float)
        raw = solve_small(model, replace(EXACT, start=start))
        if raw is not None:
            begun += solve_small(model, EXACT) is None
            require_true(raw, model, solutions)
        unknown = solve_small(model, replace(EXACT, start=np.full(len(start), np.nan)))
        if unknown is not None:
            require_true(unknown, model, solutions)
    assert begun >= 3


def test_what_misses_its_own_bound_is_not_called_optimal() -> None:
    """HiGHS' reduced costs hold to 1e-7 of the largest cost, which may be all of a small one."""
    solved = 0
    for ratio in 10.0 ** np.arange(3, 13):
        for cost in ([1.0, ratio], [1.0, -ratio]):
            model = ArrayModel(
                "max",
                np.array(cost),
                sparse.csr_array(np.ones((1, 2))),
                np.array([-np.inf]),
                np.array([2.0]),
                np.array([-2.0, -2.0]),
                np.array([1.0, 0.0]),
                np.ones(2, dtype=bool),
                offset=2.0 * min(cost[1], 0.0),
            )
            raw = solve_small(model, EXACT)
            if raw is not None:
                solved += 1
                assert raw.objective == pytest.approx(1.0, rel=1e-6)
                assert raw.bound == pytest.approx(1.0, rel=1e-6)
    assert solved >= 8


def test_the_search_alone_leaves_half_the_time_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS' simplex method may go round in circles for as long as it is let."""
    given = []

    def circling(program: LinearProgram, seconds: float) -> None:
        given.append(seconds)

    model = replace(random_program(1), row_lower=np.full(len(random_program(1).row_lower), -np.inf))
    monkeypatch.setattr(LinearProgram, "solve", circling)
    assert solve_small(model, EXACT) is None
    assert len(given) == 1
    assert given[0] <= EXACT.time_limit_s / 2


def test_the_search_alone_leaves_what_it_cannot_prove_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    covering = random_program(0)  # whose least columns are no solution
    assert solve_small(covering, EXACT) is None
    packing = [
        replace(
            random_program(seed), row_lower=np.full(len(random_program(seed).row_lower), -np.inf)
        )
        for seed in range(1, 31, 2)
    ]
    monkeypatch.setattr("alloc.backends.second_proof._FEW_NODES", 1)
    assert None in [solve_small(model, EXACT) for model in packing]
    partly = replace(packing[0], integer=np.arange(len(packing[0].cost)) > 0)
    assert solve_small(partly, EXACT) is None
    half = replace(packing[0], upper=np.full(len(packing[0].cost), 1.5))
    assert solve_small(half, EXACT) is None
    endless = replace(packing[0], lower=np.full(len(packing[0].cost), -np.inf))
    assert solve_small(endless, EXACT) is None
    assert solve_small(packing[0], replace(EXACT, time_limit_s=0.0)) is None


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_what_misses_a_limit_by_a_tolerance_is_no_better_solution(size: float) -> None:
    """HiGHS keeps the limits of columns to 1e-7, which is all of an amount of a billionth."""
    model = ArrayModel(
        "min",
        np.array([1.0, 1.0, 0.0]),
        sparse.csr_array(np.array([[1.0, 1.0, -size]])),
        np.zeros(1),
        np.full(1, np.inf),
        np.array([0.0, 0.0, 1.0]),
        np.array([np.inf, np.inf, 3.0]),
        np.array([False, False, True]),
    )
    tree = _Tree(model, 2 * size, np.array([2 * size, 0.0, 1.0]), 1.0)
    tree.take(np.array([0.9 * size, 0.0, 1.0]))  # the row
    tree.take(np.array([2 * size, -0.5 * size, 1.0]))  # a column
    assert not tree.is_better
    tree.take(np.array([size, 0.0, 1.0]))
    assert tree.is_better
    assert tree.value == size


@pytest.mark.parametrize("seed", range(12))
def test_a_bound_of_a_branch_is_none_of_the_program(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is proved at the root, the first bound proved is of a part only."""
    model = bounded(random_program(seed))
    sign = 1.0 if model.sense == "min" else -1.0
    proved = WeakDuality.bound

    def unproved_root(duality: WeakDuality, duals: Array, lower: Array, upper: Array) -> float:
        whole = (lower == model.lower).all() and (upper == model.upper).all()
        return -sign * np.inf if whole else proved(duality, duals, lower, upper)

    monkeypatch.setattr(WeakDuality, "bound", unproved_root)
    worst = sign * float(np.maximum(sign * model.cost, 0.0) @ model.upper) + model.offset
    tree = _Tree(model, worst, model.upper, 60.0)
    tree.run(Stop())
    assert tree.proved == -sign * np.inf


def test_a_tree_too_large_is_confirmed_by_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alloc.backends.second_proof._MAX_NODES", 1)
    programs = [random_program(seed) for seed in range(12)]
    assert "confirmed" in {solve_and_prove(program, EXACT).bound_proof for program in programs}


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_a_false_optimum_that_the_tree_cannot_put_right_is_asked_for_again(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tree found better stays, and the second run's bound is a claim for itself."""
    monkeypatch.setattr("alloc.backends.second_proof._MAX_NODES", nodes)
    proofs = set()
    for seed in range(12):
        model = random_program(seed)
        sign = 1.0 if model.sense == "min" else -1.0
        worse = np.zeros(len(model.cost))
        worse[int((sign * model.cost).argmax())] = 2.0
        value = float(model.cost @ worse)
        raw = with_proof(model, RawResult("optimal", worse, value, value, None, "Optimal"), EXACT)
        assert raw.status == "optimal"
        assert raw.objective == pytest.approx(best_of_all(model))
        assert raw.bound == pytest.approx(raw.objective)
        proofs.add(raw.bound_proof)
    assert "claimed" in proofs
    assert "confirmed" not in proofs
