"""Schedules of projects: a row for each activity, a colour for each job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alloc.plotting.axes import add_legend, axes_to_draw_on, set_title, time_unit
from alloc.plotting.palette import OKABE_ITO
from alloc.problems.project import ProjectPlan, ProjectProblem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR = 0.8
"""Height of a bar, rows: the gap tells activities apart."""
_MAX_LABELS = 60
"""Rows that can be labelled in a figure of nine inches; more get none."""


def plot_project(
    problem: ProjectProblem,
    plan: ProjectPlan,
    *,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a schedule of a project: its activities by job, each a bar from start to end.

    Parameters
    ----------
    problem, plan
        The project, and a schedule that passes the checker.
    title
        Title, or None.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes, with a container of bars for each job.
    """
    starts = {run.activity: run.start_s for run in plan.runs}
    modes = {run.activity: run.mode for run in plan.runs}
    rows = sorted(
        problem.activities, key=lambda a: (problem.job_of[problem.position[a.id]], starts[a.id])
    )
    ax = axes_to_draw_on(ax, 8.0, min(1.4 + 0.25 * len(rows), 9.0))
    ends = {a.id: starts[a.id] + a.modes[modes[a.id]].duration_s for a in rows}
    unit = time_unit(max(ends.values()))
    colours = tuple(OKABE_ITO.values())
    for number, job in enumerate(problem.jobs):
        own = [(k, a.id) for k, a in enumerate(rows) if a.job == job.id]
        if own:
            ax.barh(
                [k for k, _ in own],
                [(ends[name] - starts[name]) / unit.seconds for _, name in own],
                _BAR,
                [starts[name] / unit.seconds for _, name in own],
                color=colours[number % len(colours)],
                # Colours repeat: beyond them a legend would not tell jobs apart.
                label=job.id if job.id and len(problem.jobs) <= len(colours) else None,
            )
    ax.set_xlim(0.0, max(ends.values()) / unit.seconds)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    labels = [a.id for a in rows] if len(rows) <= _MAX_LABELS else []
    ax.set_yticks(range(len(labels)), labels, fontsize="x-small", parse_math=False)
    ax.set_xlabel(f"time ({unit.name})")
    set_title(ax, title)
    add_legend(ax)
    return ax
