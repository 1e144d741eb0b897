"""The timetable of a training step: a row for each device, a bar for each pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alloc.plotting.axes import add_legend, axes_to_draw_on, set_title, time_unit
from alloc.plotting.palette import INK, OKABE_ITO
from alloc.problems.pipeline.problem import PipelinePlan, PipelineProblem
from alloc.problems.pipeline.timetable import TimedPass, timetable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR = 0.86
"""Height of a bar, rows: the gap tells devices apart, and the rest leaves room for the number."""
_LABELLED = 240
"""Up to so many bars carry the number of their micro-batch: more would not be read."""


def plot_pipeline(
    problem: PipelineProblem,
    plan: PipelinePlan,
    *,
    title: str | None = None,
    until_s: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a training step: forward passes light, backward passes dark, waiting empty.

    Parameters
    ----------
    problem, plan
        The pipeline, and a plan that passes the checker.
    title
        Title, or None.
    until_s
        Right end of the time axis, seconds; by default the end of the step. Charts to be compared
        need the same.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes. The bars are the collections with the gids ``"forward"`` and ``"backward"``.
    """
    from matplotlib.collections import PolyCollection

    step = timetable(problem, plan)
    ax = axes_to_draw_on(ax, 8.0, min(1.4 + 0.35 * step.num_devices, 9.0))
    end_s = step.step_s if until_s is None else until_s
    unit = time_unit(end_s)
    colours = {"forward": OKABE_ITO["sky blue"], "backward": OKABE_ITO["blue"]}
    for name, colour in colours.items():
        bars = [
            _bar(timed, unit.seconds)
            for timed in step.passes
            if timed.step.is_forward == (name == "forward")
        ]
        ax.add_collection(
            PolyCollection(
                bars, facecolors=colour, edgecolors="white", linewidths=0.4, gid=name, label=name
            )
        )
    if len(step.passes) <= _LABELLED:
        for timed in step.passes:
            ax.text(
                (timed.start_s + timed.end_s) / 2 / unit.seconds,
                timed.device,
                str(timed.step.micro_batch),
                color=INK if timed.step.is_forward else "white",
                fontsize="x-small",
                horizontalalignment="center",
                verticalalignment="center",
            )
    ax.set_xlim(0.0, end_s / unit.seconds)
    ax.set_ylim(step.num_devices - 0.4, -0.6)
    ax.set_yticks(range(step.num_devices), [f"device {k}" for k in range(step.num_devices)])
    ax.set_xlabel(f"time ({unit.name})")
    set_title(ax, title)
    add_legend(ax)
    return ax


def _bar(timed: TimedPass, unit_s: float) -> list[tuple[float, float]]:
    left, right = timed.start_s / unit_s, timed.end_s / unit_s
    low, high = timed.device - _BAR / 2, timed.device + _BAR / 2
    return [(left, low), (right, low), (right, high), (left, high)]
