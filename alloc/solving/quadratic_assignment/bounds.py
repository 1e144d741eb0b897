r"""Lower bounds of quadratic assignment, and a proof by branch and bound on them.

The products ``x_ij x_kl`` of the level-1 reformulation (RLT) cost ``C_ijkl``, and every pair of
complementary products ``x_ij x_kl = x_kl x_ij`` may share its cost between ``C_ijkl`` and
``C_klij`` at will. Dual ascent (Hahn and Grant) keeps for every permutation p the identity

    cost(p) = bound + sum_i L[i, p(i)] + sum_{i != k} C[i, p(i), k, p(k)],    L, C >= 0,

and moves cost into ``bound``: spread ``L_ij`` over the submatrix of (i, j), pull in complementary
costs, solve its linear assignment problem and leave its reduced costs; then solve that of ``L``.
Whatever the number of rounds, the bound is valid, and its limit is nearly that of the RLT-1
relaxation, which is far stronger than the bound of Gilmore and Lawler.

References
----------
Gilmore. Optimal and suboptimal algorithms for the quadratic assignment problem. J. SIAM 10(2),
1962. doi:10.1137/0110022. Lawler. The quadratic assignment problem. Management Science 9(4), 1963.
Hahn, Grant. Lower bounds for the quadratic assignment problem based upon a dual formulation.
Operations Research 46(6), 1998. doi:10.1287/opre.46.6.912.
Adams, Johnson. Improved linear programming-based lower bounds for the quadratic assignment problem.
DIMACS Series 16, 1994.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from alloc.problems.quadratic_assignment import Array, Permutation, QuadraticAssignment

LARGEST_FOR_ASCENT = 50
"""Facilities up to which the dual ascent, whose memory grows with n^4, is tried: 50 MB."""

_FORBIDDEN = 1e3
"""Reduced cost of a ruled-out pair, in units of the largest cost: never worth its price."""


def gilmore_lawler_bound(problem: QuadraticAssignment) -> float:
    """Return the bound of Gilmore and Lawler.

    The entry (i, j) of a linear assignment problem is the least that facility i pays at location j:
    its flows in increasing order against the distances in decreasing order.
    """
    a, b, n = problem.flow, problem.distance, problem.size
    costs = np.outer(np.diagonal(a), np.diagonal(b))
    if n > 1:
        others = _others(n)
        flows = np.sort(np.take_along_axis(a, others, axis=1), axis=1)
        ways = np.sort(np.take_along_axis(b, others, axis=1), axis=1)[:, ::-1]
        costs = costs + flows @ ways.T
    # The value of duals that are feasible by construction, not of SciPy's assignment.
    value, _, _ = _duals(costs[None])
    return _safe(float(value[0]), float(np.abs(costs).sum()))


def round_up_to_step(bound: float, objective: float, step: float) -> float:
    """Return the least cost not below a bound that differs from the objective by whole steps.

    Parameters
    ----------
    bound
        A lower bound, or -inf.
    objective
        Cost of any permutation.
    step
        Every two costs differ by a whole multiple of this, at least 0; 0 leaves the bound as it is.
    """
    if step == 0.0 or not math.isfinite(bound):
        return bound
    return objective - step * math.floor((objective - bound) / step + 1e-6)


def _safe(bound: float, magnitude: float) -> float:
    """Take off what rounding may have added."""
    return bound - 1e-11 * max(1.0, magnitude)


def _others(n: int) -> npt.NDArray[np.int64]:
    """Return for every index the others in order, shape (n, n - 1)."""
    grid = np.broadcast_to(np.arange(n), (n, n))
    return grid[~np.eye(n, dtype=bool)].reshape(n, n - 1)


def _duals(costs: Array) -> tuple[Array, Array, Array]:
    """Solve linear assignment problems; return values and optimal duals of rows and columns.

    Parameters
    ----------
    costs
        Shape (problems, m, m).
    """
    count, m, _ = costs.shape
    row_of = np.empty((count, m), dtype=np.int64)
    for s in range(count):
        rows, columns = linear_sum_assignment(costs[s])
        row_of[s, columns] = rows
    problem = np.arange(count)[:, None]
    ordered = costs[problem, row_of]  # the row of column j first
    own = np.einsum("sjj->sj", ordered)
    slack = ordered - own[:, :, None]
    # Potentials are shortest ways in the residual graph (Bellman and Ford).
    v = np.zeros((count, m))
    for _ in range(m):
        shorter = (v[:, :, None] + slack).min(axis=1)
        if (shorter >= v - 1e-9).all():
            break
        np.minimum(v, shorter, out=v)
    u = np.empty_like(v)
    # What the slack leaves is taken from the row, so that reduced costs are never negative.
    u[problem, row_of] = (ordered - v[:, None, :]).min(axis=2)
    return u.sum(axis=1) + v.sum(axis=1), u, v


@dataclass
class DualAscent:
    """The state of a dual ascent; see the module.

    Parameters
    ----------
    bound
        The bound so far.
    leaders
        L, shape (n, n).
    costs
        C, shape (n, n, n, n); entries with i = k or j = l are zero and mean nothing.
    """

    bound: float
    leaders: Array
    costs: Array

    @staticmethod
    def of(problem: QuadraticAssignment) -> DualAscent:
        """Return the start: no bound, all costs in place."""
        a, b, n = problem.flow, problem.distance, problem.size
        costs = a[:, None, :, None] * b[None, :, None, :]
        index = np.arange(n)
        costs[index, :, index, :] = 0.0
        costs[:, index, :, index] = 0.0
        state = DualAscent(0.0, np.outer(np.diagonal(a), np.diagonal(b)), costs)
        state._make_non_negative()
        return state

    def _make_non_negative(self) -> None:
        """Take constants out, so that costs start at 0 or more."""
        n = len(self.leaders)
        least = min(float(self.costs.min()), 0.0)
        if least < 0:
            self.costs -= least
            self._clear()
            self.bound += least * n * (n - 1)
        self._close()

    def _clear(self) -> None:
        index = np.arange(len(self.leaders))
        self.costs[index, :, index, :] = 0.0
        self.costs[:, index, :, index] = 0.0

    def _close(self) -> None:
        """Move what all permutations pay of L into the bound."""
        value, u, v = _duals(self.leaders[None])
        self.bound += float(value[0])
        self.leaders = self.leaders - u[0][:, None] - v[0][None, :]

    def round(self) -> None:
        """Raise the bound once: spread, share, solve every submatrix, close."""
        n = len(self.leaders)
        if n > 1:
            m, others = n - 1, _others(n)
            j, row, column = np.arange(n)[:, None, None], np.arange(m)[:, None], others[:, None, :]
            # Every row of the submatrix holds one product that is paid with x_ij.
            shared = self.costs + (self.leaders / m)[:, :, None, None]
            # Complementary products take half each. Taking all of it, facility by facility, ends
            # in far worse fixed points.
            shared = (shared + shared.transpose(2, 3, 0, 1)) / 2
            self.costs = np.zeros_like(shared)
            for i in range(n):
                # [j, k, l] without k = i and l = j
                sub = shared[i][:, others[i], :][j, row, column]
                self.leaders[i], u, v = _duals(sub)
                sub -= u[:, :, None]
                sub -= v[:, None, :]
                self.costs[i, j, others[i][:, None], column] = sub
        self._close()

    def exclude(self, above: float) -> bool:
        """Rule out the pairs whose reduced cost takes the bound above a limit; say if any."""
        high = self.leaders >= above - self.bound
        forbidden = _FORBIDDEN * max(1.0, abs(above), abs(self.bound))
        new = high & (self.leaders < forbidden / 2)
        self.leaders[new] = forbidden
        return bool(new.any())

    def fix(self, i: int, j: int) -> DualAscent:
        """Return the state of the smaller problem in which facility i is at location j.

        Parameters
        ----------
        i
            A facility, 0 <= i < n.
        j
            Its location, 0 <= j < n.
        """
        n = len(self.leaders)
        k = np.delete(np.arange(n), i)
        m = np.delete(np.arange(n), j)
        leaders = self.leaders[np.ix_(k, m)] + self.costs[i, j][np.ix_(k, m)]
        leaders = leaders + self.costs[:, :, i, j][np.ix_(k, m)]
        costs = self.costs[np.ix_(k, m, k, m)].copy()
        return DualAscent(self.bound + float(self.leaders[i, j]), leaders, costs)


def ascend(
    state: DualAscent, *, enough: float, deadline: float, rounds: int = 1000, slowest: float = 1e-4
) -> float:
    """Raise the bound until it is enough, time is up, or a round gains too little.

    Parameters
    ----------
    state
        Is changed.
    enough
        Value of the bound at which to stop.
    deadline
        On the clock of `time.perf_counter`.
    rounds
        Most rounds.
    slowest
        Least gain of a round, as a share of the distance to `enough`.

    Returns
    -------
    float
        The bound, rounding taken off.
    """
    magnitude = max(1.0, abs(enough) if math.isfinite(enough) else 1.0)
    for _ in range(rounds):
        if state.bound >= enough or time.perf_counter() >= deadline:
            break
        before = state.bound
        state.round()
        gain, distance = state.bound - before, max(enough - before, 1e-9 * magnitude)
        if gain < slowest * distance:
            break
    return _safe(state.bound, magnitude * len(state.leaders))


@dataclass(frozen=True)
class Proof:
    """What branch and bound proved.

    Parameters
    ----------
    bound
        Least cost that is not ruled out.
    nodes
        Nodes visited.
    permutation
        A permutation cheaper than the one that it started from, or None.
    """

    bound: float
    nodes: int
    permutation: Permutation | None


_ROUNDS_AT_NODE = 12
"""Most rounds of ascent at a node: its parent's reduced costs leave little to gain in more."""


