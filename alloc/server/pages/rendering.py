"""Rendering: views as HTML, for the page and as reports to keep."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from alloc.release import alloc_version
from alloc.server.pages.parts import View

_ASSETS: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def assets() -> Mapping[str, tuple[bytes, str]]:
    """Return the files of the page by name, each with its media type."""
    folder = files("alloc.server.pages").joinpath("static")
    return {
        entry.name: (entry.read_bytes(), kind)
        for entry in folder.iterdir()
        for ending, kind in _ASSETS.items()
        if entry.name.endswith(ending)
    }


def page() -> str:
    """Return the page."""
    return _environment().get_template("page.html.j2").render(version=alloc_version())


def fragment(view: View) -> str:
    """Return a view as a piece of the page."""
    return _environment().get_template("view.html.j2").render(view=view, level=3)


def report(view: View, provenance: Mapping[str, Any]) -> str:
    """Return a view as an HTML document that needs nothing else.

    Parameters
    ----------
    view
        What is shown.
    provenance
        Where it comes from: word and value.
    """
    style = "\n".join(assets()[name][0].decode() for name in ("base.css", "charts.css"))
    return (
        _environment()
        .get_template("report.html.j2")
        .render(view=view, level=1, style=style, provenance=provenance, version=alloc_version())
    )


@cache
def _environment() -> Environment:
    return Environment(
        # Names come from documents of anybody's.
        autoescape=True,
        loader=PackageLoader("alloc.server.pages", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
