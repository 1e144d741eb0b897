"""Corners in which the engine once raised, or claimed what placing could not keep."""

from __future__ import annotations

import pytest

import alloc
from alloc.problems.allocation.instance import Tenant
from alloc.result import Limits
from alloc.topology.host import Host, HostType
from alloc.workload import rigid_gang

BACKENDS = ("auto", "highs", "pyomo", "cpsat")
ONE_GPU = alloc.Topology("one", (HostType("k", 1, "v100"),), (Host("h0", "k"),))
THREE_AND_ONE = alloc.Topology(
    "uneven",
    (HostType("k3", 3, "v100"), HostType("k1", 1, "v100")),
    (Host("h0", "k3"), Host("h1", "k1")),
)
PAIR_ON_A_HOST = (alloc.Configuration((alloc.TaskGroup("worker", 2, 1000),), 1.0, within="host"),)
HELD = (alloc.Assignment("a", 0, (alloc.TaskPlacement("h0", "worker", 1),)),)


def solve(instance: alloc.Instance, backend: str) -> alloc.Result:
    """Solve within a few seconds."""
    return alloc.solve(instance, backend=backend, limits=Limits(seconds=5))


@pytest.mark.parametrize("backend", BACKENDS)
def test_work_done_before_makes_the_first_run_a_restart(backend: str) -> None:
    """Ten of twenty units are done, resuming costs a whole slot: completion 10 + 10."""
    job = alloc.Job("a", 0.0, 20.0, (rigid_gang(1),), work_done=10.0, restart_cost_s=10.0)
    result = solve(alloc.Instance("resume", ONE_GPU, (job,), slot_s=10.0), backend)
    assert result.certificate.objective == pytest.approx(20.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_quota_below_every_configuration_is_infeasible(backend: str) -> None:
    """Nothing is left to choose from; the sentence names the tenant."""
    job = alloc.Job("a", 0.0, 20.0, (rigid_gang(1),), tenant="r")
    tenants = (Tenant("r", 0),)
    result = solve(alloc.Instance("q", ONE_GPU, (job,), slot_s=10.0, tenants=tenants), backend)
    assert result.certificate.status == "infeasible"
    assert 'quota of tenant "r"' in str(result.conflict)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_far_horizon_does_not_blow_up_the_grid(backend: str) -> None:
    """A thousand slots to the horizon, four to run in: the grid follows the load."""
    job = alloc.Job("a", 0.0, 20.0, (rigid_gang(1),))
    instance = alloc.Instance("far", ONE_GPU, (job,), slot_s=5.0, horizon_s=5000.0)
    assert solve(instance, backend).certificate.objective == pytest.approx(20.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plan_that_no_hosts_can_keep_in_time_is_proved_infeasible(backend: str) -> None:
    """Capacity counts four GPUs, but only one host holds a pair: two deadlines cannot both hold."""
    jobs = tuple(alloc.Job(k, 0.0, 20.0, PAIR_ON_A_HOST, deadline_s=25.0) for k in "ab")
    result = solve(alloc.Instance("tight", THREE_AND_ONE, jobs, slot_s=10.0), backend)
    assert result.solution is None
    assert result.certificate.status == "infeasible"
    assert result.conflict


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_moldable_job_stuck_without_progress_is_infeasible(backend: str) -> None:
    """It chose a configuration of rate 0 and may not change it."""
    ways = (rigid_gang(1, rate=0.0), rigid_gang(1))
    job = alloc.Job("a", 0.0, 20.0, ways, elasticity="moldable")
    result = solve(alloc.Instance("stuck", ONE_GPU, (job,), slot_s=5.0, running=HELD), backend)
    assert result.certificate.status == "infeasible"


def test_running_before_arriving_is_refused() -> None:
    """A job cannot run at the start of an instance and arrive later."""
    job = alloc.Job("a", 5.0, 20.0, (rigid_gang(1),))
    instance = alloc.Instance("early", ONE_GPU, (job,), slot_s=5.0, running=HELD)
    with pytest.raises(alloc.InstanceError, match='job "a": runs when the instance starts but'):
        alloc.solve(instance, limits=Limits(seconds=5))
