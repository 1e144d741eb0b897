"""The extensive form with the rows for open pools that its relaxation breaks."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from alloc.backends import SolverOptions, highs
from alloc.backends.interrupts import Stop
from alloc.backends.linear_program import LinearProgram
from alloc.backends.second_proof import search_and_solve
from alloc.errors import UnsupportedFeatureError
from alloc.formulation import ArrayModel, RawResult
from alloc.instances.planning import generate_planning
from alloc.models.right_sizing import SizingData
from alloc.models.right_sizing.arrays import Extensive, extensive
from alloc.problems.right_sizing import PlanningProblem
from alloc.problems.right_sizing.demand import Tightening
from alloc.result import Limits
from alloc.solving.right_sizing import extensive as by_one_program
from alloc.solving.right_sizing.method import right_size
from alloc.solving.right_sizing.state import money_unit
from alloc.solving.right_sizing.strengthened import strengthened

EXACT = SolverOptions(time_limit_s=60.0, gap=1e-7)


def drawn(seed: int, failures: int | None = None) -> PlanningProblem:
    """Return a small problem whose demand grows fast, and of which scenarios may be waived."""
    rng = np.random.default_rng(seed)
    problem = generate_planning(
        "open",
        num_host_types=int(rng.choice([2, 4])),
        num_sites=int(rng.integers(2, 4)),
        num_quarters=int(rng.integers(2, 4)),
        num_classes=int(rng.integers(2, 6)),
        num_scenarios=int(rng.integers(1, 4)),
        gpus=float(rng.choice([10.0, 40.0, 100.0])),
        growth=0.5,
        failures=int(rng.integers(1, 3)) if failures is None else failures,
        bands=int(rng.integers(1, 3)),
        seed=seed,
    )
    return problem.replace(epsilon=0.4 if seed % 3 == 0 else 0.0)


def form_of(problem: PlanningProblem) -> tuple[SizingData, Extensive]:
    data = SizingData(problem)
    return data, extensive(data, unit=money_unit(data))


def relaxed(model: ArrayModel) -> float:
    return LinearProgram(model).optimum("a relaxation").value


@pytest.mark.parametrize("seed", range(12))
def test_rows_for_open_pools_leave_an_optimum(seed: int) -> None:
    data, form = form_of(drawn(seed))
    stronger, _ = strengthened(data, form, form.model, 60.0, Stop())
    plain, known = (highs.solve(model, EXACT) for model in (form.model, stronger))
    assert known.status == plain.status == "optimal"
    assert known.objective == pytest.approx(plain.objective, rel=1e-6)
    below, bound = relaxed(form.model), relaxed(stronger)
    assert below <= bound * (1 + 1e-9)
    assert plain.objective is not None
    assert bound <= plain.objective * (1 + 1e-7)


def test_rows_for_open_pools_close_most_of_the_gap() -> None:
    gaps = np.zeros(2)
    for seed in range(12):
        data, form = form_of(drawn(seed))
        stronger, _ = strengthened(data, form, form.model, 60.0, Stop())
        best = highs.solve(form.model, EXACT).objective
        assert best is not None
        gaps += [1 - relaxed(model) / best for model in (form.model, stronger)]
    assert gaps[1] < 0.5 * gaps[0]


def test_every_row_is_added_to_a_block_once() -> None:
    data, form = form_of(drawn(5))
    rows = len(form.model.row_lower)
    added = strengthened(data, form, form.model, 60.0, Stop())[0].matrix[rows:]
    assert added.shape[0]
    dense = added.toarray()
    assert len(np.unique(dense, axis=0)) == len(dense)


def test_where_nothing_opens_or_no_time_is_left_the_program_stays() -> None:
    data, form = form_of(drawn(1, failures=0))
    assert strengthened(data, form, form.model, 60.0, Stop())[0] is form.model
    data, form = form_of(drawn(1))
    assert strengthened(data, form, form.model, 0.0, Stop())[0] is form.model


@pytest.mark.parametrize("has_start", [False, True])
def test_ctrl_c_while_rows_are_added_keeps_what_there_is(
    has_start: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relaxation's bound, and a start with what runs in it."""
    problem = drawn(1)
    known = right_size(problem)

    def pressed(
        data: SizingData, form: Extensive, model: ArrayModel, seconds: float, stop: Stop
    ) -> tuple[ArrayModel, float]:
        stop.pressed = True
        return strengthened(data, form, model, seconds, Stop())

    monkeypatch.setattr(by_one_program, "strengthened", pressed)
    start = known.solution if has_start else None
    result = right_size(problem, method="extensive", start=start)
    certificate = result.certificate
    assert certificate.limit == "interrupt"
    assert certificate.bound_proof == "recomputed"
    assert 0.8 * known.objective < certificate.bound <= known.objective * (1 + 1e-7)
    if has_start:
        assert certificate.objective == pytest.approx(known.objective, rel=1e-6)
    else:
        assert result.solution is None


