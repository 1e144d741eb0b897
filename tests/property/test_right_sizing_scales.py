"""Right-sizing, metamorphic: a billionth of the demand to a trillion times, in any currency."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from planning_strategies import problems, with_demand, with_money

from alloc.errors import InstanceError
from alloc.problems.right_sizing import PlanningProblem
from alloc.result import Limits, Result
from alloc.solving.right_sizing.method import Method, right_size
from alloc.verification.claims import check_claims
from alloc.verification.right_sizing import objective, verify_plan

SCALES = (1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9, 1e12)
GAP = 1e-7
ROUNDING = 1e-6
"""Relative; a plan may go short by as much."""
CHECKS = (HealthCheck.too_slow, HealthCheck.filter_too_much)


def draw_problem(data, demand: float, money: float) -> PlanningProblem:
    try:
        return with_money(with_demand(data.draw(problems()), demand), money)
    except InstanceError:
        assume(False)
        raise


def answers(problem: PlanningProblem) -> list[Result]:
    """Return what both methods say, to the end and stopped early; each plan is checked."""
    found = []
    ways: tuple[tuple[Method, float], ...] = (
        ("extensive", GAP),
        ("decomposition", GAP),
        ("decomposition", 0.2),
    )
    for method, gap in ways:
        result = right_size(problem, method=method, limits=Limits(seconds=3, gap=gap))
        if result.solution is not None:
            assert verify_plan(problem, result.solution) == []
            assert check_claims(problem, result, objective) == []
        found.append(result)
    return found


@pytest.mark.long
@pytest.mark.parametrize("demand", SCALES)
@settings(max_examples=5, deadline=None, suppress_health_check=CHECKS)
@given(st.data(), st.sampled_from(SCALES))
def test_no_bound_is_above_any_plan_at_any_scale(demand, data, money):
    found = [result.certificate for result in answers(draw_problem(data, demand, money))]
    costs = [one.objective for one in found if one.objective is not None]
    best = min(costs, default=math.inf)
    for one in found:
        assert one.status != "infeasible" or not costs
        assert one.bound is None or one.bound <= best + ROUNDING * best
        if one.status == "optimal":
            assert one.objective == pytest.approx(best, rel=max(GAP, ROUNDING), abs=0.0) or (
                one is found[-1]  # stopped at a gap of 0.2
            )


@pytest.mark.long
@pytest.mark.parametrize("demand", [1e9, 1e12])
@settings(max_examples=40, deadline=None, suppress_health_check=CHECKS)
@given(problems())
def test_orders_that_are_rounded_up_keep_limits_of_a_few_hosts(demand, problem):
    """Beside billions of hosts there are offers of two, and sites with room for four."""
    free = problem.replace(budget=None, quarter_budgets=(), carbon_caps_kg=())
    found = answers(with_demand(free, demand, limits=False))
    costs = [one.certificate.objective for one in found if one.solution is not None]
    for one in found:
        assert one.certificate.status != "infeasible" or not costs
        assert not costs or one.certificate.bound <= min(costs) * (1 + ROUNDING)


@pytest.mark.long
@settings(max_examples=12, deadline=None, suppress_health_check=CHECKS)
@given(st.data(), st.sampled_from(SCALES))
def test_a_currency_is_only_a_factor(data, money):
    problem = draw_problem(data, 1.0, 1.0)
    limits = Limits(seconds=10, gap=GAP)
    before = right_size(problem, limits=limits).certificate
    after = right_size(with_money(problem, money), limits=limits).certificate
    assert (after.objective is None) == (before.objective is None)
    if before.objective is not None:
        assert after.objective == pytest.approx(before.objective * money, rel=2 * ROUNDING, abs=0.0)
        assert after.bound <= before.objective * money * (1 + ROUNDING)
