"""The distribution of job completion times, one curve a scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from alloc.plotting.axes import add_legend, axes_to_draw_on, set_title, time_unit
from alloc.plotting.palette import line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 30.0
"""Beyond this ratio of the longest to the shortest time the axis is logarithmic."""


def plot_jct_distribution(
    jcts_s: Mapping[str, Sequence[float]],
    *,
    names: Iterable[str] = (),
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of jobs that complete within a time, for each scheduler.

    Parameters
    ----------
    jcts_s
        Job completion times (completion minus arrival) by scheduler, seconds; infinite for jobs
        that never complete, so that their curve ends below 100 %.
    names
        All names of the figures that go together, in order: each keeps its colour in all of them.
    title
        Title, or None.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes, with one line for each scheduler, labelled with its name.
    """
    ax = axes_to_draw_on(ax, 8.0, 4.0)
    sorted_s = {name: np.sort(np.asarray(values, dtype=float)) for name, values in jcts_s.items()}
    finite = np.concatenate(
        [np.array([1.0]), *(values[np.isfinite(values)] for values in sorted_s.values())]
    )[1:]
    longest = float(finite.max(initial=1.0))
    shortest = float(finite.min(initial=longest))
    unit = time_unit(longest)
    logarithmic = shortest > 0 and longest / shortest > _WIDE
    styles = line_styles(dict.fromkeys([*names, *sorted_s]))
    for name, values in sorted_s.items():
        done = values[np.isfinite(values)]
        share = 100.0 * np.arange(done.size + 1) / max(values.size, 1)
        # Each curve starts on the axis and runs on to the right end at the share it reaches.
        first = shortest if logarithmic else 0.0
        x = np.concatenate([[min(first, done[0]) if done.size else first], done, [longest]])
        y = np.concatenate([share, share[-1:]])
        style = styles[name]
        ax.step(
            x / unit.seconds,
            y,
            where="post",
            color=style.color,
            linestyle=style.dash,
            linewidth=style.width,
            label=name,
        )
    if logarithmic:
        ax.set_xscale("log")
    else:
        ax.set_xlim(left=0.0)
    ax.set_ylim(0.0, 102.0)
    ax.set_xlabel(f"job completion time ({unit.name}{', log scale' if logarithmic else ''})")
    ax.set_ylabel("jobs complete (%)")
    set_title(ax, title)
    add_legend(ax)
    return ax
