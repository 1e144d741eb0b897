"""Plans, what-ifs and fronts as they are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from alloc.problems.right_sizing import plan_tables
from alloc.server.pages.charts import curve, show
from alloc.server.pages.parts import (
    Document,
    Figure,
    Scenario,
    Table,
    Tone,
    View,
    certificate_facts,
    gap_of,
    number_of,
    verdict_of,
)
from alloc.server.pages.plan_figures import mean_gpus, plan_figures

_NOT_MEASURED = ("unmeasured", "interrupted")
"""Outcomes of a replay that say nothing about goals."""
Goals = list[tuple[str, float, float, float]]


def plan_view(report: Document) -> View:
    """Return what a plan report shows."""
    result = report["result"]
    account = report.get("account")
    currency = "" if account is None else account["currency"]
    verdict, tone = _verdict(report, currency)
    scenario = plan_scenario("plan", report)
    figures = plan_figures([scenario])
    return View(
        f"Plan: {report['problem']['name']}",
        verdict,
        tone,
        certificate_facts(result["certificate"], currency),
        figures,
        _tables(plan_tables.plan_tables(report)),
        _lists(result),
    )


def what_if_view(found: Document) -> View:
    """Return what a what-if shows: the base and the changed plan beside each other."""
    base, changed = found["base"], found["changed"]
    both = [plan_scenario("base", base), plan_scenario("changed", changed)]
    changes = "; ".join(found["changes"]) or "nothing is changed"
    cost = found["cost"]
    tone: Tone = "fair"
    if cost is None:
        bad = base if base["result"].get("solution") is None else changed
        verdict, tone = _verdict(bad, "")
        which = "the base" if bad is base else "the changed problem"
        verdict = f"There is no plan for {which}. {verdict}"
    else:
        verdict = f"With {changes} the plan {cost['sentence']}."
        tone = "good" if all(_proved(one) for one in (base, changed)) else "fair"
        missed = [
            name
            for name, one in (("the base", base), ("the changed plan", changed))
            if _replay_word(one) == "missed"
        ]
        if missed:
            verdict += f" In the replay {' and '.join(missed)} missed a goal."
            tone = "bad"
    return View(
        f"What if: {changes}",
        verdict,
        tone,
        (),
        plan_figures(both),
        [scenario_table(both), *_tables(plan_tables.difference_tables(found))],
        _lists(changed["result"]),
    )


def front_view(front: Document, currency: str = "") -> View:
    """Return what a Pareto front shows.

    Parameters
    ----------
    front
        The result document of a front.
    currency
        Name of the currency; empty where it is not known.
    """
    points = [
        (
            number_of(point["value"]),
            number_of(point["result"]["certificate"].get("bound")),
            number_of(point["result"]["certificate"].get("objective")),
        )
        for point in front["points"]
    ]
    known = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[2])]
    unit = front["unit"]
    table = Table(
        "Points of the front",
        (unit, "cost at least", "cost found", "on the front"),
        [
            (show(value), show(bound), show(cost), "yes" if point["efficient"] else "no")
            for point, (value, bound, cost) in zip(front["points"], points, strict=True)
        ],
    )
    title = f"Front of cost against {front['axis']}"
    if not known:
        return View(title, "No point of the front has a plan.", "bad", tables=[table])
    costs = [cost for *_, cost in known]
    values = [value for value, *_ in known]
    verdict = (
        f"{len(known)} plans, from {show(min(costs))} to {show(max(costs))} {currency}".rstrip()
        + f", with {unit} from {show(min(values))} to {show(max(values))}."
    )
    proved = all(p["result"]["certificate"]["status"] == "optimal" for p in front["points"])
    caption = f"Cost of the cheapest plan within each limit of {unit}."
    figure = Figure(
        caption, curve(f"{caption} {verdict}", known, (unit, f"cost {currency}".rstrip())), table
    )
    return View(title, verdict, "good" if proved else "fair", figures=[figure])


def plan_scenario(name: str, report: Document) -> Scenario:
    """Return a plan to hold against others.

    Parameters
    ----------
    name
        What to call it.
    report
        The result document of a plan.
    """
    certificate = report["result"]["certificate"]
    account = report.get("account")
    gap = gap_of(certificate)
    facts = {
        "status": str(certificate["status"]).replace("_", " "),
        "cost": show(certificate.get("objective")),
        "no plan costs less than": show(number_of(certificate.get("bound"))),
        "gap": show(None) if gap is None else f"{100 * gap:.2f} %",
        "goals in the replay": _replay_word(report),
    }
    if account is not None:
        facts["GPUs, mean"] = show(math.fsum(mean_gpus(account).values()))
        facts["carbon, t"] = show(math.fsum(account["carbon_kg"]) / 1000)
        facts["currency"] = account["currency"]
    objective = (
        "cost",
        number_of(certificate.get("objective")),
        number_of(certificate.get("bound")),
    )
    return Scenario(name, "plan", facts, objective, account, _goals(report))


def scenario_table(scenarios: Sequence[Scenario]) -> Table:
    """Return the facts of scenarios, a column each."""
    words = list(dict.fromkeys(word for one in scenarios for word in one.facts))
    return Table(
        "Side by side",
        ("", *(one.name for one in scenarios)),
        [(word, *(one.facts.get(word, show(None)) for one in scenarios)) for word in words],
    )


def _goals(report: Document) -> Goals:
    """Return for each class how well its goal is kept, worst pool, by the plan of the report."""
    replay = report.get("replay")
    measured: Sequence[Any] = (
        [] if replay is None else replay["rounds"][replay.get("answer", -1)]["measured"]
    )
    worst: dict[str, tuple[float, float, float]] = {}
    for one in measured:
        value = one["value"]
        low, mean, high = (
            _kept(number_of(value[part]), one["wanted"], one["in_hours"])
            for part in ("low", "mean", "high")
        )
        name = one["job_class"]
        if name not in worst or mean < worst[name][0]:
            worst[name] = (mean, min(low, high), max(low, high))
    return [(name, *values) for name, values in sorted(worst.items())]


def _kept(value: float, wanted: float, in_hours: bool) -> float:
    if not in_hours:
        return value / wanted
    return wanted / value if value > 0 else math.nan


def _verdict(report: Document, currency: str) -> tuple[str, Tone]:
    result = report["result"]
    sentence, tone = verdict_of(result["certificate"], currency)
    if result.get("conflict"):
        return f"{sentence} {_sentence(result['conflict'])}", "bad"
    replay = report.get("replay")
    if replay is not None:
        return f"{sentence} {_sentence(replay['sentence'])}", tone if report["holds"] else "bad"
    return sentence, tone


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _replay_word(report: Document) -> str:
    replay = report.get("replay")
    if replay is None:
        return "not replayed"
    if report["holds"]:
        return "kept"
    return str(replay["outcome"]) if replay["outcome"] in _NOT_MEASURED else "missed"


def _proved(report: Document) -> bool:
    return bool(report["result"]["certificate"]["status"] == "optimal")


def _tables(found: Sequence[plan_tables.TextTable]) -> list[Table]:
    return [Table(one.title, one.columns, one.rows) for one in found]


def _lists(result: Document) -> list[tuple[str, Sequence[str]]]:
    options: dict[int, list[str]] = {}
    for one in result.get("repairs", ()):
        options.setdefault(one.get("option", 0), []).append(one["sentence"])
    repairs = ["; and ".join(needed) for needed in options.values()]
    lists: list[tuple[str, Sequence[str]]] = []
    if repairs:
        lists.append(("What would make it possible, each way enough by itself", repairs))
    if result.get("assumptions"):
        lists.append(("Assumptions", result["assumptions"]))
    return lists
