r"""Admission, exactly: which waiting jobs to place whole, beside running jobs that stay.

Sets
----
h in H
    Bays: hosts alike, m_h of them.
c in C
    Classes of waiting tasks.
p in P_h
    Patterns of a bay: x_pc tasks of each class within the free capacity of one host.
k in K
    Kinds of waiting jobs, n_k of them.
o in O_k
    Options of a kind: a configuration in a domain D_o of the level it requires (or everywhere),
    with q_oc tasks of each class; it is worth v_o.

Variables
---------
z_p integer
    Hosts that follow pattern p.
y_o integer
    Jobs placed by option o.

Program
-------
max sum_o v_o y_o

(W1) hosts:    sum_{p in P_h} z_p <= m_h                                       for all h
(W2) room:     sum_{h in D} sum_{p in P_h} x_pc z_p >= sum_{o: D_o within D} q_oc y_o
                                    for every domain D that is some option's, and every class c
(W3) once:     sum_{o in O_k} y_o <= n_k                                       for all k

Domains form a tree, so (W2) is all it takes to deal the tasks out (Hall's theorem on a laminar
family): inner domains first, then outer ones take what is left. Tasks of one class are not told
apart, whatever job they belong to, and that is what makes the program small.

Bound
-----
With prices lam_Dc >= 0 for (W2), a task of class c is worth l_hc, the sum over the domains of bay
h, and every admission is worth at most

    sum_h m_h max_{p in P_h} sum_c l_hc x_pc
      + sum_k n_k max(0, max_{o in O_k} (v_o - sum_c q_oc sum_{D contains D_o} lam_Dc)).

The pattern of the first maximum is a knapsack over the free capacity, solved by the tables of
`alloc.solving.placement.patterns`. The bound is rounded down to a value that whole GPUs can have.

Search
------
The prices are often degenerate: many patterns are as good as the best, and those met while pricing
fit together badly. So more are collected at prices disturbed a little, and HiGHS chooses among all
of them. If that falls short of the bound, the program over *counts* decides, where an integer
a_hc on every single host h replaces the patterns,

(W4) capacity:  sum_c demand_cr a_hc <= free_hr                        for all h, r
(W5) worth:     sum_c v_c a_hc <= the most that a pattern of h has      for all h,

v_c being the GPUs of a task of class c. Its relaxation is weaker, (W5) apart, but HiGHS branches on
it well.

References
----------
Dantzig, Wolfe (1960), Gilmore, Gomory (1961), Geoffrion (1974), as for
`alloc.solving.placement.patterns`; Wentges, "Weighted Dantzig-Wolfe decomposition for linear
mixed-integer programming", Int. Trans. Oper. Res. 4 (1997), on smoothing the prices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.certificate import BoundProof
from alloc.clock import time_limit
from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import WeightedSum
from alloc.problems.allocation.solution import Allocation
from alloc.solving.placement.admission_rows import Rows
from alloc.solving.placement.bounds import placement_bound, round_up_to_grain
from alloc.solving.placement.dealing import deal
from alloc.solving.placement.knapsacks import Knapsacks
from alloc.solving.placement.tables import Ints
from alloc.solving.placement.waiting import Waiting, admission_obstacle, gather

_CONVERGED = 1e-6
"""Relative difference of bound and linear program at which patterns end: below it is rounding."""
_TOLERANCE = 1e-9
"""What a value may miss of a bound and still count as equal: both are sums of the same worths,
rounded differently."""
_SMOOTHING = 0.5
"""Weight of the best prices known in the prices that patterns are asked for at: near 1 the prices
hardly move, near 0 they swing from round to round."""
_CHOICE_NODES = (10, 1000)
"""Nodes of the search tree in which patterns are chosen, before and after more of them are
collected. Seconds would end it at another place on each machine."""
_DISTURBED = 30
"""Rounds of pricing at disturbed prices: each may add a pattern to every bay, so they also limit
the integer program that chooses among them."""
_NOISE = 0.05
"""Share by which a price is raised at most: patterns priced further off are seldom in a good
choice."""


@dataclass(frozen=True)
class Admission:
    """What is known about an admission problem.

    Parameters
    ----------
    allocation
        Running jobs and the waiting jobs placed; None if nothing was decided.
    value
        Its objective.
    bound
        A bound on every admission's objective.
    proof
        Whether the bound was recomputed or is HiGHS' word.
    """

    allocation: Allocation | None
    value: float
    bound: float
    proof: BoundProof


def solve_admission(
    data: PlacementData,
    level: WeightedSum,
    seconds: float,
    report: Callable[[str], None],
    *,
    known: float = -math.inf,
    workers: int = 1,
    seed: int = 0,
) -> Admission:
    """Place waiting jobs beside running ones that stay, with a proof.

    Parameters
    ----------
    data
        The numbers of the instance.
    level
        The goal: gpus_placed, weight_placed, or both weighed.
    seconds
        Wall time, seconds.
    report
        Takes a line of progress.
    known
        The best value known; when the bound agrees with it, nothing is searched for.
    workers, seed
        For HiGHS.

    Returns
    -------
    Admission
        Optimal when value and bound agree. If the problem is not one of pure admission
        (`admission_obstacle`) or too large, there is no allocation, and the bound is that of
        `placement_bound`. Where the time is up at once, there is neither.
    """
    deadline = time.perf_counter() + seconds
    obstacle = admission_obstacle(data, level)
    if obstacle is None:
        waiting = gather(data, level)
        knapsacks = Knapsacks(waiting)
        if not knapsacks.too_large:
            search = _Search(
                waiting, knapsacks, deadline, report, SolverOptions(0.0, seed, workers)
            )
            return search.run(data, level, known)
        obstacle = "the hosts have too much room to list patterns"
    report(f"no exact admission: {obstacle}")
    bound, proof = placement_bound(data, level, deadline - time.perf_counter(), report)
    return Admission(None, -math.inf, bound, proof)


class _Search:
    def __init__(
        self,
        waiting: Waiting,
        knapsacks: Knapsacks,
        deadline: float,
        report: Callable[[str], None],
        options: SolverOptions,
    ) -> None:
        self.waiting, self.knapsacks = waiting, knapsacks
        self.deadline, self.report, self.options = deadline, report, options
        self.rows = Rows(waiting)
        self.bay: list[int] = []
        self.counts: list[Ints] = []
        self._known: set[tuple[int, bytes]] = set()
        self.best = 0.0
        self.followed: list[tuple[int, Ints, int]] = []
        self.placed: Ints = np.zeros(len(waiting.options), dtype=np.int64)

    def run(self, data: PlacementData, level: WeightedSum, known: float) -> Admission:
        constant = self.waiting.constant

        def rounded(value: float) -> float:
            return -round_up_to_grain(-(value + constant), level, data) - constant

        found, prices = self._price()
        if math.isinf(found):
            return Admission(None, -math.inf, math.inf, "none")
        bound = rounded(found)
        proof: BoundProof = "recomputed"
        self.report(f"admission: patterns allow {found:.4f}, whole values {bound:g}")
        if known - constant >= bound - _TOLERANCE:
            return Admission(None, known, bound + constant, proof)
        for nodes in _CHOICE_NODES:
            self._choose(nodes)
            self.report(f"admission: {self.best:g} placed of {bound:g}")
            if self.best >= bound - _TOLERANCE or self._left() <= 0:
                break
            self._disturb(prices)
        if self.best < bound - _TOLERANCE and self._left() > 0:
            decided = rounded(self._count())
            self.report(f"admission: {self.best:g} placed, counts allow {decided:g}")
            if decided < bound:
                bound, proof = decided, "claimed"
        allocation = deal(data, self.waiting, self.followed, self.placed)
        return Admission(allocation, self.best + constant, bound + constant, proof)

    def _left(self) -> float:
        return max(self.deadline - time.perf_counter(), 0.0)

    def _price(self) -> tuple[float, Array]:
        """Generate patterns until the bound is the linear one; return it and its prices.

        The bound is infinite if the time was up before all bays were looked at.
        """
        rows = self.rows
        prices = rows.first_prices()
        best, best_prices = math.inf, prices
        rounds = 0
        while True:
            try:
                with time_limit(self._left()):
                    patterns, worth = self.knapsacks.solve(rows.task_prices(prices))
            except OutOfTime:
                return best, best_prices
            value = float(self.knapsacks.multiplicity @ worth) + rows.surplus(prices)
            value += 1e-12 * abs(value)
            if value < best:
                best, best_prices = value, prices
            added = sum(self._add(b, patterns[b]) for b in range(len(patterns)))
            try:
                linear, dual = self._linear()
            except OutOfTime:
                return best, best_prices
            rounds += 1
            if rounds % 10 == 0:
                self.report(
                    f"admission {rounds}: patterns allow {best:.4f}, those met {linear:.4f}"
                )
            converged = best - linear <= _CONVERGED * abs(best)
            if converged or self._left() <= 0:
                return best, best_prices
            weight = _SMOOTHING if added else 0.0
            if not added and np.allclose(prices, dual):
                return best, best_prices
            prices = weight * best_prices + (1.0 - weight) * dual

    def _add(self, bay: int, counts: Ints) -> bool:
        key = (bay, counts.tobytes())
        if key in self._known:
            return False
        self._known.add(key)
        self.bay.append(bay)
        self.counts.append(counts)
        return True

    def _linear(self) -> tuple[float, Array]:
        """Return the optimum of the linear program over the patterns met, and prices of (W2)."""
        model = self.rows.program(self.bay, self.counts, self.knapsacks.multiplicity, False)
        found = LinearProgram(model).optimum("the linear program of admission", self._left())
        return found.value, np.abs(found.duals[: self.rows.number])

    def _disturb(self, prices: Array) -> None:
        """Collect patterns that are nearly as good, at prices raised at random."""
        rng = np.random.default_rng(self.options.seed)
        exact = self.rows.task_prices(prices)
        for _ in range(_DISTURBED):
            noise = 1.0 + _NOISE * rng.random(len(self.waiting.demand))
            try:
                with time_limit(self._left()):
                    patterns, _ = self.knapsacks.solve([own * noise for own in exact])
            except OutOfTime:
                return
            for b, counts in enumerate(patterns):
                self._add(b, counts)

    def _choose(self, nodes: int) -> None:
        """Choose the best admission among the patterns met."""
        model = self.rows.program(self.bay, self.counts, self.knapsacks.multiplicity, True)
        raw = highs.solve(model, replace(self._limits(self._left()), nodes=nodes))
        if raw.values is None:
            return
        values = np.round(raw.values).astype(np.int64)
        if float(model.cost @ values) > self.best + _TOLERANCE:
            self.best = float(model.cost @ values)
            z, self.placed = values[: len(self.bay)], values[len(self.bay) :]
            self.followed = [
                (self.bay[i], self.counts[i], int(z[i])) for i in np.flatnonzero(z > 0)
            ]

    def _count(self) -> float:
        """Solve the program over counts; return HiGHS' bound."""
        program = self.rows.count_program(self.knapsacks)
        if program is None:
            return math.inf
        model, entries = program
        raw = highs.solve(model, self._limits(self._left()))
        if raw.values is not None:
            values = np.round(raw.values).astype(np.int64)
            if float(model.cost @ values) > self.best + _TOLERANCE:
                self.best = float(model.cost @ values)
                self.placed = values[len(entries) :]
                self.followed = []
                for key, group in groupby(enumerate(entries), key=lambda entry: entry[1][:2]):
                    counts = np.zeros(len(self.waiting.demand), dtype=np.int64)
                    for i, (_, _, c) in group:
                        counts[c] = values[i]
                    self.followed.append((key[0], counts, 1))
        return raw.bound

    def _limits(self, seconds: float) -> SolverOptions:
        return SolverOptions(seconds, self.options.seed, self.options.workers, gap=1e-9)
