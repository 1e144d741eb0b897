"""What plans, what-ifs and fronts show in a terminal."""

from typing import TYPE_CHECKING

from alloc.cli.tables import certificate_table, table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from alloc.planning.differences import WhatIf
    from alloc.planning.report import PlanReport
    from alloc.planning.tables import TextTable


def plan_tables(report: "PlanReport") -> "list[RenderableType]":
    """Return what a plan says: certificate, costs, hosts, goals, values, assumptions."""
    from alloc.planning.tables import (
        cost_table,
        hosts_table,
        marginals_table,
        out_of_sample_table,
        rounds_tables,
    )

    result = report.result
    shown: list[RenderableType] = [certificate_table(result.certificate, report.problem.currency)]
    if result.plan is not None:
        shown += [drawn(cost_table(report)), drawn(hosts_table(report))]
    shown += [drawn(found) for found in rounds_tables(report)]
    if report.replayed is not None:
        shown.append(f"Replay: {report.replayed.sentence}")
    outside = out_of_sample_table(report)
    if outside is not None:
        shown.append(drawn(outside))
    if result.marginals:
        shown.append(drawn(marginals_table(report)))
    if result.assumptions:
        shown += ["Assumptions:", *(f"  - {sentence}" for sentence in result.assumptions)]
    return shown


def what_if_tables(found: "WhatIf") -> "list[RenderableType]":
    """Return what a what-if says: the proved difference, and what differs."""
    from alloc.planning.tables import differences_tables

    shown: list[RenderableType] = [f"What if: {'; '.join(found.changes)}"]
    if found.cost is not None:
        shown.append(f"It {found.cost.in_words(found.base.problem.currency)}.")
    return shown + [drawn(part) for part in differences_tables(found)]


def drawn(text: "TextTable") -> "Table":
    """Return a table of text as one for the terminal."""
    return table(text.columns, text.rows, text.title)
