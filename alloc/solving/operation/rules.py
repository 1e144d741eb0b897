"""Rules for a decision in operation: one job after the other, in one pass.

The rules are ours, after what the papers say of theirs: first come first served and earliest due
date give every job the fastest way to run that is still free; the hierarchical method decides the
sizes first and the places later; greedy decides both at once, by what a job adds to the cost.

Parameters
----------
data
    The decision.
order
    Numbers of the jobs, in the order in which they get nodes.
board
    The plan so far, changed in place.
job
    Number of a job; where a board is given, one that waits on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from alloc.formulation import Array
from alloc.models.operation.data import OperationData
from alloc.solving.operation.partial_plan import OFF, Options, PartialPlan


def _due_order(data: OperationData) -> list[int]:
    """Return the jobs, earliest due date first."""
    due = np.array([job.due_date_s for job in data.problem.jobs])
    return [int(j) for j in np.argsort(due, kind="stable")]


def _arrival_order(data: OperationData) -> list[int]:
    """Return the jobs, earliest arrival first."""
    arrival = np.array([job.arrival_s for job in data.problem.jobs])
    return [int(j) for j in np.argsort(arrival, kind="stable")]


def _pressures(data: OperationData) -> Array:
    """Return how late each job would be in its fastest way to run, hours; higher is tighter."""
    due = np.array([job.due_date_s for job in data.problem.jobs]) / 3600
    fastest = data.hours.min(axis=(1, 2))
    return np.asarray(fastest + data.problem.now_s / 3600 - due)


def pressure_order(data: OperationData) -> list[int]:
    """Return the jobs, highest pressure first."""
    return [int(j) for j in np.argsort(-_pressures(data), kind="stable")]


def _exclusive_fastest(data: OperationData, order: Iterable[int]) -> PartialPlan:
    """Give every job in turn a node of its own, in its fastest way to run.

    No node is shared: the rule of first-principle schedulers that know nothing of sharing. When
    all nodes are on, jobs wait.
    """
    board = PartialPlan(data)
    for job in order:
        options = board.options(job)
        alone = np.flatnonzero(options.node == OFF)
        if len(alone):
            hours = data.hours[job, options.type[alone], options.gpus[alone]]
            board.put(job, options, int(alone[np.argmin(hours)]))
    return board


def _shared_in_time(data: OperationData, order: Iterable[int]) -> PartialPlan:
    """Give every job in turn the fewest GPUs that meet its due date, else the fastest that fit.

    Of as many GPUs, the fastest; of equal ones, the first node.
    """
    board = PartialPlan(data)
    tight = np.array([job.due_date_s - data.problem.now_s for job in data.problem.jobs]) / 3600
    for job in order:
        options = board.options(job)
        if len(options):
            hours = data.hours[job, options.type, options.gpus]
            in_time = hours <= tight[job]
            gpus = np.where(in_time, options.gpus, 0)
            board.put(job, options, int(np.lexsort((hours, gpus, ~in_time))[0]))
    return board


def cheapest_insertion(data: OperationData, order: Iterable[int]) -> PartialPlan:
    """Run every job in turn where it adds least to the cost, or let it wait if that adds less."""
    board = PartialPlan(data)
    for job in order:
        insert(board, job)
    return board


def insert(board: PartialPlan, job: int) -> None:
    """Run a job that waits where it adds least, also beside one that shrinks, if that pays."""
    options, shrink = board.options(job), board.shrink_move(job)
    cost = board.data.wait_cost[job]
    best = int(np.argmin(options.cost)) if len(options) else None
    if best is not None and options.cost[best] >= cost:
        best = None
    if best is not None:
        cost = options.cost[best]
    if shrink is not None and shrink.cost < cost:
        board.put_shrinking(job, shrink)
    elif best is not None:
        board.put(job, options, best)


def _alone_cost(data: OperationData, job: int) -> Array:
    """Return what each way to run a job would cost on a node of its own, shape (V, G + 1)."""
    can = np.isfinite(data.hours[job])
    hours = np.where(can, data.hours[job], 0.0)
    rate = np.where(can, data.node_rate, 0.0)
    return np.where(can, rate * hours + np.where(can, data.run_cost[job], 0.0), np.inf)


def ranked_ways(data: OperationData, job: int) -> list[tuple[int, int]]:
    """Return a job's ways to run (type, GPUs), in order of their cost on a node of their own."""
    cost = _alone_cost(data, job)
    order = np.argsort(cost, axis=None, kind="stable")
    ways = [divmod(int(flat), cost.shape[1]) for flat in order]
    return [(v, g) for v, g in ways if np.isfinite(cost[v, g])]


def place_way(board: PartialPlan, job: int, way: tuple[int, int]) -> bool:
    """Run a job in a given way on the fullest node with room, else on a new one; say if it runs.

    Parameters
    ----------
    way
        Number of the node type, and GPUs, at least 1.
    """
    options = board.options(job)
    same = np.flatnonzero((options.type == way[0]) & (options.gpus == way[1]))
    if not len(same):
        return False
    board.put(job, options, int(same[np.argmin(_room(board, options, same))]))
    return True


def _room(board: PartialPlan, options: Options, some: np.ndarray) -> Array:
    """Return the GPUs free on the node of each option; a node that is off comes last."""
    node = options.node[some]
    room = board.data.gpus[options.type[some]] - board.used[node]
    return np.where(node == OFF, np.inf, room)


def hierarchical(data: OperationData) -> PartialPlan:
    """Decide sizes, then places: each job's way to run alone, then nodes by best fit decreasing.

    Above, every job takes the type and GPUs that would be cheapest on a node of its own. Below,
    the largest jobs are placed first, each on the fullest node of its type with room; a job without
    room takes its next ways to run in turn. The levels do not talk to each other again.
    """
    board = PartialPlan(data)
    ways = {job: ranked_ways(data, job) for job in range(data.num_jobs)}
    tight = _pressures(data)
    for job in sorted(ways, key=lambda j: (-ways[j][0][1], -tight[j], j)):
        _first_that_fits(board, job, ways[job])
    return board


def _first_that_fits(board: PartialPlan, job: int, ways: Sequence[tuple[int, int]]) -> None:
    for way in ways:
        if place_way(board, job, way):
            return


Rule = Callable[[OperationData], PartialPlan]

RULES: dict[str, tuple[str, Rule]] = {
    "fifo": (
        "first come first served, the fastest node each, not shared",
        lambda data: _exclusive_fastest(data, _arrival_order(data)),
    ),
    "edf": (
        "earliest due date first, the fastest node each, not shared",
        lambda data: _exclusive_fastest(data, _due_order(data)),
    ),
    "edf-shared": (
        "earliest due date first, the fewest GPUs that meet it, else the fastest left",
        lambda data: _shared_in_time(data, _due_order(data)),
    ),
    "hierarchical": ("sizes first, then places by best fit decreasing", hierarchical),
    "greedy": (
        "by pressure, each job where it adds least to the cost",
        lambda data: cheapest_insertion(data, pressure_order(data)),
    ),
}
"""Title and rule by name."""
