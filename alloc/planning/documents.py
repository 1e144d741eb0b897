"""Planning answers as JSON documents."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from alloc.comparison.intervals import Interval
from alloc.documents.encoding import encode_part
from alloc.documents.formats import format_of
from alloc.documents.upgrades import upgraded
from alloc.planning.differences import WhatIf
from alloc.planning.fronts import Front
from alloc.planning.later_weeks import LaterWeeks
from alloc.planning.loop import Iteration
from alloc.planning.report import PlanReport
from alloc.problems.right_sizing.accounting import account, mean_hosts

VERSION = 2
"""Version of the documents here; a field that changes its meaning raises it."""

Document = dict[str, Any]


def encode_report(report: PlanReport) -> Document:
    """Return a plan in both fidelities as a document."""
    replayed, costs = report.replayed, report.costs
    return {
        "document": "plan-report",
        "version": VERSION,
        "problem": {"name": report.problem.name, "fingerprint": report.problem.fingerprint},
        "holds": report.holds,
        "result": format_of("result").encode(report.result),
        "costs": None if costs is None else encode_part(costs),
        "account": encode_account(report),
        "replay": None
        if replayed is None
        else {
            "outcome": replayed.outcome,
            "sentence": replayed.sentence,
            "rounds": [_iteration(turn) for turn in replayed.iterations],
            "answer": next(i for i, t in enumerate(replayed.iterations) if t is replayed.answer),
        },
        "out_of_sample": _out_of_sample(report),
    }


def encode_what_if(found: WhatIf) -> Document:
    """Return a what-if beside its base as a document."""
    cost = found.cost
    return {
        "document": "what-if",
        "version": VERSION,
        "changes": list(found.changes),
        "cost": None
        if cost is None
        else {
            "found": cost.found,
            "at_least": finite(cost.at_least),
            "at_most": finite(cost.at_most),
            "sentence": cost.sentence,
        },
        "costs": {
            part: {"before": before, "after": after}
            for part, (before, after) in found.costs.items()
        },
        "hosts": [
            {"offer": offer, "site": site, "before": list(before), "after": list(after)}
            for (offer, site), (before, after) in found.hosts.items()
        ],
        "base": encode_report(found.base),
        "changed": encode_report(found.changed),
    }


def encode_front(front: Front) -> Document:
    """Return a Pareto front as a document."""
    return {
        "document": "pareto-front",
        "version": VERSION,
        "axis": front.axis,
        "unit": front.unit,
        "points": [
            {
                "limit": finite(point.limit),
                "value": finite(point.value),
                "efficient": point.efficient,
                "result": format_of("result").encode(point.result),
            }
            for point in front.points
        ],
    }


def upgraded_answer(document: Any) -> Any:
    """Return an answer of planning, of any version, in that of today.

    Version 1 held results of version 1, with the parts of the cost in them.
    """
    if not isinstance(document, dict) or document.get("version") != 1:
        return document
    found = {**document, "version": VERSION}
    if document.get("document") == "plan-report":
        found["costs"] = document["result"].get("costs")
        found["result"] = upgraded(document["result"], "result")
    elif document.get("document") == "what-if":
        found |= {name: upgraded_answer(document[name]) for name in ("base", "changed")}
    elif document.get("document") == "pareto-front":
        found["points"] = [
            {**point, "result": upgraded(point["result"], "result")} for point in document["points"]
        ]
    return found


def finite(number: float | None) -> float | None:
    """Return a number, or None for what JSON has no word for."""
    return number if number is not None and math.isfinite(number) else None


def encode_account(report: PlanReport) -> Document | None:
    """Return what a plan comes to in each quarter: money, carbon, and hosts by offer.

    Hosts rented by the hour are means over scenarios and hours. None without a plan.
    """
    problem, plan = report.certified_problem, report.result.solution
    if plan is None:
        return None
    books = account(problem, plan)
    likely = np.array([scenario.probability for scenario in problem.scenarios])
    return {
        "currency": problem.currency,
        "money": {
            "expected": books.spent.tolist(),
            "least": books.scenario_spent.min(axis=0).tolist(),
            "most": books.scenario_spent.max(axis=0).tolist(),
        },
        "carbon_kg": (likely @ books.carbon_kg).tolist(),
        "hosts": [
            {
                "offer": name,
                "site": site,
                "terms": problem.offers[problem.offer_index[name]].terms,
                "gpus": problem.offers[problem.offer_index[name]].gpus,
                "hosts": counts.tolist(),
            }
            for (name, site), counts in mean_hosts(problem, plan).items()
        ],
    }


def encode_later_weeks(later: LaterWeeks) -> Document:
    """Return how the goals of a plan hold in later weeks as a document."""
    return {
        "holds": later.holds,
        "sentence": later.sentence,
        "weeks": later.weeks,
        "gpus": later.gpus,
        "planned_gpus": later.planned_gpus,
        "came_gpus": later.came_gpus,
        "unforeseen": later.unforeseen,
        "classes": [
            {**dataclasses.asdict(one), "value": finite(one.value), "holds": one.holds}
            for one in later.kept
        ],
    }


def _out_of_sample(report: PlanReport) -> Document | None:
    found = report.out_of_sample
    if found is None:
        return None
    return {
        "share": found.share,
        "mean_cost": finite(found.mean_cost),
        "scenarios": [
            {**dataclasses.asdict(check), "cost": finite(check.cost)} for check in found.scenarios
        ],
    }


def _iteration(turn: Iteration) -> Document:
    certificate = turn.result.certificate
    return {
        "tightening": [dataclasses.asdict(part) for part in turn.tightening],
        "pool_gpus": turn.problem.pool_gpus,
        "status": certificate.status,
        "cost": finite(certificate.objective),
        "bound": finite(certificate.bound),
        "measured": [
            {**dataclasses.asdict(measured), "value": _interval(measured.value)}
            for measured in turn.measured
        ],
    }


def _interval(interval: Interval) -> Document:
    return {
        "mean": finite(interval.mean),
        "low": finite(interval.low),
        "high": finite(interval.high),
    }
