"""What an objective is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alloc.instance import Instance
from alloc.solution import Solution

Sense = Literal["min", "max"]


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

    def rounding(self, instance: Instance) -> float:
        """Return the difference between two values that is nothing, in the objective's unit.

        0 where all terms have one sign: then rounding is a share of the value itself.
        """
        return 0.0
