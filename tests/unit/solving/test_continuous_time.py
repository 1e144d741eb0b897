"""Without slots: the schedule is feasible, the bound holds on any grid, infeasible is proved."""

from __future__ import annotations

import numpy as np
import pytest

import alloc
from alloc.instances import load
from alloc.models.malleable import slot_data
from alloc.models.malleable.fluid import fluid_bound
from alloc.result import Limits
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang


def one_host(num_gpus: int) -> alloc.Topology:
    """A single host with some GPUs."""
    return flat_cluster("one", HostType("host", num_gpus, "generic"), 1)


def test_one_job_alone_is_bounded_by_its_run_time() -> None:
    """With one job nothing is scarce: bound and schedule are its shortest run, to the slot."""
    job = Job("a", 50.0, 300.0, (rigid_gang(1),), elasticity="rigid")
    result = alloc.solve(alloc.Instance("one", one_host(1), (job,)), limits=Limits(seconds=2))
    assert result.certificate.bound == pytest.approx(300.0, rel=1e-6)
    assert result.certificate.objective == pytest.approx(300.0, rel=0.25)


def test_two_equal_jobs_on_one_gpu() -> None:
    """The optimum runs one after the other: 100 + 200. The bound may not exceed it."""
    jobs = tuple(Job(k, 0.0, 100.0, (rigid_gang(1),), elasticity="rigid") for k in "ab")
    result = alloc.solve(alloc.Instance("two", one_host(1), jobs), limits=Limits(seconds=2))
    assert 200.0 < result.certificate.bound <= 300.0 + 1e-6
    assert result.certificate.objective == pytest.approx(300.0, rel=0.1)


@pytest.mark.parametrize("name", ["elastic-tiny/03", "elastic-tiny/06"])
@pytest.mark.parametrize("seed", range(4))
def test_any_prices_bound_the_slotted_optimum(name: str, seed: int) -> None:
    """A schedule in slots is one in continuous time: no prices prove more than its optimum."""
    instance = load(name)
    data = slot_data(instance)
    rng = np.random.default_rng(seed)
    scale = 2.0 / data.rows.capacity
    prices = rng.random((12, len(data.rows.names))) * scale * rng.random()
    optimum = alloc.solve(instance, limits=Limits(seconds=20)).certificate
    assert optimum.status == "optimal"
    assert fluid_bound(data, prices) <= optimum.objective * (1 + 1e-9)


@pytest.mark.long
def test_mixing_configurations_in_time_is_allowed_for() -> None:
    """Two jobs that share a fast and a frugal way: the bound stays below half-slot switching."""
    fast = Configuration((TaskGroup("worker", 2, 1000),), 1.5)
    frugal = Configuration((TaskGroup("worker", 1, 1000),), 1.0)
    jobs = tuple(Job(k, 0.0, 90.0, (frugal, fast)) for k in "ab")
    instance = alloc.Instance("mix", one_host(2), jobs)
    certificate = alloc.solve(instance, limits=Limits(seconds=2)).certificate
    # By hand: one after the other in the fast way, 60 + 120, equals both frugally, 90 + 90.
    assert certificate.bound <= 180.0 + 1e-6
    assert certificate.objective >= 180.0 - 1e-6


def test_a_deadline_missed_alone_is_infeasible_but_a_grid_proves_nothing() -> None:
    """The clock of the grid must not turn a tight deadline into an impossible one."""
    job = Job("a", 30.0, 100.0, (rigid_gang(1),), elasticity="rigid", deadline_s=129.0)
    result = alloc.solve(alloc.Instance("late", one_host(1), (job,)), limits=Limits(seconds=2))
    assert result.certificate.status == "infeasible"
    tight = job.replace(deadline_s=130.5)
    result = alloc.solve(alloc.Instance("tight", one_host(1), (tight,)), limits=Limits(seconds=2))
    assert result.certificate.status != "infeasible"
