r"""Robust tabu search for quadratic assignment, several searches side by side in numpy.

All searches of a batch take their step together, so that every numpy call works on an array of
shape (searches, n, n). For a swap of the facilities i and j of a search, the change of the cost is

    delta_ij = sum_{k not in {i, j}} (a_ki - a_kj) (b_kj - b_ki)      and the same of the transposes
             + (a_ii - a_jj) (b_jj - b_ii) + (a_ij - a_ji) (b_ji - b_ij)

with a the flow and b the distances of the places that the facilities hold. After the swap of u and
v every sum with i, j not in {u, v} changes by (w_i - w_j) (z_i - z_j), where w_i = a_ui - a_vi and
z_i = b_vi - b_ui (after the swap): a rank-four update, O(n^2); only the rows of u and v are summed
anew.

References
----------
Taillard. Robust taboo search for the quadratic assignment problem. Parallel Computing 17, 1991.
doi:10.1016/S0167-8191(05)80147-4.
Lourenço, Martin, Stützle. Iterated local search. Handbook of Metaheuristics, 2003.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.problems.quadratic_assignment import Array, Permutation, QuadraticAssignment

_REFRESH = 2000
"""Steps after which costs and changes are computed anew, so that rounding does not add up."""


@dataclass(frozen=True)
class TabuAnswer:
    """What a search found.

    Parameters
    ----------
    permutation
        The best permutation, shape (n,).
    cost
        Its cost.
    steps
        Steps that every search of the batch took.
    found_s
        Seconds after which it was found.
    """

    permutation: Permutation
    cost: float
    steps: int
    found_s: float


def tabu_search(
    problem: QuadraticAssignment,
    *,
    time_limit_s: float = 10.0,
    max_steps: int | None = None,
    seed: int = 0,
    target: float = -math.inf,
    start: npt.ArrayLike | None = None,
    calm_s: float = math.inf,
) -> TabuAnswer:
    """Search for a cheap permutation.

    Parameters
    ----------
    problem
        The problem.
    time_limit_s
        Wall time, seconds; one step is always taken.
    max_steps
        Most steps of each search, or None.
    seed
        Random seed. With `max_steps` and enough time the answer depends on nothing else.
    target
        Cost at which to stop: a proved bound.
    start
        Permutation that one of the searches starts from, or None.
    calm_s
        Stop when nothing better was found for so many seconds and three times as long as it took
        to find the best.
    """
    began = time.perf_counter()
    n = problem.size
    if n < 3:
        return _enumerated(problem)
    count = max(2, min(16, 40_000 // n**2))  # as many side by side as keep numpy busy
    batch = _Batch(problem, count, np.random.default_rng(seed))
    if start is not None:
        problem.cost(start)
        batch.place[0] = np.asarray(start, dtype=np.int64)
    batch.refresh()
    batch.note_best()
    best, found_s, steps = math.inf, 0.0, 0
    permutation = batch.place[0].copy()
    # A search without progress for so long starts again, from the best or from nowhere.
    patience = 40 * n * max(1, n // 10)
    tolerance = 1e-9 * max(1.0, float(np.abs(batch.cost).max()))
    while True:
        leader = int(batch.best_cost.argmin())
        if batch.best_cost[leader] < best - tolerance:
            permutation = batch.best_place[leader].copy()
            best = float(batch.best_cost[leader])
            found_s = time.perf_counter() - began
        if best <= target + tolerance or (max_steps is not None and steps >= max_steps):
            break
        spent = time.perf_counter() - began
        if steps and (spent >= time_limit_s or spent >= calm_s + 4 * found_s):
            break
        batch.step()
        steps += 1
        if steps % _REFRESH == 0:
            batch.refresh()
        stale = np.flatnonzero(batch.now - batch.progress > patience)
        if stale.size:
            batch.restart(stale, permutation)
    return TabuAnswer(permutation, problem.cost(permutation), steps, found_s)


def _enumerated(problem: QuadraticAssignment) -> TabuAnswer:
    orders = [np.arange(problem.size), np.arange(problem.size)[::-1].copy()]
    best = min(orders, key=problem.cost)
    return TabuAnswer(best.astype(np.int64), problem.cost(best), 0, 0.0)


class _Batch:
    """Searches that step together; arrays have the search as their first axis."""

    def __init__(self, problem: QuadraticAssignment, count: int, rng: np.random.Generator) -> None:
        a, b = problem.flow, problem.distance
        self.n, self.rng, self.rows = problem.size, rng, np.arange(count)
        # One symmetric matrix makes the other's halves count alike: one sum instead of two.
        self.symmetric = np.array_equal(a, a.T) or np.array_equal(b, b.T)
        if self.symmetric:
            a, b = (a + a.T) / 2, (b + b.T) / 2
        self.a, self.b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        self.a_t = np.ascontiguousarray(self.a.T)
        self.place = np.stack([rng.permutation(self.n) for _ in range(count)]).astype(np.int64)
        self.best_cost = np.full(count, np.inf)
        self.best_place = self.place.copy()
        self.now = 0
        self.progress = np.zeros(count, dtype=np.int64)
        # Of facility i and the place of facility j: the step until which i may not return there.
        self.tabu = self._fresh_tabu(count)
        self.diagonal = np.arange(self.n)
        self.longest, self.aspiration = 8.0 * self.n, 5.0 * self.n**2

    def _fresh_tabu(self, count: int) -> Array:
        spread = self.n * np.arange(self.n)[:, None] + np.arange(self.n)
        return np.broadcast_to(-(spread + 1.0), (count, self.n, self.n)).copy()

    def refresh(self) -> None:
        """Compute costs and changes from the permutations."""
        p = self.place
        self.c = self.b[p[:, :, None], p[:, None, :]]
        self.cost = np.einsum("ik,rik->r", self.a, self.c)
        self.d = self._sums(self.a, self.c)
        if not self.symmetric:
            self.d += self._sums(self.a_t, self.c.transpose(0, 2, 1))
        else:
            self.d *= 2

    def _sums(self, a: Array, c: Array) -> Array:
        """Return ``sum_{k not in {i, j}} (a_ki - a_kj) (c_kj - c_ki)``, shape (searches, n, n)."""
        cross = np.matmul(a.T, c)  # sum_k a_ki c_kj
        own = np.einsum("rii->ri", cross)
        total = cross + cross.transpose(0, 2, 1) - own[:, :, None] - own[:, None, :]
        da, dc = np.diagonal(a), np.einsum("rii->ri", c)
        ends = (da[:, None] - a) * (c - dc[:, :, None])  # k = i
        result: Array = total - ends - ends.transpose(0, 2, 1)
        return result

    def _row(self, a: Array, c: Array, own: Array, u: npt.NDArray[np.int64]) -> Array:
        """Return the sums of the pairs (u, j) for all j, shape (searches, n)."""
        r = self.rows
        a_u, c_u = a[:, u].T, c[r, :, u]
        total = np.matmul(a_u[:, None, :], c)[:, 0, :] + c_u @ a
        total -= own + own[r, u][:, None]
        at_u = (a[u, u][:, None] - a[u]) * (c[r, u] - c[r, u, u][:, None])
        da, dc = np.diagonal(a), c[:, self.diagonal, self.diagonal]
        at_j = (a[:, u].T - da) * (dc - c[r, :, u])
        result: Array = total - at_u - at_j
        return result

    def _changes(self) -> Array:
        """Return the change of the cost by every swap."""
        if self.symmetric:
            a_d, c_d = np.diagonal(self.a), self.c[:, self.diagonal, self.diagonal]
            if not a_d.any() or not np.ptp(c_d):
                return self.d
            change: Array = self.d + (a_d[:, None] - a_d) * (c_d[:, None, :] - c_d[:, :, None])
            return change
        a_d, c_d = np.diagonal(self.a), self.c[:, self.diagonal, self.diagonal]
        change = (self.a - self.a_t) * (self.c.transpose(0, 2, 1) - self.c)
        change += self.d
        change += (a_d[:, None] - a_d) * (c_d[:, None, :] - c_d[:, :, None])
        return change

    def step(self) -> None:
        """Let every search take its best swap that is not tabu."""
        self.now += 1
        n, r = self.n, self.rows
        change = self._changes()
        until = np.maximum(self.tabu, self.tabu.transpose(0, 2, 1))
        least = np.minimum(self.tabu, self.tabu.transpose(0, 2, 1))
        # Not tabu, or better than ever, or neither end has been there for very long.
        allowed = least < self.now
        better = change < (self.best_cost - self.cost)[:, None, None] - 1e-9
        allowed |= better
        forced = until < self.now - self.aspiration
        value = np.where(allowed, change, np.inf)
        if forced.any():
            # Such moves go first, and a new best before them.
            value = np.where(forced & ~better.any(axis=(1, 2))[:, None, None], change - 1e15, value)
        value[:, self.diagonal, self.diagonal] = np.inf
        pick = value.reshape(len(r), -1).argmin(axis=1)
        u, v = np.divmod(pick, n)
        moved = np.isfinite(value.reshape(len(r), -1)[r, pick])
        if not moved.all():
            # All swaps tabu: any of them.
            u = np.where(moved, u, self.rng.integers(n, size=len(r)))
            v = np.where(moved, v, (u + 1 + self.rng.integers(n - 1, size=len(r))) % n)
        self._swap(u, v, change[r, u, v])
        self.note_best()

    def _swap(self, u: npt.NDArray[np.int64], v: npt.NDArray[np.int64], change: Array) -> None:
        r = self.rows
        self.cost += change
        # Neither may go back to the place it leaves for a random while.
        tenure = self.longest * self.rng.random((2, len(r))) ** 3
        self.tabu[r, u, u] = self.now + tenure[0]
        self.tabu[r, v, v] = self.now + tenure[1]
        for array, axis in ((self.tabu, 2), (self.c, 2), (self.c, 1)):
            index_u = (r, slice(None), u) if axis == 2 else (r, u)
            index_v = (r, slice(None), v) if axis == 2 else (r, v)
            keep = array[index_u].copy()
            array[index_u] = array[index_v]
            array[index_v] = keep
        keep_place = self.place[r, u].copy()
        self.place[r, u] = self.place[r, v]
        self.place[r, v] = keep_place
        factor = 2.0 if self.symmetric else 1.0
        self._update(self.a, self.c, u, v, factor)
        if not self.symmetric:
            self._update(self.a_t, self.c.transpose(0, 2, 1), u, v, factor)
        self._renew(u, v, factor)

    def _update(
        self,
        a: Array,
        c: Array,
        u: npt.NDArray[np.int64],
        v: npt.NDArray[np.int64],
        factor: float,
    ) -> None:
        r = self.rows
        w = (a[u] - a[v]) * factor
        z = c[r, v] - c[r, u]
        q = w * z
        outer = w[:, :, None] * z[:, None, :]
        self.d += q[:, :, None]
        self.d += q[:, None, :]
        self.d -= outer
        self.d -= outer.transpose(0, 2, 1)

    def _renew(self, u: npt.NDArray[np.int64], v: npt.NDArray[np.int64], factor: float) -> None:
        """Sum the rows and columns of the swapped facilities anew."""
        r = self.rows
        own = np.einsum("ki,rki->ri", self.a, self.c)
        sides = [(self.a, self.c, own)]
        if not self.symmetric:
            c_t = self.c.transpose(0, 2, 1)
            sides.append((self.a_t, c_t, np.einsum("ik,rik->ri", self.a, self.c)))
        for ends in (u, v):
            row = sum(self._row(a, c, diagonal, ends) for a, c, diagonal in sides) * factor
            self.d[r, ends] = row
            self.d[r, :, ends] = row

    def note_best(self) -> None:
        """Remember for every search the best permutation it has seen."""
        better = self.cost < self.best_cost - 1e-9 * np.maximum(1.0, np.abs(self.cost))
        if better.any():
            self.best_cost[better] = self.cost[better]
            self.best_place[better] = self.place[better]
            self.progress[better] = self.now

    def restart(self, which: npt.NDArray[np.int64], best: Permutation) -> None:
        """Let searches start again: half from the best with some facilities shuffled."""
        for s in which.tolist():
            if self.rng.random() < 0.5:
                self.place[s] = self.rng.permutation(self.n)
            else:
                size = int(self.rng.integers(3, max(4, self.n // 2 + 1)))
                some = self.rng.choice(self.n, size=size, replace=False)
                self.place[s] = best
                self.place[s, some] = best[self.rng.permutation(some)]
        self.best_cost[which] = np.inf
        self.progress[which] = self.now
        self.tabu[which] = self.now + self._fresh_tabu(len(which))
        self.refresh()
        self.note_best()
