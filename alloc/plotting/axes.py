"""What all figures share: axes to draw on, a common look, and units of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alloc.plotting.palette import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class TimeUnit:
    """A unit for a time axis.

    Parameters
    ----------
    name
        Short name, for example ``"h"``.
    seconds
        Its length, seconds.
    """

    name: str
    seconds: float


_WIDE_INCHES = 4.5
"""Axes at least so wide have room for a legend beside them."""
_UNITS = (
    TimeUnit("s", 1.0),
    TimeUnit("min", 60.0),
    TimeUnit("h", 3600.0),
    TimeUnit("days", 86400.0),
)


def time_unit(longest_s: float) -> TimeUnit:
    """Return the largest unit in which the longest time is at least 3, or seconds."""
    fitting = [unit for unit in _UNITS if longest_s >= 3 * unit.seconds]
    return fitting[-1] if fitting else _UNITS[0]


def axes_to_draw_on(ax: Axes | None, width: float = 7.0, height: float = 4.0) -> Axes:
    """Return the given axes, or fresh ones of that size in inches.

    Parameters
    ----------
    ax
        The axes, or None for fresh ones.
    width, height
        Size of a fresh figure, inches.
    """
    if ax is None:
        # Only here: pyplot keeps figures alive and chooses a window system, which a notebook wants
        # and a server does not.
        from matplotlib import pyplot

        ax = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    tidy(ax)
    return ax


def tidy(ax: Axes) -> None:
    """Give axes the common look: no box, a faint grid, ink in the page's colour."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(INK)
    ax.tick_params(colors=INK)
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
        text.set_color(INK)
    ax.grid(True, color=MUTED, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)


def set_title(ax: Axes, title: str | None) -> None:
    """Set a title at the left, where reading starts.

    Parameters
    ----------
    ax
        The axes.
    title
        The title; None or empty for none.
    """
    if title:
        ax.set_title(title, loc="left", color=INK, fontsize="medium")


def size_in(ax: Axes) -> tuple[float, float]:
    """Return the width and height of axes in inches, as they are before the final layout."""
    dpi = ax.figure.dpi
    return ax.bbox.width / dpi, ax.bbox.height / dpi


def add_legend(ax: Axes) -> None:
    """Add a legend beside the axes, or below them when the figure is narrow."""
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    width, height = size_in(ax)
    beside = width >= _WIDE_INCHES
    ax.legend(
        handles,
        labels,
        loc="upper left" if beside else "upper center",
        # Below: in inches under the axis, so that it clears the axis label at every height.
        bbox_to_anchor=(1.01, 1.0) if beside else (0.5, -0.6 / height),
        ncols=1 if beside else max(1, int(width / 0.9)),
        columnspacing=1.0,
        handlelength=1.6,
        frameon=False,
        labelcolor=INK,
        fontsize="small" if beside else "x-small",
    )
