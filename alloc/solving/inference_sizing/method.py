"""Solving inference sizing: replicas per option and period at least cost, with a proof."""

from __future__ import annotations

import dataclasses
from functools import partial

from alloc.backends import highs
from alloc.problems.inference_sizing.plan import InferencePlan
from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.solving.inference_sizing.pieces import NOT_STARTED, Method, Report, solve_all
from alloc.solving.inference_sizing.relaxations import diagnose
from alloc.solving.outcome import Outcome, Settings


def _solve_pieces(
    problem: InferenceProblem,
    objective: str,
    settings: Settings,
    start: InferencePlan | None,
    report: Report,
    *,
    method: Method,
) -> Outcome[InferencePlan]:
    """Solve period by period where nothing ties them, and say of what has no plan what is missing.

    Parameters
    ----------
    problem
        The problem.
    objective
        ``cost``.
    settings
        Limits.
    start
        Not used: the program of a period finds its first plan at once.
    report
        Takes a line of progress.
    method
        ``mixes`` or ``columns``.
    """
    try:
        found = solve_all(problem, settings, method, report)
    except KeyboardInterrupt:
        found = NOT_STARTED
    outcome: Outcome[InferencePlan] = Outcome(
        found.plan, found.bound, found.proof, "highs", highs.version(), found.limit
    )
    if not found.infeasible:
        return outcome
    outcome = dataclasses.replace(outcome, infeasible=True)
    try:
        diagnosis = diagnose(problem, settings)
    except KeyboardInterrupt:
        return dataclasses.replace(outcome, limit="interrupt")
    return dataclasses.replace(outcome, conflict=diagnosis.conflict, repairs=diagnosis.repairs)


by_mixes = partial(_solve_pieces, method="mixes")
by_columns = partial(_solve_pieces, method="columns")
