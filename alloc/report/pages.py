"""Pages: what the templates of all reports are given, and how they are filled."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from alloc.comparison.tables import Column, Table
from alloc.plotting import inline_svg
from alloc.problems.right_sizing.plan_tables import TextTable
from alloc.release import alloc_version
from alloc.report.sections import Drawing

if TYPE_CHECKING:
    from jinja2 import Environment


def page(template: str, **values: Any) -> str:
    """Return a template of this room as HTML that needs nothing else.

    Parameters
    ----------
    template
        Name of the file.
    values
        What it shows, beside the style, the version and ``draw`` for its figures.
    """
    style = files("alloc.report").joinpath("report.css").read_text(encoding="utf-8")
    found = _environment().get_template(template)
    return found.render(version=alloc_version(), style=style, draw=_inline, **values)


def page_table(table: TextTable) -> Table:
    """Return a plan's table as the one that pages show.

    Parameters
    ----------
    table
        The table.
    """
    columns = [Column(name, k in table.numbers) for k, name in enumerate(table.columns)]
    return Table(table.title, tuple(columns), table.rows)


def _inline(drawing: Drawing) -> str:
    return inline_svg(drawing.figure, drawing.name, drawing.alternative)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        # Names of jobs, offers and instances come from files of anybody's.
        autoescape=True,
        loader=PackageLoader("alloc.report", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
