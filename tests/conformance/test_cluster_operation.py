"""Operation: brute force, the Pyomo model and the aggregated model are one problem."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from operation_oracle import best_cost
from operation_patterns import solve_by_patterns
from operation_strategies import operation_problems

from alloc.backends import SolverOptions
from alloc.backends.highs import solve as solve_arrays
from alloc.backends.pyomo_highs import solve as solve_pyomo
from alloc.instances.operation import generate_operation
from alloc.models.operation import operation_arrays, operation_data
from alloc.models.operation.pyomo_model import pyomo_model, read_plan
from alloc.models.operation.unrolling import plan_of, values_of
from alloc.problems.operation.problem import OperationProblem
from alloc.solving.operation.method import reduced_costs
from alloc.solving.operation.policies import POLICIES, decide_operation
from alloc.solving.outcome import Settings
from alloc.solving.solver import solve
from alloc.verification.operation import OBJECTIVES, operation_costs, verify_operation

TOLERANCE = 1e-6


def close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-6)


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(operation_problems())
def test_the_solver_finds_the_best_of_all_plans(problem: OperationProblem):
    """Every plan tried by hand: with restarts, stops, caps, pools and both accountings."""
    for objective in OBJECTIVES:
        result = solve(problem, objective=objective)
        assert not verify_operation(problem, result.solution)
        assert result.certificate.status == "optimal"
        assert close(result.objective, best_cost(problem, objective))


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(operation_problems())
def test_the_whiteboard_is_the_same_problem(problem: OperationProblem):
    """The textbook's model, node by node, has the optimum of the aggregated one."""
    data = operation_data(problem)
    drawn = pyomo_model(data)
    raw = solve_pyomo(drawn, SolverOptions(gap=0.0))
    plan = read_plan(data, drawn.model, raw.values)
    assert not verify_operation(problem, plan)
    assert close(operation_costs(problem, plan).total, raw.objective)
    assert close(raw.objective, solve(problem).objective)


@settings(max_examples=25, deadline=None)
@given(operation_problems(max_gpus=3))
def test_patterns_prove_the_same_bound_by_another_way(problem: OperationProblem):
    """Whole nodes as columns share nothing with the aggregated model; the optimum lies between."""
    for objective in OBJECTIVES:
        best = solve(problem, objective=objective).objective
        found = solve_by_patterns(problem, objective=objective)
        assert found.converged
        assert not verify_operation(problem, found.plan)
        cost = operation_costs(problem, found.plan, objective).total
        assert cost <= found.cost + TOLERANCE * max(1.0, found.cost)
        assert found.bound <= best + TOLERANCE * max(1.0, best)
        assert best <= cost + TOLERANCE * max(1.0, cost)


@pytest.mark.parametrize("kind", ["cloud", "own"])
def test_patterns_close_the_gap_of_a_small_cluster(kind):
    """On a decision of 12 jobs, the patterns' relaxation alone proves the optimum."""
    problem = generate_operation(num_nodes=3, num_jobs=12, kind=kind, seed=1)
    best = solve(problem).objective
    assert solve_by_patterns(problem).bound == pytest.approx(best, rel=1e-3)


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(operation_problems(max_jobs=5, max_gpus=4))
def test_bounds_and_policies_are_on_their_sides(problem: OperationProblem):
    """No policy beats the optimum, no multipliers prove more than it, plans fit the model."""
    data = operation_data(problem)
    arrays = operation_arrays(data)
    result = solve(problem)
    best = result.objective
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 10.0):
        prices = scale * rng.normal(size=len(arrays.model.row_upper))
        assert reduced_costs(arrays, prices)[1] <= best + TOLERANCE * max(1.0, best)
    for name in POLICIES:
        if name == "exact-expected":
            continue
        decided = decide_operation(problem, name, Settings(time_limit_s=5.0))
        assert decided.objective >= best - TOLERANCE * max(1.0, best), name
        values = values_of(arrays, decided.solution)
        rows = arrays.model.matrix @ values
        assert (rows <= arrays.model.row_upper + 1e-9).all(), name
        assert (rows >= arrays.model.row_lower - 1e-9).all(), name
        assert arrays.model.cost @ values <= decided.objective + 1e-6, name
        assert not verify_operation(problem, plan_of(arrays, values)), name


@pytest.mark.parametrize("kind", ["cloud", "own"])
@pytest.mark.parametrize("accounting", ["first-completion", "whole-job"])
def test_a_plan_read_from_the_model_costs_what_the_model_says(kind, accounting):
    """In an optimum the job called first is the first: aggregating nodes loses nothing."""
    problem = generate_operation(num_nodes=6, num_jobs=25, kind=kind, accounting=accounting, seed=3)
    arrays = operation_arrays(operation_data(problem))
    raw = solve_arrays(arrays.model, SolverOptions(gap=1e-9))
    plan = plan_of(arrays, raw.values)
    assert not verify_operation(problem, plan)
    assert close(operation_costs(problem, plan).total, raw.objective)
