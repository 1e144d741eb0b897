"""Plans, what-ifs and fronts as they are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from alloc.server.pages.charts import Series, bars, curve, dots, show
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

Goals = list[tuple[str, float, float, float]]


def plan_view(report: Document) -> View:
    """Return what a plan report shows."""
    result = report["result"]
    account = report.get("account")
    currency = "" if account is None else account["currency"]
    verdict, tone = _verdict(report, currency)
    scenario = plan_scenario("plan", report)
    figures = _figures([scenario]) if account is not None else []
    return View(
        f"Plan: {report['problem']['name']}",
        verdict,
        tone,
        certificate_facts(result["certificate"], currency),
        figures,
        [*_plan_tables(result, currency)],
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
        bad = base if base["result"].get("plan") is None else changed
        verdict, tone = _verdict(bad, "")
        which = "the base" if bad is base else "the changed problem"
        verdict = f"There is no plan for {which}. {verdict}"
    else:
        verdict = f"With {changes} the plan {cost['sentence']}."
        tone = "good" if all(_proved(one) for one in (base, changed)) else "fair"
        if not (base["holds"] and changed["holds"]):
            tone = "fair"
    return View(
        f"What if: {changes}",
        verdict,
        tone,
        (),
        _figures([one for one in both if one.account is not None]),
        [scenario_table(both), *_difference_tables(found)],
        _lists(changed["result"]),
    )


def front_view(front: Document, currency: str = "") -> View:
    """Return what a Pareto front shows."""
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
    """Return a plan to hold against others."""
    certificate = report["result"]["certificate"]
    account = report.get("account")
    gap = gap_of(certificate)
    facts = {
        "status": str(certificate["status"]).replace("_", " "),
        "cost": show(certificate.get("objective")),
        "no plan costs less than": show(certificate.get("bound")),
        "gap": show(None) if gap is None else f"{100 * gap:.2f} %",
        "goals in the replay": _replay_word(report),
    }
    if account is not None:
        facts["GPUs, mean"] = show(math.fsum(_gpus(account).values()))
        facts["carbon, t"] = show(math.fsum(account["carbon_kg"]) / 1000)
        facts["currency"] = account["currency"]
    objective = ("cost", number_of(certificate.get("objective")), number_of(certificate["bound"]))
    return Scenario(name, "plan", facts, objective, account, _goals(report))


def scenario_table(scenarios: Sequence[Scenario]) -> Table:
    """Return the facts of scenarios, a column each."""
    words = list(dict.fromkeys(word for one in scenarios for word in one.facts))
    return Table(
        "Side by side",
        ("", *(one.name for one in scenarios)),
        [(word, *(one.facts.get(word, show(None)) for one in scenarios)) for word in words],
    )


def plan_figures(scenarios: Sequence[Scenario]) -> list[Figure]:
    """Return the charts of plans beside each other."""
    return _figures([one for one in scenarios if one.account is not None])


def _figures(scenarios: Sequence[Scenario]) -> list[Figure]:
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
    return Figure(caption, bars(_spoken(caption, table), names, series, currency), table)


def _layers(scenario: Scenario) -> Figure:
    account = scenario.account or {}
    quarters = len(account["money"]["expected"])
    names = [f"Q{quarter}" for quarter in range(quarters)]
    series = [
        Series(f"{one['offer']} @ {one['site']}", [one["gpus"] * count for count in one["hosts"]])
        for one in account["hosts"]
    ]
    caption = "GPUs in service in each quarter, by offer; rented ones are means over the hours."
    table = Table(
        "GPUs in service",
        ("offer", *names),
        [(one.name, *(show(value) for value in one.values)) for one in series],
    )
    return Figure(
        caption, bars(_spoken(caption, table), names, series, "GPUs", stacked=True), table
    )


def _hosts_figure(scenarios: Sequence[Scenario]) -> Figure:
    gpus = [_gpus(one.account or {}) for one in scenarios]
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
    return Figure(caption, bars(_spoken(caption, table), offers, series, "GPUs"), table)


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
    svg = dots(_spoken(caption, table), goals, 1.0, "kept over promised")
    return Figure(caption, svg, table)


def _gpus(account: Document) -> dict[str, float]:
    """Return the GPUs of each offer, mean over the quarters."""
    found: dict[str, float] = {}
    for one in account.get("hosts", ()):
        mean = one["gpus"] * math.fsum(one["hosts"]) / max(len(one["hosts"]), 1)
        found[one["offer"]] = found.get(one["offer"], 0.0) + mean
    return found


def _goals(report: Document) -> Goals:
    """Return for each class how well its goal is kept, worst pool of the last round."""
    rounds = [] if report.get("replay") is None else report["replay"]["rounds"]
    measured: Sequence[Any] = next(
        (turn["measured"] for turn in reversed(rounds) if turn["measured"]), []
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
    if report.get("replay") is None:
        return "not replayed"
    return "kept" if report["holds"] else "missed"


def _proved(report: Document) -> bool:
    return bool(report["result"]["certificate"]["status"] == "optimal")


def _plan_tables(result: Document, currency: str) -> Iterable[Table]:
    costs = {word: value for word, value in (result.get("costs") or {}).items() if value}
    if costs:
        rows = [(word.replace("_", " "), show(value)) for word, value in costs.items()]
        yield Table(f"Expected cost, {currency}, discounted", ("part", "money"), rows)
    orders = (result.get("plan") or {}).get("orders", ())
    if orders:
        yield Table(
            "What to order",
            ("offer", "site", "quarter", "hosts"),
            [(o["offer"], o["site"], f"Q{o['quarter']}", str(o["count"])) for o in orders],
        )
    marginals = [one for one in result.get("marginals", ()) if one["saving"]]
    if marginals:
        yield Table(
            f"What one more is worth, {currency}",
            ("resource", "name", "unit", "saving"),
            [
                (m["kind"].replace("_", " "), m["name"], m["unit"], show(m["saving"]))
                for m in marginals
            ],
        )


def _difference_tables(found: Document) -> Iterable[Table]:
    costs = {part: both for part, both in found["costs"].items() if both["before"] or both["after"]}
    if costs:
        yield Table(
            "Expected cost, discounted",
            ("part", "base", "changed", "difference"),
            [
                (
                    part.replace("_", " "),
                    show(both["before"]),
                    show(both["after"]),
                    show(both["after"] - both["before"]),
                )
                for part, both in costs.items()
            ],
        )
    if found["hosts"]:
        yield Table(
            "Hosts that differ, by quarter",
            ("offer", "site", "base", "changed"),
            [
                (one["offer"], one["site"], _counts(one["before"]), _counts(one["after"]))
                for one in found["hosts"]
            ],
        )


def _lists(result: Document) -> list[tuple[str, Sequence[str]]]:
    reliefs = [one["sentence"] for one in result.get("reliefs", ())]
    lists: list[tuple[str, Sequence[str]]] = []
    if reliefs:
        lists.append(("What would make it possible", reliefs))
    if result.get("assumptions"):
        lists.append(("Assumptions", result["assumptions"]))
    return lists


def _counts(values: Sequence[float]) -> str:
    return " ".join(show(value) for value in values)


def _padded(values: Sequence[float], length: int) -> list[float]:
    return [*values, *[math.nan] * (length - len(values))]


def _spoken(caption: str, table: Table) -> str:
    """Return what a chart says to those who cannot see it: its caption, and short tables whole."""
    if len(table.rows) > 8:
        return f"{caption} The table has the numbers."
    rows = "; ".join(
        f"{row[0]}: "
        + ", ".join(f"{word} {cell}" for word, cell in zip(table.columns[1:], row[1:], strict=True))
        for row in table.rows
    )
    return f"{caption} {rows}."
