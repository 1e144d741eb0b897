"""Branch and bound on what is open: the bound where the quarterly program raises it no more.

A node has some openings fixed, and the block master with all its cuts as its relaxation; cuts that
one node learns hold in all. The quarterly program, whose rows are sums of cuts with the multipliers
of one relaxation, says too little as soon as the openings differ from those of that relaxation.
The node with the lowest bound comes first, so that each raises the bound of all [1]_.

References
----------
.. [1] A. H. Land, A. G. Doig, "An automatic method of solving discrete programming problems",
   Econometrica 28(3), 1960; M. Fischetti, I. Ljubić, M. Sinnl, "Redesigning Benders decomposition
   for large-scale facility location", Management Science 63(7), 2017.
"""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass, field

import numpy as np

from alloc.models.right_sizing.data import Array, Ints
from alloc.solving.right_sizing.relaxation import Relaxation

_PART = 0.03
"""Part of a pool from which on it is open in part: cuts not yet known leave a little."""
_GOOD_PART = 0.3
"""Part of a pool from which on a rounding opens all of it, as in dives: less can be rented."""
_LATE = 0.5
"""Part of the blocks of a step whose cuts may come late: what a node does not get helps the next,
and a node asks the master more often than a relaxation does."""
_ENOUGH = 0.5
"""Part of the gap asked for within which the best promise ends the branching: the rest is for whole
hosts, and for what the cuts do not know yet."""
_ASKED_AGAIN = 5
"""Roundings of the best promises that are compared before a dive, a few tenths of a second each."""
_MAX_STEPS = 4
"""Times that blocks are solved in a node; cuts that others learn help it too."""
_SMALL_GAIN = 0.1
"""Part of the way from its bound to where it needs no more branching, below which a step of a node
gains too little: two children gain more."""


@dataclass(order=True)
class _Node:
    """Openings that are fixed, and the bound of all plans with them."""

    bound: float
    number: int
    columns: tuple[int, ...] = field(compare=False)
    values: tuple[float, ...] = field(compare=False)


