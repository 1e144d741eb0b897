"""Orders of service: the base rules of a rollout, and changes to the best of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from alloc.schedulers.learned.job_priority import dominant_share
from alloc.schedulers.rollout.future import ListFuture

AREA_POWERS = (0.0, 0.25, 0.5, 1.0)
"""Powers a of the orders by (time left) * (share of the cluster)^a / weight, the least first.

0 is shortest remaining time first, 1 is Smith's rule on the area, which is the optimum of the fluid
relaxation of gangs. The order between these that is best depends on how gangs of different sizes
fill the cluster; four of them cost four simulations.
"""
STEP_LIMIT = 40_000
"""Most starts of jobs that a decision simulates, about 40 ms: a count, so that equal inputs give
equal decisions on any machine."""


def best_order(
    future: ListFuture, before: Sequence[int | None], moves: int, rng: np.random.Generator
) -> tuple[list[int], float]:
    """Return the cheapest order that is found, a base rule's or one made from it, and its cost.

    The order is never dearer than any of the base orders: equal costs go to the first of them.

    Parameters
    ----------
    future
        What an order costs.
    before
        Place of each job in the order of the decision before, or None for jobs that are new.
    moves, rng
        Changes to the best order that are tried, and where they are drawn from: one job is moved to
        another place.
    """
    orders = base_orders(future)
    orders += [_merged(before, orders[-1])] if any(b is not None for b in before) else []
    best, least = orders[0], future.cost(orders[0])
    for order in orders[1:]:
        best, least = _better(future, best, least, order)
    count = len(best)
    for _ in range(moves if count > 2 else 0):
        if future.num_steps > STEP_LIMIT:
            break
        # Squares of uniform draws: places near the front decide what runs now.
        source, target = (int(count * rng.random() ** 2) for _ in range(2))
        if source != target:
            order = best.copy()
            order.insert(target, order.pop(source))
            best, least = _better(future, best, least, order)
    return best, least


def base_orders(future: ListFuture) -> list[list[int]]:
    """Return the orders of the base rules; jobs that come to the same go in order of arrival."""
    jobs = future.jobs
    times = [job.left_s / job.weight for job in jobs]
    shares = [dominant_share(job.demand, future.capacity) for job in jobs]
    keys = [
        [time * max(share, 1e-9) ** power for time, share in zip(times, shares, strict=True)]
        for power in AREA_POWERS
    ]
    found: list[list[int]] = []
    for key in keys:
        order = sorted(range(len(jobs)), key=key.__getitem__)
        if order not in found:
            found.append(order)
    if any(job.restart_s for job in jobs):
        # A pause that costs a restart may not pay: the same orders with what runs in front.
        found += [sorted(order, key=lambda j: not jobs[j].runs) for order in found]
    # Arrival is the order of the jobs themselves: first come, first served.
    arrival = list(range(len(jobs)))
    return found if arrival in found else [*found[:1], arrival, *found[1:]]


def _merged(before: Sequence[int | None], order: Sequence[int]) -> list[int]:
    """Return the order of the decision before, with new jobs in front of the next behind them."""
    merged = sorted(
        (j for j, b in enumerate(before) if b is not None), key=lambda j: before[j] or 0
    )
    rank = {j: k for k, j in enumerate(order)}
    for j in order:
        if before[j] is None:
            place = next(
                (k for k, other in enumerate(merged) if rank[other] > rank[j]), len(merged)
            )
            merged.insert(place, j)
    return merged


def _better(
    future: ListFuture, best: list[int], least: float, order: list[int]
) -> tuple[list[int], float]:
    cost = future.cost(order, least)
    # Rounding must not decide between equals.
    better = cost < least * (1 - 1e-12) or not math.isfinite(least)
    return (order, cost) if better else (best, least)
