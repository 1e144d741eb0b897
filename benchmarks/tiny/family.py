"""What a family of tiny problems is, and how an answer is held against the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

CLOSE = 3e-6
"""Relative distance at which two values are one: three times the gap that is called optimal."""

SCALES = (1e-9, 1e-7, 1e-5, 1e-3, 1e3, 1e6, 1e9, 1e12)
"""Factors of weights, rates, times and prices: no unit may change what is found or claimed."""


@dataclass(frozen=True)
class Truth:
    """The optimum of a problem by enumeration.

    Parameters
    ----------
    values
        The best value of each level of the goal, in order; None where nothing is feasible.
    senses
        ``min`` or ``max`` for each level.
    size
        What counts as much in the objective's unit: values below `CLOSE` times that are 0.
    """

    values: tuple[float, ...] | None
    senses: tuple[str, ...] = ("min",)
    size: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What a method says.

    Parameters
    ----------
    statuses
        Status of each level's certificate.
    values
        Objective of each level, None without a solution.
    bounds
        Bound of each level.
    proof
        How the bound was proved.
    limited
        Whether a limit ended the search.
    violations
        What the checker finds in the solution.
    """

    statuses: tuple[str, ...]
    values: tuple[float | None, ...]
    bounds: tuple[float, ...]
    proof: str = ""
    limited: bool = False
    violations: Sequence[object] = ()

    @property
    def status(self) -> str:
        """The worst status of the levels: only if all are optimal, the answer is."""
        return next((s for s in self.statuses if s != "optimal"), "optimal")


@dataclass(frozen=True)
class Family:
    """A family of tiny problems.

    Parameters
    ----------
    name
        Its name on the command line.
    make
        Makes a problem: ``make(rng, scaled, large)``. Scaled ones have weights, rates, times or
        prices far from 1; large ones, too large to enumerate, are for the watchdog.
    ways
        The methods and backends that answer a problem.
    truth
        Its optimum by enumeration.
    solve
        ``solve(problem, way, seconds)``.
    scaled
        Whether its problems have weights, rates, times or prices far from 1.
    open_ways
        Ways that are no exact methods: without a limit they too may leave an answer open.
    """

    name: str
    make: Callable[[Random, bool, bool], Any]
    ways: tuple[str, ...]
    truth: Callable[[Any], Truth]
    solve: Callable[[Any, str, float], Answer]
    scaled: bool = False
    open_ways: tuple[str, ...] = ()

    def problem(self, seed: int, *, large: bool = False) -> Any:
        """Return the problem of a seed."""
        return self.make(Random(f"{self.name} {large} {seed}"), self.scaled, large)


def of_result(result: Any, violations: Sequence[object] = ()) -> Answer:
    """Return the answer that a result with certificates gives."""
    certificates = result.stages or (result.certificate,)
    return Answer(
        tuple(c.status for c in certificates),
        tuple(c.objective for c in certificates),
        tuple(c.bound for c in certificates),
        certificates[-1].bound_proof,
        any(c.limit is not None for c in certificates),
        violations,
    )


def disagreement(truth: Truth, answer: Answer, may_stay_open: bool = False) -> str | None:
    """Return what is false about an answer, or None.

    Parameters
    ----------
    truth
        The optimum.
    answer
        What a method says.
    may_stay_open
        Whether it may end without a limit and without a proof; all that it claims must hold.
    """
    if answer.violations:
        return f"the checker refuses it: {answer.violations[0]}"
    if truth.values is None:
        unfinished = answer.limited or may_stay_open
        if answer.status == "infeasible" or (unfinished and answer.values[0] is None):
            return None
        return f"{answer.status} {answer.values}, but nothing is feasible"
    if "infeasible" in answer.statuses:
        return f"infeasible, but {truth.values} is possible"
    if answer.status != "optimal" and not (
        answer.limited or may_stay_open or _closed(truth, answer)
    ):
        return f"{answer.status} {answer.values} without a limit"
    levels = zip(
        answer.statuses, answer.values, answer.bounds, truth.values, truth.senses, strict=False
    )
    for status, value, bound, best, sense in levels:
        off = CLOSE * max(abs(best), truth.size)
        sign = 1.0 if sense == "min" else -1.0
        if value is not None and (not math.isfinite(value) or sign * (best - value) > off):
            return f"{value!r} is better than the optimum {best!r}"
        if math.isnan(bound) or sign * (bound - best) > off:
            return f"the bound {bound!r} is false; the optimum is {best!r}"
        if status != "optimal":
            return None  # the later levels depend on the value of this one
        if value is None or abs(value - best) > off:
            return f"{value!r} is called optimal; the optimum is {best!r}"
    return None


def _closed(truth: Truth, answer: Answer) -> bool:
    """Return whether every level's bound is as near to its value as what counts as 0.

    An optimum of 0, as costs of either sign cancel, has no relative gap: a bound within rounding
    stays ``feasible``, and rightly.
    """
    off = CLOSE * truth.size
    return all(
        value is not None and abs(value - bound) <= off
        for value, bound in zip(answer.values, answer.bounds, strict=True)
    )
