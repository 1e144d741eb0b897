"""Tables for people."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from alloc.certificate import Certificate
from alloc.cli.sheets import Sheet
from alloc.result import Result

if TYPE_CHECKING:
    from rich.console import RenderableType

    from alloc.families import Family
    from alloc.report.answers import Table as AnswerTable

MAX_ROWS = 30
"""Rows that a person reads; a file holds the rest."""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> Sheet:
    """Return a table; numbers are set to the right.

    Parameters
    ----------
    columns
        Headings.
    rows
        Cells: text as it is, numbers with `number`, None as a dash.
    title
        Heading of the table.
    """
    cells = [list(row) for row in rows]
    numeric = [any(isinstance(row[k], int | float) for row in cells) for k, _ in enumerate(columns)]
    return Sheet(
        columns,
        [[_cell(value) for value in row] for row in cells],
        numeric,
        # Names must stay whole, so that they can be typed, and a number that is cut off is another
        # number; sentences may wrap.
        [k == 0 or number for k, number in enumerate(numeric)],
        title,
    )


def facts(rows: Iterable[tuple[str, object]], title: str = "") -> Sheet:
    """Return a table of names and values.

    Parameters
    ----------
    rows
        Names and values.
    title
        Title of the table; empty for none.
    """
    return Sheet(
        (), [(name, _cell(value)) for name, value in rows], (False,) * 2, (True, False), title
    )


def number(value: float) -> str:
    """Return a number as people write it: three decimals at most, thousands apart."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    value += 0.0  # of the two zeros the one without a sign
    if value and abs(value) < 0.01:
        return f"{value:.3g}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def percent(share: float | None) -> str:
    """Return a share as a percentage, a dash for None."""
    if share is None or math.isnan(share):
        return "–"
    if math.isinf(share):
        return "∞"
    # More than nothing never reads as nothing; the noise of the last digits is nothing.
    if abs(share) < 1e-9:
        return "0 %"
    return "< 0.01 %" if 0 < share < 1e-4 else f"{100 * share:.2f} %"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else str(value)


_BOUND_PROOF = {
    "recomputed": "recomputed by alloc from the multipliers",
    "confirmed": "proved by two runs: of two solvers, or of one with and without its presolve",
    "claimed": "reported by the solver, not re-verified",
    "none": "not proved",
}


def result_tables(family: "Family", problem: Any, result: Result[Any]) -> "list[RenderableType]":
    """Return what a result of any family says: certificate, solution, what-ifs, assumptions.

    Parameters
    ----------
    family
        The family that was solved.
    problem
        What was asked.
    result
        The answer.
    """
    from alloc.report.answers import result_tables as tables_of

    unit = family.unit(problem, result.certificate.objective_name)
    shown: list[RenderableType] = [certificate_table(result.certificate, unit)]
    shown += map(drawn, tables_of(family, problem, result))
    return shown + assumed(result.assumptions)


def drawn(found: "AnswerTable") -> Sheet:
    """Return a table of an answer as one for the terminal."""
    return shortened(found.columns, found.rows, found.note, found.title)


def assumed(assumptions: Sequence[str]) -> "list[RenderableType]":
    """Return what an answer takes for granted, as lines."""
    return ["Assumptions:", *(f"  - {one}" for one in assumptions)] if assumptions else []


def certificate_table(certificate: Certificate, unit: str) -> Sheet:
    """Return what is claimed about an answer, and on whose word.

    Parameters
    ----------
    certificate
        The claims.
    unit
        Unit of the objective; empty for none.
    """
    status = certificate.status.replace("_", " ")
    if certificate.limit is not None:
        status += (
            f" ({certificate.limit} limit)"
            if certificate.limit != "interrupt"
            else (" (interrupted)")
        )
    value = certificate.objective
    bound = None
    if math.isfinite(certificate.bound):
        bound = f"{_amount(certificate.bound, unit)}, {_BOUND_PROOF[certificate.bound_proof]}"
    rows: list[tuple[str, object]] = [
        ("status", status),
        (certificate.objective_name, None if value is None else _amount(value, unit)),
        ("bound", bound),
        ("gap", percent(certificate.gap)),
        ("verified", "yes, every rule and the objective" if certificate.verified else "no answer"),
        ("formulation", certificate.formulation),
        ("backend", f"{certificate.backend} ({certificate.backend_version})"),
        ("time", f"{number(round(certificate.seconds, 2))} s"),
    ]
    return facts(rows)


def _amount(value: float, unit: str) -> str:
    return f"{number(value)} {unit}".rstrip()


def shortened(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    caption: str = "",
    title: str = "",
) -> Sheet:
    """Return a table of as many rows as a person reads, which says how many more there are.

    Parameters
    ----------
    columns
        Heads of the columns.
    rows
        All rows, those to be seen first.
    caption
        A line below the table; empty for none.
    title
        Title of the table; empty for none.
    """
    made = table(columns, rows[:MAX_ROWS], title)
    left_out = len(rows) - MAX_ROWS
    if left_out > 0:
        more = f"and {left_out} more rows; --output writes them all"
        caption = f"{caption}, {more}" if caption else more
    made.caption = caption
    return made
