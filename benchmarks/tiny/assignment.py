"""Quadratic assignment: every permutation."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np

from alloc.families import verify
from alloc.problems.quadratic_assignment import QuadraticAssignment
from alloc.result import Limits
from alloc.solving import solve as solve_problem
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result


def make(rng: Random, scaled: bool, large: bool) -> QuadraticAssignment:
    """Return matrices of whole numbers, fractions or both signs."""
    n = rng.randint(14, 24) if large else rng.randint(1, 5)
    unit = rng.choice(SCALES) if scaled else 1.0
    low = rng.choice((0, 0, -4))
    part = rng.choice((1.0, 1.0, 0.37))
    flow, distance = (
        np.array([[rng.randint(low, 9) * part for _ in range(n)] for _ in range(n)])
        for _ in range(2)
    )
    if rng.random() < 0.5:
        flow, distance = flow + flow.T, distance + distance.T
    return QuadraticAssignment("tiny", flow * unit, distance)


def truth(problem: QuadraticAssignment) -> Truth:
    """Try every permutation."""
    costs = [problem.cost(p) for p in itertools.permutations(range(problem.size))]
    return Truth((min(costs),), size=float(abs(problem.flow).max() * abs(problem.distance).max()))


def solve(problem: QuadraticAssignment, way: str, seconds: float) -> Answer:
    """Assign by the method of its own or by a general solver."""
    result = solve_problem(problem, backend=way, limits=Limits(seconds=seconds))
    found = result.solution
    return of_result(result, [] if found is None else verify(problem, found))


ASSIGNMENT = Family("assignment", make, ("auto", "pyomo", "cpsat"), truth, solve)