def test_ctrl_c_while_a_start_is_worked_out_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = drawn(1)
    known = right_size(problem)
    native = by_one_program._start

    def pressed(*given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return native(*given)

    monkeypatch.setattr(by_one_program, "_start", pressed)
    certificate = right_size(problem, method="extensive", start=known.solution).certificate
    assert certificate.limit == "interrupt"
    assert certificate.bound_proof == "recomputed"
    assert certificate.objective == pytest.approx(known.objective, rel=1e-6)


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
def test_a_start_of_more_quarters_is_a_start_all_the_same(method: Any) -> None:
    """What it sends to pools that keep a margin in later quarters counts for nothing."""
    longer, problem = (
        generate_planning("longer", num_host_types=4, num_quarters=quarters, num_classes=3,
                          num_scenarios=1, gpus=10.0, failures=1, bands=2, own=0.0, seed=3)
        for quarters in (4, 2)
    )  # fmt: skip
    margins = tuple(
        Tightening(c.name, option.gpu_type, site.name, margin=1.0)
        for c in problem.classes
        for option in c.options
        for site in problem.sites
        if not c.sites or site.name in c.sites
    )
    start = right_size(longer, limits=Limits(gap=1e-3)).solution
    limits = Limits(gap=1e-3)
    kept = problem.replace(tightening=margins)
    alone, begun = (
        right_size(kept, limits=limits, method=method, start=given).certificate
        for given in (None, start)
    )
    assert begun.objective == pytest.approx(alone.objective, rel=2e-3)


def test_without_time_for_a_search_a_start_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a start only the whole numbers count; a relaxation works out the rest."""
    problem = drawn(2)
    known = right_size(problem)

    def stopped(model: ArrayModel, options: SolverOptions) -> RawResult:
        return RawResult("no_solution", None, None, -np.inf, "time", "Time limit")

    monkeypatch.setattr(highs, "solve", stopped)
    monkeypatch.setattr("alloc.backends.second_proof._MAX_NODES_FIRST", 1)
    certificate = right_size(problem, method="extensive", start=known.solution).certificate
    assert certificate.objective == pytest.approx(known.objective, rel=1e-6)
    assert certificate.bound_proof == "recomputed"
    assert certificate.bound <= known.objective * (1 + 1e-7)


def test_a_program_that_is_refused_with_these_rows_is_solved_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With demand times a million HiGHS cannot tell some of their entries apart."""
    problem = drawn(4)
    rows = []

    def refusing(model: ArrayModel, options: SolverOptions) -> RawResult:
        rows.append(len(model.row_lower))
        if len(rows) == 1:
            raise UnsupportedFeatureError("HiGHS cannot tell them apart.")
        return search_and_solve(model, options)

    monkeypatch.setattr(by_one_program, "search_and_solve", refusing)
    assert right_size(problem, method="extensive").certificate.status == "optimal"
    assert rows[1] < rows[0]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ArrayModel]:
    """What HiGHS is asked to solve as an integer program."""
    handed: list[ArrayModel] = []
    native = highs.solve

    def seen(model: ArrayModel, options: SolverOptions) -> RawResult:
        handed.append(model)
        return native(model, options)

    monkeypatch.setattr(highs, "solve", seen)
    return handed


@pytest.mark.long
def test_small_plans_are_proved_without_highs(asked: list[ArrayModel]) -> None:
    """The search closes them, and finds a plan that keeps its rows but for rounding."""
    for seed in range(16):
        rng = np.random.default_rng(seed)
        problem = generate_planning(
            "open",
            num_host_types=4,
            num_sites=int(rng.integers(2, 4)),
            num_quarters=int(rng.integers(2, 7)),
            num_classes=int(rng.integers(2, 9)),
            num_scenarios=int(rng.integers(1, 4)),
            gpus=float(rng.choice([30.0, 100.0, 300.0])),
            failures=int(rng.integers(1, 3)),
            bands=int(rng.integers(1, 4)),
            seed=seed,
        )
        certificate = right_size(problem, limits=Limits(gap=1e-4), method="extensive").certificate
        assert certificate.gap is not None
        assert certificate.gap <= 1e-4
    assert len(asked) <= 1


def test_a_switch_that_is_off_but_for_a_tolerance_is_no_matter(asked: list[ArrayModel]) -> None:
    """A relaxation has one at 5e-9, and GPUs that could not run with it at 0."""
    problem = generate_planning("off", num_host_types=2, num_sites=3, num_quarters=3,
                                num_classes=4, num_scenarios=5, gpus=100.0, failures=2,
                                epsilon=0.2, bands=2, seed=441467)  # fmt: skip
    certificate = right_size(problem, limits=Limits(gap=1e-4), method="extensive").certificate
    assert certificate.bound_proof == "recomputed"
    assert not asked


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_is_as_cheap_as_by_highs_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = drawn(seed + 50)
    limits = Limits(gap=1e-6)
    known = right_size(problem, limits=limits, method="extensive").certificate
    monkeypatch.setattr(by_one_program, "search_and_solve", highs.solve)
    monkeypatch.setattr(
        by_one_program, "strengthened", lambda data, form, model, *_: (model, -np.inf)
    )
    plain = right_size(problem, limits=limits, method="extensive").certificate
    assert known.objective == pytest.approx(plain.objective, rel=3e-6)
    assert known.bound <= plain.objective * (1 + 1e-7)
    assert plain.bound <= known.objective * (1 + 1e-7)
