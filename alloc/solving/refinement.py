"""Models that do not see hosts, solved until their answer stands on them.

Capacity rows are a relaxation: an optimum of the model may be no answer of the problem. Then the
model is built again with what the hosts do not hold (`alloc.formulation.BuiltModel.refine`) and
solved again: logic-based Benders decomposition. Each turn forbids the answer of the one before, and
there are finitely many, so it ends with an answer that reaches the bound, or at a limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from alloc.certificate import is_within
from alloc.clock import time_limit
from alloc.errors import OutOfTime
from alloc.families import Family
from alloc.formulation import BuiltModel, RawResult
from alloc.objectives import Sense
from alloc.solving.outcome import Progress, Settings

_PLACING_S = 0.5
"""Seconds to place an answer on hosts, at least: a limit is kept up to a second."""


@dataclass(frozen=True)
class Question:
    """What makes an answer of a model an answer of the problem.

    Parameters
    ----------
    problem
        The problem.
    family, objective
        What it is asked as.
    """

    problem: Any
    family: Family
    objective: str

    @property
    def sense(self) -> Sense:
        """Whether less or more is better."""
        return self.family.measure_of(self.objective).sense

    def value(self, solution: Any) -> float:
        """Return the value of a solution."""
        return self.family.measure_of(self.objective).evaluate(self.problem, solution)

    def best(self, *solutions: Any) -> Any:
        """Return the best solution that keeps every rule; of none, the last one there is."""
        given = [solution for solution in solutions if solution is not None]
        kept = [solution for solution in given if not self.family.check(self.problem, solution)]
        if not kept:
            return given[-1] if given else None
        return (min if self.sense == "min" else max)(kept, key=self.value)

    def reaches(self, solution: Any, bound: float, gap: float) -> bool:
        """Return whether a solution keeps every rule, and a bound up to a relative gap.

        Parameters
        ----------
        solution
            A solution, or None, which reaches nothing.
        bound
            The bound, in the unit of the objective.
        gap
            Relative gap, at least 0.
        """
        return (
            solution is not None
            and is_within(self.value(solution), bound, gap)
            and not self.family.check(self.problem, solution)
        )


def solve_refined(
    question: Question,
    built: BuiltModel,
    solve: Callable[[BuiltModel], RawResult],
    settings: Settings,
    report: Progress,
    known: Any = None,
) -> tuple[RawResult, Any]:
    """Solve a model, and tighter ones until their answer is one of the problem.

    Parameters
    ----------
    question
        The problem.
    built
        Its first model.
    solve
        Solves a model within the time left.
    settings
        Limits: the gap that is good enough, and the time.
    report
        Takes a line of progress.
    known
        A solution, or None.

    Returns
    -------
    raw
        What is proved in the end; every bound on the way holds, and this is the tightest.
    solution
        The best solution, None without one; one that breaks a rule only where none is known that
        keeps them all.
    """

    def extract(raw: RawResult, built: BuiltModel) -> Any:
        if raw.values is None:
            return None
        with time_limit(max(settings.seconds_left(), _PLACING_S)):
            return built.extract(raw.values)

    try:
        raw = before = solve(built)
        solution = extract(raw, built)
    except KeyboardInterrupt:
        if known is None:
            raise
        nothing = -math.inf if question.sense == "min" else math.inf
        return RawResult("feasible", None, None, nothing, "interrupt", "Interrupted", "none"), known
    if built.refine is None:
        return raw, solution
    turns = 0
    try:
        while True:
            if known is not None:
                solution = question.best(known, solution)
            if raw.status != "optimal" or raw.values is None or raw.limit is not None:
                break
            if question.reaches(solution, raw.bound, settings.gap):
                break
            assert built.refine is not None
            try:
                with time_limit(settings.seconds_left()):
                    tighter = built.refine(raw.values)
            except OutOfTime:
                tighter = None
            if settings.time_is_up():
                raw = replace(raw, limit="time")
                break
            if tighter is None:
                break
            turns += 1
            known, built, before = solution, tighter, raw
            now = solve(built)
            closer = max if question.sense == "min" else min
            if now.status != "infeasible" and closer(now.bound, before.bound) != now.bound:
                now = replace(now, bound=before.bound, bound_proof=before.bound_proof)
            raw, solution = now, extract(now, built)
    except KeyboardInterrupt:
        # What was found and proved before stands.
        raw = replace(raw, status="feasible", limit="interrupt")
    if raw.status == "infeasible" and solution is not None:
        if question.family.check(question.problem, solution):
            solution = None
        else:  # It is not: here is a solution. So nothing is proved but what was before.
            bound, proof = (before.bound, before.bound_proof) if turns else (-raw.bound, "none")
            raw = replace(raw, status="feasible", bound=bound, bound_proof=proof)
    if turns:
        report(f"gangs fit the totals but not the hosts together: solved again {turns} times")
    return raw, solution
