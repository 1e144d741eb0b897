"""Utilisation over time: how much of the cluster is held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.plotting.axes import add_legend, axes_to_draw_on, set_title, time_unit
from alloc.plotting.gantt import last_end_s
from alloc.plotting.palette import line_styles
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.units import RESOURCES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]

_WORDS = {"gpu_milli": "GPUs", "cpu_milli": "CPU cores", "memory_mib": "host memory"}
_MAX_STEPS = 400
"""A line with more steps is a grey smear; it is averaged over as many equal stretches instead."""


def held_over_time(
    instance: Instance, schedule: Schedule, resource: str = "gpu_milli"
) -> tuple[Array, Array]:
    """Return the fraction of a resource that the schedule holds over time.

    Parameters
    ----------
    instance, schedule
        What to look at.
    resource
        One of `alloc.units.RESOURCES`.

    Returns
    -------
    edges_s
        Times of change, seconds, ascending, shape (steps + 1,), from 0 to the last end.
    held
        Fraction held between one edge and the next, 0 to 1, shape (steps,).

    Raises
    ------
    InstanceError
        If the resource is unknown or the cluster has none of it.
    """
    if resource not in RESOURCES:
        raise InstanceError(
            f'unknown resource "{resource}"{nearest(resource, RESOURCES, ".")} '
            f"Known: {', '.join(RESOURCES)}."
        )
    r = RESOURCES.index(resource)
    capacity = float(instance.topology.capacity[:, r].sum())
    if capacity == 0:
        raise InstanceError(
            f'instance "{instance.name}": its cluster has no {resource}, so there is no '
            "utilisation of it; choose another resource."
        )
    end_s = last_end_s(schedule)
    change: dict[float, float] = {0.0: 0.0, end_s: 0.0}
    for run in schedule.runs:
        amount = instance.unfolded.job(run.job).configurations[run.configuration].demand[r]
        change[run.start_s] = change.get(run.start_s, 0.0) + amount
        change[run.end_s] = change.get(run.end_s, 0.0) - amount
    edges = np.array(sorted(change))
    held = np.cumsum([change[edge] for edge in edges])[:-1]
    return edges, held / capacity


def mean_over_stretches(edges: Array, values: Array, count: int) -> tuple[Array, Array]:
    """Return the time-weighted mean of a step function over `count` equal stretches.

    Parameters
    ----------
    edges, values
        The step function, shapes (steps + 1,) and (steps,).
    count
        Number of stretches, 1 or more.

    Returns
    -------
    tuple of arrays
        New edges and means, shapes (count + 1,) and (count,). The area is kept.
    """
    area = np.concatenate([[0.0], np.cumsum(values * np.diff(edges))])
    grid = np.linspace(edges[0], edges[-1], count + 1)
    return grid, np.diff(np.interp(grid, edges, area)) / np.diff(grid)


def plot_utilisation(
    instance: Instance,
    schedules: Mapping[str, Schedule],
    *,
    resource: str = "gpu_milli",
    names: Iterable[str] = (),
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how much of a resource each schedule holds over time.

    Parameters
    ----------
    instance
        The instance of all schedules.
    schedules
        Schedules by name.
    resource
        One of `alloc.units.RESOURCES`.
    names
        All names of the figures that go together, in order: each keeps its colour in all of them.
    title
        Title, or None.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes, with one step patch for each schedule, labelled with its name.
    """
    ax = axes_to_draw_on(ax, 8.0, 3.2)
    unit = time_unit(max((last_end_s(s) for s in schedules.values()), default=1.0))
    styles = line_styles(dict.fromkeys([*names, *schedules]))
    averaged = False
    for name, schedule in schedules.items():
        edges, held = held_over_time(instance, schedule, resource)
        if held.size > _MAX_STEPS:
            edges, held = mean_over_stretches(edges, held, _MAX_STEPS)
            averaged = True
        style = styles[name]
        ax.stairs(
            100.0 * held,
            edges / unit.seconds,
            baseline=None,
            color=style.color,
            linestyle=style.dash,
            linewidth=style.width,
            label=name,
        )
    ax.set_xlim(left=0.0)
    ax.set_ylim(0.0, 105.0)
    ax.set_xlabel(f"time ({unit.name})")
    note = ", averaged" if averaged else ""
    ax.set_ylabel(f"{_WORDS[resource]} held (%{note})")
    set_title(ax, title)
    add_legend(ax)
    return ax
