"""Goals: weighted sums of objectives, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from alloc.errors import InstanceError, nearest
from alloc.objectives.admission import ADMISSION_OBJECTIVES
from alloc.objectives.base import Objective
from alloc.objectives.placement import PLACEMENT_OBJECTIVES
from alloc.objectives.schedules import SCHEDULE_OBJECTIVES, ScheduleObjective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Solution

_KNOWN: dict[str, Objective] = {
    o.name: o for o in (*PLACEMENT_OBJECTIVES, *SCHEDULE_OBJECTIVES, *ADMISSION_OBJECTIVES)
}
"""The objectives that goals are made of."""
_SCHEDULE_WEIGHTS = 1e-100, 1e100
"""Weights of objectives of schedules: beyond, their products with weights of jobs and times leave
double precision."""
_LEVELS = re.compile(r"\bthen\b|>")
_TERM = re.compile(r"(?:(?P<weight>[0-9.eE+-]+)\s*\*?\s*)?(?P<name>[a-z_][a-z0-9_]*)")


@dataclass(frozen=True)
class WeightedSum(Objective):
    """Objectives weighed against each other, for example ``balance + 0.05 moves``.

    The sense is that of the first term; a term of the other sense is subtracted, so that more
    weight always means more of what that term wants.
    """

    terms: tuple[tuple[float, Objective], ...]

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the weighted sum of the values of the terms."""
        return sum(
            weight * (1.0 if term.sense == self.sense else -1.0) * term.evaluate(instance, solution)
            for weight, term in self.terms
        )

    def size(self, instance: Instance) -> float:
        """Return the sum of what one of each term is worth."""
        return sum(weight * term.size(instance) for weight, term in self.terms)


@dataclass(frozen=True)
class Goal:
    """What an answer is for: a first objective, then a second among its optima, and so on.

    Parameters
    ----------
    levels
        The objectives, most important first; at least one.
    """

    levels: tuple[WeightedSum, ...]

    @property
    def text(self) -> str:
        """The goal as `parse_goal` reads it."""
        return " then ".join(level.name for level in self.levels)


def parse_goal(text: str, known: Iterable[str] | None = None) -> Goal:
    """Read a goal such as ``gpus_placed then balance + 0.05 moves``.

    Parameters
    ----------
    text
        Terms joined by ``+``, each the name of an objective of placements or of schedules with an
        optional weight before it; levels of a lexicographic goal joined by ``then`` or ``>``.
    known
        The names that may be used; None for all.

    Raises
    ------
    InstanceError
        If a term cannot be read, a name is unknown, or a weight is not above 0 or out of range.
    """
    names = _KNOWN
    if known is not None:
        able = set(known)
        names = {name: o for name, o in _KNOWN.items() if name in able}
    return Goal(tuple(_level(part, names) for part in _LEVELS.split(text)))


def parse_level(text: str) -> WeightedSum:
    """Read one level of a goal, such as ``balance + 0.05 moves``.

    Raises
    ------
    InstanceError
        If it cannot be read, or has several levels.
    """
    levels = parse_goal(text).levels
    if len(levels) > 1:
        raise InstanceError(
            f'"{text}" has {len(levels)} levels, which have no value together; take one of: '
            f"{', '.join(level.name for level in levels)}."
        )
    return levels[0]


HOLD_TOLERANCE = 1e-7
"""How far, relatively, a later level may worsen an earlier one: solvers work in floating point."""


@dataclass(frozen=True)
class Held:
    """An earlier level of a lexicographic goal and the value that it must keep.

    Parameters
    ----------
    level
        The level.
    value
        Its value, as the checker computes it.
    size
        What one of the things that it counts is worth (`Objective.size`).
    """

    level: WeightedSum
    value: float
    size: float = 1.0

    @property
    def limit(self) -> float:
        """The worst value that counts as kept."""
        slack = HOLD_TOLERANCE * max(self.size, abs(self.value))
        return self.value - slack if self.level.sense == "max" else self.value + slack


def is_kept(instance: Instance, solution: Solution, held: Sequence[Held]) -> bool:
    """Return whether a solution keeps what earlier levels of a goal have reached.

    Parameters
    ----------
    instance
        The problem.
    solution
        An answer to it.
    held
        The earlier levels, and the value that each has to keep.
    """
    for each in held:
        value = each.level.evaluate(instance, solution)
        if value < each.limit if each.level.sense == "max" else value > each.limit:
            return False
    return True


def _in_full(weight: float) -> str:
    """Return a weight as it is read back, in as few digits as that takes."""
    short = f"{weight:g}"
    return short if float(short) == weight else repr(weight)


def _level(text: str, known: Mapping[str, Objective]) -> WeightedSum:
    terms = []
    # Not at the plus of 1e+3, but at that of balance+moves.
    for part in re.split(r"(?<![0-9.][eE])\+", text):
        match = _TERM.fullmatch(part.strip())
        if match is None:
            raise InstanceError(
                f'goal: "{part.strip()}" is not a term; write a name with a weight before it, for '
                'example "balance + 0.05 moves".'
            )
        name = match["name"]
        if name not in known:
            raise InstanceError(
                f'goal: unknown objective "{name}"{nearest(name, known, ";")} '
                f"known: {', '.join(known)}."
            )
        try:
            weight = float(match["weight"] or 1.0)
        except ValueError:
            weight = 0.0
        if not 0.0 < weight < float("inf"):
            raise InstanceError(
                f'goal: the weight of {name} is "{match["weight"]}"; give a number above 0.'
            )
        least, largest = _SCHEDULE_WEIGHTS
        if isinstance(known[name], ScheduleObjective) and not least <= weight <= largest:
            raise InstanceError(
                f"goal: the weight of {name} is {match['weight']}; give one from {least:g} to "
                f"{largest:g}: only its ratio to the others of its level matters."
            )
        terms.append((weight, known[name]))
    name = " + ".join(o.name if w == 1.0 else f"{_in_full(w)} {o.name}" for w, o in terms)
    first = terms[0][1]
    return WeightedSum(
        name,
        first.sense,
        first.unit,
        first.meaning if len(terms) == 1 else "Weighted sum of objectives.",
        tuple(terms),
    )
