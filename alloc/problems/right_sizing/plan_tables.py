"""Plans as tables of text: one renderer for the terminal, the report and the page.

It reads the document of a plan (`alloc.planning.documents.encode_report`), the same that programs
get as JSON, so that all of them say the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from alloc.units import format_number

Document = Mapping[str, Any]

_MAX_MARGINALS = 12
"""Marginal values shown, the largest; the document has all."""
_SMALL_MONEY = 100.0
"""Money below which a marginal value is shown with three digits: one euro more of a budget is worth
cents."""


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    Parameters
    ----------
    title
        What it shows.
    columns
        Headings.
    rows
        Cells, row by row.
    numbers
        Positions of the columns that hold numbers.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()


def plan_tables(report: Document) -> list[TextTable]:
    """Return the tables of a plan's document: costs, hosts, goals, out of sample, values."""
    account, result = report.get("account"), report["result"]
    tables = []
    if account is not None:
        tables += [cost_table(report), hosts_table(report)]
    tables += _iterations(report)
    if account is not None and report.get("out_of_sample") is not None:
        tables.append(_out_of_sample(report))
    if account is not None and result.get("sensitivities"):
        tables.append(_sensitivities(result["sensitivities"], account["currency"]))
    return tables


def cost_table(report: Document) -> TextTable:
    """Return what the cost of a plan is made of."""
    costs = report.get("costs") or {}
    rows = [(word_of(name), money(amount)) for name, amount in costs.items() if amount]
    rows.append(("total", money(math.fsum(costs.values()))))
    title = f"Expected discounted cost, {report['account']['currency']}"
    return TextTable(title, ("part", "money"), tuple(rows), frozenset({1}))


def hosts_table(report: Document) -> TextTable:
    """Return the hosts of a plan by quarter: ordered, in service and rented, and all GPUs."""
    account = report["account"]
    quarters = len(account["money"]["expected"])
    ordered: dict[tuple[str, str], list[float]] = {}
    for order in report["result"]["solution"].get("orders", ()):
        counts = ordered.setdefault((order["offer"], order["site"]), [0.0] * quarters)
        counts[order["quarter"]] += order["count"]
    rows = []
    for one in sorted(account["hosts"], key=lambda one: (one["offer"], one["site"])):
        bought = ordered.pop((one["offer"], one["site"]), None)
        rows.append(
            (
                one["offer"],
                one["site"],
                word_of(one["terms"]),
                "" if bought is None else series(bought),
                series(one["hosts"]),
            )
        )
    # Ordered, and not yet in service when the plan ends.
    rows += [(*place, "", series(counts), "") for place, counts in ordered.items()]
    gpus = [math.fsum(column) for column in zip(*(row for _, row in gpus_of(account)), strict=True)]
    rows.append(("GPUs in all", "", "", "", series(gpus)))
    return TextTable(
        "Hosts, by quarter; those rented by the hour are means over hours and scenarios",
        ("offer", "site", "terms", "ordered", "in service or rented"),
        tuple(rows),
    )


def gpus_of(account: Document) -> list[tuple[str, list[float]]]:
    """Return the GPUs of each offer at each site, by quarter; of rented ones the mean."""
    return [
        (f"{one['offer']} @ {one['site']}", [one["gpus"] * count for count in one["hosts"]])
        for one in account["hosts"]
    ]


def difference_tables(found: Document) -> list[TextTable]:
    """Return what differs between a what-if and its base: cost by part, and hosts.

    Where one of the two has no plan, nothing is compared: the tables are those of the other.
    """
    for one, other in (("base", "changed"), ("changed", "base")):
        if found[one].get("account") is None:
            if found[other].get("account") is None:
                return []
            name = "Base" if other == "base" else "Changed"
            return [
                replace(table, title=f"{name} only: {table.title}")
                for table in (cost_table(found[other]), hosts_table(found[other]))
            ]
    parts = [(part, both["before"], both["after"]) for part, both in found["costs"].items()]
    total = ("total", *(math.fsum(values) for values in zip(*(p[1:] for p in parts), strict=True)))
    rows = tuple(
        (word_of(part), money(before), money(after), money(after - before, sign=True))
        for part, before, after in (*parts, total)
        if before or after or part == "total"
    )
    tables = [
        TextTable(
            f"Expected discounted cost, {found['base']['account']['currency']}",
            ("part", "base", "changed", "difference"),
            rows,
            frozenset({1, 2, 3}),
        )
    ]
    if found["hosts"]:
        tables.append(
            TextTable(
                "Hosts that differ, by quarter; those rented by the hour are means",
                ("offer", "site", "base", "changed"),
                tuple(
                    (one["offer"], one["site"], series(one["before"]), series(one["after"]))
                    for one in found["hosts"]
                ),
            )
        )
    return tables