def branch_and_bound(
    problem: QuadraticAssignment,
    incumbent: Permutation,
    *,
    deadline: float,
    root: DualAscent | None = None,
    margin: float = 1e-9,
) -> Proof:
    """Prove how good a permutation is, or find a cheaper one.

    Margins for rounding are absolute: entries that are no whole numbers are to be about 1.

    Depth first; a node fixes the facility whose leaders add up to most. A node inherits the reduced
    costs of its parent, so that a few rounds raise its bound.

    Parameters
    ----------
    problem
        The problem.
    incumbent
        The best permutation known.
    deadline
        When to stop, on the clock of `time.perf_counter`.
    root
        State of an ascent to start from, or None.
    margin
        How far below the incumbent's cost a node is closed, relative to that cost or to 1; of costs
        that come in steps, the steps say.
    """
    search = _Search(problem, incumbent, deadline, margin)
    state = root if root is not None else DualAscent.of(problem)
    everything = np.arange(problem.size)
    search.visit(state, everything, everything, {})
    bound = round_up_to_step(min(search.open_bound, search.closed_bound), search.cost, problem.step)
    better = None if search.cost >= problem.cost(incumbent) else search.permutation
    return Proof(bound, search.nodes, better)


class _Search:
    """One branch and bound."""

    def __init__(
        self,
        problem: QuadraticAssignment,
        incumbent: Permutation,
        deadline: float,
        margin: float,
    ) -> None:
        self.problem, self.deadline, self.margin = problem, deadline, margin
        self.permutation, self.cost = incumbent, problem.cost(incumbent)
        self.open_bound, self.nodes, self.cut = math.inf, 0, False

    @property
    def closed_bound(self) -> float:
        """What the nodes that were closed prove."""
        # Without a step a bound closes nodes a margin before the cost; leaves are looked at whole.
        return self.enough if self.cut and not self.problem.step else self.cost

    @property
    def enough(self) -> float:
        """Bound from which on a node holds nothing better."""
        size = max(1.0, abs(self.cost))
        if self.problem.step:
            # A margin for rounding keeps a node that holds a cost of just one step less.
            return self.cost - self.problem.step * (1 - 1e-3) + 1e-10 * size
        return self.cost - self.margin * size

    def visit(
        self, state: DualAscent, rows: Permutation, columns: Permutation, fixed: dict[int, int]
    ) -> None:
        """Search a node: facilities `rows` are still to be put on locations `columns`."""
        self.nodes += 1
        if len(rows) <= 3:
            self._leaf(rows, columns, fixed)
            return
        bound = ascend(
            state, enough=self.enough, deadline=self.deadline, rounds=_ROUNDS_AT_NODE, slowest=0.02
        )
        if bound >= self.enough:
            self.cut = True
            return
        if time.perf_counter() >= self.deadline:
            self.open_bound = min(self.open_bound, bound)
            return
        state.exclude(self.enough)
        i, by_row = self._widest(state.leaders)
        line = state.leaders[i] if by_row else state.leaders[:, i]
        for j in np.argsort(line, kind="stable").tolist():
            if state.bound + line[j] >= self.enough:
                self.cut = True
                break
            at = (i, j) if by_row else (j, i)
            child = state.fix(*at)
            inner = {**fixed, int(rows[at[0]]): int(columns[at[1]])}
            self.visit(child, np.delete(rows, at[0]), np.delete(columns, at[1]), inner)

    def _widest(self, leaders: Array) -> tuple[int, bool]:
        """Return the facility or location whose choices are fewest and dearest."""
        capped = np.minimum(leaders, max(self.enough, 1.0))
        rows, columns = capped.sum(axis=1), capped.sum(axis=0)
        by_row = bool(rows.max() >= columns.max())
        return int((rows if by_row else columns).argmax()), by_row

    def _leaf(self, rows: Permutation, columns: Permutation, fixed: dict[int, int]) -> None:
        permutation = np.empty(self.problem.size, dtype=np.int64)
        for i, j in fixed.items():
            permutation[i] = j
        for order in permutations(columns.tolist()):
            permutation[rows] = order
            cost = self.problem.cost(permutation)
            if cost < self.cost:
                self.permutation, self.cost = permutation.copy(), cost
