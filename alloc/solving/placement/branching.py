"""Branching on gangs: a bound that knows that a gang stays whole or leaves whole.

The linear relaxation lets half of a gang stay. Here the y_gr of `alloc.solving.placement.patterns`
are decided one gang after the other: it stands in one of the domains that it has tasks in, or in
none of them, and then its tasks count as any others of their class. Where all gangs are decided,
those that leave get domains: they stand in one of a part of the others, in the end in a single one.
The least bound among the open ends of the tree is a bound; every one of them is a Lagrangian
evaluated in numpy.

References
----------
Barnhart, Johnson, Nemhauser, Savelsbergh, Vance, "Branch-and-price: column generation for solving
huge integer programs", Operations Research 46 (1998).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.pattern_master import Generated, Master, generate, price_scale
from alloc.solving.placement.patterns import Patterns, Stay
from alloc.solving.placement.tables import Ints

_WHOLE = 1e-4
"""How far from 0 or 1 a y_gr counts as undecided."""
_WIDTH = 0.03
"""First width of the box of prices in a child, in what a full host costs: one gang changes the
prices of its parent little."""
_BELOW = 1e-3
"""How far below what keeping a task saves the price of a closed item lies, in what a full host
costs: more than rounding, so that no host keeps one."""
_TRIED = 8
"""Gangs of which every way to stand is tried before one is chosen: a tree with half the ends for
little more than the time of one."""
_TRIED_WIDTH = 0.1
"""Width of the box of prices meanwhile: with few patterns, any prices would promise too much."""
_LEAST_GAIN = 1e-4
"""Least gain of a way, in what a full host costs, so that the other ways count beside it."""
_PARTS = 4
"""Parts into which the domains are split where a gang that leaves may stand."""
_IN_PART = 1e-3
"""Share of a gang that counts as a part of it: less is what the linear program leaves
unconverged."""

OnLeaving = Callable[[frozenset[int]], None]


def _ignored(gangs: frozenset[int]) -> None:
    del gangs


class _Way(NamedTuple):
    """Where a gang that leaves stands: its items, none while it is anywhere, hosts of domains."""

    items: Ints
    domains: tuple[Ints, ...]


class _End(NamedTuple):
    """An open end: its bound, a number, its program, prices and patterns, gangs that leave."""

    bound: float
    number: int
    patterns: Patterns
    generated: Generated
    left: Mapping[int, _Way]


class _Child(NamedTuple):
    """A program with one decision more, prices to start with, and gangs that leave."""

    patterns: Patterns
    prices: Array
    left: Mapping[int, _Way]


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
    tasks_of = {stay.gang: stay for stay in patterns.stays}
    ends = [_End(found.bound, next(order), patterns, found, {})]
    said = found.bound
    while True:
        # The end with the least bound: only there is something to gain.
        bound, _, node, generated, left = end = ends[0]
        on_leaving(frozenset(left) | leaving(node, generated))
        if bound >= target():
            break
        gang = _gang_to_decide(node, generated, clock)
        if gang is not None:
            programs = _children(end, gang)
        elif (gang := _homeless(end, tasks_of)) is not None:
            programs = _housed(end, tasks_of[gang])
        else:
            break
        children = []
        for child in programs:
            if clock() <= 0:
                raise OutOfTime
            again = generate(
                child.patterns,
                child.prices,
                clock,
                lambda _: None,
                width=_WIDTH,
                tolerance=1e-3,
                known=generated.columns.widened(child.patterns.num_items),
            )
            if again.stopped:
                raise OutOfTime
            # What holds for the whole holds for the part.
            least = max(bound, again.bound)
            children.append(_End(least, next(order), child.patterns, again, child.left))
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
    """Return the undecided gangs of which the linear relaxation lets at least a part leave.

    Parameters
    ----------
    patterns
        The program, with the undecided gangs.
    found
        What column generation found on it.
    """
    stays: dict[int, float] = {}
    for stay, y in zip(patterns.stays, found.stays, strict=True):
        stays[stay.gang] = stays.get(stay.gang, 0.0) + float(y)
    return frozenset(gang for gang, y in stays.items() if y < 1.0 - _IN_PART)


def _gang_to_decide(patterns: Patterns, found: Generated, clock: Clock) -> int | None:
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
    master = Master(patterns)
    master.add(found.columns)
    master.set_box(found.prices, _TRIED_WIDTH * scale, found.move_price + _TRIED_WIDTH * size)
    best, chosen = -math.inf, gangs[0]
    for gang in gangs:
        gains = [value - found.value for value in master.decided(gang, clock)]
        score = math.prod(max(gain, _LEAST_GAIN * size) for gain in gains)
        if score > best:
            best, chosen = score, gang
    return chosen


def _children(end: _End, gang: int) -> Iterator[_Child]:
    """Yield the programs in which a gang stays in each of its domains, and in none."""
    patterns, prices = end.patterns, end.generated.prices
    own = [stay for stay in patterns.stays if stay.gang == gang]
    others = tuple(stay for stay in patterns.stays if stay.gang != gang)
    for stay in own:
        least, most = patterns.least.copy(), patterns.most.copy()
        for limits in (least, most):
            np.add.at(limits, stay.items, stay.counts)
            np.subtract.at(limits, stay.classes, stay.counts)
        yield _Child(replace(patterns, least=least, most=most, stays=others), prices, end.left)
    # Nothing of its local items is left, and their price is such that nobody keeps one.
    items = np.concatenate([stay.items for stay in own])
    local = tuple(takes[~np.isin(takes, items)] for takes in patterns.local)
    low = prices.copy()
    low[items] = patterns.charge[items] - 2.0 * patterns.move_weight[items] - _BELOW
    way = _Way(items[:0], patterns.elsewhere.get(gang, ()))
    yield _Child(replace(patterns, local=local, stays=others), low, {**end.left, gang: way})


def _homeless(end: _End, tasks_of: Mapping[int, Stay]) -> int | None:
    """Return the gang with most tasks among those that leave for no single domain, or None."""
    ways = {stay.gang: end.patterns.elsewhere.get(stay.gang, ()) for stay in end.patterns.stays}
    ways = {j: ways[j] for j in leaving(end.patterns, end.generated)}
    ways |= {j: way.domains for j, way in end.left.items()}
    homeless = [
        j
        for j, domains in ways.items()
        if len(domains) > 1 or (domains and not (j in end.left and len(end.left[j].items)))
    ]
    demand = end.patterns.demand
    size = {j: float(tasks_of[j].counts @ demand[tasks_of[j].classes].sum(1)) for j in homeless}
    return max(homeless, key=lambda j: (size[j], -j), default=None)


def _housed(end: _End, tasks: Stay) -> Iterator[_Child]:
    """Yield the programs in which a gang stands in each part of the domains that it may."""
    gang, start = tasks.gang, _Child(end.patterns, end.generated.prices, end.left)
    if gang not in end.left:
        *stays, start = _children(end, gang)
        yield from stays
    items, domains = start.left[gang]
    for part in (domains[n::_PARTS] for n in range(min(_PARTS, len(domains)))):
        inside = np.zeros(start.patterns.num_hosts, dtype=bool)
        inside[np.concatenate(part)] = True
        if len(items):
            local = tuple(
                takes if inside[h] else takes[~np.isin(takes, items)]
                for h, takes in enumerate(start.patterns.local)
            )
            program, prices, own = replace(start.patterns, local=local), start.prices, items
        else:
            program, own = _with_items(start.patterns, tasks, inside)
            prices = np.concatenate([start.prices, start.prices[tasks.classes]])
        yield _Child(program, prices, {**start.left, gang: _Way(own, part)})


def _with_items(
    patterns: Patterns, tasks: Stay, inside: npt.NDArray[np.bool_]
) -> tuple[Patterns, Ints]:
    """Return the program with items for the tasks of a gang, all of which stand on some hosts."""
    p, classes, counts = patterns, tasks.classes, tasks.counts
    items = p.num_items + np.arange(len(classes))
    least, most = p.least.copy(), p.most.copy()
    for limits in (least, most):
        np.subtract.at(limits, classes, counts)
    program = replace(
        p,
        local=tuple(
            np.concatenate([takes, items]) if inside[h] else takes
            for h, takes in enumerate(p.local)
        ),
        demand=np.concatenate([p.demand, p.demand[classes]]),
        copies=np.concatenate([p.copies, counts]),
        charge=np.concatenate([p.charge, p.charge[classes]]),
        least=np.concatenate([least, counts]),
        most=np.concatenate([most, counts]),
        move_weight=np.concatenate([p.move_weight, p.move_weight[classes]]),
    )
    return program, items
