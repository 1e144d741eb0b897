"""The search of the second proof before HiGHS: what it finds, proves and leaves to HiGHS."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from small_programs import EXACT, best_of_all, mixed_program, random_program

from alloc.backends import SolverOptions, highs
from alloc.backends.column_bounds import bounded
from alloc.backends.interrupts import Stop
from alloc.backends.linear_program import LinearSolution
from alloc.backends.scaling import Scaling
from alloc.backends.second_proof import _Tree, search_and_solve
from alloc.formulation import ArrayModel, RawResult


@pytest.mark.parametrize("nodes", [1, 100])
def test_a_search_before_highs_finds_the_optimum(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With whole and other columns, against every choice of the whole ones, in any unit."""
    monkeypatch.setattr("alloc.backends.second_proof._MAX_NODES_FIRST", nodes)
    asked = []

    def solve(model: ArrayModel, options: SolverOptions) -> RawResult:
        asked.append(model)
        return highs.solve(model, options)

    shim = SimpleNamespace(solve=solve)
    monkeypatch.setattr("alloc.backends.second_proof.highs", shim)
    proved = 0
    for seed in range(25):
        model = mixed_program(seed)
        half = (len(model.cost) + 1) // 2
        model = replace(model, integer=np.arange(len(model.cost)) < half)
        choices = np.stack(
            np.meshgrid(
                *(np.arange(model.lower[i], model.upper[i] + 1) for i in range(half)), indexing="ij"
            ),
            axis=-1,
        ).reshape(-1, half)
        best = None
        for choice in choices:
            lower, upper = model.lower.copy(), model.upper.copy()
            lower[:half] = upper[:half] = choice
            every = np.zeros(len(lower), dtype=bool)
            rest = highs.solve(replace(model, lower=lower, upper=upper, integer=every), EXACT)
            if rest.objective is not None:
                closer = min if model.sense == "min" else max
                best = rest.objective if best is None else closer(best, rest.objective)
        asked.clear()
        raw = search_and_solve(model, EXACT)
        if best is None:
            assert raw.values is None
            continue
        rounding = 1e-6 * float(np.abs(model.cost).max() + abs(model.offset))
        assert raw.status == "optimal"
        assert raw.objective == pytest.approx(best, rel=1e-6, abs=rounding)
        assert raw.bound == pytest.approx(best, rel=1e-6, abs=rounding)
        assert raw.values is not None
        assert model.cost @ raw.values + model.offset == pytest.approx(raw.objective, rel=1e-9)
        proved += not asked
    assert proved >= (20 if nodes == 100 else 3)


def test_a_search_before_highs_ends_at_the_gap_asked_for() -> None:
    """Neither its bound nor its solution is farther from the optimum, and it takes fewer nodes."""
    nodes: dict[float, int] = {}
    for gap in (0.0, 0.1):
        nodes[gap] = 0
        for seed in range(40):
            model = bounded(random_program(seed))
            model = replace(model, cost=model.cost + 1.0)
            worst = np.inf if model.sense == "min" else -np.inf
            nothing = np.full(len(model.cost), np.nan)
            search = _Tree(model, worst, nothing, 20.0, gap=gap, is_claimed=False)
            solve = search.program.solve

            def counted(seconds: float, solve: Any = solve, gap: float = gap) -> Any:
                nodes[gap] += 1
                return solve(seconds)

            search.program.solve = counted  # type: ignore[method-assign, assignment]
            assert search.run(Stop(), 1000)
            optimum = best_of_all(model)
            assert abs(search.value - optimum) <= (gap + 1e-9) * abs(search.value)
            assert abs(search.value - search.bound) <= (gap + 1e-6) * abs(search.value)
            assert search.sign * (search.bound - optimum) <= 1e-9 * abs(optimum)
    assert nodes[0.1] < nodes[0.0]


def test_round_off_is_not_part_of_a_cleaned_solution() -> None:
    """It is 1e-14 in the units in which HiGHS solves; in those of the caller that may be much."""
    columns = np.array([1.0, 1.0, 2.0**-47, 2.0**40])
    raw = SimpleNamespace(col_value=[1e-14, 0.5, 2.0, -1e-11])
    scaling = Scaling(1.0, np.ones(1), columns)
    found = LinearSolution(0.0, raw, scaling)
    assert found.cleaned.tolist() == [0.0, 0.5, 2.0**-46, 0.0]


def test_ctrl_c_in_a_search_before_highs_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found by then, and HiGHS does not begin."""

    def run(search: _Tree, stop: Stop, *limits: int) -> bool:
        stop.pressed = True
        return False

    monkeypatch.setattr(_Tree, "run", run)
    raw = search_and_solve(random_program(0), replace(EXACT, stoppable=True))
    assert raw.limit == "interrupt"
    assert raw.values is None


@pytest.mark.parametrize("said", ["interrupt", "time", "weak", "infeasible", "optimal"])
def test_what_a_search_before_highs_has_found_and_proved_is_kept(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the search, and HiGHS at its limit or wrong, lost it."""
    monkeypatch.setattr("alloc.backends.second_proof.MAX_ENTRIES", 0)
    model = ArrayModel(
        "max",
        np.array([3.0, 2.0]),
        sparse.csr_array(np.array([[2.0, 1.0]])),
        np.array([-np.inf]),
        np.array([4.0]),
        np.zeros(2),
        np.full(2, 3.0),
        np.ones(2, dtype=bool),
    )

    def run(search: _Tree, stop: Stop, *limits: int) -> bool:
        search.take(np.array([1.0, 2.0]))
        search.proved, stop.pressed = 7.5, said == "interrupt"
        return False

    def solve(model: ArrayModel, options: SolverOptions) -> RawResult:
        if said == "time":
            return RawResult("no_solution", None, None, np.inf, "time", "Time limit")
        worse = np.array([0.0, 2.0])
        if said == "weak":
            return RawResult("feasible", worse, 4.0, 9.0, "time", "Time limit")
        if said == "optimal":
            return RawResult("optimal", worse, 4.0, 4.0, None, "Optimal")
        return RawResult("infeasible", None, None, -np.inf, None, "Infeasible")

    shim = SimpleNamespace(solve=solve)
    monkeypatch.setattr("alloc.backends.second_proof.highs", shim)
    monkeypatch.setattr(_Tree, "run", run)
    raw = search_and_solve(model, replace(EXACT, stoppable=True))
    assert (raw.status, raw.objective, raw.bound) == ("feasible", 7.0, 7.5)
    assert raw.bound_proof == "recomputed"
    assert raw.limit == {"interrupt": "interrupt", "time": "time", "weak": "time"}.get(said)
    assert raw.values is not None
    assert raw.values.tolist() == [1.0, 2.0]
