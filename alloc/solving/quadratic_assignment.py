"""Quadratic assignment: a good permutation from tabu search, and a proved bound beside it.

In turn, within the time limit: a short tabu search; the bound of Gilmore and Lawler; dual ascent,
if the problem is small enough for it; branch and bound on the ascent's reduced costs, if the
problem is small or the gap is; and what time is left goes to tabu search again.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.certificate import OPTIMALITY_GAP, Limit, Status, relative_gap
from alloc.errors import InstanceError
from alloc.solving.assignment_bounds import (
    LARGEST_FOR_ASCENT,
    DualAscent,
    ascend,
    branch_and_bound,
    gilmore_lawler_bound,
    round_up,
)
from alloc.solving.tabu_search import tabu_search
from alloc.workload.quadratic_assignment import Permutation, QuadraticAssignment

_FIRST_SHARE, _CALM_S = 0.25, 1.0
"""Tabu search goes first with at most this share of the time, until nothing comes for a while."""
_ASCENT_SHARE, _BRANCH_SHARE = 0.3, 0.35
_SMALL = 16
"""Facilities up to which branch and bound usually ends within a minute."""
_SMALL_GAP = 0.12
"""Gap of the ascent up to which branch and bound is tried on larger problems."""


@dataclass(frozen=True)
class AssignmentAnswer:
    """An answer to a quadratic assignment problem, and what is proved about it.

    Parameters
    ----------
    permutation
        Location of every facility, shape (n,).
    objective
        Its cost, recomputed.
    bound
        A proved lower bound on every permutation's cost.
    status
        ``optimal`` if the gap is at most `alloc.certificate.OPTIMALITY_GAP`, else ``feasible``.
    limit
        ``time`` if the search ended before the proof, else None.
    seconds
        Wall time, seconds.
    found_s
        Seconds after which the permutation was found.
    bound_method
        What proves the bound: ``gilmore-lawler``, ``dual-ascent`` or ``branch-and-bound``.
    nodes
        Nodes of branch and bound.
    """

    permutation: Permutation
    objective: float
    bound: float
    status: Status
    limit: Limit | None
    seconds: float
    found_s: float
    bound_method: str
    nodes: int = 0

    @property
    def gap(self) -> float:
        """Relative gap between objective and bound, 0 or more."""
        return relative_gap(self.objective, self.bound) or 0.0


def solve_quadratic_assignment(
    problem: QuadraticAssignment,
    *,
    time_limit_s: float = 60.0,
    seed: int = 0,
    start: npt.ArrayLike | None = None,
    target: float = -math.inf,
) -> AssignmentAnswer:
    """Find a cheap permutation and prove how cheap any can be.

    Parameters
    ----------
    problem
        The problem; up to about 100 facilities. The bound of dual ascent is tried up to
        `alloc.solving.assignment_bounds.LARGEST_FOR_ASCENT`.
    time_limit_s
        Wall time, seconds, more than 0.
    seed
        Random seed.
    start
        Permutation to start from, or None.
    target
        Stop as soon as a permutation costs no more; the answer may then be unproved.

    Raises
    ------
    InstanceError
        If the time limit or the start is malformed.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(5), 1, axis=1)
    >>> line = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    >>> answer = solve_quadratic_assignment(QuadraticAssignment("ring on a line", ring, line))
    >>> answer.objective, answer.status
    (8.0, 'optimal')
    """
    if not (math.isfinite(time_limit_s) and time_limit_s > 0):
        raise InstanceError(f"time_limit_s is {time_limit_s}; give a number of seconds above 0.")
    return _Run(problem, time_limit_s, seed, target).answer(start)


class _Run:
    """One solve: the incumbent, the bound, and the clock."""

    def __init__(
        self, problem: QuadraticAssignment, time_limit_s: float, seed: int, target: float
    ) -> None:
        self.problem, self.seed, self.target = problem, seed, target
        self.began = time.perf_counter()
        self.limit_s, self.deadline = time_limit_s, self.began + time_limit_s
        self.permutation: Permutation = np.arange(problem.size)
        self.objective = problem.cost(self.permutation)
        self.found_s, self.nodes = 0.0, 0
        self.bound, self.method = -math.inf, "gilmore-lawler"

    def answer(self, start: npt.ArrayLike | None) -> AssignmentAnswer:
        if start is not None:
            self._note(np.asarray(start, dtype=np.int64), self.problem.cost(start), 0.0)
        self._raise(gilmore_lawler_bound(self.problem), "gilmore-lawler")
        # Small problems are searched in no time, and their proof is what takes long.
        small = self.problem.size <= _SMALL
        steps = 20 * self.problem.size**2 if small else None
        self._search(_FIRST_SHARE * self.limit_s, steps, _CALM_S)
        if not self.done and self.problem.size <= LARGEST_FOR_ASCENT:
            self._prove()
        while not self.done and self.left_s > 0:
            self.seed += 1
            self._search(self.left_s)
        gap = relative_gap(self.objective, self.bound) or 0.0
        optimal = gap <= OPTIMALITY_GAP
        return AssignmentAnswer(
            self.permutation,
            self.objective,
            self.bound,
            "optimal" if optimal else "feasible",
            None if optimal or self.objective <= self.target else "time",
            time.perf_counter() - self.began,
            self.found_s,
            self.method,
            self.nodes,
        )

    @property
    def left_s(self) -> float:
        return self.deadline - time.perf_counter()

    @property
    def done(self) -> bool:
        """Whether the incumbent is proved, or as cheap as was asked for."""
        gap = relative_gap(self.objective, self.bound)
        return self.objective <= self.target or (gap is not None and gap <= OPTIMALITY_GAP)

    def _search(
        self, seconds: float, max_steps: int | None = None, calm_s: float = math.inf
    ) -> None:
        before = time.perf_counter() - self.began
        found = tabu_search(
            self.problem,
            time_limit_s=seconds,
            max_steps=max_steps,
            seed=self.seed,
            target=max(self.target, self.bound),
            start=self.permutation,
            calm_s=calm_s,
        )
        self._note(found.permutation, found.cost, before + found.found_s)
        # A cheaper incumbent rounds the bound up by other steps.
        self._raise(self.bound, self.method)

    def _prove(self) -> None:
        root = DualAscent.of(self.problem)
        until = time.perf_counter() + min(_ASCENT_SHARE * self.limit_s, self.left_s)
        self._raise(ascend(root, enough=self.objective, deadline=until), "dual-ascent")
        gap = relative_gap(self.objective, self.bound) or 0.0
        if self.done or (self.problem.size > _SMALL and gap > _SMALL_GAP):
            return
        small = self.problem.size <= _SMALL
        share = 1.0 if small else _BRANCH_SHARE
        until = time.perf_counter() + min(share * self.limit_s, self.left_s)
        proof = branch_and_bound(self.problem, self.permutation, deadline=until, root=root)
        self.nodes = proof.nodes
        if proof.permutation is not None:
            cost = self.problem.cost(proof.permutation)
            self._note(proof.permutation, cost, time.perf_counter() - self.began)
        self._raise(proof.bound, "branch-and-bound")

    def _note(self, permutation: Permutation, cost: float, found_s: float) -> None:
        if cost < self.objective:
            self.permutation, self.objective, self.found_s = permutation, cost, found_s

    def _raise(self, bound: float, method: str) -> None:
        bound = min(round_up(bound, self.objective, self.problem.step), self.objective)
        if bound > self.bound:
            self.bound, self.method = bound, method
