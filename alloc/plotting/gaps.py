"""Gaps to the certified bound, one bar a scheduler."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from alloc.comparison.intervals import Interval
from alloc.plotting.axes import axes_to_draw_on, set_title
from alloc.plotting.palette import INK, MUTED, OKABE_ITO, is_best

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_gaps(
    gaps: Mapping[str, Interval],
    *,
    label: str = "above the certified bound (%)",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far each scheduler is from the certified bound, the best on top.

    Parameters
    ----------
    gaps
        Gap (0.25 is 25 %) with its 95 % confidence interval, by scheduler. Those without a gap are
        listed and left empty.
    label
        What the bars show; of a value it is not "above".
    title
        Title, or None.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes, with one bar for each scheduler from top to bottom.
    """
    known = {name: gap for name, gap in gaps.items() if gap.count and math.isfinite(gap.mean)}
    order = [
        *sorted(known, key=lambda name: known[name].mean),
        *(n for n in gaps if n not in known),
    ]
    ax = axes_to_draw_on(ax, 7.0, 1.2 + 0.34 * len(order))
    rows = np.arange(len(order))
    means = [100.0 * known[name].mean if name in known else 0.0 for name in order]
    colours = [INK if is_best(name) else OKABE_ITO["blue"] for name in order]
    ax.barh(rows, means, height=0.62, color=colours, zorder=2)
    ends = [_draw_interval(ax, row, known.get(name)) for row, name in enumerate(order)]
    for row, name in enumerate(order):
        text = _percent(means[row]) if name in known else "no gap"
        ax.annotate(
            text,
            (max(means[row], ends[row]), row),
            xytext=(5, 0),
            textcoords="offset points",
            verticalalignment="center",
            color=INK if name in known else MUTED,
            fontsize="small",
        )
    ax.set_yticks(rows, order)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.18 * max([*means, *ends, 1e-6]))
    ax.grid(False, axis="y")
    ax.set_xlabel(label)
    set_title(ax, title)
    return ax


def _draw_interval(ax: Axes, row: int, gap: Interval | None) -> float:
    """Draw a confidence interval, and return its right end in percent."""
    if gap is None or gap.low is None or gap.high is None or gap.low == gap.high:
        return 0.0
    low, high = 100.0 * gap.low, 100.0 * gap.high
    ax.errorbar(
        [100.0 * gap.mean],
        [row],
        xerr=[[100.0 * gap.mean - low], [high - 100.0 * gap.mean]],
        fmt="none",
        # Orange is seen both on the blue bar and on the page, light or dark.
        ecolor=OKABE_ITO["orange"],
        elinewidth=2.0,
        capsize=4,
        capthick=2.0,
        zorder=3,
    )
    return high


def _percent(value: float) -> str:
    if value < 5e-4:
        return "0 %"
    return f"{value:.2f} %" if value < 1 else f"{value:.1f} %" if value < 100 else f"{value:,.0f} %"