class OpeningTree:
    """The nodes that are open, kept from call to call.

    Parameters
    ----------
    relaxation
        Its masters and cuts, and the bound that is raised.
    switches
        Columns of what is open, quarters of a level one after the other.
    """

    def __init__(self, relaxation: Relaxation, switches: Ints) -> None:
        self.relaxation, self.switches = relaxation, switches
        self._by_level = switches.reshape(-1, relaxation.setting.shape[1])
        self._nodes = [_Node(relaxation.linear_bound, 0, (), ())]
        self._count = 1
        self._closed = math.inf
        """The least bound of nodes that were branched on no further."""
        self._cuts = list(relaxation.master.cuts)
        """Of the relaxation: dives, with other openings, drop those that matter in most nodes."""
        self._roundings: dict[bytes, tuple[float, Array]] = {}
        """What the master promises of rounded openings, infinite once returned, and its point."""

    @property
    def is_done(self) -> bool:
        """Whether no node is left: what hosts cost in whole numbers is left to others."""
        return not self._nodes

    def branch(self, seconds: float) -> Array | None:
        """Branch for some seconds, and raise the bound.

        Returns
        -------
        ndarray or None
            The first stage that promises to be cheapest, its openings rounded; None if none
            promises more than those returned before.
        """
        relaxation = self.relaxation
        ends = time.perf_counter() + seconds
        relaxation.master.add(self._cuts)
        while self._nodes and not relaxation.closed() and time.perf_counter() < ends:
            if relaxation.seconds_left() < relaxation.seconds_to_value:
                break
            self._branch_on(heapq.heappop(self._nodes))
            least = min(self._nodes[0].bound if self._nodes else math.inf, self._closed)
            if math.isfinite(least):
                relaxation.raise_bound(least)
            if self._promises_enough():
                break
        relaxation.say("branching")
        return self._best_rounding()

    def _branch_on(self, node: _Node) -> None:
        """Replace a node by its children, unless no plan in it is of use."""
        bound, point = self._relax(node)
        if point is None:
            return
        if bound >= self._needed():
            self._close(bound)
            return
        unpaid = self._unpaid(point)
        self._round(point)
        if unpaid.any():
            level = int(unpaid.sum(axis=1).argmax())
            quarter = int(unpaid[level].argmax())
            self._divide(node, bound, int(self._by_level[level, quarter]))
        else:
            self._close(bound)

    def _promises_enough(self) -> bool:
        """Return whether a plan as cheap as the best promise would close the gap."""
        best = min((cost for cost, _ in self._roundings.values()), default=math.inf)
        if not math.isfinite(best) or best >= self.relaxation.wanted():
            return False
        return best - self.relaxation.bound <= _ENOUGH * self.relaxation.gap * abs(best)

    def _needed(self) -> float:
        """Return the bound that is enough for the gap asked for, with the plan that is known."""
        cost = self.relaxation.cost
        return cost - self.relaxation.gap * abs(cost) if math.isfinite(cost) else math.inf

    def _close(self, bound: float) -> None:
        self._closed = min(self._closed, bound)

    def _divide(self, node: _Node, bound: float, column: int) -> None:
        for value in (0.0, 1.0):
            child = _Node(bound, self._count, (*node.columns, column), (*node.values, value))
            self._count += 1
            heapq.heappush(self._nodes, child)

    def _relax(self, node: _Node) -> tuple[float, Array | None]:
        """Return the bound of a node, and its relaxation's optimum or None if it is infeasible."""
        relaxation, master = self.relaxation, self.relaxation.master
        columns = np.array(node.columns, dtype=np.int64)
        values = np.array(node.values)
        master.fix(columns, values, values)
        bound, point = node.bound, None
        try:
            for step in range(_MAX_STEPS + 1):
                answer = master.solve()
                if answer is None:
                    return math.inf, None
                gained, (found, point) = answer[0] - bound, answer
                bound = max(bound, found)
                way = self._needed() - bound
                if way <= 0 or step == _MAX_STEPS or (step > 1 and gained < _SMALL_GAIN * way):
                    break
                relaxation.value(point, relaxation.some(), may_be_late=_LATE)
                relaxation.cut(point)
        finally:
            master.release(columns)
        return bound, point

    def _unpaid(self, point: Array) -> Array:
        """Return what openings in part cost less than whole ones, shape (levels, quarters).

        Spare hosts at the prices of the relaxation; of an opening that is nearly closed, what is
        paid for in vain.
        """
        relaxation, first = self.relaxation, self.relaxation.first
        part = point[self._by_level]
        rows, _ = relaxation.master.duals()
        at = first.rows["C5"]
        price = np.abs(rows[at]).reshape(first.usable.shape)
        each = np.array([level.step * price[level.pool] for level in relaxation.data.levels])
        is_part = (part > _PART) & (part < 1 - _PART)
        spares = float(relaxation.data.spares)
        return np.where(is_part, np.minimum(part, 1 - part) * each * spares, 0.0)

    def _round(self, point: Array) -> None:
        """Ask the master what openings rounded promise, if they are new."""
        chosen = np.asarray(point[self.switches] > _GOOD_PART, dtype=float)
        key = chosen.tobytes()
        if key not in self._roundings:
            self._roundings[key] = self.relaxation.promise(self.switches, chosen)

    def _best_rounding(self) -> Array | None:
        """Return the openings that promise most, and not again."""
        known = [item for item in self._roundings.items() if math.isfinite(item[1][0])]
        found = sorted(known, key=lambda item: item[1][0])[:_ASKED_AGAIN]
        # With cuts that were learned since, some promise less.
        again = [
            (*self.relaxation.promise(self.switches, np.frombuffer(key)), key) for key, _ in found
        ]
        if not again:
            return None
        promised, guess, key = min(again, key=lambda item: item[0])
        for cost, point, other in again:
            self._roundings[other] = cost, point
        if promised >= self.relaxation.wanted():
            return None
        self._roundings[key] = math.inf, guess
        return guess
