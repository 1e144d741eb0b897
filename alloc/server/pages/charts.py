"""Charts: small SVG drawings without colours of their own; the page's style sheet gives them.

Parameters
----------
alternative
    What the chart says to those who cannot see it.
unit
    Unit of the values, written at the scale.
units
    Units of time, or of what is across, and of the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alloc.server.pages import canvas
from alloc.server.pages.canvas import PLOT, RIGHT, WIDTH, Scale

MAX_ROWS = 60
"""Rows of a chart that can still be read; the table beside it has all."""
_ROW = 26.0  # height of a row, in units of `WIDTH`: a bar, with a label of one line beside it

Spans = Sequence[tuple[float, float, str]]
"""From when to when, and what."""


@dataclass(frozen=True)
class Series:
    """Values of one name, one for each category.

    Parameters
    ----------
    name
        What it is.
    values
        Its values; not a number where there is none.
    low, high
        Range of each value, or nothing.
    """

    name: str
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def bars(
    alternative: str,
    categories: Sequence[str],
    series: Sequence[Series],
    unit: str,
    *,
    stacked: bool = False,
) -> Markup:
    """Return upright bars: for each category those of all series, beside or on each other.

    Parameters
    ----------
    categories
        Words below the bars.
    series
        Values of each colour, one for each category.
    stacked
        Whether bars of a category stand on each other.
    """
    found = [value for one in series for value in (*one.values, *one.low, *one.high)]
    known = [value for value in found if math.isfinite(value)]
    if stacked:
        known += [
            math.fsum(value for value in column if math.isfinite(value))
            for column in zip(*(one.values for one in series), strict=True)
        ]
    scale = Scale(min([0.0, *known]), max([0.0, *known]))
    parts, head = canvas.legend([one.name for one in series])
    left, head = scale.margin, head + canvas.LINE
    parts += canvas.horizontal_grid(scale, left, head, unit)
    step = (WIDTH - RIGHT - left) / max(len(categories), 1)
    for position, category in enumerate(categories):
        middle = left + (position + 0.5) * step
        words = canvas.cut(category, step)
        parts.append(canvas.text(middle, head + PLOT + 18, words, "middle"))
        column = _stack if stacked else _side_by_side
        parts += column(series, position, category, middle, min(0.72 * step, 120), scale, head)
    down = scale.down(head)
    parts.append(canvas.line("axis", left, down(0), WIDTH - RIGHT, down(0)))
    return canvas.picture(alternative, head + PLOT + 26, parts)


def dots(
    alternative: str,
    rows: Sequence[tuple[str, float, float, float]],
    reference: float,
    unit: str,
) -> Markup:
    """Return a dot with its range (label, value, low, high) in each row, and a line to reach.

    What reaches it is a disc, what does not a diamond, so that colours need not be told apart.

    Parameters
    ----------
    rows
        Label, value, and the ends of its range; the first `MAX_ROWS` are drawn.
    reference
        The value to reach.
    """
    rows = rows[:MAX_ROWS]
    ends = [value for row in rows for value in row[1:] if math.isfinite(value)]
    scale = Scale(0.0, max([reference * 1.05, *ends]))
    left, height = canvas.margin(row[0] for row in rows), len(rows) * _ROW
    across = scale.across(left)
    parts = canvas.vertical_grid(scale, left, 8, height, unit)
    parts.append(canvas.line("mark", across(reference), 8, across(reference), 8 + height))
    for position, (label, value, low, high) in enumerate(rows):
        y = 8 + _ROW * (position + 0.5)
        parts.append(canvas.text(left - 12, y + 4, canvas.cut_row(label), "end"))
        if math.isfinite(value):
            if math.isfinite(low) and math.isfinite(high):
                parts.append(canvas.line("range", across(low), y, across(high), y))
            parts.append(_dot(across(value), y, value >= reference, f"{label}: {show(value)}"))
    return canvas.picture(alternative, 8 + height + 44, parts)


def gantt(alternative: str, rows: Sequence[tuple[str, Spans]], unit: str) -> Markup:
    """Return bars over time in rows, each with its label.

    Parameters
    ----------
    rows
        Label and stretches of each row; the first `MAX_ROWS` are drawn.
    """
    rows = rows[:MAX_ROWS]
    scale = Scale(0.0, max([0.0, *(end for _, spans in rows for _, end, _ in spans)]))
    left, height = canvas.margin(row[0] for row in rows), len(rows) * _ROW
    across = scale.across(left)
    parts = canvas.vertical_grid(scale, left, 8, height, unit)
    for position, (label, spans) in enumerate(rows):
        y = 8 + _ROW * position
        parts.append(canvas.text(left - 12, y + 17, canvas.cut_row(label), "end"))
        for start, end, what in spans:
            x, width = across(start), max(across(end) - across(start), 1.0)
            kind = canvas.colour(position)
            parts.append(canvas.rectangle(x, y + 4, width, _ROW - 8, kind, f"{label}: {what}"))
    return canvas.picture(alternative, 8 + height + 44, parts)


def steps(
    alternative: str,
    points: Sequence[tuple[float, float]],
    capacity: float | None,
    units: tuple[str, str],
) -> Markup:
    """Return an area of steps: each value holds from its time to that of the next point.

    Parameters
    ----------
    points
        Time and value, in order of time; at least one.
    capacity
        Value of a line above the area; None for no line.
    """
    values = Scale(0.0, max([capacity or 0.0, *(value for _, value in points)]))
    times = Scale(0.0, max([0.0, *(moment for moment, _ in points)]))
    left, head = values.margin, canvas.LINE
    across, down = times.across(left), values.down(head)
    parts = canvas.horizontal_grid(values, left, head, units[1])
    parts += canvas.vertical_grid(times, left, head, PLOT, units[0], lines=False)
    path = [f"M{canvas.number(across(points[0][0]))} {canvas.number(down(0))}"]
    for (_, value), (following, _) in zip(points, (*points[1:], points[-1]), strict=True):
        path.append(f"V{canvas.number(down(value))}H{canvas.number(across(following))}")
    path.append(f"V{canvas.number(down(0))}Z")
    parts.append(Markup('<path class="c0" d="{}"/>').format("".join(path)))
    if capacity is not None:
        parts.append(canvas.line("mark", left, down(capacity), WIDTH - RIGHT, down(capacity)))
    return canvas.picture(alternative, head + PLOT + 44, parts)


def curve(
    alternative: str, points: Sequence[tuple[float, float, float]], units: tuple[str, str]
) -> Markup:
    """Return points (x, bound, found) joined by a line, with what is not decided between.

    Parameters
    ----------
    points
        Place across, bound and value; at least one.
    """
    xs = [point[0] for point in points]
    ys = [value for point in points for value in point[1:] if math.isfinite(value)]
    across_scale = Scale(min(xs), max(xs))
    scale = Scale(min(ys), max(ys))
    left, head = scale.margin, canvas.LINE
    across, down = across_scale.across(left), scale.down(head)
    parts = canvas.horizontal_grid(scale, left, head, units[1])
    parts += canvas.vertical_grid(across_scale, left, head, PLOT, units[0], lines=False)
    ordered = sorted(points)
    path = "L".join(f"{canvas.number(across(x))} {canvas.number(down(y))}" for x, _, y in ordered)
    parts.append(Markup('<path class="line" d="M{}"/>').format(path))
    for x, bound, found in ordered:
        if math.isfinite(bound):
            parts.append(canvas.line("range", across(x), down(bound), across(x), down(found)))
        parts.append(_dot(across(x), down(found), True, f"{show(x)}: {show(found)}"))
    return canvas.picture(alternative, head + PLOT + 44, parts)


def show(value: float | None) -> str:
    """Return a number as people read it; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "\N{EN DASH}"
    if value == round(value) or abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.4g}" if abs(value) >= 1e-4 else f"{value:.2e}"


