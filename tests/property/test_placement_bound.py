"""Bounds and exact admission of placements against brute force, on clusters of a few hosts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from placement_oracle import Oracle, random_instance

from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import WeightedSum, parse_goal
from alloc.problems.allocation.instance import Instance, Moves
from alloc.solving.placement.admission import solve_admission
from alloc.solving.placement.bounds import placement_bound
from alloc.verification import verify

GOALS = (
    "balance + 0.05 moves",
    "gpu_hosts_used + 0.05 moves",
    "gpus_placed",
    "weight_placed + 0.1 gpus_placed",
    "gpus_placed + 0.3 moves + balance",
    "hosts_used + 0.01 moved_gb",
    "whole_hosts_free + 0.2 moves",
    "balance",
    "moves + gpu_hosts_used + fragmentation",
)


def bound_of(instance: Instance, level: WeightedSum, seconds: float = 5.0) -> float:
    """Return the bound."""
    bound, proof = placement_bound(PlacementData.of(instance), level, seconds, lambda _: None)
    assert proof == ("recomputed" if math.isfinite(bound) else "none")
    return bound


def excess(bound: float, best: float, level: WeightedSum) -> float:
    """Return by how much a bound is on the wrong side."""
    return best - bound if level.sense == "max" else bound - best


def check(seed: int) -> tuple[int, int]:
    """Hold an instance's bounds against brute force; return how many, and how many are tight."""
    rng = np.random.default_rng(seed)
    instance = random_instance(rng)
    oracle = Oracle(instance)
    done = tight = 0
    for goal in rng.choice(GOALS, 2, replace=False):
        level = parse_goal(str(goal)).levels[0]
        best = oracle.best(level)
        if best is None:
            continue
        bound = bound_of(instance, level)
        assert excess(bound, best, level) <= 1e-9 * (1 + abs(best)), (seed, goal, bound, best)
        done += 1
        tight += abs(bound - best) <= 1e-3 * (1 + abs(best))
    return done, tight


@pytest.mark.long
def test_bounds_hold_against_brute_force_and_are_often_tight() -> None:
    """A bound on the wrong side would make every certificate of F4 worthless."""
    done, tight = np.sum([check(seed) for seed in range(60)], axis=0)
    assert done >= 100
    assert tight >= 0.4 * done


@pytest.mark.slow
def test_bounds_hold_against_brute_force_on_hundreds_of_instances() -> None:
    """The same law over many more seeds."""
    done, _ = np.sum([check(seed) for seed in range(1000, 1400)], axis=0)
    assert done >= 600


def check_admission(seed: int) -> bool:
    """Hold an exact admission against brute force; return whether jobs compete for the room."""
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, (Moves(budget=0),), max_jobs=5)
    level = parse_goal(str(rng.choice(["gpus_placed", "weight_placed + 0.1 gpus_placed"]))).levels[
        0
    ]
    if any(len(instance.job(a.job).configurations) > 1 for a in instance.running):
        return False  # it may change its configuration where it stands: no pure admission
    best = Oracle(instance).best(level)
    found = solve_admission(PlacementData.of(instance), level, 20.0, lambda _: None)
    assert best is not None
    assert found.allocation is not None
    assert not verify(instance, found.allocation), seed
    assert level.evaluate(instance, found.allocation) == pytest.approx(found.value), seed
    assert found.value == pytest.approx(best), seed
    assert found.bound == pytest.approx(best), seed
    return len(found.allocation.assignments) < len(instance.jobs)


@pytest.mark.long
def test_admission_is_optimal_against_brute_force() -> None:
    """Gangs whole in one rack, alternatives of configurations, GPU types: all at once."""
    assert sum(check_admission(seed) for seed in range(60)) >= 15


@pytest.mark.slow
def test_admission_is_optimal_on_hundreds_of_instances() -> None:
    """The same law over many more seeds."""
    assert sum(check_admission(seed) for seed in range(1000, 1400)) >= 100
