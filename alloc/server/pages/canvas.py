"""Pieces that charts are made of: scales, grids, texts and legends, as SVG.

Every text is escaped here: names come from documents of anybody's.

Parameters
----------
x, y
    Place in the picture, from its upper left corner, in units of its `WIDTH`.
words
    What is written.
kind
    Class in the style sheet.
scale
    The scale.
left
    Where the plot begins, from the left.
head
    Where the plot begins, from above.
unit
    Unit of the scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

WIDTH = 640.0
"""Width of all charts, in units of their own; they scale with the page."""
COLOURS = 6
"""Colours that the style sheet knows, as classes ``c0`` to ``c5``."""
PLOT = 200.0
"""Height of a chart's plot, unless it has rows."""

# In units of `WIDTH`: a line of words above a plot, the margin right of it, the height of an entry
# in a legend, and the width of a letter, on average, in the font of the style sheet.
LINE = 28.0
RIGHT = 14.0
_SWATCH = 22.0
_LETTER = 7.2
# Letters of a label, and of one before a row: longer ones would take the width from the plot.
_MAX_LETTERS = 30
_MAX_ROW_LETTERS = 38

Place = Callable[[float], float]
"""From a value to its place on the chart."""


class Scale:
    """Round ticks that cover the values from `low` to `high`."""

    def __init__(self, low: float, high: float) -> None:
        span = (high - low) or 1.0
        power = 10.0 ** math.floor(math.log10(span / 4))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= span / 4 * (1 - 1e-9))
        self.low = math.floor(low / step + 1e-9) * step
        self.high = max(math.ceil(high / step - 1e-9) * step, self.low + step)
        count = round((self.high - self.low) / step)
        self.ticks = [self.low + step * k for k in range(count + 1)]
        self.words = [f"{tick:,.10g}" for tick in self.ticks]

    @property
    def margin(self) -> float:
        """Room that its words need on the left of a chart."""
        return max(len(word) for word in self.words) * _LETTER + 12

    def across(self, left: float) -> Place:
        """Return where values are from left to right."""
        room = WIDTH - RIGHT - left
        return lambda value: left + room * (value - self.low) / (self.high - self.low)

    def down(self, head: float) -> Place:
        """Return where values are from top to bottom."""
        return lambda value: head + PLOT * (self.high - value) / (self.high - self.low)


def picture(alternative: str, height: float, parts: Iterable[Markup]) -> Markup:
    """Return a chart; `alternative` is what it says for those who cannot see it.

    Parameters
    ----------
    alternative
        What the chart says to those who cannot see it.
    height
        Height of the picture, in units of its `WIDTH`.
    parts
        What is in it, as SVG; what is later lies on top.
    """
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(number(WIDTH), number(height), alternative, Markup("").join(parts))


def text(x: float, y: float, words: str, anchor: str = "start") -> Markup:
    """Return a text; `anchor` is ``start``, ``middle`` or ``end``.

    Parameters
    ----------
    anchor
        Which end of the text is at the place.
    """
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        number(x), number(y), anchor, words
    )


def rectangle(x: float, y: float, width: float, height: float, kind: str, words: str) -> Markup:
    """Return a bar that says what it is when it is pointed at.

    Parameters
    ----------
    width, height
        Size, 0 or more.
    """
    return Markup(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
    ).format(kind, number(x), number(y), number(width), number(height), words)


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """Return a straight line.

    Parameters
    ----------
    x1, y1, x2, y2
        Both ends.
    """
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, number(x1), number(y1), number(x2), number(y2)
    )


def horizontal_grid(scale: Scale, left: float, head: float, unit: str) -> list[Markup]:
    """Return the lines and words of a scale at the left, with its unit above it."""
    down = scale.down(head)
    parts = [text(0, head - 15, unit)]
    for tick, words in zip(scale.ticks, scale.words, strict=True):
        parts.append(line("grid", left, down(tick), WIDTH - RIGHT, down(tick)))
        parts.append(text(left - 8, down(tick) + 4, words, "end"))
    return parts


def vertical_grid(
    scale: Scale, left: float, head: float, height: float, unit: str, lines: bool = True
) -> list[Markup]:
    """Return the lines and words of a scale at the bottom, with its unit under it.

    Parameters
    ----------
    height
        Height of the plot.
    lines
        Whether lines are drawn, beside the words.
    """
    across, foot = scale.across(left), head + height
    parts = [text((left + WIDTH - RIGHT) / 2, foot + 36, unit, "middle")]
    for tick, words in zip(scale.ticks, scale.words, strict=True):
        if lines:
            parts.append(line("grid", across(tick), head, across(tick), foot))
        # The last word would leave the picture if it were in the middle.
        last = tick == scale.ticks[-1]
        x, anchor = (WIDTH, "end") if last else (across(tick), "middle")
        parts.append(text(x, foot + 17, words, anchor))
    return parts


def legend(names: Sequence[str]) -> tuple[list[Markup], float]:
    """Return swatches with names, and how high they are; nothing for a single name."""
    if len(names) < 2:
        return [], 0.0
    parts, x, y = [], 0.0, 0.0
    for position, name in enumerate(names):
        words = cut(name)
        width = 28 + len(words) * _LETTER
        if x and x + width > WIDTH:
            x, y = 0.0, y + _SWATCH
        parts.append(rectangle(x, y + 3, 12, 12, colour(position), name))
        parts.append(text(x + 18, y + 14, words))
        x += width + 8
    return parts, y + _SWATCH


def margin(labels: Iterable[str]) -> float:
    """Return the room that the labels of rows need."""
    return max((len(cut_row(label)) for label in labels), default=0) * _LETTER + 18


def colour(position: int) -> str:
    """Return the class of the series at a position."""
    return f"c{position % COLOURS}"


def cut(words: str, room: float | None = None) -> str:
    """Return words short enough for a label, or for so much room.

    Parameters
    ----------
    room
        Width for the words; None for that of a usual label.
    """
    most = _MAX_LETTERS if room is None else max(int(room / _LETTER), 1)
    return words if len(words) <= most else words[: max(most - 1, 1)] + "\N{HORIZONTAL ELLIPSIS}"


def cut_row(words: str) -> str:
    """Return words short enough for the label of a row."""
    return cut(words, _MAX_ROW_LETTERS * _LETTER)


def number(value: float) -> str:
    """Return a coordinate."""
    return f"{value:.1f}".removesuffix(".0")
