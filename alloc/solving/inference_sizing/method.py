"""Solving inference sizing: replicas per option and period at least cost, with a proof."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Literal

from alloc.backends import highs
from alloc.families import AUTO
from alloc.problems.inference_sizing.plan import InferencePlan
from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.result import Result
from alloc.solving.inference_sizing.pieces import NOT_STARTED, Method, Report, solve_all
from alloc.solving.inference_sizing.relaxations import diagnose
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.solver import solve_within


def solve_inference(
    problem: InferenceProblem,
    settings: Settings | None = None,
    *,
    method: Literal["mixes", "columns", "pyomo"] = "mixes",
    progress: Report | None = None,
    keep: bool = False,
) -> Result[InferencePlan]:
    """Find the cheapest replicas that serve every request within its goals.

    Parameters
    ----------
    problem
        The problem.
    settings
        Limits; by default 60 s, one thread.
    method
        ``"mixes"``: the strong model where it applies, else the columns; ``"columns"``: the model
        by columns as arrays; ``"pyomo"``: the same in Pyomo.
    progress
        Called with a line of text now and then.
    keep
        Whether an interrupt (Ctrl-C) ends it with what was found until then; else it ends it as it
        does everything.

    Raises
    ------
    CertificateError
        If the plan or the bound contradicts what the checker recomputes.
    KeyboardInterrupt
        At an interrupt, without `keep`.
    """
    settings = settings or Settings()
    backend = AUTO if method == "mixes" else method
    say = progress or (lambda line: None)
    result: Result[InferencePlan] = solve_within(problem, settings, say, backend=backend)
    if result.certificate.limit == "interrupt" and not keep:
        raise KeyboardInterrupt
    return result


def solve_pieces(
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


by_mixes = partial(solve_pieces, method="mixes")
by_columns = partial(solve_pieces, method="columns")
