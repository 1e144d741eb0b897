"""What an objective is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alloc.instance import Instance
from alloc.solution import Solution

Sense = Literal["min", "max"]
ROUNDING = 1e-9
"""Sums with terms of either sign (shares above a mean, moves against gains) round to some 1e-16 of
the terms, times thousands of hosts."""


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

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the value of a solution; infinite (worst) if a job that counts never completes."""
        raise TypeError(f"{type(self).__name__} is abstract; take one from OBJECTIVES.")

    def size(self, instance: Instance) -> float:
        """Return what one of the things counted is worth: a GPU, a host, the largest weight.

        0 where all terms have one sign: then rounding is a share of the value itself.
        """
        return 0.0

    def rounding(self, instance: Instance) -> float:
        """Return the difference between two values that is nothing, in the objective's unit."""
        return ROUNDING * self.size(instance)
