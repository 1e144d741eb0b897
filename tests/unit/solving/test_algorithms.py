"""Methods that know no GPU, held against enumeration and against a linear program solved whole."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from alloc.algorithms.add_drop import better_choices
from alloc.algorithms.bound_tightening import upper_bounds_in_better
from alloc.algorithms.volume import raise_dual
from alloc.backends import SolverOptions
from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.formulation import ArrayModel
from alloc.model_builder import ModelBuilder


def choices(rng: np.random.Generator) -> tuple[ArrayModel, np.ndarray, np.ndarray]:
    """Return: each of five owners takes one of four columns, within two rows of room."""
    cost, use = rng.uniform(1, 9, (5, 4)), rng.uniform(0, 1, (2, 5, 4))
    use[:, :, 0] = 0.0
    cost[:, 0] = 20.0
    builder = ModelBuilder()
    x = builder.columns(cost.shape, 1.0, cost=cost, integer=False)
    builder.rows("one", 5, [(np.arange(5)[:, None], x, 1.0)], 1.0, 1.0)
    for row in use:
        builder.row("room", [(x.ravel(), row.ravel())], upper=1.0)
    return builder.model("min"), cost, use


@pytest.mark.parametrize("seed", range(8))
def test_the_volume_algorithm_comes_near_the_linear_program_from_below(seed: int) -> None:
    """Every Lagrangian value is a bound; the best is that of the linear program, nearly."""
    model, cost, use = choices(np.random.default_rng(seed))
    optimum = LinearProgram(model).optimum("the test").value

    def relaxed(prices: np.ndarray) -> tuple[float, np.ndarray]:
        reduced = cost + np.tensordot(prices, use, axes=1)
        taken = np.eye(4)[reduced.argmin(axis=1)]
        return float((reduced * taken).sum()), (use * taken).sum(axis=(1, 2))

    lines: list[str] = []
    found = raise_dual(relaxed, (2,), 100.0, lambda: False, lines.append)
    assert found.value <= optimum + 1e-9
    assert found.value >= 0.97 * optimum
    assert (found.prices >= 0).all()
    value, _ = relaxed(found.prices)
    assert value - float(found.prices.sum()) == pytest.approx(found.value)


def test_an_ascent_without_time_still_has_a_bound() -> None:
    found = raise_dual(lambda p: (3.0, np.full(2, 2.0)), (2,), 9.0, lambda: True, lambda _: None)
    assert (found.value, found.rounds) == (3.0, 1)
    assert found.prices.tolist() == [0.0, 0.0]


def facilities(rng: np.random.Generator) -> tuple[ArrayModel, np.ndarray]:
    """Return: open some of four facilities, each in two periods, to serve a demand of each."""
    builder = ModelBuilder()
    opened = builder.columns((4, 2), 1.0, cost=rng.integers(2, 9, (4, 2)).astype(float))
    amount = builder.columns((4, 2), 5.0, cost=rng.integers(1, 5, (4, 2)) / 2, integer=False)
    size = rng.integers(2, 6, (4, 2))
    for t in range(2):
        builder.row("demand", [(amount[:, t], 1.0)], lower=float(size[:, t].sum() / 2))
    rows = np.arange(8).reshape(4, 2)
    builder.rows("open", 8, [(rows, amount, 1.0), (rows, opened, -size)], upper=0.0)
    return builder.model("min"), opened


def best_costs(model: ArrayModel, opened: np.ndarray) -> dict[tuple[int, ...], float]:
    """Return the least cost for every choice of what is open, by enumeration."""
    program, found = LinearProgram(model), {}
    for chosen in product((0, 1), repeat=opened.size):
        values = np.array(chosen, dtype=float)
        program.set_column_bounds(opened.ravel(), values, values)
        solution = program.solve()
        if solution is not None:
            found[chosen] = solution.value
    return found


@pytest.mark.parametrize("seed", range(4))
def test_add_drop_search_ends_where_no_move_gains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, opened = facilities(rng)
    costs = best_costs(model, opened)
    chosen, cost = better_choices(model, opened, np.ones((4, 2), dtype=bool), 60.0, rng)
    assert cost == pytest.approx(costs[tuple(chosen.ravel().astype(int))])
    assert cost <= costs[(1,) * 8] + 1e-9
    for row, span, wanted in product(
        range(4), (slice(0, 2), slice(0, 1), slice(1, 2)), (False, True)
    ):
        moved = chosen.copy()
        moved[row, span] = wanted
        other = costs.get(tuple(moved.ravel().astype(int)), np.inf)
        assert other >= cost * (1 - 2e-5)


def test_tightened_bounds_keep_every_better_solution_and_some_are_tighter() -> None:
    gained = 0
    for seed in range(6):
        model, opened = facilities(np.random.default_rng(seed))
        costs = best_costs(model, opened)
        known, limits = 1.01 * min(costs.values()), np.ones(opened.size)
        tightened = upper_bounds_in_better(model, known, opened.ravel(), limits, 60.0)
        assert (tightened <= limits).all()
        gained += int((tightened < limits).sum())
        for chosen, cost in costs.items():
            assert cost > known or (np.array(chosen) <= tightened).all()
        cut_off = upper_bounds_in_better(model, known, opened.ravel(), limits, -1.0)
        assert cut_off.tolist() == limits.tolist()
    assert gained


def test_a_restricted_master_takes_each_column_once_and_chooses_whole_numbers() -> None:
    """Cutting stock by hand: rolls of 10 into pieces of 5 and 3; 2 + 0, 1 + 1 and 0 + 3 a roll."""
    program = LinearProgram(sense="min")
    program.add_rows(np.array([4.0, 5.0]), np.full(2, np.inf))
    master = RestrictedMaster[str]("the test", program)
    both, fives = (
        MasterColumn("both", 1.0, [0, 1], [1.0, 1.0]),
        MasterColumn("fives", 1.0, [0], [2.0]),
    )
    assert master.add([both, both, fives]) == 2
    assert master.add([fives]) == 0
    assert "both" in master
    assert "threes" not in master
    first = master.solve()
    assert first.value == pytest.approx(5.0)
    # The price of a piece of 3 makes a roll of three of them pay.
    assert 3 * first.duals[1] > 1.0
    assert master.add([MasterColumn("threes", 1.0, [1], [3.0])]) == 1
    last = master.solve()
    assert last.value == pytest.approx(2 + 5 / 3)
    assert master.generated(last.values) == pytest.approx([0.0, 2.0, 5 / 3])
    assert (2 * last.duals[0], 3 * last.duals[1]) == pytest.approx((1.0, 1.0))
    raw = master.solve_integer(SolverOptions(10.0), np.full(3, 9.0))
    assert raw.objective == pytest.approx(4.0)
    assert master.keys == ["both", "fives", "threes"]


def test_columns_of_the_program_itself_and_known_ones_keep_their_places() -> None:
    """A column of its own, one that is known, one in between, one generated later."""
    model = ArrayModel(
        "min",
        np.array([5.0, 3.0]),
        sparse.csr_array(np.array([[1.0, 1.0]])),
        np.array([2.0]),
        np.array([np.inf]),
        np.zeros(2),
        np.array([9.0, 1.0]),
        np.zeros(2, dtype=bool),
    )
    program = LinearProgram(model)
    master = RestrictedMaster[int]("the test", program, [7])
    program.add_columns(np.array([9.0]), np.zeros(1), np.full(1, 9.0), [0], [0], np.array([1.0]))
    assert master.add([MasterColumn(7, 0.0, [0], [1.0]), MasterColumn(8, 4.0, [0], [1.0])]) == 1
    solution = master.solve()
    assert solution.value == pytest.approx(7.0)
    assert master.generated(solution.values) == pytest.approx([1.0, 1.0])
