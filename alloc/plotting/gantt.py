"""Gantt charts: every job a row, every run a bar coloured by what it holds."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alloc.plotting.axes import add_legend, axes_to_draw_on, set_title, size_in, time_unit
from alloc.plotting.palette import INK, MUTED, OKABE_ITO
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, Schedule
from alloc.progress import completions
from alloc.units import MILLI

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]

_BAR = 0.8
"""Height of a bar, rows; rows thinner than `_THIN_POINTS` are filled, since gaps would outshine."""
_THIN_POINTS = 5.0
"""Points: a fifth of a row, a gap, is then a point, the thinnest line that screens show well."""
_LABEL_POINTS = 7.0
"""A row thinner than this many points gets no label: labels would overlap."""
_LABEL_LENGTH = 20
"""Letters of a job's name: longer ones would take the width from the chart."""
_MAX_LEVELS = 7
"""Up to so many sizes get a legend entry each; more get a few round ones."""


def plot_gantt(
    instance: Instance,
    schedule: Schedule,
    *,
    title: str | None = None,
    until_s: float | None = None,
    sizes: Collection[float] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a schedule: a row for each job or stage in order of arrival, a bar for each run.

    The colour of a bar says how many GPUs the run holds (tasks, when no job uses a GPU). A thin
    line spans the job's time in the system, from its arrival (dot) to its completion (tick). A
    cross is the end of a run that failed with a host.

    Parameters
    ----------
    instance, schedule
        What to draw.
    title
        Title, or None.
    until_s
        Right end of the time axis, seconds; by default the end of the last run.
    sizes
        Amounts that the colours have to cover; by default those of these runs. Charts to be
        compared need the same.
    legend
        Whether to explain colours and marks.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes. The bars are the collection with gid ``"runs"``, in the order of the runs.
    """
    from matplotlib.collections import PolyCollection

    instance = instance.unfolded
    ax = axes_to_draw_on(ax, 8.0, min(2.0 + 0.22 * len(instance.jobs), 9.0))
    end_s = last_end_s(schedule) if until_s is None else until_s
    unit = time_unit(end_s)
    row_of = _rows(instance)
    amounts = [amount_held(instance, run) for run in schedule.runs]
    scale = _Scale(sizes if sizes is not None else amounts)
    height = _BAR if _row_points(ax, len(row_of)) > _THIN_POINTS else 1.0
    bars = [
        _bar(run.start_s / unit.seconds, run.end_s / unit.seconds, row_of[run.job], height)
        for run in schedule.runs
    ]
    _draw_jobs(ax, instance, schedule, row_of, unit.seconds, end_s)
    ax.add_collection(
        PolyCollection(bars, facecolors=scale.colours(amounts), linewidths=0, gid="runs", zorder=3)
    )
    ax.set_xlim(0.0, max(end_s / unit.seconds, 1e-9) * 1.02)
    ax.set_ylim(len(instance.jobs) - 0.4, -0.6)
    ax.set_xlabel(f"time ({unit.name})")
    _label_rows(ax, row_of)
    set_title(ax, title)
    if legend:
        _explain_colours(ax, scale, uses_gpus(instance))
        add_legend(ax)
    return ax


def plot_gantt_pair(
    instance: Instance,
    schedules: tuple[Schedule, Schedule],
    titles: tuple[str, str],
    *,
    axes: Sequence[Axes] | None = None,
) -> tuple[Axes, Axes]:
    """Draw two schedules of one instance on the same scales, one above the other.

    Above each other, because then equal times are in line and a late completion shows at once.

    Parameters
    ----------
    instance
        The instance of both.
    schedules
        What to draw, for example the optimum and what a scheduler did.
    titles
        A title for each.
    axes
        Two axes to draw on; fresh ones by default.

    Returns
    -------
    tuple of Axes
        The two axes.
    """
    if axes is None:
        from matplotlib import pyplot

        height = min(3.0 + 0.36 * len(instance.jobs), 11.0)
        axes = pyplot.subplots(
            2, 1, figsize=(8.0, height), sharex=True, sharey=True, layout="constrained"
        )[1]
    until_s = max(last_end_s(schedule) for schedule in schedules)
    sizes = {amount_held(instance, run) for schedule in schedules for run in schedule.runs}
    for i in range(2):
        plot_gantt(
            instance,
            schedules[i],
            title=titles[i],
            until_s=until_s,
            sizes=sizes,
            legend=i == 0,
            ax=axes[i],
        )
    axes[0].set_xlabel("")
    return axes[0], axes[1]


def last_end_s(schedule: Schedule) -> float:
    """Return the end of the last run, seconds, or 1 when there is none."""
    return max((run.end_s for run in schedule.runs), default=1.0)


def uses_gpus(instance: Instance) -> bool:
    """Return whether any job can hold a GPU."""
    return any(c.demand[0] for job in instance.unfolded.jobs for c in job.configurations)


def amount_held(instance: Instance, run: Run) -> float:
    """Return how many GPUs a run holds, or how many tasks when the instance knows no GPUs.

    Parameters
    ----------
    instance
        The instance.
    run
        A run of one of its jobs.
    """
    configuration = instance.unfolded.job(run.job).configurations[run.configuration]
    if uses_gpus(instance):
        return configuration.demand[0] / MILLI
    return float(sum(group.count for group in configuration.tasks))


def _rows(instance: Instance) -> dict[str, int]:
    order = sorted(range(len(instance.jobs)), key=lambda j: (instance.jobs[j].arrival_s, j))
    return {instance.jobs[j].id: row for row, j in enumerate(order)}


def _bar(start: float, end: float, row: int, height: float) -> list[tuple[float, float]]:
    low, high = row - height / 2, row + height / 2
    return [(start, low), (end, low), (end, high), (start, high)]


class _Scale:
    """Colours for amounts, from pale to dark; square root, since most gangs are small."""

    def __init__(self, sizes: Collection[float]) -> None:
        from matplotlib import colormaps
        from matplotlib.colors import PowerNorm

        self.sizes = sorted(set(sizes))
        positive = [size for size in self.sizes if size > 0] or [1.0]
        self._norm = PowerNorm(0.5, positive[0], positive[-1], clip=True)
        self._map = colormaps["viridis_r"]

    def colours(self, amounts: Sequence[float]) -> Array:
        """Return colours of amounts, shape (amounts, 4); grey for those that hold nothing."""
        from matplotlib.colors import to_rgba

        values = np.asarray(amounts, dtype=float)
        # The ends of the map are near white and near black: lost on one page or the other.
        found = np.array(self._map(0.08 + 0.74 * np.asarray(self._norm(values)))).reshape(-1, 4)
        found[values == 0] = to_rgba(MUTED)
        return found


def _row_points(ax: Axes, rows: int) -> float:
    """Return the height of a row in points."""
    return 72.0 * size_in(ax)[1] / max(rows, 1)


def _draw_jobs(
    ax: Axes,
    instance: Instance,
    schedule: Schedule,
    row_of: dict[str, int],
    unit_s: float,
    end_s: float,
) -> None:
    """Draw each job's time in the system, its arrival and its completion."""
    ends = completions(instance, schedule)
    jobs = sorted(instance.jobs, key=lambda job: row_of[job.id])
    rows = np.arange(len(jobs))
    arrivals = np.array([job.arrival_s for job in jobs]) / unit_s
    done = np.array([math.nan if ends[job.id] is None else ends[job.id] for job in jobs]) / unit_s
    points = _row_points(ax, len(jobs))
    # A job that never completes is in the system to the very end.
    ax.hlines(
        rows,
        arrivals,
        np.where(np.isnan(done), max(end_s / unit_s, arrivals.max()), done),
        colors=MUTED,
        linewidth=min(max(0.12 * points, 0.4), 1.2),
        gid="in_system",
    )
    ax.plot(
        arrivals,
        rows,
        linestyle="none",
        marker="o",
        markersize=min(max(0.35 * points, 1.2), 4.0),
        color=MUTED,
        label="arrival",
        gid="arrivals",
        zorder=2,
    )
    ax.plot(
        done,
        rows,
        linestyle="none",
        marker="|",
        markersize=min(max(0.95 * points, 2.0), 11.0),
        markeredgewidth=min(max(0.15 * points, 0.6), 1.6),
        # Seen on every colour of a bar, and on the page.
        color=OKABE_ITO["vermilion"],
        label="completion",
        gid="completions",
        zorder=4,
    )
    failed = [
        run
        for run in schedule.runs
        if instance.downtime.fails(run.tasks, run.end_s)
        and ((end := ends[run.job]) is None or run.end_s < end)
    ]
    if failed:
        ax.plot(
            np.array([run.end_s for run in failed]) / unit_s,
            [row_of[run.job] for run in failed],
            linestyle="none",
            marker="X",
            markersize=min(max(0.5 * points, 2.5), 6.0),
            color=INK,
            label=f"host failed ({len(failed)})",
            gid="failures",
            zorder=5,
        )
    late = np.flatnonzero(np.isnan(done))
    if late.size:
        ax.plot(
            np.full(late.size, end_s / unit_s),
            rows[late],
            linestyle="none",
            marker="x",
            markersize=min(max(0.5 * points, 2.0), 5.0),
            color=INK,
            label=f"not complete ({late.size})",
            gid="incomplete",
            zorder=4,
        )


def _label_rows(ax: Axes, row_of: dict[str, int]) -> None:
    if _row_points(ax, len(row_of)) >= _LABEL_POINTS:
        ax.set_yticks(list(row_of.values()), [_short(job) for job in row_of], fontsize="x-small")
        ax.set_ylabel("job, by arrival")
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(row_of)} jobs, by arrival")
    ax.grid(False, axis="y")


def _short(name: str) -> str:
    """Return a name cut in the middle: generated names differ at their end."""
    return name if len(name) <= _LABEL_LENGTH else f"{name[:11]}…{name[-8:]}"


def _explain_colours(ax: Axes, scale: _Scale, gpus: bool) -> None:
    """Put a few sizes into the legend, as empty bars."""
    sizes = scale.sizes
    if len(sizes) > _MAX_LEVELS:
        picks = np.linspace(0, len(sizes) - 1, _MAX_LEVELS).round().astype(int)
        sizes = [sizes[k] for k in picks]
    for size in sizes:
        word = ("GPU" if gpus else "task") + ("" if 0 < size <= 1 else "s")
        if gpus and not size:
            word = "GPUs, CPU only"
        ax.bar(0, 0, color=scale.colours([size])[0], label=f"{size:g} {word}")
