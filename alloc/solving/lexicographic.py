"""Goals of several levels: one after the other, what was reached held as a constraint."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from alloc.certificate import OPTIMALITY_GAP, Certificate, beats
from alloc.objectives import Held, WeightedSum, parse_level
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Solution
from alloc.result import Result
from alloc.solving.outcome import Settings

Attempt = Callable[[str, Settings, Solution | None], Result[Solution]]


def solve_levels(
    instance: Instance,
    levels: Sequence[str],
    settings: Settings,
    warm_start: Solution | None,
    attempt: Attempt,
    report: Callable[[str], None],
) -> Result[Solution]:
    """Solve a lexicographic goal.

    Each level gets an even part of the time that is left, starts from the answer of the one before
    it, and may not worsen what the earlier ones reached. A level that finds nothing, or nothing
    better, keeps that answer.

    Parameters
    ----------
    instance
        The problem.
    levels
        The levels, most important first, two or more.
    settings
        Limits of the whole.
    warm_start
        A solution to start from, or None.
    attempt
        Solves one level within given settings and returns a certified result.
    report
        Takes a line for the log.

    Returns
    -------
    Result
        The last answer. Its certificate is that of the first level that is not proved optimal, or
        of the last one; `Result.stages` holds those of all levels. The bound of a level holds for
        solutions that keep what the earlier levels reached.
    """
    held: list[Held] = []
    stages: list[Certificate] = []
    best: Solution | None = None
    for n, name in enumerate(levels):
        elapsed = settings.time_limit_s - settings.seconds_left()
        share = settings.seconds_left() / (len(levels) - n)
        given = replace(settings, time_limit_s=elapsed + share, held=tuple(held))
        level = parse_level(name)
        if best is not None and settings.time_is_up():
            report(f"level {n + 1} of {len(levels)}: no time is left for {name}")
            stages.append(_untouched(instance, best, stages[-1], level))
            held.append(Held(level, level.evaluate(instance, best), level.size(instance)))
            continue
        report(f"level {n + 1} of {len(levels)}: {name}")
        result = attempt(name, given, warm_start if best is None else best)
        if best is None:
            if result.solution is None:
                return result.replace(stages=(result.certificate,))
            best = result.solution
        elif result.solution is not None and _keeps(instance, result.solution, held):
            before = level.evaluate(instance, best)
            after = level.evaluate(instance, result.solution)
            if after > before if level.sense == "max" else after < before:
                best = result.solution
        stages.append(result.certificate)
        held.append(Held(level, level.evaluate(instance, best), level.size(instance)))
    stages = [_settle(instance, best, stage) for stage in stages]
    weakest = next((s for s in stages if s.status != "optimal"), stages[-1])
    return Result(best, weakest, stages=tuple(stages))


def _keeps(instance: Instance, solution: Solution, held: Sequence[Held]) -> bool:
    """Return whether no earlier level is worse than it was, beyond what solvers' rounding makes."""
    return not any(
        beats(
            each.value,
            each.level.evaluate(instance, solution),
            each.level.sense,
            abs(each.limit - each.value),
            OPTIMALITY_GAP,
        )
        for each in held
    )


def _untouched(
    instance: Instance, solution: Solution, before: Certificate, level: WeightedSum
) -> Certificate:
    """Return the certificate of a level for which no time was left."""
    return before.replace(
        status="feasible",
        objective=level.evaluate(instance, solution),
        bound=math.inf if level.sense == "max" else -math.inf,
        sense=level.sense,
        objective_name=level.name,
        limit="time",
        bound_proof="none",
        seconds=0.0,
    )


def _settle(instance: Instance, solution: Solution | None, stage: Certificate) -> Certificate:
    """Return a level's certificate with the value that the last answer has."""
    assert solution is not None
    value = parse_level(stage.objective_name).evaluate(instance, solution)
    worst = math.inf if stage.sense == "max" else -math.inf
    # A later level cannot be infeasible: the answer before it is a solution. Rounding may say so.
    bound = worst if stage.status == "infeasible" else stage.bound
    bound = max(bound, value) if stage.sense == "max" else min(bound, value)
    proof = stage.bound_proof if math.isfinite(bound) else "none"
    found = stage.replace(objective=value, bound=bound, bound_proof=proof, verified=True)
    proved = found.gap is not None and found.gap <= OPTIMALITY_GAP
    return found.replace(status="optimal" if proved else "feasible")
