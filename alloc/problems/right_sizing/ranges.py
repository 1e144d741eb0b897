"""Amounts of money that one program can hold beside each other."""

from __future__ import annotations

from alloc.errors import InstanceError
from alloc.problems.right_sizing.problem import PlanningProblem

MAX_RANGE = 1e15
"""How many times a budget one host may cost: numbers carry 15 digits, so that beside a larger
amount the whole budget is rounding."""


def require_budgets_that_count(problem: PlanningProblem) -> None:
    """Refuse a budget that is next to nothing beside what one host of an offer costs.

    Raises
    ------
    InstanceError
        If a host costs more than `MAX_RANGE` times a budget above 0.
    """
    budgets = [budget for budget in (*problem.quarter_budgets, problem.budget) if budget]
    if not budgets:
        return
    least = min(budgets)
    for offer in problem.offers:
        costs = max(offer.price, offer.maintenance_per_quarter)
        if costs > MAX_RANGE * least:
            raise InstanceError(
                f'offer "{offer.name}": a host costs {costs:,.6g} {problem.currency}, and a budget '
                f"is {least:.6g} {problem.currency}: the numbers are out of range, because beside "
                "the larger one nothing is left of the other; leave the offer out, which no such "
                "budget pays for, or correct the budget."
            )
