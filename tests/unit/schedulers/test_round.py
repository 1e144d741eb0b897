"""Rounds: steps over gaps, quotas and undone steps."""

from __future__ import annotations

import pytest

from alloc.errors import InstanceError
from alloc.instances import generate_elastic
from alloc.instances.dl2 import SERVER
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers import JobView, make_scheduler
from alloc.schedulers.srtf import work_of
from alloc.simulation import simulate
from alloc.topology import HostType, flat_cluster
from alloc.topology.fabrics import leaf_spine
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup, rigid_gang

NODE = HostType("node", 2, "generic", 8000, 0)
SLOT_S = 10.0


def pair(workers: int, servers: int, rate: float = 1.0) -> Configuration:
    tasks = (TaskGroup("worker", workers, 1000, 2000), TaskGroup("ps", servers, 0, 2000))
    return Configuration(tasks, rate)


def first_slot(num_hosts: int, name: str, *jobs: Job, **changes: object) -> dict[str, int]:
    """Return the configuration of each job in the first slot."""
    topology = flat_cluster("nodes", NODE, num_hosts)
    instance = Instance("round", topology, jobs, slot_s=SLOT_S).replace(**changes)
    result = simulate(instance, make_scheduler(name), max_time_s=SLOT_S)
    return {run.job: run.configuration for run in result.schedule.runs}


def test_step_over_a_gap_is_taken_whole_or_not_at_all() -> None:
    """From (1, 1) the next pair is (3, 3): two more bundles on three hosts, none on one host.

    On one host two bundles fit, but (2, 2) was never measured, so the second is given back and the
    other job has it.
    """
    table = (pair(1, 1), pair(3, 3, 2.0))
    wide, narrow = Job("wide", 0.0, 1e6, table), Job("narrow", 0.0, 1e6, (pair(1, 1),))
    assert first_slot(3, "fifo", wide, narrow) == {"wide": 1, "narrow": 0}
    for name in ("srtf", "drf"):
        assert first_slot(1, name, wide, narrow)["wide"] == 0
    assert first_slot(1, "las", wide, narrow) == {"wide": 0, "narrow": 0}


def test_tetris_climbs_over_a_gap_host_by_host() -> None:
    """A gap wider than a host must not block the hosts: once, a job with one starved all others.

    From (1, 1) to (3, 3) is more than a host holds. On two hosts tetris reaches it; on one it takes
    the bundle back that led nowhere, and the job runs as (1, 1).
    """
    table = (pair(1, 1), pair(3, 3, 2.0))
    job = Job("gap", 0.0, 1e6, table)
    assert first_slot(2, "tetris", job) == {"gap": 1}
    assert first_slot(1, "tetris", job) == {"gap": 0}
    far = Job("far", 0.0, 1e6, (pair(1, 1), pair(9, 9, 2.0)))
    near = Job("near", 0.0, 1e5, (pair(1, 1),))
    assert first_slot(4, "tetris", near, far)["far"] == 0


def test_optimus_steps_over_pairs_that_were_never_measured() -> None:
    """The first pair is (2, 1): two workers, then the PS; then from 1 to 3 PSs at once."""
    table = (pair(2, 1), pair(2, 3, 4.0), pair(4, 1, 1.5))
    assert first_slot(4, "optimus", Job("a", 0.0, 1e6, (*table, pair(9, 9)))) == {"a": 1}


@pytest.mark.parametrize(
    "name", ["fifo", "srtf", "srtf-dl2", "las", "drf", "tetris", "optimus", "random-ps"]
)
def test_quota_holds_a_tenant_back_and_nobody_else(name: str) -> None:
    """One GPU for red: its second job is passed over, and the job behind it is served."""
    table = (pair(1, 1), pair(2, 2, 1.9))
    jobs = (
        Job("red-0", 0.0, 1e6, table, tenant="red"),
        Job("red-1", 0.0, 1e6, table, tenant="red"),
        Job("other", 0.0, 1e6, table),
    )
    found = first_slot(4, name, *jobs, tenants=(Tenant("red", 1000),))
    assert {job for job in found if job.startswith("red")} in ({"red-0"}, {"red-1"})
    assert all(found[job] == 0 for job in found if job.startswith("red"))
    assert "other" in found


