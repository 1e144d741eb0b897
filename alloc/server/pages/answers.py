"""Results of any family as they are shown: what `alloc.report.answers` makes of a solution."""

from __future__ import annotations

import math
from typing import Any

from alloc.documents import format_of
from alloc.families import family_of_result
from alloc.report import answers
from alloc.result import Result
from alloc.server.pages.charts import show
from alloc.server.pages.parts import Document, Table, View, certificate_facts, verdict_of


def answer_view(document: Document, problem: Any) -> View:
    """Return what a result shows.

    Parameters
    ----------
    document
        The result.
    problem
        What was asked, or None if it is no longer known: then the solution is not shown.
    """
    result: Result[Any] = format_of("result").decode(document)
    certificate = document["certificate"]
    unit, tables = "", []
    if problem is not None:
        family = family_of_result(problem, result.certificate)
        unit = family.unit(problem, result.certificate.objective_name)
        tables = [_table(found) for found in answers.result_tables(family, problem, result)]
    verdict, tone = verdict_of(certificate, unit)
    if result.conflict:
        verdict = f"{verdict} {result.conflict[:1].upper()}{result.conflict[1:]}."
    lists = [
        ("What would make it possible", result.repair_options),
        ("Assumptions", result.assumptions),
        ("Steps of the method", [line.strip() for line in result.log]),
    ]
    return View(
        f"Solve: {getattr(problem, 'name', 'a problem')}",
        verdict,
        tone,
        certificate_facts(certificate, unit),
        tables=tables,
        lists=[(title, lines) for title, lines in lists if lines],
    )


def _table(found: answers.Table) -> Table:
    rows = [[_cell(cell) for cell in row] for row in found.rows]
    return Table(". ".join(filter(None, (found.title, found.note))), found.columns, rows)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return show(value) if math.isfinite(value) else "no bound"
    return "" if value is None else str(value)
