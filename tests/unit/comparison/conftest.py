"""Instances small enough to check by hand, and schedulers that misbehave."""

from __future__ import annotations

import pytest

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.state import ClusterState, Decision
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang


def make_instance(name: str, works: tuple[float, ...], weight: float = 1.0) -> Instance:
    """Jobs of one GPU that arrive together on one host with a single GPU, slots of 10 s."""
    gang = (rigid_gang(1),)
    jobs = tuple(
        Job(f"job-{j}", 0.0, work, gang, weight=weight, elasticity="rigid")
        for j, work in enumerate(works)
    )
    cluster = flat_cluster("one GPU", HostType("host", 1, "a100", 8000, 1024), 1)
    return Instance(name, cluster, jobs, slot_s=10.0)


@pytest.fixture
def queue() -> Instance:
    """Long before short on one GPU: FIFO needs 30 + 40 = 70 s of JCT, the optimum 10 + 40 = 50."""
    return make_instance("queue-01", (30.0, 10.0))


@pytest.fixture
def other() -> Instance:
    """Two equal jobs: whatever the order, 20 + 40 = 60 s."""
    return make_instance("queue-02", (20.0, 20.0))


@pytest.fixture
def elastic() -> Instance:
    """Two malleable jobs on two hosts with GPUs, whose sizes and pauses figures must show."""
    ways = tuple(
        Configuration((TaskGroup("worker", n, 1000, 1000),), rate)
        for n, rate in ((1, 1.0), (2, 1.8), (4, 3.0))
    )
    jobs = (Job("first", 0.0, 60.0, ways), Job("second", 10.0, 30.0, ways, restart_cost_s=2.0))
    cluster = flat_cluster("two hosts", HostType("host", 2, "a100", 8000, 1024), 2)
    return Instance("elastic-01", cluster, jobs, slot_s=10.0)


class Policy:
    """Base of the schedulers of these tests: first come, first served, on the first host."""

    name = "test-policy"
    needs = "none"
    information = "order of arrival"

    def reset(self) -> None:
        """Nothing to forget."""

    def decide(self, state: ClusterState) -> Decision:
        job = state.jobs[0]
        placed = state.pool.place(job.configurations[0])
        assert placed is not None
        return Decision((Assignment(job.id, 0, placed),))


class Broken(Policy):
    """Raises what no scheduler should."""

    name = "broken"

    def decide(self, state: ClusterState) -> Decision:
        return {}["no such key"]  # type: ignore[index]


@pytest.fixture
def policy() -> Policy:
    return Policy()


@pytest.fixture
def broken() -> Broken:
    return Broken()
