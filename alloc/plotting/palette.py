"""Colours and lines that stay apart for colour-blind readers, in print, and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

INK = "#1b1e24"
"""Colour of text, axes and the optimum. The report turns exactly this colour into the page's own
text colour, so that figures can be read on a dark page; nothing else may use it."""

MUTED = "#8a8f98"
"""Grey for grids, waiting lines and remarks: readable on white and on near-black."""

OKABE_ITO: Mapping[str, str] = MappingProxyType(
    {
        "blue": "#0072B2",
        "orange": "#E69F00",
        "green": "#009E73",
        "vermilion": "#D55E00",
        "sky blue": "#56B4E9",
        "purple": "#CC79A7",
    }
)
"""The colours of Okabe and Ito (Color Universal Design, 2008), without black, which is
`INK`, and yellow, which cannot be seen on white and, darkened, not be told from orange."""

OPTIMUM = "optimum"
"""Name of the row of the solved schedule in every table and figure, where it is proved optimal."""

BEST_FOUND = "best found"
"""Its name where that is not proved."""

_DASHES: tuple[str | tuple[int, tuple[int, ...]], ...] = ("-", (0, (5, 2)), (0, (1, 1)))


@dataclass(frozen=True)
class LineStyle:
    """How a series is drawn.

    Parameters
    ----------
    color
        Matplotlib colour.
    dash
        Matplotlib line style.
    width
        Line width, points.
    """

    color: str
    dash: str | tuple[int, tuple[int, ...]]
    width: float


def is_best(name: str) -> bool:
    """Return whether a series is the best schedule there is, alone or with equal ones.

    Parameters
    ----------
    name
        Its label; of equal schedules the names with ``=`` between them, the best first.
    """
    return name.partition(" = ")[0] in (OPTIMUM, BEST_FOUND)


def line_styles(names: Iterable[str]) -> dict[str, LineStyle]:
    """Return a style for each name: the optimum in thick ink, the others by colour, then by dash.

    Six colours times three dashes tell 18 series apart; after that they repeat.
    """
    colours = tuple(OKABE_ITO.values())
    styles: dict[str, LineStyle] = {}
    position = 0
    for name in names:
        if is_best(name):
            styles[name] = LineStyle(INK, "-", 2.4)
            continue
        colour = colours[position % len(colours)]
        dash = _DASHES[position // len(colours) % len(_DASHES)]
        styles[name] = LineStyle(colour, dash, 1.5)
        position += 1
    return styles
