"""What a plan takes for granted, in sentences."""

from __future__ import annotations

from alloc.models.right_sizing.data import SizingData
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.headroom import (
    ANY_POOL,
    KEPT_OUT,
    margin_parts,
    margins,
    tightening_factors,
)
from alloc.problems.right_sizing.problem import PRICES, PlanningProblem
from alloc.units import format_number


def assumptions(data: SizingData) -> tuple[str, ...]:
    """Return what a plan takes for granted."""
    problem = data.problem
    return tuple(
        [
            f"Money is in {problem.currency}, {_discount(problem.discount_rate)}.",
            *_origin(problem),
            f"A quarter has {format_number(problem.quarter_hours)} hours; {data.bands.sentence()}.",
            *_queueing(data),
            *_scenarios(problem),
            *_hosts(problem),
            *_limits(problem),
        ]
    )


def _origin(problem: PlanningProblem) -> list[str]:
    """Return where offers, prices and sites are from, where the problem says so."""
    said = problem.description.get(PRICES)
    return [] if said is None else [f"Offers, prices and sites: {said}."]


def _discount(rate: float) -> str:
    return f"discounted by {100 * rate:g} % a quarter" if rate else "not discounted"


def _queueing(data: SizingData) -> list[str]:
    problem = data.problem
    found = [
        f"Pools are loaded to at most {100 * problem.utilisation:g} %; jobs of any size that fit "
        "their pool find room in it (the replay in the simulator checks it for goals)."
    ]
    goals = [c for c in problem.classes if c.goal is not None]
    if goals:
        origin = (
            "the expected load shared out over the sites"
            if problem.pool_gpus is None
            else "as given"
        )
        if data.pool_gpus >= ANY_POOL:
            origin = "so large that size makes no difference; what smaller pools need is said apart"
        found.append(
            f"The buffer for the goals of {_counted(len(goals), 'class', 'classes')} is sized with "
            f"Erlang's formula for waiting times in pools of "
            f"{_counted(round(data.pool_gpus), 'GPU')} "
            f"({origin}): Poisson arrivals, exponential run times, first come first served; "
            "smaller pools need more, larger ones less."
        )
    factors = tightening_factors(problem).values()
    more = [factor for factor in factors if 1 < factor < KEPT_OUT]
    if more:
        found.append(
            f"In {_counted(len(more), 'combination')} of class and pool more room is "
            f"kept, up to {max(more):.2f} times the formula's."
        )
    kept = [max(gpus) for gpus in margins(problem).values()]
    if kept:
        found.append(
            f"In {_counted(len(kept), 'combination')} of classes and pool, the pool keeps a margin "
            f"of up to {format_number(max(kept), 4)} GPUs in quarters in which jobs of those "
            f"classes are sent there{_in_some_hours(problem)}."
        )
    out = sum(factor >= KEPT_OUT for factor in factors)
    if out:
        found.append(f"In {_counted(out, 'combination')} of class and pool the class is kept out.")
    return found


def _in_some_hours(problem: PlanningProblem) -> str:
    """Return in how many pools only a part of the margin is kept in some hours, in words."""
    parts = margin_parts(problem, bands_of(problem).count).values()
    partly = sum(min(each) < 1 for each in parts)
    return f"; in {_counted(partly, 'pool')} only a part of it in some hours" if partly else ""


def _scenarios(problem: PlanningProblem) -> list[str]:
    found = ["The future is the one scenario given; no other is looked at."]
    if len(problem.scenarios) > 1:
        found = [
            f"The future is one of {len(problem.scenarios)} scenarios; orders are the same in all "
            "of them, and the rest is decided when the scenario is known."
        ]
    if problem.epsilon:
        found.append(
            f"Scenarios of at most {100 * problem.epsilon:g} % probability together may be waived; "
            "there only critical classes are sure to be served."
        )
    else:
        found.append("All work of all scenarios is served.")
    if any(c.deferrable for c in problem.classes):
        found.append("Deferrable jobs run at any hours of their quarter, however long they wait.")
    return found


def _hosts(problem: PlanningProblem) -> list[str]:
    terms = {offer.terms for offer in problem.offers}
    found = []
    if terms & {"purchase", "reserved"}:
        found.append("Hosts are ordered at the start of a quarter and arrive at the start of one.")
    if "reserved" in terms:
        found.append(
            "Reservations are paid by the quarter; what is due after the plan's end is left out."
        )
    if terms & {"on_demand", "spot"}:
        found.append(
            "Hosts rented by the hour follow the load from band to band, in fractions on average."
        )
    if any(offer.terms == "purchase" and offer.residual_fraction for offer in problem.offers):
        found.append("Bought hosts depreciate linearly over their life.")
    if "purchase" in terms and not all(
        offer.residual_fraction for offer in problem.offers if offer.terms == "purchase"
    ):
        found.append("Bought hosts without a residual value are worth nothing at the plan's end.")
    if any(offer.busy_kw for offer in problem.offers):
        found.append(
            "Hosts in service draw their idle power at all hours and the rest in proportion to the "
            "GPUs busy; the power limit counts their full power."
        )
    return found


def _limits(problem: PlanningProblem) -> list[str]:
    found = []
    if problem.failures:
        found.append(
            f"Every pool with hosts bought or reserved keeps {problem.failures} of them spare, as "
            "large as the largest one counted; rented hosts are replaced when they fail."
        )
    else:
        found.append("No hosts are kept spare for failures.")
    if problem.budget is not None or problem.quarter_budgets:
        found.append("Budgets count money as it is paid, the cost of running as expected.")
    if problem.carbon_caps_kg:
        found.append("Carbon caps hold in every scenario.")
    return found


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
