"""What an objective is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from alloc.certificate import CONTRADICTION
from alloc.certificate import Sense as Sense
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Solution

ROUNDING = 1e-9
"""Sums with terms of either sign (shares above a mean, moves against gains) round to some 1e-16 of
the terms, times thousands of hosts."""


class Measure(Protocol):
    """What a certificate needs to know of an objective, of whatever family."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def sense(self) -> Sense:
        """Whether less or more is better."""

    def evaluate(self, problem: Any, solution: Any, /) -> float:
        """Return the value of a solution, recomputed from the problem.

        Parameters
        ----------
        problem
            The problem.
        solution
            An answer to it.
        """

    @property
    def tolerance(self) -> float:
        """Difference of value and bound, relative, that proves no bound false."""

    def rounding(self, problem: Any, solution: Any, /) -> float:
        """Return by how much rounding may move a solution's value, in the objective's unit.

        Parameters
        ----------
        problem
            The problem.
        solution
            An answer to it.
        """


@dataclass(frozen=True)
class Value:
    """A measure made of functions.

    Parameters
    ----------
    name
        Its name.
    sense
        Whether less or more is better.
    of
        Recomputes the value of a solution: ``of(problem, solution)``.
    off
        By how much rounding may move the value of a solution: ``off(problem, solution)``.
    tolerance
        Difference of value and bound, relative, that proves no bound false.
    """

    name: str
    sense: Sense
    of: Callable[[Any, Any], float]
    off: Callable[[Any, Any], float] = lambda problem, solution: 0.0
    tolerance: float = CONTRADICTION

    def evaluate(self, problem: Any, solution: Any) -> float:
        """Return the value of a solution, recomputed from the problem.

        Parameters
        ----------
        problem
            The problem.
        solution
            An answer to it.
        """
        return self.of(problem, solution)

    def rounding(self, problem: Any, solution: Any) -> float:
        """Return by how much rounding may move a solution's value, in the objective's unit.

        Parameters
        ----------
        problem
            The problem.
        solution
            An answer to it.
        """
        return self.off(problem, solution)


@dataclass(frozen=True)
class Objective:
    """A named measure of a solution.

    Parameters
    ----------
    name
        Unique name.
    sense
        Whether less or more is better.
    unit
        Unit of the value.
    meaning
        One sentence for people.
    """

    name: str
    sense: Sense
    unit: str
    meaning: str

    @property
    def tolerance(self) -> float:
        """Difference of value and bound, relative, that proves no bound false."""
        return CONTRADICTION

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the value of a solution; infinite (worst) if a job that counts never completes.

        Parameters
        ----------
        instance
            The problem.
        solution
            A decision of one round, or a plan over time; whichever the objective is of.
        """
        raise TypeError(f"{type(self).__name__} is abstract; take one from OBJECTIVES.")

    def size(self, instance: Instance) -> float:
        """Return what one of the things counted is worth: a GPU, a host, the largest weight.

        0 where all terms have one sign: then rounding is a share of the value itself.
        """
        return 0.0

    def rounding(self, instance: Instance, solution: Solution) -> float:
        """Return by how much rounding may move a solution's value, in the objective's unit.

        Parameters
        ----------
        instance
            The problem.
        solution
            A decision of one round, or a plan over time; whichever the objective is of.
        """
        return ROUNDING * self.size(instance)
