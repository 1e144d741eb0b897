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

_MUCH = 0.2
"""Of the time limit, what must be left for a level to be solved again: it starts anew."""
_LATER = 0.1
"""What each later level gets then, for each second of the first: it was quick before."""
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
    better, keeps that answer. If later levels need little of their time, the first that is not
    proved gets it. An interrupt leaves the levels after it as they are.

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
    search = _Levels(instance, levels, sizes, settings, attempt, report)
    unanswered = search.solve(0, warm_start)
    if unanswered is not None:
        return unanswered
    best, proved = search.best, search.stages
    limit: Limit | None = None
    try:
        for _ in levels:
            again = search.worth_more_time()
            if again is None:
                break
            search.solve(again, warm_start)
            best, proved = search.best, search.stages
    except KeyboardInterrupt:
        limit = (
            "interrupt"  # between two searches, which keep what they find: the last round stands
        )
    stages = [_settle(instance, best, stage) for stage in proved]
    if limit is not None:
        stages = [s if s.status == "optimal" else s.replace(limit=limit) for s in stages]
    weakest = next((s for s in stages if s.status != "optimal"), stages[-1])
    return Result(best, weakest, stages=tuple(stages))


class _Levels:
    """What is reached and proved of each level.

    Parameters
    ----------
    instance, levels, settings, attempt, report
        As in `solve_levels`.
    sizes
        What rounding of each level is relative to.
    """

    def __init__(
        self,
        instance: Instance,
        levels: Sequence[str],
        sizes: Sequence[float],
        settings: Settings,
        attempt: Attempt,
        report: Callable[[str], None],
    ) -> None:
        self._instance, self._levels, self._sizes = instance, levels, sizes
        self._settings, self._attempt, self._report = settings, attempt, report
        self.best: Solution | None = None
        self.stages: list[Certificate] = []
        self._under: list[tuple[Held, ...]] = []  # what was held when each level was solved
        self._limit: Limit | None = None  # what leaves the later levels as they are

    def worth_more_time(self) -> int | None:
        """Return the first level that is not proved, if time ended it and much of it is left."""
        left = self._settings.seconds_left()
        if self._limit is not None or left < _MUCH * self._settings.time_limit_s:
            return None
        settled = (_settle(self._instance, self.best, stage) for stage in self.stages)
        n = next((n for n, stage in enumerate(settled) if stage.status != "optimal"), None)
        return n if n is not None and self.stages[n].limit == "time" else None

    def solve(self, first: int, warm_start: Solution | None) -> Result[Solution] | None:
        """Solve the levels from one on; return a result where the first of all has no answer.

        What was proved of a level in an earlier round holds while no level before it is worse than
        then: of three, the second may be worse once the first is better, and then the third may
        reach what it could not.
        """
        settings, before, under = self._settings, self.stages, self._under
        self.stages, self._under = before[:first], under[:first]
        held = [self._held(n) for n in range(first)]
        for n in range(first, len(self._levels)):
            left, later = settings.seconds_left(), len(self._levels) - n - 1
            share = left / (later + 1)
            if before and n == first:
                share = left / (1 + _LATER * later)
            elapsed = settings.time_limit_s - left
            given = replace(
                settings,
                time_limit_s=elapsed + share,
                held=tuple(held),
                later=tuple(map(parse_level, self._levels[n + 1 :])),
            )
            holds = bool(before) and _all_kept(under[n], [each.value for each in held])
            settled = holds and _settle(self._instance, self.best, before[n]).status == "optimal"
            if settled and n > first:
                stage = before[n]
            else:
                solved = self._stage(n, given, warm_start)
                if isinstance(solved, Result):
                    return solved
                stage = _closer(solved, before[n]) if holds else solved
            if stage.limit == "interrupt":
                self._limit = "interrupt"
            self.stages.append(stage)
            self._under.append(given.held)
            self._last = stage
            held.append(self._held(n))
        return None

    _last: Certificate
    """The certificate that came last: one that is left as it is takes the rest from it."""

    def _held(self, n: int) -> Held:
        """Return what a level reached, to be kept."""
        level = parse_level(self._levels[n])
        assert self.best is not None
        return Held(level, level.evaluate(self._instance, self.best), self._sizes[n])

    def _stage(
        self, n: int, given: Settings, warm_start: Solution | None
    ) -> Certificate | Result[Solution]:
        """Solve a level; return what is proved of it, or a result without an answer."""
        instance, name = self._instance, self._levels[n]
        level, title = parse_level(name), f"level {n + 1} of {len(self._levels)}: {name}"
        if self.best is None:
            self._report(title)
            result = self._attempt(name, given, warm_start)
            if result.solution is None:
                return result.replace(stages=(result.certificate,))
            self.best = result.solution
            return result.certificate
        # The level before may have left the start for an answer that is as good to it.
        if _is_better(instance, warm_start, self.best, level, given.held):
            self.best = warm_start
        assert self.best is not None
        if self._limit is None and self._settings.time_is_up():
            self._limit = "time"
        stage = _untouched(instance, self.best, self._last, level, self._limit or "interrupt")
        try:
            left = f"{title} is left as it is, limit: {self._limit}"
            self._report(title if self._limit is None else left)
            if self._limit is None:
                result = self._attempt(name, given, self.best)
                if _is_better(instance, result.solution, self.best, level, given.held):
                    self.best = result.solution
                stage = result.certificate
        except KeyboardInterrupt:
            self._limit = "interrupt"
        return stage


def _closer(stage: Certificate, before: Certificate) -> Certificate:
    """Return the certificate of a level that was solved again, with the better of its bounds."""
    again = stage.replace(seconds=before.seconds + stage.seconds)
    worse = before.bound < stage.bound if stage.sense == "max" else before.bound > stage.bound
    # An answer is known: what says that there is none says nothing.
    if (worse or stage.status == "infeasible") and math.isfinite(before.bound):
        again = again.replace(status="feasible", bound=before.bound, bound_proof=before.bound_proof)
    return again


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
    return _all_kept(held, [each.level.evaluate(instance, solution) for each in held])


def _all_kept(held: Sequence[Held], values: Sequence[float]) -> bool:
    """Return whether values of levels are no worse than what is held of them."""
    return not any(
        beats(
            each.value,
            value,
            each.level.sense,
            abs(each.limit - each.value),
            OPTIMALITY_GAP,
        )
        for each, value in zip(held, values, strict=True)
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
