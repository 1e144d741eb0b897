"""Tiny runs to checkpoint: every set of points to save at is tried."""

from __future__ import annotations

import itertools
from random import Random

from alloc.problems.checkpointing import CheckpointPlan, CheckpointProblem, Phase
from alloc.result import Limits
from alloc.solving import solve as solve_problem
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result


def make(rng: Random, scaled: bool, large: bool) -> CheckpointProblem:
    """Return a run of a few phases, far from the failures or beset by them."""
    unit = rng.choice(SCALES) if scaled else 1.0
    phases = tuple(
        Phase(
            unit * rng.choice((1.0, 2.0, 5.0, rng.uniform(0.1, 9.0))),
            unit * rng.choice((0.0, 0.5, 1.0, 3.0)),
            unit * rng.choice((0.0, 1.0, 4.0)),
        )
        for _ in range(rng.randint(200, 600) if large else rng.randint(1, 9))
    )
    mtbf = unit * rng.choice((1.0, 5.0, 20.0, 1000.0, 1e6))
    return CheckpointProblem("run", phases, mtbf, unit * rng.choice((0.0, 2.0)), unit)


def truth(problem: CheckpointProblem) -> Truth:
    """Try every set of points."""
    inner, last = range(len(problem.phases) - 1), len(problem.phases) - 1
    return Truth(
        (
            min(
                CheckpointPlan((*chosen, last)).expected_s(problem)
                for count in range(last + 1)
                for chosen in itertools.combinations(inner, count)
            ),
        )
    )


def solve(problem: CheckpointProblem, way: str, seconds: float) -> Answer:
    """Solve it."""
    return of_result(solve_problem(problem, backend=way, limits=Limits(seconds=seconds)))


CHECKPOINTING = Family("checkpointing", make, ("auto", "highs", "pyomo"), truth, solve)
