r"""Host patterns: the relaxation of placement that knows what fits on one host.

A linear program over "how many tasks of each class does each host get" is weak: it moves fractions
of tasks, so that hosts balance as they never can. Here a *pattern* says for one host which tasks it
keeps and which it takes in, all of it whole (Dantzig and Wolfe 1960; for cutting stock Gilmore and
Gomory 1961). What ties hosts together, that every task is somewhere once, is priced.

Sets
----
h in H
    Hosts, of a few kinds (capacity, GPU types).
c in C
    Classes: tasks of equal demand that may stand on the same hosts.
g in G, r in R_g
    Gangs that must stand in one domain, and the domains in which they have tasks now.
i in I
    Items of patterns: every class; and for a gang, a domain of it and a class, the *local* item
    (g, r, c), which only hosts of that domain take.
p in P_h
    Patterns of host h: x_pi tasks of each item within the host's capacity, its pinned tasks beside
    them; besides those it keeps, at most as many of an item as there are in all.

Parameters
----------
n_hi
    Tasks of item i on host h now.
d_pi = max(0, n_hi - x_pi)
    Tasks of item i that leave; d_p of all items.
s_i
    Demand of a task of item i, a load: one number a resource.
f_h(u)
    What load u of host h costs: its share of each resource above the mean (balance), and 1 if it
    is used (hosts_used, gpu_hosts_used, whole_hosts_free), each times its weight in the goal.
e_i
    What having a task of item i costs: minus its GPUs times the weight of gpus_placed, and its
    part of the weight_placed of its job.
w_i
    What it costs that a task of item i leaves its host (moves, moved_gb).
k_p = f_h(u_p) + sum_i w_i d_pi + sum_i e_i x_pi
    Cost of a pattern.
L_i, U_i
    Least and most tasks of item i in all: what must run, and what may. 0 for local items, unless
    it is settled that their gang stays.
q_gc
    Tasks of gang g in class c.
D
    Most moves.

Variables
---------
z_p binary
    Host h follows pattern p.
y_gr binary
    Gang g stands wholly in domain r. If in none of R_g, its tasks are counted with their class:
    that they stand together elsewhere is relaxed.

Program
-------
min sum_p k_p z_p

(P1) one pattern:   sum_{p in P_h} z_p = 1                                        for all h
(P2) every task:    L_c <= sum_p x_pc z_p + sum_gr q_gc y_gr <= U_c               for all c
(P3) together:      L_i <= sum_p x_pi z_p - q_gc y_gr <= U_i            for all local i = (g, r, c)
(P4) one domain:    sum_r y_gr <= 1                                               for all g
(P5) moves:         sum_p d_p z_p <= D

Bound
-----
With prices pi for (P2) and (P3) and mu >= 0 for (P5), every placement costs at least
(Geoffrion 1974)

    sum_i (pi_i L_i if pi_i >= 0 else pi_i U_i) - mu D
      + sum_g min(0, min_r sum_c q_gc (pi_(g,r,c) - pi_c))
      + sum_h min_{p in P_h} (k_p + mu d_p - sum_i pi_i x_pi).

The best prices give the value of the linear relaxation of (P1)-(P5), far above that of the plain
linear program. What is left comes mostly from y_gr between 0 and 1 (branching).

Pricing problem
---------------
The minimum over the patterns of a host is a knapsack over its load. With W(u) the least cost of
completing load u by tasks taken in,

    W(u) = min over counts a_i of  f(u + sum_i a_i s_i) + sum_i (e_i - price_i) a_i,

one table serves all hosts of a kind: it is filled item by item over the grid of loads, vectorised.
A host then tries each subset K of the tasks it has now: W(load of K) - sum_{i in K} (price_i - e_i
+ w_i + mu). Loads live on a grid whose step is the greatest common divisor of all demands and
capacities; where that grid is too fine it is coarsened and demands are rounded down, which keeps
the bound valid and makes patterns too optimistic (`Patterns.exact` is then False).

References
----------
Dantzig, Wolfe, "Decomposition principle for linear programs", Operations Research 8 (1960).
Gilmore, Gomory, "A linear programming approach to the cutting-stock problem", OR 9 (1961).
Geoffrion, "Lagrangean relaxation for integer programming", Mathematical Programming Study 2 (1974).
Vanderbeck, "On Dantzig-Wolfe decomposition in integer programming", OR 48 (2000).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array

Ints = npt.NDArray[np.int64]

_MOST_SUBSETS = 17
"""Tasks of a host up to which all subsets are tried; with more, a dynamic program is cheaper."""


@dataclass(frozen=True)
class Kind:
    """Hosts of equal capacity on which the same items may stand.

    Parameters
    ----------
    cost
        f on the grid of loads, shape (steps + 1 of each resource).
    classes
        Which classes its hosts admit, shape (C,).
    """

    cost: Array
    classes: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Stay:
    """A gang standing wholly in one domain: y_gr, its local items, their classes and tasks."""

    gang: int
    items: Ints
    classes: Ints
    counts: Ints


@dataclass(frozen=True)
class Patterns:
    """The numbers of the program above.

    Parameters
    ----------
    kinds
        Kinds of hosts.
    kind_of
        Kind of each host, shape (hosts,).
    base
        Load of the pinned tasks of each host, grid steps, shape (hosts, resources).
    now
        For each host, the items of the tasks it has now, one entry a task.
    local
        For each host, the local items that it may take.
    demand
        Demand of a task of each item, grid steps, shape (I, resources).
    copies
        Most tasks of each item on one host, shape (I,).
    charge
        e_i, shape (I,).
    least, most
        L_i and U_i, shape (I,); the classes are the first items. In a sample of the hosts they are
        its share of the tasks, and need not be whole.
    stays
        The y_gr.
    move_weight
        w_i, shape (I,).
    budget
        D, or infinity.
    constant
        Cost of the pinned tasks.
    exact
        Whether every pattern fits its host and costs what it says.
    together
        Whether every gang must stand in a domain of its own: (P4) is an equation.
    """

    kinds: tuple[Kind, ...]
    kind_of: Ints
    base: Ints
    now: tuple[Ints, ...]
    local: tuple[Ints, ...]
    demand: Ints
    copies: Ints
    charge: Array
    least: Array
    most: Array
    stays: tuple[Stay, ...]
    move_weight: Array
    budget: float
    constant: float
    exact: bool
    together: bool = False

    @property
    def num_hosts(self) -> int:
        """Number of hosts."""
        return len(self.kind_of)

    @property
    def num_items(self) -> int:
        """Number of items, |I|."""
        return len(self.demand)

    def scaled(self, factor: float) -> Patterns:
        """Return the program with f weighed by a factor: what hosts cost against moves."""
        kinds = tuple(replace(kind, cost=factor * kind.cost) for kind in self.kinds)
        return replace(self, kinds=kinds)


@dataclass(frozen=True)
class Priced:
    """The best pattern of each host at some prices.

    Parameters
    ----------
    value
        Its cost less the price of its tasks, shape (hosts,).
    counts
        x_pi, shape (hosts, I).
    cost
        k_p, shape (hosts,).
    moved
        d_p, shape (hosts,).
    """

    value: Array
    counts: npt.NDArray[np.int16]
    cost: Array
    moved: Ints


Piece = tuple[int, int, tuple[int, ...]]
"""Some tasks of an item taken together: item, how many, and their load in grid steps."""


def pieces(item: int, copies: int, demand: Ints, room: Ints) -> Iterator[Piece]:
    """Yield pieces of 1, 2, 4 ... tasks of which any number up to `copies` is a sum."""
    needed = demand > 0
    fit = int((room[needed] // demand[needed]).min()) if needed.any() else copies
    left, times = min(copies, fit), 1
    while left > 0:
        times = min(times, left)
        yield item, times, tuple(int(times * d) for d in demand)
        left -= times
        times *= 2


class Pricing:
    """Solves the pricing problem of all hosts, exactly.

    Parameters
    ----------
    patterns
        The program.
    """

    def __init__(self, patterns: Patterns) -> None:
        self.patterns = p = patterns
        self._pieces: list[list[Piece]] = []
        for kind in p.kinds:
            room = np.array(kind.cost.shape) - 1
            self._pieces.append(
                [
                    piece
                    for c in np.flatnonzero(kind.classes)
                    for piece in pieces(int(c), int(p.copies[c]), p.demand[c], room)
                ]
            )
        self._groups = _group_hosts(p)
        self._subsets = [_subset_loads(p, h) for h in range(p.num_hosts)]
        most = max(
            (
                sum(_cells(kind.cost, piece) for piece in own)
                for kind, own in zip(p.kinds, self._pieces, strict=True)
            ),
            default=0,
        )
        self._pool = np.empty(most, dtype=bool)

    @property
    def work(self) -> float:
        """Table cells filled in one evaluation."""
        p = self.patterns
        fill = sum(
            _cells(kind.cost, piece)
            for kind, own in zip(p.kinds, self._pieces, strict=True)
            for piece in own
        )
        tables = sum(
            p.kinds[k].cost.size * (1 + 3 * len(local))
            for k, local, _ in self._groups
            if len(local)
        )
        tries = sum(
            3 * len(p.now[h]) * p.kinds[int(p.kind_of[h])].cost.size
            if loads is None
            else 3 * len(loads)
            for h, loads in enumerate(self._subsets)
        )
        return float(fill + tables + tries)

    def solve(self, prices: Array, move_price: float = 0.0) -> Priced:
        """Return the best pattern of each host.

        Parameters
        ----------
        prices
            pi, shape (I,).
        move_price
            mu.
        """
        p = self.patterns
        worth = prices - p.charge
        moving = p.move_weight + move_price
        value = np.zeros(p.num_hosts)
        counts = np.zeros((p.num_hosts, p.num_items), dtype=np.int16)
        load = p.base.copy()
        for k, kind in enumerate(p.kinds):
            table = kind.cost.copy()
            took = fill_table(table, self._pieces[k], worth, self._pool)
            for own, local, hosts in self._groups:
                if own == k:
                    self._solve_group(table, local, hosts, worth, moving, (value, counts, load))
            mine = np.flatnonzero(p.kind_of == k)
            for (item, times, shift), flags in zip(
                reversed(self._pieces[k]), reversed(took), strict=True
            ):
                fits = (load[mine] + shift < kind.cost.shape).all(axis=1)
                at = mine[fits]
                at = at[flags[tuple(load[at].T)]]
                load[at] += shift
                counts[at, item] += times
        cost, moved = self.cost_of(counts, load)
        return Priced(value, counts, cost, moved)

    def _solve_group(
        self,
        table: Array,
        local: Ints,
        hosts: Ints,
        worth: Array,
        moving: Array,
        found: tuple[Array, npt.NDArray[np.int16], Ints],
    ) -> None:
        """Choose the tasks that hosts with the same local items keep, and those items."""
        p = self.patterns
        value, counts, load = found
        room = np.array(table.shape) - 1
        mine = [
            piece for i in local for piece in pieces(int(i), int(p.copies[i]), p.demand[i], room)
        ]
        took: list[npt.NDArray[np.bool_]] = []
        if mine:
            table = table.copy()
            took = fill_table(table, mine, worth)
        flat = table.ravel()
        for h in hosts:
            tasks, loads = p.now[h], self._subsets[h]
            if loads is None:
                value[h] = _keep_many(p, table, h, worth, moving, counts, load)
            else:
                reduced = np.zeros(1)
                for i in tasks:
                    reduced = np.concatenate([reduced, reduced - (worth[i] + moving[i])])
                reduced += flat[loads]
                best = int(reduced.argmin())
                value[h] = reduced[best]
                keeps = tasks[(best >> np.arange(len(tasks))) & 1 == 1]
                np.add.at(counts[h], keeps, 1)
                load[h] += p.demand[keeps].sum(axis=0)
            value[h] += moving[tasks].sum()
            trace_back(mine, took, load[h], counts[h])

    def cost_of(self, counts: npt.NDArray[np.int16], load: Ints) -> tuple[Array, Ints]:
        """Return k_p and d_p for a pattern of each host and its load in grid steps."""
        p = self.patterns
        cost = counts @ p.charge
        for k, kind in enumerate(p.kinds):
            mine = np.flatnonzero(p.kind_of == k)
            cost[mine] += kind.cost[tuple(load[mine].T)]
        moved = np.zeros(p.num_hosts, dtype=np.int64)
        for h, tasks in enumerate(p.now):
            items, had = np.unique(tasks, return_counts=True)
            left = np.maximum(had - counts[h, items], 0)
            moved[h] = left.sum()
            cost[h] += left @ p.move_weight[items]
        return cost, moved


def lagrangian(patterns: Patterns, prices: Array, move_price: float, value: Array) -> float:
    """Return the bound of the prices, given each host's least reduced cost.

    Plain numpy, and lowered by what summation may have rounded up.
    """
    p = patterns
    supply = np.where(prices >= 0, prices * p.least, prices * p.most)
    least: dict[int, float] = {}
    for stay in p.stays:
        gain = float(stay.counts @ (prices[stay.items] - prices[stay.classes]))
        least[stay.gang] = min(least.get(stay.gang, gain if p.together else 0.0), gain)
    budget = 0.0 if move_price == 0.0 else move_price * p.budget
    total = float(supply.sum() + value.sum()) - budget + sum(least.values()) + p.constant
    size = float(np.abs(supply).sum() + np.abs(value).sum()) + budget + abs(p.constant)
    return total - 1e-12 * size


def _cells(table: Array, piece: Piece) -> int:
    return int(np.prod([n - s for n, s in zip(table.shape, piece[2], strict=True)]))


def fill_table(
    table: Array,
    items: list[Piece],
    worth: Array,
    pool: npt.NDArray[np.bool_] | None = None,
) -> list[npt.NDArray[np.bool_]]:
    """Let every load of a table take each piece where that is cheaper; return where it is."""
    took = []
    used = 0
    # One for all pieces: fresh memory for each would take longer than the sums.
    buffer = np.empty(table.size)
    for item, times, shift in items:
        size = tuple(n - s for n, s in zip(table.shape, shift, strict=True))
        cells = int(np.prod(size))
        flags = np.empty(size, bool) if pool is None else pool[used : used + cells].reshape(size)
        used += cells
        took.append(flags)
        if worth[item] <= 0:
            flags[...] = False  # costs do not decrease with the load
            continue
        without = table[tuple(slice(0, n) for n in size)]
        taking = buffer[:cells].reshape(size)
        np.subtract(table[tuple(slice(s, None) for s in shift)], times * worth[item], out=taking)
        np.less(taking, without, out=flags)
        np.minimum(taking, without, out=without)
    return took


def trace_back(
    items: list[Piece],
    took: list[npt.NDArray[np.bool_]],
    load: Ints,
    counts: npt.NDArray[np.signedinteger[Any]],
) -> None:
    """Follow the pieces that one host took, latest first, adding them to its load and counts."""
    for (item, times, shift), flags in zip(reversed(items), reversed(took), strict=True):
        if (load < flags.shape).all() and flags[tuple(load)]:
            load += shift
            counts[item] += times


def _keep_many(
    patterns: Patterns,
    table: Array,
    h: int,
    worth: Array,
    moving: Array,
    counts: npt.NDArray[np.int16],
    load: Ints,
) -> float:
    """Choose what a host with many tasks keeps, by a dynamic program instead of all subsets."""
    items, had = np.unique(patterns.now[h], return_counts=True)
    room = np.array(table.shape) - 1
    mine = [
        piece
        for i, n in zip(items, had, strict=True)
        for piece in pieces(int(i), int(n), patterns.demand[i], room)
    ]
    own = table.copy()
    took = fill_table(own, mine, worth + moving)
    value = float(own[tuple(load[h])])
    trace_back(mine, took, load[h], counts[h])
    return value


def _group_hosts(p: Patterns) -> list[tuple[int, Ints, Ints]]:
    """Return hosts grouped by kind and local items."""
    groups: dict[tuple[int, bytes], list[int]] = {}
    for h in range(p.num_hosts):
        groups.setdefault((int(p.kind_of[h]), p.local[h].tobytes()), []).append(h)
    return [(k, p.local[hosts[0]], np.array(hosts)) for (k, _), hosts in groups.items()]


def _subset_loads(p: Patterns, h: int) -> npt.NDArray[np.int32] | None:
    """Return the flat table position of each subset of a host's tasks, or None for too many."""
    shape = p.kinds[int(p.kind_of[h])].cost.shape
    tasks = p.now[h]
    whole = p.base[h] + p.demand[tasks].sum(axis=0)
    if len(tasks) > _MOST_SUBSETS or (whole >= shape).any():
        return None
    strides = np.array([shape[1] * shape[2], shape[2], 1])
    loads = np.array([p.base[h] @ strides], dtype=np.int32)
    for i in tasks:
        loads = np.concatenate([loads, loads + np.int32(p.demand[i] @ strides)])
    return loads
