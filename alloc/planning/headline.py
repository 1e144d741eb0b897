"""The headline of a plan: what to order, what it costs, and whether its goals hold."""

from __future__ import annotations

from collections import Counter

from alloc.planning.report import PlanReport
from alloc.problems.right_sizing.accounting import mean_hosts
from alloc.units import format_number

_MAX_OFFERS = 4
"""Offers named in a sentence; the table below it has all."""
_LITTLE_HOSTS = 0.005
"""Rented hosts on average that round to nothing."""


def headline(report: PlanReport) -> str | None:
    """Return a plan in one sentence; None if there is no plan."""
    plan = report.result.solution
    if plan is None:
        return None
    problem = report.certified_problem
    ordered: Counter[str] = Counter()
    for order in plan.orders:
        ordered[order.offer] += order.count
    words = []
    for terms, verb in (("purchase", "buy"), ("reserved", "reserve")):
        these = [
            f'{_hosts(ordered[offer.name])} "{offer.name}"'
            for offer in problem.offers
            if offer.terms == terms and ordered[offer.name]
        ]
        if these:
            words.append(f"{verb} {_listed(these)}")
    rented: Counter[str] = Counter()
    for (name, _), counts in mean_hosts(problem, plan).items():
        if problem.offers[problem.offer_index[name]].is_hourly:
            rented[name] += max(counts)
    hired = [
        f'{count:.2g} hosts "{name}"' for name, count in rented.items() if count >= _LITTLE_HOSTS
    ]
    if hired:
        words.append(f"rent {_listed(hired)} on average in the busiest quarter")
    if not words:
        words.append("order nothing: the hosts owned serve the forecast")
    cost = report.result.certificate.objective
    assert cost is not None
    count = problem.num_quarters
    sentence = (
        f"{', '.join(words)}, for {format_number(round(cost), 12)} {problem.currency} over {count} "
        f"quarter{'' if count == 1 else 's'}"
    )
    return f"{sentence[0].upper()}{sentence[1:]}{_goals(report)}."


def _goals(report: PlanReport) -> str:
    promised = sum(one.goal is not None for one in report.problem.classes)
    if report.replayed is None:
        return "; the plan was not replayed, so its goals hold by the model's formulas only"
    if not promised or report.replayed.outcome == "unmeasured":
        return "; no goal could be measured"
    if report.replayed.outcome == "holds":
        seen = len({one.job_class for one in report.replayed.answer.measured})
        if seen == promised:
            return f"; the goals of all {promised} classes hold in the replay"
        return (
            f"; the goals of {seen} of {promised} classes hold in the replay, and those of the "
            "others were not measured in it"
        )
    missed = {one.job_class for one in report.replayed.answer.missed}
    return f"; {len(missed)} of {promised} classes miss their goals in the replay"


def _hosts(count: int) -> str:
    return f"{count} host{'' if count == 1 else 's'}"


def _listed(parts: list[str]) -> str:
    more = len(parts) - _MAX_OFFERS
    shown = parts[:_MAX_OFFERS] + ([f"{more} kinds more"] if more > 0 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
