"""What plans, what-ifs and fronts show in a terminal."""

from typing import TYPE_CHECKING, Any

from alloc.cli.tables import assumed, certificate_table, table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from alloc.planning.differences import WhatIf
    from alloc.planning.report import PlanReport
    from alloc.problems.right_sizing.plan_tables import TextTable


def plan_tables(report: "PlanReport", document: Any) -> "list[RenderableType]":
    """Return what a plan says: certificate, costs, hosts, goals, values, assumptions.

    Parameters
    ----------
    report
        The plan.
    document
        The same as a document, which the tables show.
    """
    from alloc.problems.right_sizing.plan_tables import plan_headline
    from alloc.problems.right_sizing.plan_tables import plan_tables as tables_of

    result, currency = report.result, report.problem.currency
    headline = plan_headline(result.certificate, currency)
    shown: list[RenderableType] = [headline] if headline else []
    shown.append(certificate_table(result.certificate, currency))
    shown += [drawn(found) for found in tables_of(document)]
    if report.replayed is not None:
        shown.append(f"Replay: {report.replayed.sentence}")
    return shown + assumed(result.assumptions)


def what_if_tables(found: "WhatIf", document: Any) -> "list[RenderableType]":
    """Return what a what-if says: the proved difference, and what differs."""
    from alloc.problems.right_sizing.plan_tables import difference_tables

    shown: list[RenderableType] = [f"What if: {'; '.join(found.changes)}"]
    if found.cost is not None:
        shown.append(f"It {found.cost.in_words(found.base.problem.currency)}.")
    return shown + [drawn(part) for part in difference_tables(document)]


def drawn(text: "TextTable") -> "Table":
    """Return a table of text as one for the terminal."""
    return table(text.columns, text.rows, text.title)