def _side_by_side(
    series: Sequence[Series],
    position: int,
    category: str,
    middle: float,
    room: float,
    scale: Scale,
    head: float,
) -> list[Markup]:
    down, width, parts = scale.down(head), room / len(series), []
    for place, one in enumerate(series):
        value = one.values[position]
        if not math.isfinite(value):
            continue
        x, y = middle - room / 2 + place * width, down(max(value, 0.0))
        words = f"{one.name}, {category}: {show(value)}"
        height = down(min(value, 0.0)) - y
        parts.append(canvas.rectangle(x, y, width - 1, height, canvas.colour(place), words))
        if one.low and one.high:
            centre = x + width / 2
            low, high = down(one.low[position]), down(one.high[position])
            parts.append(canvas.line("range", centre, low, centre, high))
    return parts


def _stack(
    series: Sequence[Series],
    position: int,
    category: str,
    middle: float,
    room: float,
    scale: Scale,
    head: float,
) -> list[Markup]:
    down, base, parts = scale.down(head), 0.0, []
    for place, one in enumerate(series):
        value = one.values[position]
        if not math.isfinite(value) or value <= 0:
            continue
        words = f"{one.name}, {category}: {show(value)}"
        y, height = down(base + value), down(base) - down(base + value)
        parts.append(
            canvas.rectangle(middle - room / 2, y, room, height, canvas.colour(place), words)
        )
        base += value
    return parts


def _dot(x: float, y: float, good: bool, words: str) -> Markup:
    if good:
        return Markup(
            '<circle class="good" cx="{}" cy="{}" r="5.5"><title>{}</title></circle>'
        ).format(canvas.number(x), canvas.number(y), words)
    return Markup('<path class="bad" d="M{} {}l7 7l-7 7l-7 -7z"><title>{}</title></path>').format(
        canvas.number(x), canvas.number(y - 7), words
    )
