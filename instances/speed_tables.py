"""Speed tables: the configurations of a job type, smooth as a formula or rough as a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.instances.dl2 import TASK_CPU_MILLI, JobType, SpeedFit
from alloc.units import MILLI
from alloc.workload import Configuration, TaskGroup

DIP_SHARE = 0.15
"""Share of the points that dip."""
DEEPEST_DIP = 0.4
"""A dip leaves between this and 0.9 of the speed."""
GAP_SHARE = 0.25
"""Share of the points that are missing."""
FAILED_SHARE = 0.02
"""Share of the points that are there with speed 0: failed measurements kept as data."""
SIGNIFICANT_DIGITS = 6
"""Rates are rounded to this: short files, and the same table on every platform."""

Speeds = Mapping[tuple[int, int], float]
"""Samples per second by (parameter servers, workers)."""

SHAPES = {
    "fit": "the fitted formula at every point",
    "coarse": "the formula at odd counts only, the grid on which DL2 measured six of its models",
    "plateaus": "measured at odd counts only; an even count runs as fast as the odd one below",
    "dips": "the formula with dips at random points",
    "gaps": "the formula with random points missing, and a few that are there with speed 0",
    "rough": "plateaus, dips and gaps together",
}
"""The shapes of a speed table."""

DRAWLESS = frozenset(("fit", "coarse", "plateaus"))
"""The shapes that draw nothing: the same table each time."""


@dataclass(frozen=True)
class Demand:
    """What the tasks of a job ask for.

    Parameters
    ----------
    gpus_per_worker
        GPUs of a worker, for job types that use GPUs.
    task_cpu_milli
        CPU of a worker or parameter server, milli-cores.
    """

    gpus_per_worker: int = 1
    task_cpu_milli: int = TASK_CPU_MILLI


def speed_table(
    fit: SpeedFit, max_ps: int, max_workers: int, shape: str, rng: np.random.Generator
) -> dict[tuple[int, int], float]:
    """Return speeds for u = 1..max_ps parameter servers and w = 1..max_workers workers.

    Real tables are not smooth: DL2's was measured on a coarse grid, is noisy, and holds nine
    points of speed 0. The shapes other than ``fit`` imitate that; where dips and gaps strike is
    our own draw.

    Parameters
    ----------
    fit
        The formula.
    max_ps, max_workers
        Size of the grid, 1 or more.
    shape
        One of `SHAPES`.
    rng
        Source of randomness; those of `DRAWLESS` draw nothing.

    Returns
    -------
    dict
        Samples per second by (u, w), rounded to `SIGNIFICANT_DIGITS`. One parameter server with one
        worker is always there, with a positive speed.

    Raises
    ------
    InstanceError
        If the shape is unknown or the grid is empty.
    """
    if shape not in SHAPES:
        raise InstanceError(
            f'unknown speed table "{shape}"{nearest(shape, SHAPES)} Known: {", ".join(SHAPES)}.'
        )
    for field, value in (("max_ps", max_ps), ("max_workers", max_workers)):
        if value < 1:
            raise InstanceError(f"speed table: {field} is {value}; it must be 1 or more.")
    grid = [(u, w) for w in range(1, max_workers + 1) for u in range(1, max_ps + 1)]
    if shape in ("plateaus", "rough"):
        table = {(u, w): fit.speed(_odd_below(u), _odd_below(w)) for u, w in grid}
    else:
        step = 2 if shape == "coarse" else 1
        table = {(u, w): fit.speed(u, w) for u, w in grid if u % step == w % step == 1 % step}
    if shape in ("dips", "rough"):
        _dip(table, rng)
    if shape in ("gaps", "rough"):
        _open_gaps(table, rng)
    return {point: _round(speed) for point, speed in table.items()}


_DL2_DEMAND = Demand()


def configurations(
    job_type: JobType, table: Speeds, demand: Demand = _DL2_DEMAND
) -> tuple[Configuration, ...]:
    """Return one configuration for each point of a speed table, in the order of the table.

    Parameters
    ----------
    job_type
        Says whether its workers use GPUs.
    table
        Work per second for each number of parameter servers and workers.
    demand
        GPUs of a worker, and CPU of every task.
    """
    worker_gpu_milli = demand.gpus_per_worker * MILLI if job_type.uses_gpu else 0
    return tuple(
        Configuration(
            (
                TaskGroup("worker", w, worker_gpu_milli, demand.task_cpu_milli),
                TaskGroup("ps", u, 0, demand.task_cpu_milli),
            ),
            speed,
        )
        for (u, w), speed in table.items()
    )


def _odd_below(count: int) -> int:
    return count - 1 + count % 2


def _dip(table: dict[tuple[int, int], float], rng: np.random.Generator) -> None:
    for point in table:
        strikes, depth = rng.random(2)
        if strikes < DIP_SHARE:
            table[point] *= DEEPEST_DIP + (0.9 - DEEPEST_DIP) * depth


def _open_gaps(table: dict[tuple[int, int], float], rng: np.random.Generator) -> None:
    # The smallest configuration stays, so that every job can run on what little is free.
    for point in list(table):
        draw = rng.random()
        if point == (1, 1):
            continue
        if draw < GAP_SHARE:
            del table[point]
        elif draw < GAP_SHARE + FAILED_SHARE:
            table[point] = 0.0


def _round(speed: float) -> float:
    return float(f"{speed:.{SIGNIFICANT_DIGITS}g}")
