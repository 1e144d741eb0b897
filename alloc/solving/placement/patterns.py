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
(P6) whole:         sum_{p keeps tasks of g} z_p <= y_gr                  for some hosts h in r

(P6) follows from the others in whole numbers, but not in fractions: these let three of four hosts
keep what they have of a gang of which three quarters stay. It is there for pairs of a host and a
gang where it is violated (`broken_holds`).

Bound
-----
With prices pi for (P2) and (P3), mu >= 0 for (P5) and rho >= 0 for (P6), every placement costs at
least
(Geoffrion 1974)

    sum_i (pi_i L_i if pi_i >= 0 else pi_i U_i) - mu D
      + sum_g min(0, min_r (sum_c q_gc (pi_(g,r,c) - pi_c) - sum_{h in r} rho_gh))
      + sum_h min_{p in P_h} (k_p + mu d_p - sum_i pi_i x_pi + sum_{g that p keeps} rho_gh).

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

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array
from alloc.solving.placement.tables import Ints


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
        Gangs that must stand in one of their domains: for them (P4) is an equation.
    holds
        Hosts and gangs with tasks on them for which (P6) is there.
    elsewhere
        For gangs of the y_gr, the hosts of each domain that they may stand in besides.
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
    together: frozenset[int] = frozenset()
    holds: tuple[tuple[int, int], ...] = ()
    elsewhere: Mapping[int, tuple[Ints, ...]] = field(default_factory=dict)

    @property
    def num_hosts(self) -> int:
        """Number of hosts."""
        return len(self.kind_of)

    @property
    def num_items(self) -> int:
        """Number of items, |I|."""
        return len(self.demand)

    def held(self) -> list[tuple[int, Ints]]:
        """Return for each of `holds` the stay of the gang there and its items on the host.

        The stay is -1, and there are no items, where it is decided that the gang stays or leaves.
        """
        stay_of = {(stay.gang, int(i)): s for s, stay in enumerate(self.stays) for i in stay.items}
        found = []
        for h, gang in self.holds:
            items = [i for i in np.unique(self.now[h]).tolist() if (gang, i) in stay_of]
            stay = stay_of[gang, items[0]] if items else -1
            found.append((stay, np.array(items, dtype=np.int64)))
        return found

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


def lagrangian(
    patterns: Patterns,
    prices: Array,
    move_price: float,
    value: Array,
    hold_prices: Array | None = None,
) -> float:
    """Return the bound of the prices, given each host's least reduced cost.

    Plain numpy, and lowered by what summation may have rounded up.

    Parameters
    ----------
    patterns
        The program.
    prices
        pi, shape (I,); any are valid.
    move_price
        mu, 0 or more.
    value
        Least reduced cost of the patterns of each host, or less, shape (hosts,).
    hold_prices
        rho, 0 or more, one for each of `Patterns.holds`; None: all 0.
    """
    p = patterns
    supply = np.where(prices >= 0, prices * p.least, prices * p.most)
    due = np.zeros(len(p.stays))
    if hold_prices is not None:
        for (stay_there, _), price in zip(p.held(), hold_prices, strict=True):
            if stay_there >= 0:
                due[stay_there] += price
    least: dict[int, float] = {}
    for s, stay in enumerate(p.stays):
        gain = float(stay.counts @ (prices[stay.items] - prices[stay.classes]) - due[s])
        least[stay.gang] = min(least.get(stay.gang, gain if stay.gang in p.together else 0.0), gain)
    budget = 0.0 if move_price == 0.0 else move_price * p.budget
    total = float(supply.sum() + value.sum()) - budget + sum(least.values()) + p.constant
    size = float(np.abs(supply).sum() + np.abs(value).sum() + due.sum()) + budget
    size += abs(p.constant)
    return total - 1e-12 * size
