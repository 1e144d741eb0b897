"""The checker of quadratic assignment: every facility at a location of its own."""

from __future__ import annotations

import numpy as np

from alloc.objectives import Measure, Value
from alloc.problems.quadratic_assignment import Permutation, QuadraticAssignment
from alloc.verification.violation import Violation


def objective(name: str) -> Measure:
    """Return the objective: what all pairs cost together."""
    # Costs of either sign cancel; the terms, not their sum, say what rounding is.
    return Value(name, "min", lambda problem, found: problem.cost(found), _rounding)


def _rounding(problem: QuadraticAssignment, found: Permutation) -> float:
    terms = np.abs(problem.flow) * np.abs(problem.distance[np.ix_(found, found)])
    return float(terms.sum()) * 1e-12


def verify_permutation(problem: QuadraticAssignment, permutation: Permutation) -> list[Violation]:
    """Return what is wrong with a permutation; empty when it is one.

    Parameters
    ----------
    problem
        Facilities and locations, as many of each.
    permutation
        Location of each facility, shape (size,).
    """
    found = np.asarray(permutation)
    if found.shape == (problem.size,) and np.array_equal(np.sort(found), np.arange(problem.size)):
        return []
    sentence = f"the answer is not a permutation of the {problem.size} locations."
    return [Violation("permutation", (), 1.0, "", sentence)]
