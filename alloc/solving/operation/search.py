"""Searches for a decision in operation: randomised greedy (ANDREAS) and path relinking.

Both are built from the papers' descriptions, without their code. ANDREAS repeats a greedy pass,
each time with some neighbours in the order of pressure exchanged and some jobs in another way to
run than the best. Path relinking keeps an elite of such plans and walks from one to another: at
each step it takes over one node of the guiding plan as it stands there, the one that serves best;
the best plan on the way is improved by re-inserting jobs and joins the elite.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from alloc.models.operation.data import OperationData
from alloc.solving.operation.partial_plan import OFF, PartialPlan
from alloc.solving.operation.rules import (
    cheapest_insertion,
    insert,
    place_way,
    pressure_order,
    ranked_ways,
)

Stop = Callable[[], bool]
"""Whether time is up."""

_SWAP = 0.15
"""Chance of each pair of neighbours in the order to be exchanged: most of the order stays, which is
a good one already, and hardly two passes have the same."""
_SECOND_CHOICE = 0.2
"""Chance that a job takes its second, third or fourth best way: four of five keep the best."""
_ELITE = 5
"""Plans that walks lead between: more are worse plans, fewer have few differences to walk along."""
_CANDIDATES = 3
"""Nodes of the guiding plan that a step tries, drawn at random: each costs a plan of its own."""


def randomised_greedy(
    data: OperationData, rng: np.random.Generator, iterations: int, stop: Stop
) -> list[PartialPlan]:
    """Return the plans of so many passes, the cheapest first; the first pass is not random.

    Parameters
    ----------
    data
        The decision.
    rng
        Random numbers.
    iterations
        Passes, at least 1.
    stop
        Whether to stop before; one pass is always made.
    """
    ways = [ranked_ways(data, job) for job in range(data.num_jobs)]
    order = pressure_order(data)
    found = [_pass(data, order, ways, None)]
    while len(found) < iterations and not stop():
        found.append(_pass(data, _shaken(order, rng), ways, rng))
    return sorted(found, key=lambda board: board.cost)


def _shaken(order: list[int], rng: np.random.Generator) -> list[int]:
    """Exchange some neighbours."""
    shaken = list(order)
    for k in np.flatnonzero(rng.random(len(order) - 1) < _SWAP).tolist():
        shaken[k], shaken[k + 1] = shaken[k + 1], shaken[k]
    return shaken


def _pass(
    data: OperationData,
    order: list[int],
    ways: list[list[tuple[int, int]]],
    rng: np.random.Generator | None,
) -> PartialPlan:
    """Place each job in its best way, now and then another; then where it adds least."""
    board = PartialPlan(data)
    for job in order:
        first = 0
        if rng is not None and len(ways[job]) > 1 and rng.random() < _SECOND_CHOICE:
            first = int(rng.integers(1, min(len(ways[job]), 4)))
        if not place_way(board, job, ways[job][first]):
            insert(board, job)
    return board


def path_relinking(
    data: OperationData, rng: np.random.Generator, rounds: int, stop: Stop
) -> PartialPlan:
    """Return the best plan of an elite that grows by walks between its members.

    Parameters
    ----------
    data
        The decision.
    rng
        Random numbers.
    rounds
        Walks.
    stop
        Whether to stop before.
    """
    elite = randomised_greedy(data, rng, 2 * _ELITE, stop)[: _ELITE - 1]
    elite.append(cheapest_insertion(data, pressure_order(data)))
    for board in elite:
        reinsert(board, rng, stop)
    for _ in range(rounds):
        if stop():
            break
        elite.sort(key=lambda board: board.cost)
        start, guide = rng.choice(len(elite), 2, replace=False)
        walked = _walk(elite[int(start)], elite[int(guide)], rng, stop)
        reinsert(walked, rng, stop)
        known = {round(board.cost, 9) for board in elite}
        if walked.cost < elite[-1].cost and round(walked.cost, 9) not in known:
            elite[-1] = walked
    return min(elite, key=lambda board: board.cost)


def _walk(
    start: PartialPlan, guide: PartialPlan, rng: np.random.Generator, stop: Stop
) -> PartialPlan:
    """Walk from one plan to another, node by node; return the best plan on the way."""
    current, best = start.copy(), start.copy()
    left = [n for n in np.flatnonzero(guide.type != OFF).tolist() if not _has(current, guide, n)]
    while left and not stop():
        some = rng.permutation(len(left))[:_CANDIDATES].tolist()
        tried = [(_taken_over(current, guide, left[k]), left[k]) for k in some]
        current, node = min(tried, key=lambda pair: pair[0].cost)
        left.remove(node)
        if current.cost < best.cost:
            best = current.copy()
    return best


def _has(board: PartialPlan, guide: PartialPlan, node: int) -> bool:
    """Return whether a board has a node just like one of the guide's."""
    at = int(board.node_of[next(iter(guide.members[node]))])
    return at != OFF and (
        board.type[at] == guide.type[node] and board.members[at] == guide.members[node]
    )


def _taken_over(board: PartialPlan, guide: PartialPlan, node: int) -> PartialPlan:
    """Return the board with a node of the guide on it; who must go is inserted again."""
    after = board.copy()
    members = guide.members[node]
    for job in members:
        if after.node_of[job] != OFF:
            after.take(job)
    homeless: list[int] = []
    while not after.set_node(int(guide.type[node]), members):
        # Make room: the node that would be missed least.
        on = np.flatnonzero(after.type != OFF)
        if not len(on):
            break
        victim = int(on[np.argmin(after.used[on])])
        for job in list(after.members[victim]):
            after.take(job)
            homeless.append(job)
    for job in [*homeless, *(j for j in members if after.node_of[j] == OFF)]:
        insert(after, job)
    return after


def reinsert(board: PartialPlan, rng: np.random.Generator, stop: Stop, passes: int = 3) -> None:
    """Improve a board job by job: insert it where it adds least, or in the place of another.

    Parameters
    ----------
    board
        The plan, changed in place.
    rng
        Decides the order of the jobs.
    stop
        Whether to stop before; the board is a plan at any time.
    passes
        Most passes over all jobs, 0 or more; one that gains nothing is the last.
    """
    for _ in range(passes):
        before = board.cost
        for job in rng.permutation(board.data.num_jobs).tolist():
            if stop():
                return
            _move(board, job)
        if board.cost >= before - 1e-9 * abs(before):
            return


def _move(board: PartialPlan, job: int) -> None:
    """Move one job if that lowers the cost, else leave all as it was."""
    node, cost = int(board.node_of[job]), board.cost
    if node == OFF:
        insert(board, job)
        other = board.replacement(job) if board.node_of[job] == OFF else None
        if other is not None and other[1] < board.data.wait_cost[job] - 1e-12:
            board.replace(job, other[0])
        return
    kind, gpus = int(board.type[node]), board.members[node][job]
    board.take(job)
    options = board.options(job)
    k = int(np.argmin(options.cost))
    if board.cost + options.cost[k] - board.data.wait_cost[job] < cost - 1e-12:
        board.put(job, options, k)
        return
    if board.cost < cost - 1e-12:
        return
    # Back to where it was; its node may have been switched off.
    home = np.flatnonzero((options.type == kind) & (options.gpus == gpus))
    home = home[(options.node[home] == node) | (options.node[home] == OFF)]
    board.put(job, options, int(home[np.argmax(options.node[home] == node)]))
