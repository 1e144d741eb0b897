"""A package of somebody else: a family of its own; `third_party_announced` says so.

Which lessons to take so that the hours suffice and most is learnt: a knapsack.

Maximise the sum of what the lessons taken are worth; their hours are at most the hours there are.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from alloc.errors import InstanceError
from alloc.objectives import Value
from alloc.problems import Problem
from alloc.solving.outcome import Outcome
from alloc.verification.violation import Violation


@dataclass(frozen=True)
class Lesson:
    """A lesson.

    Parameters
    ----------
    name
        Unique name.
    hours
        Time that it takes, hours.
    worth
        What is learnt.
    """

    name: str
    hours: float
    worth: float


@dataclass(frozen=True)
class Timetable(Problem):
    """Lessons to choose from.

    Parameters
    ----------
    name
        For people.
    lessons
        The lessons.
    hours
        Time that there is, hours, 0 or more.

    Raises
    ------
    InstanceError
        If the time is negative.
    """

    name: str
    lessons: tuple[Lesson, ...]
    hours: float

    def __post_init__(self) -> None:
        if self.hours < 0:
            raise InstanceError(f"{self.name}: hours is {self.hours:g}; give 0 or more.")


@dataclass(frozen=True)
class Choice:
    """The lessons taken.

    Parameters
    ----------
    taken
        Names.
    """

    taken: tuple[str, ...]


def measure(name: str) -> Value:
    """Return the one objective."""
    return Value(name, "max", _worth)


def check(problem: Timetable, choice: Choice) -> list[Violation]:
    """Add up the hours."""
    hours = math.fsum(one.hours for one in problem.lessons if one.name in choice.taken)
    if hours <= problem.hours:
        return []
    excess = hours - problem.hours
    return [Violation("hours", choice.taken, excess, "h", f"{hours:g} hours of {problem.hours:g}.")]


def try_all(problem: Timetable, objective: str, *others: Any) -> Outcome[Choice]:
    """Look at every choice."""
    names = [one.name for one in problem.lessons]
    ways = itertools.chain(*(itertools.combinations(names, k) for k in range(len(names) + 1)))
    able = [choice for way in ways if not check(problem, choice := Choice(way))]
    best = max(able, key=lambda choice: _worth(problem, choice))
    return Outcome(best, _worth(problem, best), "recomputed", "auto", "1.0")


def _worth(problem: Timetable, choice: Choice) -> float:
    return math.fsum(one.worth for one in problem.lessons if one.name in choice.taken)


WEEK = Timetable("week", (Lesson("a", 3, 5), Lesson("b", 2, 4), Lesson("c", 2, 3)), 4.5)
"""By hand: b and c take 4 hours and are worth 7; a and another take 5."""
