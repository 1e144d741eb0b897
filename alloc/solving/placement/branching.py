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

import numpy as np

from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.pattern_master import Generated, generate
from alloc.solving.placement.patterns import Patterns

_WHOLE = 1e-4
"""How far from 0 or 1 a y_gr counts as undecided."""
_WIDTH = 0.03
_BELOW = 1e-3


def branch_on_gangs(
    patterns: Patterns,
    found: Generated,
    clock: Clock,
    report: Callable[[str], None],
    *,
    target: Callable[[], float] = lambda: math.inf,
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

    Raises
    ------
    OutOfTime
        If time is up.
    """
    order = itertools.count()
    ends = [(found.bound, next(order), patterns, found)]
    said = found.bound
    while True:
        # The end with the least bound: only there is something to gain.
        bound, _, node, generated = ends[0]
        gang = _undecided(node, generated)
        if bound >= target() or gang is None:
            break
        children = []
        for child, prices in _children(node, generated.prices, gang):
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
            children.append((max(bound, again.bound), next(order), child, again))
        heapq.heappop(ends)
        for entry in children:
            heapq.heappush(ends, entry)
        if ends[0][0] > said + 1e-3 * abs(said):
            said = ends[0][0]
            report(f"branching on gangs: bound {said:.4f}, {len(ends)} open ends")
        yield ends[0][0]
    report(f"branching on gangs: bound {ends[0][0]:.4f} after {next(order)} programs")


def _undecided(patterns: Patterns, found: Generated) -> int | None:
    """Return the gang of which most tasks are neither here nor there, or None."""
    most, chosen = _WHOLE, None
    for stay, y in zip(patterns.stays, found.stays, strict=True):
        doubt = min(float(y), 1.0 - float(y))
        weight = doubt * float(stay.counts @ patterns.demand[stay.items].sum(axis=1))
        if doubt > _WHOLE and weight > most:
            most, chosen = weight, stay.gang
    return chosen


def _children(patterns: Patterns, prices: Array, gang: int) -> Iterator[tuple[Patterns, Array]]:
    """Yield the programs in which a gang stays in each of its domains, and in none; and prices."""
    own = [stay for stay in patterns.stays if stay.gang == gang]
    others = tuple(stay for stay in patterns.stays if stay.gang != gang)
    for stay in own:
        least, most = patterns.least.copy(), patterns.most.copy()
        for limits in (least, most):
            np.add.at(limits, stay.items, stay.counts)
            np.subtract.at(limits, stay.classes, stay.counts)
        yield replace(patterns, least=least, most=most, stays=others), prices
    # Nothing of its local items is left, and their price is such that nobody keeps one.
    items = np.concatenate([stay.items for stay in own])
    local = tuple(takes[~np.isin(takes, items)] for takes in patterns.local)
    low = prices.copy()
    low[items] = patterns.charge[items] - 2.0 * patterns.move_weight[items] - _BELOW
    yield replace(patterns, local=local, stays=others), low
