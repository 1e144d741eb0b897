"""The best placement known: what is offered is checked, and what is better is kept."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from alloc.objectives.goals import Held, WeightedSum
from alloc.problems.allocation.solution import Allocation, Solution
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.terms import Counts
from alloc.verification import verify_placement

_ROUNDING = 1e-12
"""Of a cost, or of what one of the things counted is worth: a goal of 1e-9 moves is none the
less."""


class Incumbent:
    """The best placement known.

    Parameters
    ----------
    problem
        The problem.
    level
        What is optimised.
    held
        Earlier levels of the goal, with the values that must be kept.
    """

    def __init__(self, problem: Problem, level: WeightedSum, held: tuple[Held, ...]) -> None:
        self.problem = problem
        self.level = level
        self.held = held
        self.sign = 1.0 if level.sense == "min" else -1.0
        self.allocation: Allocation | None = None
        self.counts: csr_array | None = None
        self.cost = math.inf

    def cost_of(self, allocation: Allocation) -> float:
        """Return the value of the level in minimisation; infinite if an earlier level is lost."""
        instance = self.problem.instance
        for held in self.held:
            value = held.level.evaluate(instance, allocation)
            if (value > held.limit) if held.level.sense == "min" else (value < held.limit):
                return math.inf
        return self.sign * self.level.evaluate(instance, allocation)

    def offer(self, solution: Solution | None, counts: csr_array | None = None) -> bool:
        """Keep an allocation if it breaks no rule and is better; return whether it is.

        Parameters
        ----------
        solution
            The allocation, if any.
        counts
            Where its tasks stand, shape (groups, hosts), if that is known.
        """
        if not isinstance(solution, Allocation) or verify_placement(
            self.problem.instance, solution
        ):
            return False
        cost = self.cost_of(solution)
        if not cost < self.cost - self._rounding(cost):
            return False
        self.allocation, self.cost = solution, cost
        self.counts = self._read(solution) if counts is None else counts
        return True

    def _rounding(self, cost: float) -> float:
        """Return the difference of two costs that is none, in the unit of the level."""
        return _ROUNDING * max(self.level.size(self.problem.instance), abs(cost))

    def offer_counts(self, counts: csr_array) -> bool:
        """Keep the allocation of counts, shape (groups, hosts), if it is better."""
        return self.offer(self.problem.data.allocation(counts), counts)

    def _read(self, allocation: Allocation) -> csr_array:
        data = self.problem.data
        rows, columns, numbers = [], [], []
        index = data.instance.topology.host_index
        for a in allocation.assignments:
            j = data.instance.job_index[a.job]
            for task in a.tasks:
                rows.append(data.index[j, a.configuration, task.role])
                columns.append(index[task.host])
                numbers.append(task.count)
        place = (np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64))
        counts: Counts = np.array(numbers, dtype=np.int64)
        return csr_array((counts, place), shape=data.initial.shape)
