"""Quadratic assignment against brute force: the search, the bounds and the proof."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from alloc.algorithms.tabu_search import _Batch, tabu_search
from alloc.errors import InstanceError
from alloc.problems.quadratic_assignment import QuadraticAssignment
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.quadratic_assignment.bounds import (
    DualAscent,
    ascend,
    branch_and_bound,
    gilmore_lawler_bound,
    round_up_to_step,
)


def optimum(problem: QuadraticAssignment) -> float:
    return min(problem.cost(p) for p in itertools.permutations(range(problem.size)))


def random_problem(seed: int, n: int, kind: str) -> QuadraticAssignment:
    rng = np.random.default_rng(seed)
    flow, distance = rng.integers(0, 9, (2, n, n)).astype(float)
    if kind in ("symmetric", "half"):
        flow = flow + flow.T
    if kind == "symmetric":
        distance = distance + distance.T
    if kind == "negative":
        flow -= 4
    if kind == "fractional":
        flow, distance = flow * rng.random((n, n)), distance / 7
    return QuadraticAssignment(f"{kind}-{seed}", flow, distance)


KINDS = ["symmetric", "half", "general", "negative", "fractional"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_the_answer_is_the_optimum_of_all_permutations(kind, n):
    """Every kind of matrix takes its own way through the search; the proof must close in all."""
    for seed in range(2):
        problem = random_problem(seed, n, kind)
        answer = solve(problem, limits=Limits(seconds=600))
        best = optimum(problem)
        assert answer.objective == pytest.approx(best)
        assert answer.objective == problem.cost(answer.solution)
        assert answer.status == "optimal"
        assert answer.certificate.limit is None
        assert answer.bound <= best + 1e-6 * max(1, abs(best))


@pytest.mark.parametrize("kind", KINDS)
def test_no_bound_is_above_the_optimum(kind):
    for seed in range(4):
        problem = random_problem(seed, 6, kind)
        best = optimum(problem)
        state = DualAscent.of(problem)
        first = gilmore_lawler_bound(problem)
        second = ascend(state, enough=math.inf, deadline=math.inf, rounds=30)
        slack = 1e-9 * max(1.0, abs(best))
        assert first <= best + slack
        assert second <= best + slack
        # That each round gains shows in the ascent being the stronger of the two.
        if kind != "negative":
            assert second >= first - 1e-6 * abs(first)


@pytest.mark.parametrize("kind", KINDS)
def test_the_ascent_moves_cost_and_loses_none(kind):
    """The identity of the module: what a permutation pays stays the same in every round."""
    problem = random_problem(3, 5, kind)
    state = DualAscent.of(problem)
    for _ in range(3):
        state.round()
        assert state.leaders.min() >= -1e-9
        assert state.costs.min() >= -1e-9
        for p in itertools.islice(itertools.permutations(range(5)), 0, 120, 17):
            paid = sum(state.leaders[i, p[i]] for i in range(5)) + sum(
                state.costs[i, p[i], k, p[k]] for i in range(5) for k in range(5) if i != k
            )
            assert state.bound + paid == pytest.approx(problem.cost(p))


def test_branch_and_bound_finds_what_a_bad_start_hides():
    for kind in KINDS:
        problem = random_problem(8, 6, kind)
        worst = max(itertools.permutations(range(6)), key=problem.cost)
        proof = branch_and_bound(problem, np.array(worst), deadline=math.inf)
        assert proof.permutation is not None
        best = optimum(problem)
        assert problem.cost(proof.permutation) == pytest.approx(best)
        assert proof.bound == pytest.approx(best)


def test_branch_and_bound_without_time_proves_less_but_nothing_false():
    problem = random_problem(1, 8, "symmetric")
    start = tabu_search(problem, max_steps=200)
    proof = branch_and_bound(problem, start.permutation, deadline=-math.inf)
    assert proof.bound <= start.cost
    assert proof.nodes < 50


@pytest.mark.parametrize("kind", KINDS)
def test_the_changes_of_the_search_are_differences_of_costs(kind):
    """Changes are updated, not summed; an error in an update would mislead every later step."""
    problem = random_problem(5, 7, kind)
    batch = _Batch(problem, 2, np.random.default_rng(0))
    batch.refresh()
    for _ in range(12):
        changes = batch._changes()
        for s in range(2):
            cost = problem.cost(batch.place[s])
            assert batch.cost[s] == pytest.approx(cost)
            for i, j in itertools.combinations(range(7), 2):
                swapped = batch.place[s].copy()
                swapped[[i, j]] = swapped[[j, i]]
                assert changes[s, i, j] == pytest.approx(problem.cost(swapped) - cost, abs=1e-9)
        batch.step()


def test_a_search_is_repeatable_and_stops_at_its_target():
    problem = random_problem(2, 12, "symmetric")
    one, two = (tabu_search(problem, max_steps=300, time_limit_s=60, seed=4) for _ in range(2))
    assert one.cost == two.cost
    assert one.permutation.tolist() == two.permutation.tolist()
    reached = tabu_search(problem, target=one.cost, seed=4, time_limit_s=60)
    assert reached.cost <= one.cost
    assert reached.steps <= 300


@pytest.mark.long
@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1e-4, 1e-3, 1e6])
def test_small_costs_are_proved_like_large_ones(unit):
    """Margins were absolute: matrices of 1e-5 made false optima, up to 14 % off."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        flow, distance = rng.random((6, 6)) * unit, rng.random((6, 6)) * unit
        problem = QuadraticAssignment("small", flow, distance)
        answer = solve(problem, limits=Limits(seconds=600))
        best = optimum(problem)
        assert answer.status == "optimal"
        assert answer.objective == pytest.approx(best, rel=1e-9, abs=0.0)
        assert answer.bound <= best * (1 + 1e-9)


