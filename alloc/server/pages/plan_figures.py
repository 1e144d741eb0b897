"""Charts of plans: money, GPUs and goals, of one plan or of several beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from alloc.problems.right_sizing import plan_tables
from alloc.server.pages.charts import Series, bars, dots, show
from alloc.server.pages.parts import Document, Figure, Scenario, Table, spoken


def plan_figures(scenarios: Sequence[Scenario]) -> list[Figure]:
    """Return the charts of plans; those without a plan have none."""
    scenarios = [one for one in scenarios if one.account is not None]
    if not scenarios:
        return []
    figures = [_cost_figure(scenarios)]
    figures.append(_hosts_figure(scenarios) if len(scenarios) > 1 else _layers(scenarios[0]))
    goals = [
        (label if len(scenarios) == 1 else f"{one.name}: {label}", *values)
        for one in scenarios
        for label, *values in one.goals
    ]
    if goals:
        figures.append(_goal_figure(goals))
    return figures


def mean_gpus(account: Document) -> dict[str, float]:
    """Return the GPUs of each offer, mean over the quarters."""
    found: dict[str, float] = {}
    for one in account.get("hosts", ()):
        mean = one["gpus"] * math.fsum(one["hosts"]) / max(len(one["hosts"]), 1)
        found[one["offer"]] = found.get(one["offer"], 0.0) + mean
    return found


def _cost_figure(scenarios: Sequence[Scenario]) -> Figure:
    accounts = [one.account or {} for one in scenarios]
    quarters = max(len(one["money"]["expected"]) for one in accounts)
    names = [f"Q{quarter}" for quarter in range(quarters)]
    currency = accounts[0]["currency"]
    series = [
        Series(
            one.name,
            _padded(account["money"]["expected"], quarters),
            _padded(account["money"]["least"], quarters),
            _padded(account["money"]["most"], quarters),
        )
        for one, account in zip(scenarios, accounts, strict=True)
    ]
    caption = "Expected money of each quarter, with its range over the futures."
    table = Table(
        f"Money of each quarter, {currency}, not discounted",
        ("quarter", *(one.name if len(scenarios) > 1 else "expected" for one in series)),
        [(name, *(show(one.values[k]) for one in series)) for k, name in enumerate(names)],
    )
    return Figure(caption, bars(spoken(caption, table), names, series, currency), table)


def _layers(scenario: Scenario) -> Figure:
    account = scenario.account or {}
    quarters = len(account["money"]["expected"])
    names = [f"Q{quarter}" for quarter in range(quarters)]
    series = [Series(name, counts) for name, counts in plan_tables.gpus_of(account)]
    caption = "GPUs in each quarter, by offer; rented ones are means over the hours."
    table = Table(
        "GPUs in service or rented",
        ("offer", *names),
        [(one.name, *(plan_tables.count_of(value) for value in one.values)) for one in series],
    )
    return Figure(caption, bars(spoken(caption, table), names, series, "GPUs", stacked=True), table)


def _hosts_figure(scenarios: Sequence[Scenario]) -> Figure:
    gpus = [mean_gpus(one.account or {}) for one in scenarios]
    offers = list(dict.fromkeys(offer for found in gpus for offer in found))
    series = [
        Series(one.name, [found.get(offer, 0.0) for offer in offers])
        for one, found in zip(scenarios, gpus, strict=True)
    ]
    caption = "GPUs by offer, mean over the quarters."
    table = Table(
        "GPUs by offer, mean over the quarters",
        ("offer", *(one.name for one in series)),
        [(offer, *(show(one.values[k]) for one in series)) for k, offer in enumerate(offers)],
    )
    return Figure(caption, bars(spoken(caption, table), offers, series, "GPUs"), table)


def _goal_figure(goals: Sequence[tuple[Any, ...]]) -> Figure:
    caption = "How well goals are kept in the simulator, worst pool of each class; 1 is kept."
    table = Table(
        "Kept over promised",
        ("class", "kept over promised", "from", "to", "kept"),
        [
            (label, show(mean), show(low), show(high), "yes" if mean >= 1 else "no")
            for label, mean, low, high in goals
        ],
    )
    svg = dots(spoken(caption, table), goals, 1.0, "kept over promised")
    return Figure(caption, svg, table)


def _padded(values: Sequence[float], length: int) -> list[float]:
    return [*values, *[math.nan] * (length - len(values))]
