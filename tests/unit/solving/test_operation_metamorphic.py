"""What must happen to the optimum of a decision in operation when the decision changes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from operation_strategies import operation_problems

from alloc.instances.operation import generate_operation
from alloc.models.operation.data import operation_data
from alloc.problems.operation.problem import NodePool, NodeType, OperationProblem
from alloc.solving.outcome import Settings
from alloc.solving.solver import solve, solve_within
from benchmarks.tiny.families import FAMILIES as TINY

CASES = [
    (kind, accounting)
    for kind in ("cloud", "own")
    for accounting in ("first-completion", "whole-job")
]


def best(problem: OperationProblem) -> float:
    return solve(problem).objective


@pytest.mark.parametrize(("kind", "accounting"), CASES)
def test_a_further_node_never_costs(kind, accounting):
    """A node may stay off: cost falls along the number of nodes."""
    costs = [
        best(generate_operation(num_nodes=n, num_jobs=14, kind=kind, accounting=accounting))
        for n in (1, 2, 3, 4)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


@pytest.mark.parametrize(("kind", "accounting"), CASES)
def test_money_of_another_unit_scales_the_cost(kind, accounting):
    """In cents everything costs a hundred times as much, and the plan is as good."""
    problem = generate_operation(num_nodes=3, num_jobs=12, kind=kind, accounting=accounting)
    cents = problem.replace(
        types=tuple(
            replace(t, price_per_h=tuple(100 * p for p in t.price_per_h)) for t in problem.types
        ),
        jobs=tuple(
            replace(j, tardiness_cost_per_h=100 * j.tardiness_cost_per_h) for j in problem.jobs
        ),
        energy_price_per_kwh=100 * problem.energy_price_per_kwh,
    )
    assert best(cents) == pytest.approx(100 * best(problem), rel=1e-6)


@pytest.mark.parametrize(("kind", "accounting"), CASES)
def test_slower_time_scales_the_cost(kind, accounting):
    """Twice all durations and due dates, twice the cost: rates are per hour."""
    problem = generate_operation(num_nodes=3, num_jobs=12, kind=kind, accounting=accounting)
    slow = problem.replace(
        replan_s=2 * problem.replan_s,
        jobs=tuple(
            replace(
                j,
                due_date_s=2 * j.due_date_s,
                duration_s={v: tuple(2 * t for t in times) for v, times in j.duration_s.items()},
            )
            for j in problem.jobs
        ),
    )
    assert best(slow) == pytest.approx(2 * best(problem), rel=1e-6)


def test_the_order_of_jobs_types_and_pools_makes_no_difference():
    problem = generate_operation(num_nodes=5, num_jobs=16, kind="own", seed=2)
    turned = problem.replace(
        jobs=problem.jobs[::-1], types=problem.types[::-1], pools=problem.pools[::-1]
    )
    assert best(turned) == pytest.approx(best(problem), rel=1e-9)


def test_splitting_a_pool_makes_no_difference():
    """Nodes are counted, whatever the names of their pools."""
    problem = generate_operation(num_nodes=4, num_jobs=14)
    names = tuple(t.name for t in problem.types)
    split = problem.replace(pools=(NodePool("a", 1, names), NodePool("b", 3, names)))
    assert best(split) == pytest.approx(best(problem), rel=1e-9)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(operation_problems(max_jobs=4, max_gpus=3))
def test_relaxing_a_decision_never_costs(problem: OperationProblem):
    """A later due date, no power cap, a cheaper type beside the others: none raises the cost."""
    cost = best(problem)
    later = problem.replace(
        jobs=tuple(replace(j, due_date_s=j.due_date_s + 600) for j in problem.jobs)
    )
    free = problem.replace(power_cap_w=None)
    spare = problem.replace(
        types=(*problem.types, NodeType("spare", 1, (0.0,), (0.0,))),
        pools=(*problem.pools, NodePool("spare", 1, ("spare",))),
    )
    for easier in (later, free, spare):
        assert best(easier) <= cost + 1e-6 * max(1.0, cost)


def test_a_limit_of_no_time_still_gives_a_plan_and_a_true_bound():
    """Anytime: the incumbent and the bound that are there when time is up."""
    problem = generate_operation(num_nodes=10, num_jobs=50)
    hurried = solve_within(problem, Settings(time_limit_s=0.0))
    certificate = hurried.certificate
    assert certificate.limit == "time"
    assert certificate.status == "feasible"
    assert certificate.bound <= best(problem) <= certificate.objective
    assert certificate.bound_proof == "recomputed"


def test_a_gap_that_is_enough_ends_the_search():
    problem = generate_operation(num_nodes=10, num_jobs=50, kind="own")
    result = solve_within(problem, Settings(gap=0.99))
    assert result.certificate.gap <= 0.99
    assert result.certificate.limit is None


def test_progress_is_reported_line_by_line():
    lines: list[str] = []
    result = solve(generate_operation(num_nodes=2, num_jobs=6), progress=lines.append)
    assert tuple(lines) == result.log
    assert "bound" in lines[-1] or "cost" in lines[-1]


def test_a_first_program_over_few_columns_changes_nothing(monkeypatch):
    """Large decisions are first solved over their best columns; what follows is still a proof."""
    problem = generate_operation(num_nodes=6, num_jobs=25, seed=3)
    whole = solve(problem)
    monkeypatch.setattr("alloc.solving.operation.method._DIVE_COLUMNS", 40)
    dived = solve(problem)
    assert dived.certificate.status == whole.certificate.status == "optimal"
    assert dived.objective == pytest.approx(whole.objective, rel=1e-6)
    assert len(dived.log) >= len(whole.log)


def test_waiting_for_nothing_is_proved_at_once():
    """Jobs whose tardiness costs nothing may all wait: the trivial bound is enough."""
    problem = generate_operation(num_nodes=2, num_jobs=5)
    free = problem.replace(
        jobs=tuple(replace(job, tardiness_cost_per_h=0.0) for job in problem.jobs)
    )
    result = solve(free)
    assert (result.objective, result.certificate.bound) == (0.0, 0.0)
    assert result.certificate.status == "optimal"
    assert len(result.solution.postponed) == 5


def test_rates_that_differ_by_rounding_alone_are_equal():
    """Their difference of 4e-16 was a coefficient, and presolve made a false optimum of it."""
    problem, _ = TINY["operation"].problem(105, large=True)
    assert problem.accounting == "whole-job"
    rate = operation_data(problem).node_rate
    positive = rate[np.isfinite(rate) & (rate > 0)]
    assert positive.min() > 1e-6 * positive.max()
    results = [solve(problem, "operation", way) for way in ("auto", "highs", "pyomo")]
    assert [r.status for r in results] == ["optimal"] * 3
    first, *others = [r.certificate.objective for r in results]
    assert others == pytest.approx([first] * 2)
