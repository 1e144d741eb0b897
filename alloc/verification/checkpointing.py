"""The checker of checkpoint plans: points in order, the end among them."""

from __future__ import annotations

from itertools import pairwise

from alloc.objectives import Measure, Value
from alloc.problems.checkpointing import CheckpointPlan, CheckpointProblem
from alloc.verification.violation import Violation


def objective(name: str) -> Measure:
    """Return the objective: the expected time of the run, seconds."""
    return Value(name, "min", lambda problem, plan: plan.expected_s(problem))


def verify_checkpoints(problem: CheckpointProblem, plan: CheckpointPlan) -> list[Violation]:
    """Return what is wrong with a plan; empty when it keeps every rule.

    Parameters
    ----------
    problem
        The phases of a run, and what a save and a failure cost.
    plan
        After which phases the state is saved.
    """
    n = len(problem.phases)
    broken = [
        Violation("unknown_phase", (str(k),), 1, "", f"there is no phase {k} among 0 to {n - 1}.")
        for k in plan.after
        if not 0 <= k < n
    ]
    broken += [
        Violation(
            "order", (str(k),), 1, "", f"the save after phase {k} is named after that of {i}."
        )
        for i, k in pairwise(plan.after)
        if k <= i
    ]
    if n - 1 not in plan.after:
        broken.append(Violation("end", (), 1, "", "the state at the end of the run is not saved."))
    return broken
