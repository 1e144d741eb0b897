"""Quadratic assignment: a good permutation from tabu search, and a proved bound beside it.

In turn, within the time limit: a short tabu search; the bound of Gilmore and Lawler; dual ascent,
if the problem is small enough for it; branch and bound on the ascent's reduced costs, if the
problem is small or the gap is; and what time is left goes to tabu search again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from alloc.algorithms.tabu_search import tabu_search
from alloc.backends.scaling import power_of_two
from alloc.certificate import Limit, is_within, relative_gap
from alloc.problems.quadratic_assignment import Permutation, QuadraticAssignment
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.quadratic_assignment.bounds import (
    LARGEST_FOR_ASCENT,
    DualAscent,
    ascend,
    branch_and_bound,
    gilmore_lawler_bound,
    round_up_to_step,
)
from alloc.verification.quadratic_assignment import objective

Report = Callable[[str], None]

_FIRST_SHARE, _CALM_S = 0.25, 1.0
"""Tabu search goes first with at most this share of the time, until nothing comes for so many
seconds: the proof needs a good permutation to compare with, and the rest of the time."""
_ASCENT_SHARE, _BRANCH_SHARE = 0.3, 0.35
"""Shares of the time for the dual ascent and for branch and bound; tabu search has what they
leave."""
_SMALL = 16
"""Facilities up to which branch and bound usually ends within a minute."""
_SMALL_GAP = 0.12
"""Gap of the ascent up to which branch and bound is tried on larger problems."""


def assign(
    problem: QuadraticAssignment,
    objective_name: str,
    settings: Settings,
    start: Permutation | None,
    report: Report,
) -> Outcome[Permutation]:
    """Find a cheap permutation, and prove how cheap any can be.

    Parameters
    ----------
    problem
        The problem; up to about 100 facilities. The bound of dual ascent is tried up to
        `alloc.solving.quadratic_assignment.bounds.LARGEST_FOR_ASCENT`.
    objective_name
        ``cost``.
    settings
        Limits.
    start
        Permutation to start from, or None.
    report
        Takes a line of progress.
    """
    return _Run(problem, settings, report).outcome(start)


def _of_size_one(problem: QuadraticAssignment) -> tuple[QuadraticAssignment, float]:
    """Return a problem with entries of about 1, and the factor of its costs, a power of two.

    Whole numbers stay as they are: their costs are proved exactly, in steps.
    """
    largest = [float(np.abs(matrix).max()) for matrix in (problem.flow, problem.distance)]
    if problem.integral or not all(largest):
        return problem, 1.0
    flow, distance = (power_of_two(size) for size in largest)
    scaled = QuadraticAssignment(problem.name, problem.flow * flow, problem.distance * distance)
    return scaled, flow * distance


class _Run:
    """One solve: the incumbent, the bound, and the clock."""

    def __init__(self, problem: QuadraticAssignment, settings: Settings, report: Report) -> None:
        # Bounds are searched with fixed margins: entries of any size are made about 1.
        self.problem, self.unit = _of_size_one(problem)
        self.settings, self.seed, self.report = settings, settings.seed, report
        self.limit_s = settings.seconds_left()
        self.permutation: Permutation = np.arange(problem.size)
        self.objective = self.problem.cost(self.permutation)
        self.bound, self.method = -math.inf, "gilmore-lawler"

    def outcome(self, start: Permutation | None) -> Outcome[Permutation]:
        limit: Limit | None = None
        try:
            self._improve(start)
        except KeyboardInterrupt:
            limit = "interrupt"
        if not self.done and limit is None:
            limit = "time"
        return Outcome(
            self.permutation,
            self.bound / self.unit,
            "recomputed",
            f"alloc {self.method}",
            "alloc",
            limit,
        )

    def _improve(self, start: Permutation | None) -> None:
        if start is not None:
            self._note(np.asarray(start, dtype=np.int64), self.problem.cost(start))
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

    @property
    def left_s(self) -> float:
        return self.settings.seconds_left()

    @property
    def done(self) -> bool:
        """Whether the incumbent is proved, to the gap or to what rounding may hide."""
        left = self.objective - self.bound
        return is_within(self.objective, self.bound, self.settings.gap) or left <= self.rounding

    @property
    def rounding(self) -> float:
        """What rounding may hide of the incumbent's cost."""
        return objective("cost").rounding(self.problem, self.permutation)

    def _search(
        self, seconds: float, max_steps: int | None = None, calm_s: float = math.inf
    ) -> None:
        found = tabu_search(
            self.problem,
            time_limit_s=seconds,
            max_steps=max_steps,
            seed=self.seed,
            target=self.bound,
            start=self.permutation,
            calm_s=calm_s,
        )
        self._note(found.permutation, found.cost)
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
        self._branch(until, root)
        if not self.done and time.perf_counter() < until:
            # Costs that cancel to nearly 0 are smaller than the margin that closed the nodes.
            self._branch(until, None, self.rounding / 2)

    def _branch(self, until: float, root: DualAscent | None, margin: float = 1e-9) -> None:
        proof = branch_and_bound(
            self.problem, self.permutation, deadline=until, root=root, margin=margin
        )
        self.report(f"branch and bound: {proof.nodes:,d} nodes")
        if proof.permutation is not None:
            cost = self.problem.cost(proof.permutation)
            self._note(proof.permutation, cost)
        self._raise(proof.bound, "branch-and-bound")

    def _note(self, permutation: Permutation, cost: float) -> None:
        if cost < self.objective:
            self.permutation, self.objective = permutation, cost
            self.report(f"cost {cost / self.unit:g}")

    def _raise(self, bound: float, method: str) -> None:
        bound = round_up_to_step(bound, self.objective, self.problem.step)
        if bound > self.bound:
            self.bound, self.method = bound, method
