"""Planning answers as tables of text, for the terminal and for pages alike."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from alloc.capacity.accounting import hosts_in_service
from alloc.capacity.plan import CostBreakdown, MarginalValue
from alloc.planning.differences import WhatIf
from alloc.planning.fronts import Front
from alloc.planning.loop import Round
from alloc.planning.report import PlanReport

_MOST_MARGINALS = 12


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


def cost_table(report: PlanReport) -> TextTable:
    """Return what the cost of a plan is made of."""
    costs = report.result.costs or CostBreakdown()
    parts = [(field.name, getattr(costs, field.name)) for field in fields(costs)]
    rows = [(_word(name), money(amount)) for name, amount in parts if amount]
    rows.append(("total", money(costs.total)))
    title = f"Expected discounted cost, {report.problem.currency}"
    return TextTable(title, ("part", "money"), tuple(rows), frozenset({1}))


def hosts_table(report: PlanReport) -> TextTable:
    """Return the hosts of a plan, ordered and in service, by quarter."""
    plan = report.result.require_plan()
    quarters = report.problem.num_quarters
    ordered: dict[tuple[str, str], list[int]] = {}
    for order in plan.orders:
        ordered.setdefault((order.offer, order.site), [0] * quarters)[order.quarter] += order.count
    fleet = {
        place: [round(count) for count in counts]
        for place, counts in hosts_in_service(report.problem, plan).items()
    }
    none = [0] * quarters
    rows = tuple(
        (place[0], place[1], series(ordered.get(place, none)), series(fleet.get(place, none)))
        for place in sorted(fleet.keys() | ordered.keys())
    )
    return TextTable("Hosts, by quarter", ("offer", "site", "ordered", "in service"), rows)


def rounds_tables(report: PlanReport) -> tuple[TextTable, ...]:
    """Return what each round of replaying measured, class by class."""
    if report.replayed is None:
        return ()
    return tuple(
        _measured_table(number, turn, turn is report.replayed.answer)
        for number, turn in enumerate(report.replayed.rounds, start=1)
        if turn.measured
    )


def out_of_sample_table(report: PlanReport) -> TextTable | None:
    """Return how a plan's orders do in scenarios it was not made for, beside those it was."""
    found = report.out_of_sample
    planned = report.result.certificate.objective
    if found is None or planned is None:
        return None
    rows = [("planned for", money(planned), "")]
    if found.mean_cost is not None:
        rows.append(("held out, mean where goals hold", money(found.mean_cost), ""))
    rows.append(("goals hold in", "", f"{100 * found.share:.1f} % of held-out futures"))
    return TextTable(
        f"Out of sample: {len(found.scenarios)} scenarios held out",
        ("scenarios", f"cost, {report.problem.currency}", "goals"),
        tuple(rows),
        frozenset({1}),
    )


def marginals_table(report: PlanReport) -> TextTable:
    """Return the largest marginal values."""
    largest = sorted(report.result.marginals, key=lambda value: -abs(value.saving))
    return TextTable(
        "Marginal values, by the dual values of the relaxation",
        ("resource", "which", "quarter", "one more", f"saves, {report.problem.currency}"),
        tuple(_marginal(value) for value in largest[:_MOST_MARGINALS]),
        frozenset({4}),
    )


def differences_tables(found: WhatIf) -> tuple[TextTable, ...]:
    """Return what differs between a what-if and its base: cost by part, and hosts."""
    rows = [
        (_word(part), money(before), money(after), money(after - before, sign=True))
        for part, (before, after) in found.costs.items()
        if before or after
    ]
    before = math.fsum(pair[0] for pair in found.costs.values())
    after = math.fsum(pair[1] for pair in found.costs.values())
    rows.append(("total", money(before), money(after), money(after - before, sign=True)))
    costs = TextTable(
        f"Expected discounted cost, {found.base.problem.currency}",
        ("part", "base", "changed", "difference"),
        tuple(rows),
        frozenset({1, 2, 3}),
    )
    hosts = TextTable(
        "Hosts in service that differ, by quarter",
        ("offer", "site", "base", "changed"),
        tuple(
            (offer, site, series(old), series(new))
            for (offer, site), (old, new) in found.hosts.items()
        ),
    )
    return (costs, hosts) if hosts.rows else (costs,)


def front_table(front: Front, currency: str) -> TextTable:
    """Return a Pareto front."""
    rows = []
    for point in front.points:
        certificate = point.result.certificate
        gap = certificate.gap
        rows.append(
            (
                _level(point.limit, "none"),
                _level(point.value, ""),
                money(point.cost) if math.isfinite(point.cost) else certificate.status,
                f"{100 * gap:.2f} %" if gap is not None and math.isfinite(gap) else "",
                "yes" if point.efficient else "no",
            )
        )
    return TextTable(
        f"Cost against {front.axis}",
        (f"at most, {front.unit}", "reached", f"cost, {currency}", "gap", "efficient"),
        tuple(rows),
        frozenset({0, 1, 2, 3}),
    )


def _level(value: float, otherwise: str) -> str:
    """Return a factor, or a number of kWh or kg, in full."""
    if not math.isfinite(value):
        return otherwise
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def money(amount: float, sign: bool = False) -> str:
    """Return an amount of money for people."""
    return f"{round(amount):+,}" if sign else f"{round(amount):,}"


def series(counts: list[int] | tuple[int, ...]) -> str:
    """Return counts by quarter in one cell."""
    return " ".join(str(count) for count in counts)


def _word(name: str) -> str:
    return name.removesuffix("_kw").replace("_", " ")


def _marginal(value: MarginalValue) -> tuple[str, ...]:
    quarter = "all" if value.quarter is None else str(value.quarter)
    return _word(value.kind), value.name, quarter, value.unit, money(value.saving)


def _measured_table(number: int, turn: Round, answer: bool) -> TextTable:
    rows = []
    for measured in turn.measured:
        low, high = measured.value.low, measured.value.high
        rows.append(
            (
                measured.job_class,
                str(measured.pool),
                str(measured.regime),
                measured.goal,
                f"{measured.value.mean:.3g}",
                "" if low is None or high is None else f"{low:.3g} to {high:.3g}",
                f"{measured.wanted:.3g}",
                "yes" if measured.holds else "NO",
            )
        )
    cost = turn.result.certificate.objective
    return TextTable(
        f"Round {number}{' (the plan above)' if answer else ''}"
        f"{'' if cost is None else f', cost {money(cost)}'}: goals in the replay",
        ("class", "pool", "regime", "goal", "measured", "95 %", "wanted", "holds"),
        tuple(rows),
        frozenset({4, 6}),
    )
