"""Pages: what the templates of all reports are given, and how they are filled."""

from __future__ import annotations

import base64
import hashlib
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
    found = _environment().get_template(template)
    return found.render(
        version=alloc_version(), style=_text_of("report.css"), draw=_inline, **values
    )


def script() -> tuple[str, str]:
    """Return the script of pages, and what a page's policy says to let it run and no other."""
    text = _text_of("report.js")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return text, f"'sha256-{digest}'"


def _text_of(name: str) -> str:
    return files("alloc.report").joinpath(name).read_text(encoding="utf-8")


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
