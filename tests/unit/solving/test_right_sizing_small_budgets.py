"""Budgets that pay for no host: what is ordered for others must not hide what is rented for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from alloc.instances.planning import generate_planning
from alloc.models.right_sizing import SizingData
from alloc.models.right_sizing.first_stage import FirstStage, first_stage
from alloc.problems.right_sizing import PlanningProblem
from alloc.result import Limits
from alloc.solving.right_sizing.method import right_size

LIMITS = Limits(seconds=20.0, gap=1e-6)


def drawn(seed: int, share: float, times: float = 1.0) -> PlanningProblem:
    """Return a problem with a budget, its demand and its budget times a factor."""
    problem = generate_planning("budget", num_host_types=4, num_sites=2, num_quarters=2,
                                num_classes=3, num_scenarios=2, gpus=10.0, bands=2, goals=False,
                                own=0.0, budget_share=share, seed=seed)  # fmt: skip
    assert problem.budget is not None
    scenarios = tuple(
        replace(s, arrivals={c: tuple(times * x for x in jobs) for c, jobs in s.arrivals.items()})
        for s in problem.scenarios
    )
    return problem.replace(scenarios=scenarios, budget=times * problem.budget)


def rented(problem: PlanningProblem) -> PlanningProblem:
    return problem.replace(offers=tuple(offer for offer in problem.offers if offer.is_hourly))


@pytest.mark.long
@pytest.mark.parametrize("method", ["extensive", "decomposition"])
@pytest.mark.parametrize("share", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("times", [1e-9, 1e-6])
def test_next_to_no_demand_is_rented_as_demand_is(method: Any, share: float, times: float) -> None:
    """Not a single host can be ordered, so all scales alike; plans overran the budget twice."""
    for seed in range(3):
        ordinary = right_size(rented(drawn(seed, share)), limits=LIMITS, method=method)
        tiny = right_size(drawn(seed, share, times), limits=LIMITS, method=method)
        assert tiny.certificate.status == ordinary.certificate.status
        if ordinary.solution is not None:
            assert tiny.objective / times == pytest.approx(ordinary.objective, rel=1e-5)
            assert tiny.certificate.bound / times <= ordinary.objective * (1 + 1e-6)


def orders(first: FirstStage) -> Any:
    return np.where(first.order >= 0, first.upper[first.order], 0.0)


def test_only_orders_of_which_no_budget_pays_for_a_host_are_left_out() -> None:
    problem = drawn(1, 1.5)
    data = SizingData(problem)
    free = orders(first_stage(data))
    kept = orders(first_stage(data, within_budgets=True))
    assert ((kept == free) | (kept == 0)).all()
    for k, group in enumerate(data.host_groups):
        offer = data.offer(group)
        purchase = offer.terms == "purchase"
        for t in np.flatnonzero(free[k]).tolist():
            quarters = len(data.in_service(k, t))
            # Power comes on top; the prices alone say enough of hosts that draw little.
            least = offer.price if purchase else quarters * offer.price
            least += quarters * offer.maintenance_per_quarter
            assert problem.budget is not None
            if least > problem.budget:
                assert kept[k, t] == 0
            if 1.5 * least < problem.budget:
                assert kept[k, t] == free[k, t]


@pytest.mark.parametrize("quarter", range(2))
def test_a_budget_of_a_quarter_counts_what_is_paid_in_it(quarter: int) -> None:
    """Nothing is bought in a quarter without money, nor reserved for it."""
    budgets = [1e9, 1e9]
    budgets[quarter] = 0.0
    data = SizingData(drawn(1, 1.5).replace(budget=None, quarter_budgets=tuple(budgets)))
    kept, free = orders(first_stage(data, within_budgets=True)), orders(first_stage(data))
    for k, group in enumerate(data.host_groups):
        for t in np.flatnonzero(free[k]).tolist():
            is_paid = t == quarter if data.offer(group).terms == "purchase" else False
            is_paid |= quarter in data.in_service(k, t)
            assert kept[k, t] == (0.0 if is_paid else free[k, t])
