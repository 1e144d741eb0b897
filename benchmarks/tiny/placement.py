"""F4: every placement of every job on every host, within capacity, types, racks and moves."""

from __future__ import annotations

from random import Random

import numpy as np
from placement_oracle import Oracle, random_instance

from alloc.objectives import parse_goal
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.solving import solve as solve_instance
from alloc.verification import verify_placement
from benchmarks.tiny.cluster import NAMED, with_named_resources
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

Problem = tuple[Instance, str]

GOALS = (
    "gpus_placed",
    "weight_placed",
    "balance",
    "moves",
    "gpus_placed then balance",
    "weight_placed then moves",
    "gpus_placed then gpu_hosts_used",
    "gpus_placed then hosts_used then moves",
    "balance + 0.05 moves",
    "gpus_placed + 0.3 weight_placed",
    "gpus_placed + 0.05 balance",
    "gpus_placed then whole_hosts_free",
    "weight_placed then moved_gb",
)
"""Objectives whose value the oracle computes by itself."""


def make(rng: Random, scaled: bool, large: bool) -> Problem:
    """Return two to four hosts in two racks, up to four jobs, some of them running."""
    weight = rng.choice(SCALES) if scaled else 1.0
    instance = random_instance(
        np.random.default_rng(rng.randrange(2**32)), max_jobs=12 if large else 4
    )
    jobs = tuple(job.replace(weight=weight * job.weight) for job in instance.jobs)
    instance, goal = instance.replace(jobs=jobs), rng.choice(GOALS)
    return with_named_resources(rng, instance) if rng.random() < NAMED else instance, goal


def truth(problem: Problem) -> Truth:
    """Try every placement; of those best in a level, the next decides."""
    instance, goal = problem
    levels = parse_goal(goal).levels
    best = Oracle(instance).best_levels(levels)
    senses = tuple(level.sense for level in levels)
    # Balance, counts and moves are of the size of 1.
    return Truth(best, senses, 0.0 if "weight" in goal else 1.0)


def solve(problem: Problem, way: str, seconds: float) -> Answer:
    """Place with a backend."""
    instance, goal = problem
    result = solve_instance(
        instance, "placement", way, objective=goal, limits=Limits(seconds=seconds)
    )
    broken = [] if result.solution is None else verify_placement(instance, result.solution)
    return of_result(result, broken)


PLACEMENT = Family("placement", make, ("auto", "highs", "pyomo", "cpsat"), truth, solve)
