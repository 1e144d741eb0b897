"""List schedules of moldable gangs, and moves from one list to a better one.

References
----------
Turek, Wolf, Yu, SPAA 1992, and Ludwig, Tiwari, SODA 1994: of the allotments that keep a run within
a time, the one of least area, for every time that matters. Graham, "Bounds on multiprocessing
timing anomalies", SIAM J. Appl. Math. 17 (1969) (longest first). Smith, "Various optimizers for
single-stage production", NRLQ 3 (1956) (weight over area).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from alloc.models.malleable.costs import Target
from alloc.models.moldable.data import Array, MoldableData
from alloc.models.moldable.serial import Plan, by_ways

_TIMES = 8
"""Run times that allotments are made for: quantiles of all."""
_PATIENCES, _KICK = 3, 4
"""Times of patience without a better schedule, and moves at once where the search begins anew."""
FIRST_TO_END = -1
"""In the place of a way: the one in which the job completes first."""


def value_of(data: MoldableData, plan: Plan) -> float:
    """Return a plan's value in the target's unit; infinite where it misses what must be kept.

    Parameters
    ----------
    data
        The instance.
    plan
        A plan of it.
    """
    # As much late as the checker takes for rounding, or less.
    if (plan.completion > data.deadline * (1 + 1e-12)).any():
        return float("inf")
    target: Target = data.target
    return target.value(plan.completion)


def allotments(data: MoldableData) -> Iterator[list[int]]:
    """Yield ways of all jobs: the first to end, and of least area within each of some run times."""
    yield [FIRST_TO_END] * data.num_jobs
    capacity = np.where(data.pool.capacity > 0, data.pool.capacity, 1.0)
    runs = [[way.run_s for way in ways] for ways in data.ways]
    areas = [
        [float((way.load / capacity).max()) * way.hold_s for way in ways] for ways in data.ways
    ]
    every = np.concatenate([np.array(own) for own in runs])
    seen: set[tuple[int, ...]] = set()
    for time in [*np.quantile(every, np.linspace(1, 0, _TIMES)), 0.0]:
        chosen = tuple(
            _least_area(run, area, float(time)) for run, area in zip(runs, areas, strict=True)
        )
        if chosen not in seen:
            seen.add(chosen)
            yield list(chosen)


def _least_area(run: Sequence[float], area: Sequence[float], time: float) -> int:
    """Return the way of least area that is over within a time, or the fastest if none is."""
    able = [w for w, own in enumerate(run) if own <= time]
    if not able:
        return min(range(len(run)), key=lambda w: (run[w], area[w]))
    return min(able, key=lambda w: (area[w], run[w]))


def orders(data: MoldableData, way: Sequence[int]) -> Iterator[list[int]]:
    """Yield orders of the jobs for their ways: longest first, by weight over area, by dates.

    Parameters
    ----------
    data
        The instance.
    way
        Way of each job, or `FIRST_TO_END`.
    """
    capacity = np.where(data.pool.capacity > 0, data.pool.capacity, 1.0)
    chosen = [
        min(ways, key=lambda own: own.run_s) if w == FIRST_TO_END else ways[w]
        for w, ways in zip(way, data.ways, strict=True)
    ]
    run = np.array([own.run_s for own in chosen])
    area = np.array([float((own.load / capacity).max()) for own in chosen]) * run
    weight = data.target.level.jobs.rate + data.target.level.jobs.late
    weight = np.where(weight > 0, weight, weight[weight > 0].min(initial=1.0) * 1e-3)
    due = np.minimum(data.target.level.jobs.due, data.deadline)
    with np.errstate(over="ignore"):
        keys: list[tuple[Array, ...]] = [
            (-run,),
            (area / weight,),
            (run / weight,),
            (-area,),
            (area / weight, data.release),
            (-run, data.release),
        ]
    if np.isfinite(due).any():
        keys += [(-run, due), (-run, due - run)]
    for key in keys:
        yield [int(j) for j in np.lexsort(key)]


def first_lists(
    data: MoldableData, is_over: Callable[[], bool]
) -> Iterator[tuple[Plan, list[int], list[int]]]:
    """Yield schedules of lists, with their order and ways, as long as there is time; at least one.

    Parameters
    ----------
    data
        The instance.
    is_over
        Says whether time is up.
    """
    for way in allotments(data):
        for order in orders(data, way):
            yield by_ways(data, order, way), order, way
            if is_over():
                return


def improved_list(
    data: MoldableData,
    best: tuple[Plan, list[int], list[int]],
    rng: np.random.Generator,
    is_over: Callable[[], bool],
    patience: int,
) -> tuple[Plan, list[int], list[int]]:
    """Return the best schedule that moves in a list reach: reinsert, exchange, another way.

    Parameters
    ----------
    data
        The instance.
    best
        A schedule with its order and ways.
    rng
        Where moves are drawn from.
    is_over
        Says whether time is up.
    patience
        Moves without a gain after which some are made whatever they cost; after three times so many
        without a better schedule it ends.
    """
    plan, order, way = best
    value, idle, since = value_of(data, plan), 0, 0
    top = (value, best)
    while since < _PATIENCES * patience and not is_over():
        idle, since = idle + 1, since + 1
        trial, ways = list(order), list(way)
        for _ in range(_KICK if idle > patience else 1):
            _move(data, trial, ways, rng)
        found = by_ways(data, trial, ways)
        new = value_of(data, found)
        # Ties are taken too: of the makespan most neighbours are ties.
        if new <= value or idle > patience:
            if new < value or idle > patience:
                idle = 0
            plan, order, way, value = found, trial, ways, new
        if value < top[0]:
            top, since = (value, (plan, order, way)), 0
    return top[1]


def _move(data: MoldableData, order: list[int], way: list[int], rng: np.random.Generator) -> None:
    """Reinsert a job, exchange two, or give one another way."""
    a, b, kind = rng.integers(len(order)), rng.integers(len(order)), rng.integers(3)
    if kind == 0:
        order.insert(int(b), order.pop(int(a)))
    elif kind == 1:
        order[a], order[b] = order[b], order[a]
    else:
        way[a] = int(rng.integers(-1, len(data.ways[a])))
