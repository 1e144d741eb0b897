"""What plans, what-ifs and fronts show in a terminal."""

from typing import TYPE_CHECKING, Any

from alloc.cli.tables import assumed, certificate_table, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from alloc.cli.sheets import Sheet
    from alloc.planning.differences import WhatIf
    from alloc.planning.later_weeks import Kept, LaterWeeks
    from alloc.planning.report import PlanReport
    from alloc.problems.right_sizing.plan_tables import TextTable


def plan_tables(
    report: "PlanReport", document: Any, later: "LaterWeeks | None" = None
) -> "list[RenderableType]":
    """Return what a plan says: a headline, certificate, costs, hosts, goals, values, assumptions.

    Parameters
    ----------
    report
        The plan.
    document
        The same as a document, which the tables show.
    later
        How its goals hold in later weeks, or None if it was not checked on any.
    """
    from alloc.planning.headline import headline
    from alloc.problems.right_sizing.plan_tables import plan_tables as tables_of

    result = report.result
    said = headline(report)
    shown: list[RenderableType] = [] if said is None else [said, ""]
    if later is not None:
        shown[1:1] = [f"Later weeks: {later.sentence}"]
    shown.append(certificate_table(result.certificate, report.problem.currency))
    shown += [drawn(found) for found in tables_of(document)]
    if report.replayed is not None:
        shown.append(f"Replay: {report.replayed.sentence}")
    if later is not None and later.kept:
        rows = [
            (one.job_class, one.jobs, one.goal, _value(one), "yes" if one.holds else "no")
            for one in later.kept
        ]
        columns = ("class", "jobs", "goal", "kept by", "holds")
        shown.append(
            table(columns, rows, f"The {later.weeks:.3g} weeks that followed, as they came")
        )
    return shown + assumed(result.assumptions)


def _value(one: "Kept") -> str:
    return f"{one.value:.3g} h on average" if one.in_hours else f"{100 * one.value:.1f} % of jobs"


def what_if_tables(found: "WhatIf", document: Any) -> "list[RenderableType]":
    """Return what a what-if says: the proved difference, and what differs.

    Parameters
    ----------
    found
        What was found.
    document
        The same as plain JSON values.
    """
    from alloc.problems.right_sizing.plan_tables import difference_tables

    shown: list[RenderableType] = [f"What if: {'; '.join(found.changes)}"]
    if found.cost is not None:
        shown.append(f"It {found.cost.in_words(found.base.problem.currency)}.")
    return shown + [drawn(part) for part in difference_tables(document)]


def drawn(text: "TextTable") -> "Sheet":
    """Return a table of text as one for the terminal."""
    return table(text.columns, text.rows, text.title)