def money(amount: float, sign: bool = False) -> str:
    """Return an amount of money for people.

    Parameters
    ----------
    amount
        In the currency of the plan.
    sign
        Whether to write a plus too, as for a difference.
    """
    return f"{round(amount):+,}" if sign else f"{round(amount):,}"


def series(counts: Sequence[float]) -> str:
    """Return counts by quarter in one cell."""
    return " ".join(count_of(count) for count in counts)


def count_of(count: float) -> str:
    """Return a number of hosts or GPUs: whole, or a mean with three digits or one decimal."""
    if abs(count - round(count)) < 1e-6:
        return f"{round(count):,}"
    return f"{count:,.1f}" if count >= 10 else format_number(count, 3)


def word_of(name: str) -> str:
    """Return the name of a field in words."""
    return name.removesuffix("_kw").replace("_", " ")


def _sensitivities(values: Sequence[Document], currency: str) -> TextTable:
    def size(one: Document) -> float:
        return -abs(one["value"]) if one["value"] is not None else -math.inf

    return TextTable(
        "Marginal values: what one more saves, were hosts to be had in fractions",
        ("resource", "which", "quarter", "one more", f"saves, {currency}"),
        tuple(
            (
                word_of(one["kind"]),
                one["name"],
                "all" if one.get("period") is None else str(one["period"]),
                f"{one['amount']} {one['unit']}" if one["unit"].startswith("%") else one["unit"],
                _saving(one),
            )
            for one in sorted(values, key=size)[:_MAX_MARGINALS]
        ),
        frozenset({4}),
    )


def _saving(value: Document) -> str:
    """Return a marginal value, or the range that is proved of it."""
    saving, lower, upper = (_negated(value.get(end)) for end in ("value", "upper", "lower"))
    if saving is None:
        return "no plan has it"
    if lower is not None and upper is not None:
        return _amount(saving) if lower == upper else f"{_amount(lower)} to {_amount(upper)}"
    if upper is not None:
        return f"at most {_amount(upper)}"
    if lower is not None:
        return f"at least {_amount(lower)}"
    return f"about {_amount(saving)}, not proved"


def _negated(value: float | None) -> float | None:
    """Return what is saved where a cost changes by so much."""
    return None if value is None else 0.0 - value


def _amount(amount: float) -> str:
    if abs(amount) < _SMALL_MONEY and abs(amount - round(amount)) > 1e-9:
        return format_number(amount, 3)
    return money(amount)


def _out_of_sample(report: Document) -> TextTable:
    found = report["out_of_sample"]
    rows = [("planned for", money(report["result"]["certificate"]["objective"]), "")]
    if found["mean_cost"] is not None:
        rows.append(("held out, mean where all work fits", money(found["mean_cost"]), ""))
    rows.append(("all work fits in", "", f"{100 * found['share']:.1f} % of held-out futures"))
    return TextTable(
        f"Out of sample: {len(found['scenarios'])} scenarios held out, by the model's formulas",
        ("scenarios", f"cost, {report['account']['currency']}", "work and goals"),
        tuple(rows),
        frozenset({1}),
    )


def _iterations(report: Document) -> list[TextTable]:
    """Return what each iteration of replaying measured, class by class."""
    replay = report.get("replay")
    if replay is None:
        return []
    return [
        _measured_table(number, turn, number == replay.get("answer"))
        for number, turn in enumerate(replay["rounds"])
        if turn["measured"]
    ]


def _measured_table(number: int, turn: Document, answer: bool) -> TextTable:
    rows = []
    for one in turn["measured"]:
        pool, regime, value = one["pool"], one["regime"], one["value"]
        low, high = value["low"], value["high"]
        rows.append(
            (
                one["job_class"],
                f"{pool['gpu_type']} at {pool['site']}{' (spot)' if pool['spot'] else ''}",
                f"scenario {regime['scenario']}, quarter {regime['quarter']}, "
                f"band {regime['band']}",
                one["goal"],
                "never" if value["mean"] is None else f"{value['mean']:.3g}",
                "" if low is None or high is None else f"{low:.3g} to {high:.3g}",
                f"{one['wanted']:.3g}",
                "yes" if one["holds"] else "NO",
            )
        )
    cost = turn["cost"]
    return TextTable(
        f"Iteration {number + 1}{' (the plan above)' if answer else ''}"
        f"{'' if cost is None else f', cost {money(cost)}'}: goals in the replay",
        ("class", "pool", "regime", "goal", "measured", "95 %", "wanted", "holds"),
        tuple(rows),
        frozenset({4, 6}),
    )
