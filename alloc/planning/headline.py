"""The headline of a plan: what to order, its cost, what is proved, and whether its goals hold."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np

from alloc.certificate import Certificate
from alloc.planning.report import PlanReport
from alloc.problems.right_sizing.accounting import mean_hosts
from alloc.problems.right_sizing.plan_tables import count_of, money

_MAX_OFFERS = 4
"""Offers named in a sentence; the table below it has all."""
_LITTLE_HOSTS = 0.005
"""Rented hosts on average that round to nothing."""


def headline(report: PlanReport) -> str | None:
    """Return a plan in one sentence; None if there is no plan.

    Parameters
    ----------
    report
        The plan.
    """
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
    rented: defaultdict[str, np.ndarray] = defaultdict(lambda: np.zeros(problem.num_quarters))
    for (name, _), counts in mean_hosts(problem, plan).items():
        if problem.offers[problem.offer_index[name]].is_hourly:
            rented[name] += counts
    hired = [
        f'{count_of(max(counts))} hosts "{name}"'
        for name, counts in rented.items()
        if max(counts) >= _LITTLE_HOSTS
    ]
    if hired:
        words.append(f"rent {_listed(hired)} on average in the busiest quarter")
    if not words:
        words.append("order nothing")
    certificate = report.result.certificate
    assert certificate.objective is not None
    count = problem.num_quarters
    sentence = (
        f"{', '.join(words)}, for {money(certificate.objective)} {problem.currency} over {count} "
        f"quarter{'' if count == 1 else 's'}"
        f"{proof(certificate, problem.currency, replayed=bool(problem.tightening))}"
    )
    return f"{sentence[0].upper()}{sentence[1:]}{_goals(report)}."


def proof(certificate: Certificate, currency: str, *, replayed: bool) -> str:
    """Return what is proved of a plan's cost, as the end of a sentence.

    Parameters
    ----------
    certificate
        What is claimed of the plan.
    currency
        Unit of its cost.
    replayed
        Whether the model had to keep what replays required: the proof is about such plans only.
    """
    among = " that keeps to what the replays required" if replayed else ""
    if certificate.status == "optimal":
        of = f" of any plan{among}" if among else ""
        return f", proved to be the least{of} to within a millionth"
    if not math.isfinite(certificate.bound):
        return "; nothing is proved of how cheap a plan can be"
    # Rounded down: a bound that is rounded up is not proved.
    return f"; no plan{among} costs less than {money(math.floor(certificate.bound))} {currency}"


def _goals(report: PlanReport) -> str:
    promised = sum(one.goal is not None for one in report.problem.classes)
    if not promised:
        return "; no class has a goal"
    if report.replayed is None:
        return "; the plan was not replayed, so its goals hold by the model's formulas only"
    if report.replayed.outcome == "unmeasured":
        return "; no goal could be measured"
    if report.replayed.outcome == "interrupted":
        return "; the replay was interrupted before it could say whether the goals hold"
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