@pytest.mark.parametrize("name", ["fifo", "drf", "optimus", "tetris"])
def test_quota_holds_for_gangs_too(name: str) -> None:
    """A gang takes the largest level that its tenant's quota allows."""
    table = (rigid_gang(1), rigid_gang(2, rate=2.0), rigid_gang(4, rate=4.0))
    job = Job("a", 0.0, 1e6, table, tenant="red")
    assert first_slot(2, name, job, tenants=(Tenant("red", 3000),)) == {"a": 1}


def test_pinned_job_without_hosts_is_placed() -> None:
    """A job that must not pause, and whose hosts nobody knows, goes on in its configuration."""
    job = Job("a", 0.0, 50.0, (rigid_gang(1), rigid_gang(2, rate=2.0)), preemptible=False)
    running = (Assignment("a", 0),)
    assert first_slot(1, "drf", job, running=running) == {"a": 0}


def test_gang_that_cannot_grow_keeps_what_it_has() -> None:
    """A step that does not fit gives the smaller gang its hosts back."""
    table = (rigid_gang(2), rigid_gang(4, rate=3.0))
    blocker = Job("blocker", 0.0, 1e6, (rigid_gang(1),), preemptible=False)
    there = Assignment("blocker", 0, (TaskPlacement("host-1", "worker", 1),))
    job = Job("a", 0.0, 1e6, table)
    assert first_slot(2, "drf", blocker, job, running=(there,)) == {"blocker": 0, "a": 0}


def test_unknown_work_is_a_clear_error() -> None:
    """A policy called by hand with a view that hides the work says what is missing."""
    hidden = JobView("a", 0.0, (rigid_gang(1),), 1.0, None, None)
    with pytest.raises(InstanceError, match='job "a": its work is unknown to this policy'):
        work_of(hidden)


def test_bound_jobs_compare_by_the_rate_they_are_bound_to() -> None:
    """A moldable job stuck with a slow configuration has long to go, whatever it could have had."""
    slow = (rigid_gang(2, rate=0.1), rigid_gang(2, rate=10.0))
    stuck = Job("stuck", 0.0, 10.0, slow, elasticity="moldable")
    quick = Job("quick", 0.0, 50.0, (rigid_gang(2),))
    topology = flat_cluster("one", NODE, 1)
    running = (Assignment("stuck", 0, (TaskPlacement("host-0", "worker", 2),)),)
    instance = Instance("bound", topology, (stuck, quick), running=running)
    result = simulate(instance, make_scheduler("srtf"))
    assert result.completion_s == {"stuck": 150.0, "quick": 50.0}


@pytest.mark.parametrize(
    "name", ["drf", "fifo", "optimus", "random-ps", "srtf", "srtf-dl2", "tetris"]
)
def test_job_that_must_stay_in_one_leaf_is_given_a_gang(name: str) -> None:
    """Its tasks, given out one by one, would go to the least loaded hosts of every leaf.

    The policies say that they honour required levels, so the instance is not refused, and the
    checker stopped the run. Nor may a gang go back to its hosts where those are wanted for tasks:
    it did, when it came first, and the host was over.
    """
    given = generate_elastic("leaf", num_jobs=6, num_hosts=8, max_workers=4, max_ps=4, seed=0)
    jobs = tuple(
        job.replace(placement=PlacementRules("leaf")) if k % 2 else job
        for k, job in enumerate(given.jobs)
    )
    leaves = leaf_spine(SERVER, 4, 2, 1, port_gb_per_s=10.0)
    result = simulate(given.replace(topology=leaves, jobs=jobs), make_scheduler(name))
    assert result.unfinished == ()
    assert result.verified
