"""Figures without windows: made, saved as PNG and SVG, or turned into text for a page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from alloc.errors import AllocError, InstanceError
from alloc.plotting.palette import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that size in inches, laid out by itself.

    Unlike pyplot's, it opens no window, needs no closing, and is safe in threads.

    Parameters
    ----------
    width, height
        Size, inches.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(
    figure: Figure,
    stem: str | PathLike[str],
    formats: Sequence[str] = FORMATS,
    dpi: float = 150.0,
) -> tuple[Path, ...]:
    """Save a figure, once in each format.

    Parameters
    ----------
    figure
        What to save.
    stem
        Path without its ending; missing folders are made.
    formats
        ``png`` and ``svg``.
    dpi
        Dots per inch of the PNG.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    InstanceError
        If a format is unknown.
    AllocError
        If a file cannot be written.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise InstanceError(
            f'cannot save a figure as "{unknown[0]}"; the formats are {", ".join(FORMATS)}.'
        )
    paths = []
    for name in formats:
        path = Path(f"{stem}.{name}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            data = svg_text(figure).encode() if name == "svg" else _png(figure, dpi)
            path.write_bytes(data)
        except OSError as error:
            raise AllocError(
                f"{path}: cannot be written ({error.strerror}); make room or choose another place."
            ) from None
        paths.append(path)
    return tuple(paths)


def _png(figure: Figure, dpi: float) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor="white", metadata={"Software": "alloc"})
    return buffer.getvalue()


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG document, the same text each time."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    # Text stays text: it can be searched, read aloud and set in the reader's own typeface.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "alloc"}):
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return _without_idle_ids(buffer.getvalue())


def _without_idle_ids(text: str) -> str:
    """Drop the ids that nothing refers to: two charts in one figure use the same ones."""
    used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
    return re.sub(
        r'\sid="([^"]*)"', lambda found: found.group(0) if found.group(1) in used else "", text
    )


def inline_svg(figure: Figure, name: str, alternative: str) -> str:
    """Return a figure as an ``<svg>`` element to put into an HTML page.

    Parameters
    ----------
    figure
        What to show.
    name
        Unique on the page: it keeps the ids of two figures apart.
    alternative
        What the figure says, for readers who cannot see it.

    Returns
    -------
    str
        The element. It scales with the page, takes its text colour from it, and names no other
        document.
    """
    from html import escape

    text = svg_text(figure)
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(?::\w+)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = re.sub(re.escape(INK), "currentColor", text, flags=re.IGNORECASE)
    head = text[: text.index(">")]
    body = text[text.index(">") + 1 :]
    view = re.search(r'viewBox="[^"]*"', head)
    box = view.group(0) if view else ""
    label = f'<title id="{name}-title">{escape(alternative)}</title>'
    return f'<svg {box} role="img" aria-labelledby="{name}-title">{label}{body}'
