"""Bounds from ranges: never better than the best, and enough where nothing is in the way."""

from __future__ import annotations

import math

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
