"""Bounds from ranges: never better than the best, and enough where nothing is in the way."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from alloc.objectives import parse_level
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.result import Limits
from alloc.solving.placement.ranges import range_bound
from alloc.solving.solver import solve
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup


def gang(name: str, gpus: int, weight: float = 1.0) -> Job:
    """A rigid job of one task."""
    configuration = Configuration((TaskGroup("worker", 1, 1000 * gpus),), 1.0)
    return Job(name, 0.0, 1.0, (configuration,), weight=weight, elasticity="rigid")


@pytest.fixture
def instance() -> Instance:
    """Two hosts of eight GPUs, one job runs, two wait."""
    cluster = flat_cluster("c", HostType("server", 8, "h100"), 2)
    jobs = (gang("a", 3), gang("b", 5, 2.0), gang("c", 6, 4.0))
    running = (Assignment("a", 0, (TaskPlacement("host-0", "worker", 1),)),)
    return Instance("i", cluster, jobs, running=running, moves=Moves())


@pytest.mark.parametrize(
    ("goal", "bound"),
    [
        ("gpus_placed", 14.0),
        ("weight_placed", 7.0),
        ("moves", 0.0),
        ("gpus_placed + 0.1 moves", 14.0),
        ("moves + 2 gpus_placed", -28.0),
        ("whole_hosts_free", 1.0),
        ("gpu_hosts_used", 1.0),
        ("hosts_used + 0.1 moves", 1.0),
        ("bottleneck_bandwidth", math.inf),
    ],
)
def test_a_range_is_what_no_placement_can_beat(instance: Instance, goal: str, bound: float) -> None:
    """By hand: demands and weights add up, costs are never negative, the unknown is said."""
    assert range_bound(instance, parse_level(goal)) == bound


def test_what_reaches_its_range_is_proved_level_by_level(instance: Instance) -> None:
    """All three run and nothing moves: no search could do better, and each level says so."""
    result = solve(
        instance, "placement", objective="gpus_placed then moves", limits=Limits(seconds=10.0)
    )
    assert [(c.status, c.objective) for c in result.stages] == [("optimal", 14.0), ("optimal", 0.0)]
    assert [c.bound_proof for c in result.stages] == ["recomputed", "recomputed"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("goal", ["gpus_placed", "weight_placed"])
def test_what_the_cluster_offers_as_a_whole_bounds_what_is_placed(goal: str, seed: int) -> None:
    """Licences are the cluster's: the bound is above the best set of jobs, and near it.

    Hosts have room for all. It is the best of any share of jobs, which is at most one job better.
    """
    rng = np.random.default_rng(seed)
    licences = int(rng.integers(4, 12))
    cluster = flat_cluster("c", HostType("server", 8, "h100"), 20).replace(
        resources={"licence": licences}
    )
    jobs, facts = [], []
    for n in range(9):
        gpus, asks, weight = (int(k) for k in rng.integers(1, 6, 3))
        group = TaskGroup("worker", 1, 1000 * gpus, resources={"licence": asks})
        way = (Configuration((group,), 1.0),)
        jobs.append(Job(f"j{n}", 0.0, 1.0, way, weight=float(weight), elasticity="rigid"))
        facts.append((gpus if goal == "gpus_placed" else weight, asks))
    instance = Instance("licences", cluster, tuple(jobs), moves=Moves())
    best = max(
        sum(value for value, _ in some)
        for size in range(len(facts) + 1)
        for some in itertools.combinations(facts, size)
        if sum(asks for _, asks in some) <= licences
    )
    bound = range_bound(instance, parse_level(goal))
    assert best <= bound <= best + max(value for value, _ in facts)
    found = solve(instance, "placement", objective=goal, limits=Limits(seconds=10.0))
    assert found.certificate.objective == pytest.approx(best)
