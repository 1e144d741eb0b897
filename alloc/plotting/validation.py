"""Validation curves: how good a policy was while it was trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from alloc.errors import InstanceError
from alloc.plotting.axes import axes_to_draw_on, set_title
from alloc.plotting.palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from alloc.schedulers.learned.model_card import CurvePoint


def plot_validation_curve(
    curve: Sequence[CurvePoint],
    *,
    step: str = "update",
    value: str = "mean JCT, s",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a validation curve, and mark its lowest point.

    Parameters
    ----------
    curve
        The points, at least one; lower is better.
    step, value
        What the axes show, with unit, as in the model card.
    title
        Title, or None.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes, with the lines ``"validation"`` and ``"lowest"``.

    Raises
    ------
    InstanceError
        If the curve has no points.
    """
    if not curve:
        raise InstanceError("the model card has no validation curve; there is nothing to draw.")
    ax = axes_to_draw_on(ax, 6.0, 3.2)
    steps = np.array([point.step for point in curve])
    values = np.array([point.value for point in curve])
    ax.plot(steps, values, color=OKABE_ITO["blue"], linewidth=1.8, marker=".", label="validation")
    lowest = int(values.argmin())
    ax.plot(
        steps[lowest],
        values[lowest],
        color=OKABE_ITO["vermilion"],
        marker="o",
        linestyle="none",
        label="lowest",
    )
    ax.annotate(
        f"{values[lowest]:,.4g}",
        (steps[lowest], values[lowest]),
        xytext=(0, 8),
        textcoords="offset points",
        ha="center",
        fontsize="small",
    )
    ax.margins(y=0.15)
    ax.set_xlabel(step)
    ax.set_ylabel(value)
    ax.yaxis.set_major_formatter(lambda number, _: f"{number:,.6g}")
    set_title(ax, title)
    return ax
