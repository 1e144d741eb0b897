"""`repack`: every gang placed exactly, and running jobs moved to let one in."""

from __future__ import annotations

import pytest

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Affinity, Instance, Tenant
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, Slice, TaskGroup


def cluster(num_hosts: int = 4) -> Topology:
    """Racks of two hosts with eight GPUs."""
    kind = HostType("server", 8, "h100")
    racks = tuple(Domain(f"r{k}", "rack") for k in range((num_hosts + 1) // 2))
    hosts = tuple(Host(f"h{k}", "server", f"r{k // 2}") for k in range(num_hosts))
    return Topology("c", (kind,), hosts, ("rack",), racks)


def gang(name: str, arrival_s: float, work: float, count: int, gpus: int, **more: object) -> Job:
    """A rigid gang whose work is its duration."""
    configuration = Configuration((TaskGroup("worker", count, 1000 * gpus),), 1.0)
    return Job(name, arrival_s, work, (configuration,), elasticity="rigid", **more)  # type: ignore[arg-type]


def crowded(**more: object) -> Instance:
    """Two whole hosts are busy first, so long jobs stand apart when the gang comes."""
    jobs = (
        gang("first", 0.0, 10.0, 1, 5),
        gang("second", 0.0, 10.0, 1, 5),
        gang("left", 1.0, 1000.0, 1, 4, restart_cost_s=30.0),
        gang("right", 2.0, 1000.0, 1, 4, restart_cost_s=30.0),
        gang("train", 20.0, 100.0, 1, 8),
    )
    return Instance("crowded", cluster(2), jobs, **more)  # type: ignore[arg-type]


def spread_out() -> Instance:
    """Both hosts hold one long job of four GPUs when the gang of a whole host arrives."""
    jobs = (
        gang("short", 0.0, 10.0, 1, 4),
        gang("left", 1.0, 1000.0, 1, 4, restart_cost_s=30.0),
        gang("right", 3.0, 1000.0, 1, 4, restart_cost_s=30.0),
        gang("train", 20.0, 100.0, 1, 8),
    )
    return Instance("spread", cluster(2), jobs)


def ends(instance: Instance, **options: object) -> dict[str, float]:
    """When each job ends under `repack`."""
    run = simulate(instance, make_scheduler("repack", **options))
    assert run.verified
    return {job: runs[-1].end_s for job, runs in run.schedule.runs_of.items()}


def test_a_gang_starts_at_once_when_one_move_makes_room() -> None:
    """The mover pays its restart cost; without moves the gang waits for a long job to end."""
    moved = ends(spread_out())
    assert moved["train"] == pytest.approx(120.0)
    # Moved at 20 s, one of them stands still for its restart cost.
    assert {moved["left"] - 1001.0, moved["right"] - 1003.0} == {0.0, 30.0}
    waiting = ends(spread_out(), move_budget=0)
    assert waiting["train"] > 1000.0


def test_the_narrowest_and_tightest_place_avoids_the_need_to_move() -> None:
    """Best fit puts the two long jobs on one host, and nothing has to move."""
    assert ends(crowded())["train"] == ends(crowded(), move_budget=0)["train"]


def test_jobs_that_may_not_be_paused_are_not_moved() -> None:
    """With pinned jobs in the way the gang waits."""
    instance = spread_out()
    pinned = tuple(job.replace(preemptible=False) for job in instance.jobs)
    assert ends(instance.replace(jobs=pinned))["train"] > 1000.0


def test_levels_and_slices_are_kept() -> None:
    """The checker of the simulator sees the same rules as the policy."""
    jobs = (
        gang("a", 0.0, 100.0, 4, 2, placement=PlacementRules(slices=(Slice("host", 2),))),
        gang("b", 0.0, 50.0, 2, 8, placement=PlacementRules(required="rack")),
        gang("c", 1.0, 50.0, 2, 8, placement=PlacementRules(required="rack")),
    )
    instance = Instance("rules", cluster(), jobs)
    run = simulate(instance, make_scheduler("repack"))
    assert run.verified
    assert verify(instance, run.schedule) == []


def test_in_slots_what_runs_goes_on_where_it_is() -> None:
    """A round says again who stays, on the same hosts."""
    instance = spread_out().replace(slot_s=10.0)
    run = simulate(instance, make_scheduler("repack", move_budget=0))
    assert run.verified
    assert run.restarts == 0


def test_a_quota_holds_its_tenant_back() -> None:
    """The second job of the tenant waits for the first, though there is room."""
    jobs = (gang("a", 0.0, 100.0, 1, 8, tenant="t"), gang("b", 0.0, 100.0, 1, 8, tenant="t"))
    instance = Instance("quota", cluster(), jobs, tenants=(Tenant("t", 8000),))
    assert sorted(ends(instance).values()) == [100.0, 200.0]


def test_the_queue_stops_at_its_head_unless_it_may_be_skipped() -> None:
    """First come, first served; with skip the small job does not wait for the large one."""
    jobs = (
        gang("a", 0.0, 100.0, 1, 8),
        gang("large", 1.0, 10.0, 2, 8),
        gang("small", 2.0, 10.0, 1, 8),
    )
    instance = Instance("queue", cluster(2), jobs)
    assert ends(instance)["small"] == pytest.approx(120.0)
    assert ends(instance, skip=True)["small"] == pytest.approx(12.0)


def test_a_host_outside_every_rack_is_no_rack() -> None:
    """The job waits for the rack, though a host in none is free; the run once ended in an error."""
    kind = HostType("server", 8, "h100")
    hosts = (Host("in", "server", "r"), Host("out", "server"))
    topology = Topology("c", (kind,), hosts, ("rack",), (Domain("r", "rack"),))
    rules = PlacementRules(required="rack")
    jobs = tuple(gang(name, 0.0, 100.0, 1, 8, placement=rules) for name in "ab")
    assert sorted(ends(Instance("outside", topology, jobs)).values()) == [100.0, 200.0]


def test_affinities_are_refused_and_not_ignored() -> None:
    """A rule it does not look at is an error before anything runs."""
    instance = spread_out().replace(affinities=(Affinity("apart", "host", ("left", "right")),))
    with pytest.raises(UnsupportedFeatureError, match="repack does not look at affinities"):
        simulate(instance, make_scheduler("repack"))
