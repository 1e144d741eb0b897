"""Notebook views: what a result, a comparison, a plan or a topology looks like in a cell.

Short, and by the renderer of the reports' tables: names from anybody's files are escaped there.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

from alloc.certificate import Certificate
from alloc.comparison import Comparison
from alloc.comparison.tables import (
    NOTHING,
    Column,
    Table,
    gap_tables,
    objective_words,
    show_exact,
    show_number,
)
from alloc.planning.documents import encode_report
from alloc.planning.report import PlanReport
from alloc.problems.right_sizing.plan_tables import plan_tables
from alloc.report.frames import Frame
from alloc.report.frames import frames_of as frames_of
from alloc.report.frames import to_pandas as to_pandas
from alloc.report.frames import to_polars as to_polars
from alloc.report.pages import page, page_table
from alloc.result import Result
from alloc.topology import Topology

_MAX_ROWS = 10
"""Rows that are shown of a table: what a cell holds without scrolling. The data frames have all."""
_MAX_TABLES = 4
"""Tables of ten rows: more push what comes below the cell off the screen."""
_OWN_TABLES = ("certificate", "facts")
"""Tables of one row, which are shown upright."""


def notebook_view(value: Any) -> str:
    """Return a value as HTML for a notebook.

    Parameters
    ----------
    value
        What has tables, see `alloc.tabular.Tabular`.
    """
    headline, tables = _view(value)
    remarks = []
    if len(tables) > _MAX_TABLES:
        remarks = [f"and {len(tables) - _MAX_TABLES} more tables"]
    shown = [_shortened(table) for table in tables[:_MAX_TABLES]]
    return page("notebook.html.j2", headline=headline, tables=shown, remarks=remarks)


@singledispatch
def _view(value: Any) -> tuple[str, list[Table]]:
    """Return what stands above the tables, and the tables."""
    return type(value).__name__, _all_tables(value)


@_view.register
def _(result: Result) -> tuple[str, list[Table]]:  # type: ignore[type-arg]
    return certificate_line(result.certificate), _all_tables(result)


@_view.register
def _(comparison: Comparison) -> tuple[str, list[Table]]:
    counts = (len(comparison.experiment.schedulers), len(comparison.instances))
    headline = f"{counts[0]} schedulers on {counts[1]} instances against the proved bound"
    return headline, list(gap_tables(comparison))


@_view.register
def _(report: PlanReport) -> tuple[str, list[Table]]:
    headline = f"Plan {report.problem.name}: {certificate_line(report.result.certificate)}"
    return headline, [page_table(table) for table in plan_tables(encode_report(report))]


@_view.register
def _(topology: Topology) -> tuple[str, list[Table]]:
    levels = " in ".join(("host", *reversed(topology.levels)))
    headline = (
        f"{topology.name}: {topology.num_hosts:,} hosts, {topology.num_gpus:,} GPUs ({levels})"
    )
    return headline, _view.dispatch(object)(topology)[1]


def certificate_line(certificate: Certificate) -> str:
    """Return what is proved, in one line.

    Parameters
    ----------
    certificate
        The certificate.
    """
    words = f"{certificate.status.replace('_', ' ')}: {objective_words(certificate.objective_name)}"
    if certificate.objective is not None:
        words += f" {show_exact(certificate.objective)}"
    if math.isfinite(certificate.bound):
        words += f", bound {show_exact(certificate.bound)} ({certificate.bound_proof})"
    if certificate.objective is not None:
        words += ", checked" if certificate.verified else ", not checked"
    return words


def _all_tables(value: Any) -> list[Table]:
    return [_table(frame) for frame in frames_of(value, _MAX_ROWS) if frame.num_rows]


def _table(frame: Frame) -> Table:
    """Return a data frame's first rows as text; a table of one row upright."""
    if frame.name in _OWN_TABLES:
        facts = [(name, _text(cells[0])) for name, cells in frame.columns.items()]
        return Table(frame.name, (Column("what", False), Column("value", False)), tuple(facts))
    columns = [
        Column(name, any(isinstance(one, int | float) for one in cells))
        for name, cells in frame.columns.items()
    ]
    first = zip(*(cells[:_MAX_ROWS] for cells in frame.columns.values()), strict=True)
    rows = tuple(tuple(map(_text, row)) for row in first)
    return Table(
        frame.name.replace("_", " "), tuple(columns), rows, _more(frame.num_rows - len(rows))
    )


def _shortened(table: Table) -> Table:
    if len(table.rows) <= _MAX_ROWS or table.title in _OWN_TABLES:
        return table
    more = _more(len(table.rows) - _MAX_ROWS)
    return Table(table.title, table.columns, table.rows[:_MAX_ROWS], (*table.remarks, *more))


def _more(num_rows: int) -> tuple[str, ...]:
    return (f"{num_rows:,} more rows",) if num_rows else ()


def _text(value: object) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return show_number(value) if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)
