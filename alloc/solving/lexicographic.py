"""Goals of several levels: one after the other, what was reached held as a constraint."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from alloc.certificate import OPTIMALITY_GAP, Certificate, Limit, beats
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
    better, keeps that answer. An interrupt leaves the levels after it as they are.

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
        Solves one level within given settings and returns a certified result, on the first level
        one that is no worse there than the start.
    report
        Takes a line for the log.

    Returns
    -------
    Result
        The last answer. Its certificate is that of the first level that is not proved optimal, or
        of the last one; `Result.stages` holds those of all levels. The bound of a level holds for
        solutions that keep what the earlier levels reached.

    Raises
    ------
    InstanceError
        If the instance does not say what a level asks for.
    """
    # Before any work: a later level may ask for what the instance does not say.
    sizes = [parse_level(name).size(instance) for name in levels]
    held: list[Held] = []
    stages: list[Certificate] = []
    best: Solution | None = None
    limit: Limit | None = None  # what leaves the later levels as they are
    for n, name in enumerate(levels):
        elapsed = settings.time_limit_s - settings.seconds_left()
        share = settings.seconds_left() / (len(levels) - n)
        given = replace(
            settings,
            time_limit_s=elapsed + share,
            held=tuple(held),
            later=tuple(map(parse_level, levels[n + 1 :])),
        )
        level, title = parse_level(name), f"level {n + 1} of {len(levels)}: {name}"
        if best is None:
            report(title)
            result = attempt(name, given, warm_start)
            if result.solution is None:
                return result.replace(stages=(result.certificate,))
            best, stage = result.solution, result.certificate
        else:
            # The level before may have left the start for an answer that is as good to it.
            if _is_better(instance, warm_start, best, level, held):
                best = warm_start
            assert best is not None
            if limit is None and settings.time_is_up():
                limit = "time"
            stage = _untouched(instance, best, stages[-1], level, limit or "interrupt")
            try:
                report(title if limit is None else f"{title} is left as it is, limit: {limit}")
                if limit is None:
                    result = attempt(name, given, best)
                    if _is_better(instance, result.solution, best, level, held):
                        best = result.solution
                    stage = result.certificate
            except KeyboardInterrupt:
                limit = "interrupt"
        assert best is not None
        if stage.limit == "interrupt":
            limit = "interrupt"
        stages.append(stage)
        held.append(Held(level, level.evaluate(instance, best), sizes[n]))
    stages = [_settle(instance, best, stage) for stage in stages]
    weakest = next((s for s in stages if s.status != "optimal"), stages[-1])
    return Result(best, weakest, stages=tuple(stages))


def _is_better(
    instance: Instance,
    solution: Solution | None,
    best: Solution,
    level: WeightedSum,
    held: Sequence[Held],
) -> bool:
    """Return whether a solution of the same kind is better on a level and loses none before it."""
    if type(solution) is not type(best) or solution is None:
        return False
    before, after = level.evaluate(instance, best), level.evaluate(instance, solution)
    better = after > before if level.sense == "max" else after < before
    return better and _keeps(instance, solution, held)


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
    instance: Instance, solution: Solution, before: Certificate, level: WeightedSum, limit: Limit
) -> Certificate:
    """Return the certificate of a level that a limit leaves as it is."""
    return before.replace(
        status="feasible",
        objective=level.evaluate(instance, solution),
        bound=math.inf if level.sense == "max" else -math.inf,
        sense=level.sense,
        objective_name=level.name,
        limit=limit,
        bound_proof="none",
        seconds=0.0,
    )


def _settle(instance: Instance, solution: Solution | None, stage: Certificate) -> Certificate:
    """Return a level's certificate with the value that the last answer has."""
    assert solution is not None
    level = parse_level(stage.objective_name)
    value = level.evaluate(instance, solution)
    worst = math.inf if stage.sense == "max" else -math.inf
    # A later level cannot be infeasible: the answer before it is a solution. Rounding may say so.
    bound = worst if stage.status == "infeasible" else stage.bound
    bound = max(bound, value) if stage.sense == "max" else min(bound, value)
    if abs(bound - value) <= level.rounding(instance, solution):
        bound = value
    proof = stage.bound_proof if math.isfinite(bound) else "none"
    found = stage.replace(objective=value, bound=bound, bound_proof=proof, verified=True)
    proved = found.gap is not None and found.gap <= OPTIMALITY_GAP
    return found.replace(status="optimal" if proved else "feasible")
