"""What a page shows of a result: words, figures with their tables, and scenarios to compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import Markup

from alloc.server.pages.charts import show

Document = Mapping[str, Any]
Tone = Literal["good", "fair", "bad"]


@dataclass(frozen=True)
class Table:
    """A table; the first cell of each row names it."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """A chart, what it shows in a sentence, and its numbers."""

    caption: str
    svg: Markup
    table: Table


@dataclass(frozen=True)
class View:
    """What a result comes to.

    Parameters
    ----------
    title
        What was asked.
    verdict
        The answer in a sentence.
    tone
        Whether the answer is proved and holds, holds without a proof, or is bad news.
    facts
        Pairs of word and value.
    figures, tables
        What is drawn, and what is only listed.
    lists
        Pairs of a title and sentences.
    """

    title: str
    verdict: str
    tone: Tone
    facts: Sequence[tuple[str, str]] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    lists: Sequence[tuple[str, Sequence[str]]] = ()


@dataclass(frozen=True)
class Scenario:
    """An answer to hold against others.

    Parameters
    ----------
    name
        Its name among the others.
    kind
        What may be compared with it.
    facts
        Values by word; the same words as those of its kind.
    objective
        Name, value and bound of what was optimised.
    account
        Of a plan: what it comes to, as its report has it.
    goals
        Of a plan that was replayed: rows of `alloc.server.pages.charts.dots`.
    """

    name: str
    kind: Literal["plan", "schedule"]
    facts: Mapping[str, str]
    objective: tuple[str, float, float]
    account: Document | None = None
    goals: Sequence[tuple[str, float, float, float]] = field(default=())


def spoken(caption: str, table: Table) -> str:
    """Return what a chart says to those who cannot see it: its caption, and short tables whole.

    Parameters
    ----------
    caption
        A sentence about the chart.
    table
        What the chart shows, in numbers.
    """
    if len(table.rows) > 8:
        return f"{caption} The table has the numbers."
    rows = "; ".join(
        f"{row[0]}: "
        + ", ".join(f"{word} {cell}" for word, cell in zip(table.columns[1:], row[1:], strict=True))
        for row in table.rows
    )
    return f"{caption} {rows}."


def certificate_facts(certificate: Document, unit: str = "") -> list[tuple[str, str]]:
    """Return what a certificate says, as pairs of word and value.

    Parameters
    ----------
    certificate
        A certificate as JSON.
    unit
        Unit of its objective; empty for none.
    """
    after = f" {unit}" if unit else ""
    rows = [("status", str(certificate["status"]).replace("_", " "))]
    value, bound = certificate.get("objective"), number_of(certificate.get("bound"))
    name = str(certificate["objective_name"]).replace("_", " ")
    if value is not None:
        rows.append((name, show(number_of(value)) + after))
    if math.isfinite(bound):
        side = "upper" if certificate["sense"] == "max" else "lower"
        rows.append((f"{side} bound", show(bound) + after))
    gap = gap_of(certificate)
    if gap is not None:
        rows.append(("gap", f"{100 * gap:.2f} %"))
    if value is not None:
        rows.append(
            ("checked independently of the solver", "yes" if certificate.get("verified") else "no")
        )
    rows += [
        ("bound", _PROOFS[certificate.get("bound_proof", "claimed")]),
        ("method", f"{certificate['backend']} ({certificate['backend_version']})"),
        ("time", f"{certificate['seconds']:.2f} s"),
    ]
    return rows


def verdict_of(certificate: Document, unit: str = "") -> tuple[str, Tone]:
    """Return in a sentence what a certificate proves.

    Parameters
    ----------
    certificate
        A certificate as JSON.
    unit
        Unit of its objective; empty for none.
    """
    status, value = certificate["status"], certificate.get("objective")
    after = f" {unit}" if unit else ""
    name = str(certificate["objective_name"]).replace("_", " ")
    if status == "optimal":
        found = f"{show(number_of(value))}{after}"
        return f"Proved optimal: no answer has a better {name} than {found}.", "good"
    if value is not None:
        gap = gap_of(certificate)
        proof = "nothing is proved about better ones"
        if gap is not None:
            proof = f"proved to be within {100 * gap:.2f} % of the best"
        return f"Found a {name} of {show(number_of(value))}{after}; {proof}.", "fair"
    if status == "infeasible":
        return "Proved impossible: no answer keeps all requirements.", "bad"
    return "No answer was found within the limits; allow more time.", "bad"


def gap_of(certificate: Document) -> float | None:
    """Return the relative gap between objective and bound, or None without one of them."""
    value, bound = (number_of(certificate.get(name)) for name in ("objective", "bound"))
    if not (math.isfinite(value) and math.isfinite(bound)):
        return None
    from alloc.certificate import relative_gap

    return relative_gap(value, bound)


def number_of(value: Any) -> float:
    """Return a number of a document; not a number where it has none.

    Those that JSON has no number for are texts, ``"inf"`` and ``"-inf"``.
    """
    return math.nan if value is None else float(value)


_PROOFS = {
    "recomputed": "proved again here, without the solver",
    "confirmed": "proved by two runs: of two solvers, or of one with and without its presolve",
    "claimed": "reported by the solver, not re-verified",
    "none": "none",
}
