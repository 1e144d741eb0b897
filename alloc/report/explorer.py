"""The data of a report's interactive charts: what its figures show, small enough for a page.

The same schedules, completion times and shares as the figures; where there is more than a screen
shows it is averaged, and the chart says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from alloc.comparison import Comparison
from alloc.comparison.settings import OPTIMUM
from alloc.errors import InstanceError
from alloc.plotting.axes import time_unit
from alloc.plotting.gantt import amount_held, last_end_s, uses_gpus
from alloc.plotting.utilisation import Array, held_over_time, mean_over_stretches
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, Schedule
from alloc.report.sections import best_word, told_apart
from alloc.report.verdict import mean_gaps
from alloc.units import MILLI

MAX_BARS = 16_000
"""Bars in all Gantt charts of a page: about 30 bytes each, so half a megabyte."""
_MAX_BARS_EACH = 2_000
"""Bars in one chart: a screen is not wider, and browsers draw as many at once."""
_MAX_ROWS = 100  # of single bars: in a chart of a screen a row is then some points high
_MAX_DETAILED = 6
"""Instances up to which all schedules can be looked into; of more the two of the figures."""
# Rows and steps of a chart of means: a cell is then a few points wide and high.
_MEAN_ROWS = 40
_MEAN_STEPS = 120
_MAX_POINTS = 200
"""Points of a line: at a pixel or two each nobody sees more."""

Bar = tuple[int, float, float, int, float]
"""Row, start and end in seconds, position of the job, and what is held."""


def explorer_data(
    comparison: Comparison, instance: Instance, beside: str, num_sections: int
) -> dict[str, Any]:
    """Return what the interactive charts of an instance draw, as plain values.

    Parameters
    ----------
    comparison
        The comparison.
    instance
        The instance.
    beside
        The scheduler whose schedule the figures show against the optimum.
    num_sections
        Instances on the page, which share its room; 1 or more.

    Returns
    -------
    dict
        ``shown``, the position of the schedule to begin with; ``unit`` of times; ``held`` and
        ``used``, what runs hold and what the cluster has; ``jobs``, the names that bars need; and
        ``series``, each with ``name``, ``jct`` (times, shares of the jobs), ``use`` (times, shares
        held from each on) and ``gantt``, or None where the curves only are shown.
    """
    best = best_word(comparison, instance)
    schedules = _schedules(comparison, instance, beside)
    detailed = [
        names
        for names in schedules
        if num_sections <= _MAX_DETAILED or OPTIMUM in names or beside in names
    ]
    unit = time_unit(max(map(last_end_s, schedules.values()), default=1.0))
    room = MAX_BARS // max(num_sections * len(detailed), 1)
    gpus = bool(instance.topology.capacity[:, 0].sum())
    series: list[dict[str, Any]] = [
        {
            "name": " = ".join(best if name == OPTIMUM else name for name in names),
            "is_best": OPTIMUM in names,
            "jct": _shares(comparison.jcts(instance.fingerprint, names[0]), unit.seconds),
            "use": _use(instance, schedule, "gpu_milli" if gpus else "cpu_milli", unit.seconds),
            "gantt": _gantt(instance, schedule, min(room, _MAX_BARS_EACH), unit.seconds)
            if names in detailed
            else None,
        }
        for names, schedule in schedules.items()
    ]
    has_bars = any(one["gantt"] and "bars" in one["gantt"] for one in series)
    return {
        "shown": next((k for k, names in enumerate(schedules) if beside in names), 0),
        "unit": unit.name,
        "held": "GPUs" if uses_gpus(instance) else "tasks",
        "used": "GPUs" if gpus else "CPU cores",
        # Means name no job, and a hundred thousand names would be most of the page.
        "jobs": [job.id for job in instance.unfolded.jobs] if has_bars else [],
        "series": series,
    }


def to_script(data: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return data as JSON that can stand in a script element: no name in it can end that.

    Parameters
    ----------
    data
        Plain values.
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _schedules(
    comparison: Comparison, instance: Instance, beside: str
) -> dict[tuple[str, ...], Schedule]:
    """Return the schedules to show by their schedulers; equal ones once, of many a spread."""
    found = {}
    for name in comparison.schedulers:
        try:
            found[name] = comparison.schedule(instance.fingerprint, name)
        except InstanceError:
            continue  # It failed; the table says why.
    jcts = {name: comparison.jcts(instance.fingerprint, name) for name in found}
    groups = told_apart(jcts, mean_gaps(comparison, instance.fingerprint), beside)
    return {tuple(names): found[names[0]] for names in groups}


def _shares(jcts_s: Sequence[float], unit_s: float) -> list[list[float]]:
    """Return points of the share of jobs that complete within a time."""
    times = np.sort(np.asarray(jcts_s, dtype=float))
    done = times[np.isfinite(times)]
    picks = np.unique(
        np.linspace(0, done.size - 1, min(done.size, _MAX_POINTS)).round().astype(int)
    )
    shares = (picks + 1) / max(times.size, 1)
    return [_short(done[picks] / unit_s), _short(shares)]


def _use(instance: Instance, schedule: Schedule, resource: str, unit_s: float) -> list[list[float]]:
    edges, held = held_over_time(instance, schedule, resource)
    if held.size > _MAX_POINTS:
        edges, held = mean_over_stretches(edges, held, _MAX_POINTS)
    return [_short(edges / unit_s), _short(held)]


def _gantt(instance: Instance, schedule: Schedule, room: int, unit_s: float) -> dict[str, Any]:
    """Return a Gantt chart by host, or by job where the schedule names no hosts."""
    instance = instance.unfolded
    position = {job.id: k for k, job in enumerate(instance.jobs)}
    by_host = bool(schedule.runs) and all(run.tasks for run in schedule.runs)
    if by_host:
        rows = [host.id for host in instance.topology.hosts]
        bars = _bars_of_hosts(instance, schedule, position)
        # Tasks without GPUs are no share of the GPUs.
        full = instance.topology.capacity[:, 0] / MILLI * uses_gpus(instance)
    else:
        order = sorted(position, key=lambda id: (instance.job(id).arrival_s, position[id]))
        rows = order
        row_of = {id: row for row, id in enumerate(order)}
        bars = [
            (row_of[r.job], r.start_s, r.end_s, position[r.job], amount_held(instance, r))
            for r in schedule.runs
        ]
        full = np.zeros(len(rows))
    found: dict[str, Any] = {"by": "host" if by_host else "job"}
    if len(bars) <= room and len(rows) <= _MAX_ROWS:
        lanes = _lanes(bars)
        found["rows"] = rows
        found["bars"] = [
            [row, lane, *_short([start / unit_s, end / unit_s]), job, round(held, 3)]
            for (row, start, end, job, held), lane in zip(bars, lanes, strict=True)
        ]
        return found
    return found | _means(rows, bars, full, last_end_s(schedule), unit_s)


def _bars_of_hosts(
    instance: Instance, schedule: Schedule, position: Mapping[str, int]
) -> list[Bar]:
    host_of = {host.id: row for row, host in enumerate(instance.topology.hosts)}
    bars: list[Bar] = []
    for run in schedule.runs:
        for host, held in _held_on_hosts(instance, run).items():
            bars.append((host_of[host], run.start_s, run.end_s, position[run.job], held))
    return bars


def _held_on_hosts(instance: Instance, run: Run) -> dict[str, float]:
    """Return the GPUs, or tasks where the instance knows none, of a run on each of its hosts."""
    tasks = instance.job(run.job).configurations[run.configuration].tasks
    each = {group.role: group.gpu_milli / MILLI for group in tasks}
    gpus = uses_gpus(instance)
    held: dict[str, float] = {}
    for placed in run.tasks:
        amount = placed.count * (each[placed.role] if gpus else 1.0)
        held[placed.host] = held.get(placed.host, 0.0) + amount
    return held


def _lanes(bars: Sequence[Bar]) -> list[int]:
    """Return a lane in its row for each bar, such that no two of a lane overlap in time."""
    free_at: dict[int, list[float]] = {}
    lanes = [0] * len(bars)
    for k in sorted(range(len(bars)), key=lambda k: (bars[k][1], k)):
        row, start, end, *_ = bars[k]
        ends = free_at.setdefault(row, [])
        lanes[k] = next((lane for lane, at in enumerate(ends) if at <= start), len(ends))
        ends[lanes[k] : lanes[k] + 1] = [end]
    return lanes


def _means(
    rows: Sequence[str], bars: Sequence[Bar], full: Array, end_s: float, unit_s: float
) -> dict[str, Any]:
    """Return what groups of rows hold on average in equal steps of time, in percent of the most."""
    size = -(-len(rows) // _MEAN_ROWS)
    groups = [rows[k : k + size] for k in range(0, len(rows), size)]
    members: list[list[Bar]] = [[] for _ in groups]
    for bar in bars:
        members[bar[0] // size].append(bar)
    held = np.array([_mean_held(those, end_s) for those in members])
    most = np.add.reduceat(full, np.arange(0, len(rows), size))
    whole = "of the most that any row holds"
    if most.any():
        whole = "of the GPUs that there are"
        most = np.where(most > 0, most, 1.0)  # hosts without GPUs hold none
    else:
        most = np.full(len(groups), max(float(held.max(initial=0.0)), 1e-9))
    return {
        "rows": [names[0] if size == 1 else f"{names[0]} to {names[-1]}" for names in groups],
        "end": _short([end_s / unit_s])[0],
        "means": np.rint(100 * held / most[:, None]).astype(int).tolist(),
        "whole": whole,
        "aggregated": f"{len(bars):,} bars in {len(rows):,} rows",
    }


def _mean_held(bars: Sequence[Bar], end_s: float) -> Array:
    starts, ends, amounts = (np.array([bar[k] for bar in bars], dtype=float) for k in (1, 2, 4))
    times, index = np.unique(np.concatenate([[0.0, end_s], starts, ends]), return_inverse=True)
    change = np.zeros(times.size)
    np.add.at(change, index[2 : 2 + starts.size], amounts)
    np.add.at(change, index[2 + starts.size :], -amounts)
    return mean_over_stretches(times, np.cumsum(change)[:-1], _MEAN_STEPS)[1]


def _short(values: Any) -> list[float]:
    """Return numbers with as many digits as a screen can show."""
    return [float(f"{value:.5g}") for value in values]
