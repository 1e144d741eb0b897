"""The solves of an iteration of planning and replaying, at prices and with buffers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from alloc.planning.buffers import Knowledge, fit, keys_of, priced, raise_buffers, tightened
from alloc.planning.pools import Operation, operations_of, tightest
from alloc.planning.replay import ReplaySettings
from alloc.problems.right_sizing.demand import TighteningKey
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Result

Solve = Callable[[PlanningProblem, Result[Plan] | None, float | None], Result[Plan]]
"""Solves a problem, given the result of a similar one or None, in so many seconds (None: any)."""

# Solves in which load pays for the capacity that it requires, until classes stay where they are.
# After two few move, and what they chose is measured next.
_PRICED_SOLVES = 2
# Part of the time left that each of them may take: those with buffers need the rest.
_PRICED_TIME = 0.25
# Solves after the first until a plan has what its pools require by formula; then it is replayed
# whatever it has. Most need two or three.
_MAX_SOLVES = 8
# Decisions whether a class is sent to a pool in a quarter, up to which a class that left a pool may
# return when buffers rise: such a solve takes about a second, one of a thousand minutes.
_FEW_CHOICES = 100
# Times as far from its bound as the plan before, from which on a plan is dear for lack of time: the
# two solves differ in little else.
_STARVED = 2.0
# Part of the time of an iteration that must be left for another solve to be worth beginning.
_LEAST_TIME = 0.05


@dataclass
class IterationSolves:
    """The solves of an iteration, which share its time.

    Parameters
    ----------
    problem, shared
        The problem as it was asked, and with pools of any size.
    knowledge
        What the replays have shown; its buffers are changed.
    solve, settings, seconds
        As `plan_and_replay` has them.
    """

    problem: PlanningProblem
    shared: PlanningProblem
    knowledge: Knowledge
    solve: Solve
    settings: ReplaySettings
    seconds: float | None
    latest: tuple[PlanningProblem, Result[Plan]] | None = None
    """What was solved last and has a plan; without any plan what was solved first."""

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._operations: tuple[Result[Plan], tuple[Operation, ...]] | None = None

    def operations(self, result: Result[Plan]) -> tuple[Operation, ...]:
        """Return every pool of a plan in every regime; of the last plan asked for it is known."""
        if self._operations is None or self._operations[0] is not result:
            self._operations = result, operations_of(self.problem, result.require_solution())
        return self._operations[1]

    def of(
        self, problem: PlanningProblem, start: Result[Plan] | None, part: float = 1.0
    ) -> Result[Plan]:
        """Solve a problem in a part of the time left.

        Raises
        ------
        KeyboardInterrupt
            If one ended the solve; what it found is in `latest`.
        """
        seconds = self.seconds
        if seconds is not None:
            seconds = part * max(self._left(), _LEAST_TIME * seconds)
        result = self.solve(problem, start, seconds)
        if self.latest is None or result.solution is not None:
            self.latest = problem, result
        if result.certificate.limit == "interrupt":
            raise KeyboardInterrupt
        return result

    def with_prices(
        self, now: PlanningProblem, start: Result[Plan]
    ) -> tuple[PlanningProblem, Result[Plan]]:
        """Let classes choose their pools by what they require there, from those of a plan on.

        Returns the problem last solved with a plan, and its result: those given if there is no plan
        at such prices. Fits the buffers to the plan.
        """
        for _ in range(_PRICED_SOLVES):
            if self._is_late():
                break
            prices = priced(self.shared, self.knowledge, self.operations(start))
            places = self._places(start)
            result = self.of(prices, start, _PRICED_TIME)
            if result.solution is None:
                break
            now, start = prices, result
            if self._places(start) == places:
                break
        fit(self.knowledge, self.shared, self.operations(start))
        return now, start

    def with_buffers(
        self, start: Result[Plan], *, anywhere: bool
    ) -> tuple[PlanningProblem, Result[Plan]]:
        """Solve until the plan has what its pools require by formula.

        Returns the problem last solved with a plan, and its result.
        """
        places = self._places(start)
        few = len(places) * self.problem.num_quarters <= _FEW_CHOICES
        now = tightened(self.shared, self.knowledge, None if anywhere else places)
        result = self.of(now, start, 0.5)
        for _ in range(_MAX_SOLVES):
            if result.solution is None or self._is_late():
                break
            every = tightest(self.operations(result), self.settings.regimes)
            if not raise_buffers(self.knowledge, self.shared, every):
                break
            stay = places if few else self._places(result)
            more = tightened(self.shared, self.knowledge, None if anywhere else stay)
            again = self.of(more, result, 0.5)
            if again.solution is None or _is_starved(again, result):
                # The formula asks for more than can be had, or found in time; what can be had may
                # hold.
                break
            now, result = more, again
        return now, result

    def tightened(self, result: Result[Plan], *, anywhere: bool) -> PlanningProblem:
        """Return the problem with the buffers known, classes being where a plan sends them."""
        return tightened(self.shared, self.knowledge, None if anywhere else self._places(result))

    def _places(self, result: Result[Plan]) -> set[TighteningKey]:
        return keys_of(self.operations(result))

    def _left(self) -> float:
        """Return the seconds left, below 0 after a solve that took longer than it was to."""
        return math.inf if self.seconds is None else self.seconds - time.monotonic() + self._began

    def _is_late(self) -> bool:
        """Return whether half of what is left is too little for a solve."""
        return self.seconds is not None and self._left() < 2 * _LEAST_TIME * self.seconds


def _is_starved(result: Result[Plan], before: Result[Plan]) -> bool:
    """Return whether a plan with more capacity is dear for want of time more than for capacity.

    Ended by its time, it is `_STARVED` times as far from what is proved as the plan before.
    """
    now, last = result.certificate, before.certificate
    if now.limit != "time" or now.objective is None or last.objective is None:
        return False
    bound = max(now.bound, last.bound)
    return now.objective - bound > _STARVED * max(last.objective - last.bound, 0.0)
