"""Convergence: how incumbent and bound close in on each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alloc.plotting.axes import add_legend, axes_to_draw_on, set_title
from alloc.plotting.palette import INK, OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class TracePoint:
    """What was known at a moment of a solve.

    Parameters
    ----------
    seconds
        Wall time since the start of the solve, seconds.
    incumbent
        Value of the best solution so far, or None.
    bound
        Best proved bound so far, or None.
    """

    seconds: float
    incumbent: float | None
    bound: float | None


def plot_convergence(
    trace: Sequence[TracePoint],
    *,
    unit: str = "s",
    name: str = "objective",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw incumbent and bound over the time of a solve, and shade what is unproved.

    Parameters
    ----------
    trace
        What was known when, in order of time.
    unit, name
        Unit and name of the objective.
    title
        Title, or None.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes, with the lines ``"best solution"`` and ``"proved bound"``.
    """
    ax = axes_to_draw_on(ax, 7.0, 3.4)
    seconds = np.array([point.seconds for point in trace])
    incumbent = _values([point.incumbent for point in trace])
    bound = _values([point.bound for point in trace])
    ax.step(
        seconds,
        incumbent,
        where="post",
        color=OKABE_ITO["orange"],
        linewidth=1.8,
        marker=".",
        label="best solution",
    )
    ax.step(
        seconds,
        bound,
        where="post",
        color=OKABE_ITO["blue"],
        linewidth=1.8,
        marker=".",
        label="proved bound",
    )
    ax.fill_between(
        seconds, bound, incumbent, step="post", color=INK, alpha=0.08, label="not yet decided"
    )
    ax.set_xlim(left=0.0)
    ax.set_xlabel("time of the solve (s)")
    ax.set_ylabel(f"{name} ({unit})")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    set_title(ax, title)
    add_legend(ax)
    return ax


def _values(values: Sequence[float | None]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return values with NaN where nothing is known: matplotlib leaves those stretches out."""
    found = np.array([np.nan if value is None else value for value in values], dtype=float)
    found[~np.isfinite(found)] = np.nan
    return found