@pytest.mark.long
def test_costs_that_cancel_are_proved_and_never_called_optimal_falsely():
    """Flows against each other: sums of terms of 1 are 1e-8 or less, less than the first margin."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        half = rng.random((5, 5))
        flow = half - half.T + 1e-9 * rng.random((5, 5))
        distance = rng.random((5, 5))
        problem = QuadraticAssignment("cancelling", flow, distance + distance.T)
        answer, best = solve(problem, limits=Limits(seconds=600)), optimum(problem)
        terms = np.abs(problem.flow).sum() * np.abs(problem.distance).max()
        assert answer.certificate.limit is None
        assert answer.status == "optimal"
        assert answer.bound <= best + 1e-14 * terms
        assert answer.objective == pytest.approx(best, rel=2e-6, abs=1e-14 * terms)


@pytest.mark.long
def test_a_start_is_never_made_worse():
    problem = random_problem(6, 9, "general")
    best = solve(problem, limits=Limits(seconds=600))
    again = solve(problem, limits=Limits(seconds=600), warm_start=best)
    assert again.objective == best.objective
    assert again.solution.tolist() == best.solution.tolist()


def test_a_limit_keeps_the_incumbent_and_says_so():
    problem = random_problem(0, 24, "symmetric")
    answer = solve(problem, limits=Limits(seconds=0.2))
    assert answer.certificate.limit == "time"
    assert answer.status == "feasible"
    assert answer.bound <= answer.objective == problem.cost(answer.solution)
    assert answer.gap > 0


def test_a_bound_rounds_up_to_a_cost_that_can_be():
    """Symmetric whole numbers: costs are an even number apart, so 574.2 proves 576 below 578."""
    assert round_up_to_step(574.2, 578, 2.0) == 576
    assert round_up_to_step(576.0, 578, 2.0) == 576
    assert round_up_to_step(574.2, 578, 0.0) == 574.2
    assert round_up_to_step(-math.inf, 578, 2.0) == -math.inf


@pytest.mark.parametrize(
    ("flow", "distance", "step"),
    [
        ([[0, 1], [1, 0]], [[0, 3], [3, 0]], 2.0),
        ([[0, 1], [0, 0]], [[0, 3], [3, 0]], 1.0),
        ([[1, 1], [1, 0]], [[1, 3], [3, 0]], 1.0),
        ([[0, 0.5], [0.5, 0]], [[0, 3], [3, 0]], 0.0),
    ],
)
def test_costs_are_whole_steps_apart(flow, distance, step):
    assert QuadraticAssignment("x", np.array(flow), np.array(distance)).step == step


@pytest.mark.parametrize(
    ("flow", "distance", "said"),
    [
        (np.zeros((2, 3)), np.zeros((2, 2)), "flow has shape"),
        (np.zeros((2, 2)), np.zeros((3, 3)), "flow is of size 2 and distance of size 3"),
        (np.full((2, 2), np.nan), np.zeros((2, 2)), "infinite or missing"),
        ([["a"]], np.zeros((1, 1)), "not a matrix of numbers"),
        (np.zeros((0, 0)), np.zeros((0, 0)), "at least one row"),
    ],
)
def test_malformed_matrices_are_refused(flow, distance, said):
    with pytest.raises(InstanceError, match=said):
        QuadraticAssignment("x", flow, distance)


def test_malformed_requests_are_refused():
    problem = random_problem(0, 4, "general")
    with pytest.raises(InstanceError, match="not a permutation of 0 to 3"):
        problem.cost([0, 1, 1, 2])
    with pytest.raises(InstanceError, match="seconds"):
        solve(problem, limits=Limits(seconds=0))
    with pytest.raises(InstanceError, match="not a permutation"):
        solve(problem, warm_start=np.array([0, 1]))


@pytest.mark.parametrize("power", [-300, -200, 0, 20, 100, 149, 290, 299, 308])
@pytest.mark.parametrize("other", [-200, 0, 100, 149, 299, 308])
@pytest.mark.parametrize("backend", ["auto", "cpsat", "pyomo"])
def test_sizes_are_refused_by_the_problem_or_proved(power: int, other: int, backend: str) -> None:
    """Never an error of a solver or a false bound, and never a number that is none."""
    far = 10.0**other * np.array([[0, 1.0], [1, 0]])
    for largest in (0.0, 10.0**power):
        flow = largest * np.array([[0, 0.5], [1, 0.25]])
        if max(largest, 1.0) * max(10.0**other, 1.0) * 4 > 1e300:
            with pytest.raises(InstanceError, match=r'"q": flows up to .* give them in larger'):
                QuadraticAssignment("q", flow, far)
            continue
        problem = QuadraticAssignment("q", flow, far)
        certificate = solve(problem, backend=backend, limits=Limits(seconds=5.0)).certificate
        assert certificate.objective == pytest.approx(optimum(problem), rel=1e-6, abs=0.0)
        assert certificate.bound <= certificate.objective


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("small", [-6e-10, -4e-10, -1e-12, 4e-10])
def test_pairs_that_round_to_nothing_are_in_the_bound_of_cpsat(n: int, small: float) -> None:
    """One flow sets the scale; the others pay less than half of a whole number, and add up."""
    flow, distance = np.triu(np.full((n, n), small), 1), np.ones((n, n)) - np.eye(n)
    flow[0, 0] = 1.0
    problem = QuadraticAssignment("dust", flow, distance)
    certificate = solve(problem, backend="cpsat").certificate
    best = optimum(problem)
    assert certificate.objective >= best - 1e-15 * n**2
    assert certificate.bound <= best + 1e-15 * n**2
    assert certificate.bound >= best - 1e-9 * n**2
