"""Branching on gangs: a bound that knows that a gang stays whole or leaves whole.

The linear relaxation lets half of a gang stay. Here the y_gr of `alloc.solving.placement.patterns`
are decided one gang after the other: it stands in one of the domains that it has tasks in, or in
none of them, and then its tasks count as any others of their class. The least bound among the open
ends of the tree is a bound; every one of them is a Lagrangian evaluated in numpy.

References
----------
Barnhart, Johnson, Nemhauser, Savelsbergh, Vance, "Branch-and-price: column generation for solving
huge integer programs", Operations Research 46 (1998).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.pattern_master import Generated, Master, generate, price_scale
from alloc.solving.placement.patterns import Patterns

_WHOLE = 1e-4
"""How far from 0 or 1 a y_gr counts as undecided."""
_WIDTH = 0.03
_BELOW = 1e-3
_TRIED = 8
"""Gangs of which every way to stand is tried before one is chosen: a tree with half the ends for
little more than the time of one."""
_TRIED_WIDTH = 0.1
"""Width of the box of prices meanwhile: with few patterns, any prices would promise too much."""
_LEAST_GAIN = 1e-4
"""Least gain of a way, in what a full host costs, so that the other ways count beside it."""
_IN_PART = 1e-3
"""Share of a gang that counts as a part of it."""

OnLeaving = Callable[[frozenset[int]], None]


def _ignored(gangs: frozenset[int]) -> None:
    del gangs


class _End(NamedTuple):
    """An open end: its bound, a number, its program, prices and patterns, gangs that leave."""

    bound: float
    number: int
    patterns: Patterns
    generated: Generated
    left: frozenset[int]


def branch_on_gangs(
    patterns: Patterns,
    found: Generated,
    clock: Clock,
    report: Callable[[str], None],
    *,
    target: Callable[[], float] = lambda: math.inf,
    on_leaving: OnLeaving = _ignored,
) -> Iterator[float]:
    """Yield better and better bounds by branching on where gangs stand, one a gang decided.

    Parameters
    ----------
    patterns
        The program.
    found
        Its prices, and what of each gang stays in the linear relaxation.
    clock
        Tells the seconds left.
    report
        Takes a line of progress.
    target
        Tells the value of the best placement: ends of the tree that reach it need no branching.
    on_leaving
        Takes the gangs that leave, at least in part, at the end with the least bound.

    Raises
    ------
    OutOfTime
        If time is up.
    """
    order = itertools.count()
    ends = [_End(found.bound, next(order), patterns, found, frozenset())]
    said = found.bound
    while True:
        # The end with the least bound: only there is something to gain.
        bound, _, node, generated, left = ends[0]
        on_leaving(left | leaving(node, generated))
        gang = _most_telling(node, generated, clock)
        if bound >= target() or gang is None:
            break
        children = []
        for child, prices, leaves in _children(node, generated.prices, gang):
            if clock() <= 0:
                raise OutOfTime
            again = generate(
                child,
                prices,
                clock,
                lambda _: None,
                width=_WIDTH,
                tolerance=1e-3,
                known=generated.columns,
            )
            if again.stopped:
                raise OutOfTime
            # What holds for the whole holds for the part.
            gone = left | {gang} if leaves else left
            children.append(_End(max(bound, again.bound), next(order), child, again, gone))
        heapq.heappop(ends)
        for entry in children:
            heapq.heappush(ends, entry)
        least = ends[0].bound
        if least > said + 1e-3 * abs(said):
            said = least
            report(f"branching on gangs: bound {said:.4f}, {len(ends)} open ends")
        yield least
    report(f"branching on gangs: bound {ends[0].bound:.4f} after {next(order)} programs")


def leaving(patterns: Patterns, found: Generated) -> frozenset[int]:
    """Return the undecided gangs of which the linear relaxation lets at least a part leave."""
    stays: dict[int, float] = {}
    for stay, y in zip(patterns.stays, found.stays, strict=True):
        stays[stay.gang] = stays.get(stay.gang, 0.0) + float(y)
    return frozenset(gang for gang, y in stays.items() if y < 1.0 - _IN_PART)


def _most_telling(patterns: Patterns, found: Generated, clock: Clock) -> int | None:
    """Return the gang whose decision moves the bound most, or None if all are decided.

    Of the gangs of which most tasks are neither here nor there, each way to stand is tried in the
    linear master, over the patterns met: strong branching.
    """
    doubts: dict[int, float] = {}
    for stay, y in zip(patterns.stays, found.stays, strict=True):
        doubt = min(float(y), 1.0 - float(y))
        if doubt > _WHOLE:
            tasks = float(stay.counts @ patterns.demand[stay.items].sum(axis=1))
            doubts[stay.gang] = max(doubts.get(stay.gang, 0.0), doubt * tasks)
    gangs = sorted(doubts, key=lambda gang: -doubts[gang])[:_TRIED]
    if len(gangs) < 2:
        return gangs[0] if gangs else None
    size, scale = price_scale(patterns)
    master = Master(patterns, size)
    master.add(found.columns)
    master.set_box(found.prices, _TRIED_WIDTH * scale, found.move_price + _TRIED_WIDTH * size)
    best, chosen = -math.inf, gangs[0]
    for gang in gangs:
        gains = [value - found.value for value in master.decided(gang, clock)]
        score = math.prod(max(gain, _LEAST_GAIN * size) for gain in gains)
        if score > best:
            best, chosen = score, gang
    return chosen


def _children(
    patterns: Patterns, prices: Array, gang: int
) -> Iterator[tuple[Patterns, Array, bool]]:
    """Yield the programs in which a gang stays in each of its domains, and in none.

    With each come prices to start with, and whether the gang leaves.
    """
    own = [stay for stay in patterns.stays if stay.gang == gang]
    others = tuple(stay for stay in patterns.stays if stay.gang != gang)
    for stay in own:
        least, most = patterns.least.copy(), patterns.most.copy()
        for limits in (least, most):
            np.add.at(limits, stay.items, stay.counts)
            np.subtract.at(limits, stay.classes, stay.counts)
        yield replace(patterns, least=least, most=most, stays=others), prices, False
    # Nothing of its local items is left, and their price is such that nobody keeps one.
    items = np.concatenate([stay.items for stay in own])
    local = tuple(takes[~np.isin(takes, items)] for takes in patterns.local)
    low = prices.copy()
    low[items] = patterns.charge[items] - 2.0 * patterns.move_weight[items] - _BELOW
    yield replace(patterns, local=local, stays=others), low, True
