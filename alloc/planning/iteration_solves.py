"""The solves of an iteration of planning and replaying, at prices and with buffers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from alloc.planning.buffers import Knowledge, fit, is_enough, raise_buffers
from alloc.planning.pools import Operation, operations_of, tightest
from alloc.planning.relief import relieved
from alloc.planning.replay import ReplaySettings
from alloc.planning.settling import settled
from alloc.planning.tightenings import keys_of, priced, tightened
from alloc.problems.right_sizing.demand import TighteningKey
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Result

Solve = Callable[[PlanningProblem, Result[Plan] | None, float | None], Result[Plan]]
"""Solves a problem, given the result of a similar one or None, in so many seconds (None: any)."""

# Solves in which load pays for the capacity that it requires. By then slope scaling most often is
# back at places where it was; of drawn problems, the cheapest places were those of the third.
_MAX_PRICED_SOLVES = 6
# Part of the time left that each of them may take: those with buffers need the rest, and of large
# problems two fifths are left after those, of which settling takes the most.
_PRICED_TIME = 0.2
# Solves after the first until a plan has what its pools require by formula; then it is replayed
# whatever it has. Most need two or three.
_MAX_SOLVES = 8
# Decisions whether a class is sent to a pool in a quarter, up to which a class that left a pool may
# return when buffers rise: such a solve takes about a second, one of a thousand minutes.
_FEW_CHOICES = 100
# Part of the time left that the first solve with buffers may take, and each after it: the first
# finds how many jobs go where, the others mend what it lacks.
_FIRST_TIME = 0.4
_MENDING_TIME = 0.6
# Part of the time of an iteration that a solve is given at least, or all that is left: in less, a
# plan of a thousand hosts is not even mended.
_LEAST_TIME = 0.15
# Part of it that a solve is given where nothing is left, for those before took longer than they
# were to: a solver is not asked for an answer in no time at all.
_OVERTIME = 0.02
# Part of it that must be left for another solve to be worth beginning.
_ANOTHER_TIME = 0.1
# Part of it that must be left for one with what the last lacks, for the jobs of that to stay: on
# problems of a thousand hosts, where solves take all of 30 seconds, settling takes 5 to 8.
_LAST_TIME = 0.2
# Part of it that must be left for other places to be worth trying: what is left then gives a plan
# with buffers there, and one with those that it lacks. With less, both are dear for lack of time.
_PLACES_TIME = 0.4
# Part of the time of an iteration, and seconds, that it may take to relieve full pools and to find
# the hosts of a plan whose jobs stay. On problems of a thousand hosts relief takes six seconds,
# and the program of the hosts, with what pools require, two to four.
_SETTLING_TIME = 0.5
_MAX_SETTLING_S = 20.0
# Part of that for relief.
_RELIEF_TIME = 0.6


@dataclass(frozen=True)
class _Candidate:
    """A plan with buffers, and whether it has what its pools require, as far as known."""

    problem: PlanningProblem
    result: Result[Plan]
    is_enough: bool

    @property
    def cost(self) -> float:
        """The cost of the plan; infinite if there is none."""
        cost = self.result.certificate.objective
        return math.inf if cost is None else cost

    @property
    def order(self) -> tuple[bool, bool, float]:
        """What is enough goes first, then what is cheap."""
        return self.result.solution is None, not self.is_enough, self.cost


def _better(one: _Candidate, other: _Candidate | None) -> _Candidate:
    return one if other is None else min(one, other, key=lambda each: each.order)


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

    def __post_init__(self) -> None:
        self._found: list[_Candidate] = []
        """What `cheapest` compares."""
        self._solved: list[tuple[PlanningProblem, Result[Plan]]] = []
        """All that was solved and has a plan, and what came first."""
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

        Parameters
        ----------
        problem
            The problem, with prices and buffers as they are now.
        start
            A plan to start from, if there is one.
        part
            Part of the time left, above 0 and at most 1.

        Raises
        ------
        KeyboardInterrupt
            If one ended the solve; what it found is known to `best`.
        """
        seconds = self.seconds
        if seconds is not None:
            left = self._left()
            seconds = max(part * left, min(left, _LEAST_TIME * seconds), _OVERTIME * seconds)
        result = self.solve(problem, start, seconds)
        if not self._solved or result.solution is not None:
            self._solved.append((problem, result))
        if result.certificate.limit == "interrupt":
            raise KeyboardInterrupt
        return result

    def best(self) -> tuple[PlanningProblem, Result[Plan]] | None:
        """Return the best that is known so far, should the solves be interrupted.

        A plan with what its pools require comes before one without, and then the cheapest.

        Returns
        -------
        problem, result
            What was solved, and its result; None before anything was.
        """
        solved = [
            _Candidate(problem, result, self._is_enough(result)) for problem, result in self._solved
        ]
        every = [*self._found, *solved]
        if not every:
            return None
        found = min(every, key=lambda one: one.order)
        return found.problem, found.result

    def _is_enough(self, result: Result[Plan]) -> bool:
        if result.solution is None:
            return False
        return is_enough(self.knowledge, tightest(self.operations(result), self.settings.regimes))

    def cheapest(self, start: Result[Plan], prices: int) -> tuple[PlanningProblem, Result[Plan]]:
        """Find the cheapest plan with what its pools require, from the places of a plan on.

        Where classes go is found by slope scaling: prices of capacity in the pools of a plan give
        the next. From each plan on, after the first few prices, buffers say how many hosts there
        are; the cheapest of these plans is the one to replay.

        Parameters
        ----------
        start
            A plan.
        prices
            Solves at prices before any with buffers.

        Returns
        -------
        problem, result
            What was solved, and the plan; where there is none with buffers, the last at prices, and
            where there is none there either, no plan.
        """
        places, seen, found = self._places(start), [], self._found
        at_prices: tuple[PlanningProblem, Result[Plan]] | None = None
        for step in range(_MAX_PRICED_SOLVES + 1):
            if step >= prices and places not in seen:
                seen.append(places)
                found.append(self._candidate(start))
            is_late = bool(found) and self._is_late(_PLACES_TIME)
            if step == _MAX_PRICED_SOLVES or is_late or self._is_late(_ANOTHER_TIME):
                break
            now = priced(self.shared, self.knowledge, self.operations(start))
            result = self.of(now, start, _PRICED_TIME)
            if result.solution is None:
                break
            start = result
            at_prices = now, start
            before, places = places, self._places(start)
            if places == before:
                break
        if not found:
            found.append(self._candidate(start))
        best = min(found, key=lambda one: one.order)
        if best.result.solution is None and at_prices is not None:
            return at_prices
        return best.problem, best.result

    def in_places_of(
        self, start: Result[Plan], *, is_last: bool = True
    ) -> tuple[PlanningProblem, Result[Plan]]:
        """Return the problem with buffers where a plan sends classes, and its result.

        Where the solve of the plan ended by its time, the next would move jobs about and end so
        too: its jobs stay, and its pools get the hosts that they lack, if sites have room for them.

        Parameters
        ----------
        start
            A plan.
        is_last
            Whether no iteration follows. If one does, a settled plan that lacks a little still is
            relieved further there, at a fraction of what a solve short of time costs.
        """
        known = self._settled_at_last(start) if start.certificate.limit == "time" else None
        if known is None or (is_last and not known.is_enough and not self._is_late(_LEAST_TIME)):
            # A settled plan lacks what sites have no room for; one short of time lacks more.
            other = self._candidate(start)
            known = other if known is None or other.is_enough else known
        return known.problem, known.result

    def settling_seconds(self) -> float:
        """Return the seconds in which a plan is settled now."""
        if self.seconds is None:
            return _MAX_SETTLING_S
        left = max(self._left(), _LEAST_TIME * self.seconds)
        return min(_MAX_SETTLING_S, left, _SETTLING_TIME * self.seconds)

    def settled(self, result: Result[Plan]) -> _Candidate | None:
        """Return a plan with what its pools require, its jobs where they are, or None.

        It is one of the problem without buffers: how many hosts there are is no choice any more.
        """
        seconds = self.settling_seconds()
        ends, least = time.monotonic() + seconds, _OVERTIME * seconds
        known = self.shared, self.knowledge
        moved = relieved(*known, result.require_solution(), _RELIEF_TIME * seconds)
        found = None
        for jobs in (moved, None) if moved is not None else (None,):
            left = max(ends - time.monotonic(), least)
            found = found or settled(*known, result, left, jobs)
        if found is None:
            return None
        self._solved.append((self.shared, found))
        return _Candidate(self.shared, found, is_enough=self._is_enough(found))

    def _settled_at_last(self, result: Result[Plan]) -> _Candidate | None:
        """Return a settled plan, relieved once more where pools lack GPUs still."""
        found = self.settled(result)
        if found is None or found.is_enough or self._is_late(_LEAST_TIME):
            return found
        return self.settled(found.result) or found

    def _candidate(self, start: Result[Plan]) -> _Candidate:
        """Return the plan with buffers where a plan sends classes, as far as it may be cheapest."""
        fit(self.knowledge, self.shared, self.operations(start))
        below = min((one.cost for one in self._found if one.is_enough), default=math.inf)
        return self.with_buffers(start, anywhere=False, below=below)

    def with_buffers(
        self, start: Result[Plan], *, anywhere: bool, below: float = math.inf
    ) -> _Candidate:
        """Solve until the plan has what its pools require by formula.

        Parameters
        ----------
        start
            A plan, whose places classes stay at.
        anywhere
            Whether they may go anywhere instead.
        below
            Cost from which on a plan is not worth more solves: more capacity costs no less.

        Returns
        -------
        _Candidate
            The problem last solved with a plan, and its result.
        """
        places = self._places(start)
        few = len(places) * self.problem.num_quarters <= _FEW_CHOICES
        now = tightened(self.shared, self.knowledge, None if anywhere else places)
        result = self.of(now, start, _FIRST_TIME)
        best: _Candidate | None = None
        for _ in range(_MAX_SOLVES):
            if result.solution is None:
                break
            judged = tightest(self.operations(result), self.settings.regimes)
            if not raise_buffers(self.knowledge, self.shared, judged):
                return _better(_Candidate(now, result, is_enough=True), best)
            lacking = _Candidate(now, result, is_enough=False)
            if result.certificate.bound >= below:
                return _better(lacking, best)
            if self._is_late(_LAST_TIME) or result.certificate.limit == "time":
                # The next solve may end by its time too, and move jobs to where other hosts are
                # required than its buffers are for: those of this one stay where they are.
                known = self._settled_at_last(result)
                best = _better(known, best) if known is not None else best
                if self._is_late(_PLACES_TIME):
                    return best or lacking
            stay = places if few else self._places(result)
            more = tightened(self.shared, self.knowledge, None if anywhere else stay)
            again = self.of(more, result, _MENDING_TIME)
            if again.solution is None:
                # The formula asks for more than can be had, or found in time; what can be had may
                # hold.
                break
            now, result = more, again
        return best or _Candidate(now, result, is_enough=False)

    def tightened(self, result: Result[Plan], *, anywhere: bool) -> PlanningProblem:
        """Return the problem with the buffers known, classes being where a plan sends them.

        Parameters
        ----------
        result
            The last plan.
        anywhere
            Whether classes may go to any pool instead.
        """
        return tightened(self.shared, self.knowledge, None if anywhere else self._places(result))

    def _places(self, result: Result[Plan]) -> set[TighteningKey]:
        return keys_of(self.operations(result))

    def _left(self) -> float:
        """Return the seconds left, below 0 after a solve that took longer than it was to."""
        return math.inf if self.seconds is None else self.seconds - time.monotonic() + self._began

    def _is_late(self, part: float) -> bool:
        """Return whether less than a part of the time of the iteration is left."""
        return self.seconds is not None and self._left() < part * self.seconds
