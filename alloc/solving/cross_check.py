"""A solver's claim held against another solver on another model, where that is cheap.

CP-SAT proves nothing that can be evaluated again. So what it calls optimal on a small problem is
solved once more as arrays: by HiGHS from CP-SAT's solution, and by branch and bound with bounds of
weak duality (`alloc.backends.second_proof`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from alloc.backends import SolverOptions
from alloc.backends.second_proof import MAX_ENTRIES, solve_and_prove
from alloc.certificate import OPTIMALITY_GAP, beats, is_within
from alloc.clock import time_limit
from alloc.errors import OutOfTime, UnsupportedFeatureError
from alloc.families import Family
from alloc.formulation import ArrayModel, BuiltModel, ProvedInfeasible, RawResult
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.refinement import Question, solve_refined

_AGREE = 2 * OPTIMALITY_GAP
"""Relative difference of a value from HiGHS's bound up to which that confirms it: HiGHS may stop at
the gap, and keeps rows within a tolerance of the same size."""
_SECONDS = 1.0
"""For building, and for HiGHS, at most; a model with so few entries takes a hundredth of it."""


def cross_checked(
    problem: Any, chosen: Family, wanted: str, settings: Settings, outcome: Outcome[Any]
) -> Outcome[Any]:
    """Return what CP-SAT calls optimal with the bound that the array model proves.

    Parameters
    ----------
    problem
        The problem.
    chosen, wanted
        Family and objective.
    settings
        Limits of the solve.
    outcome
        CP-SAT's word, with a solution.

    Returns
    -------
    Outcome
        As it was where the array model is large or undecided, or where what it says is better
        breaks a rule; else with the bound of the array model: ``recomputed``, or ``confirmed``
        where it is HiGHS' word beside that of CP-SAT. If the array model has a better solution,
        that one.
    """
    if "arrays" not in chosen.models or outcome.solution is None or settings.time_is_up():
        return outcome
    try:
        with time_limit(min(_SECONDS, settings.seconds_left())):
            built = chosen.build("arrays", problem, wanted, settings.held)
    except (ProvedInfeasible, UnsupportedFeatureError, OutOfTime):
        # It has a solution, and may have no arrays; those that take so long are large.
        return outcome
    model = built.model
    if not isinstance(model, ArrayModel) or model.matrix.nnz > MAX_ENTRIES:
        return outcome
    brief = settings.within(_SECONDS)

    def run(tried: BuiltModel) -> RawResult:
        assert isinstance(tried.model, ArrayModel)
        start = None if tried.start is None else tried.start(outcome.solution)
        return solve_and_prove(
            tried.model,
            SolverOptions(
                brief.seconds_left(),
                settings.seed,
                settings.workers,
                settings.gap / 2,
                start,
                stoppable=True,
            ),
        )

    question = Question(problem, chosen, wanted)
    raw, other = solve_refined(question, built, run, brief, lambda line: None)
    if raw.limit == "interrupt":
        return replace(outcome, limit="interrupt")
    if raw.limit is not None and not question.reaches(
        outcome.solution, outcome.bound, settings.gap
    ):
        return replace(outcome, limit=raw.limit)  # the sharper bound was not reached in time
    if raw.status != "optimal" or raw.values is None or raw.limit is not None:
        return outcome
    if not math.isfinite(raw.bound):
        # HiGHS may call its start optimal and say no bound.
        return outcome
    measure = chosen.measure_of(wanted)
    value, best = measure.evaluate(problem, outcome.solution), outcome.solution
    if other is not None:
        found = measure.evaluate(problem, other)
        if found > value if measure.sense == "max" else found < value:
            if chosen.check(problem, other):
                # Within a tolerance of its rows only: that says nothing about a model of integers.
                return outcome
            value, best = found, other
    if raw.bound_proof == "claimed":
        # Two words, of which the weaker is safe; where both prove the value, the sharper will do.
        weaker, sharper = (min, max) if measure.sense == "min" else (max, min)
        if beats(value, outcome.bound, measure.sense) or not is_within(value, raw.bound, _AGREE):
            return replace(outcome, solution=best, bound=weaker(raw.bound, outcome.bound))
        return replace(
            outcome,
            solution=best,
            bound=sharper(raw.bound, outcome.bound),
            bound_proof="confirmed",
        )
    return replace(outcome, solution=best, bound=raw.bound, bound_proof=raw.bound_proof)
