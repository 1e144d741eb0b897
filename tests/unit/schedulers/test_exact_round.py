"""The exact round as a policy."""

from __future__ import annotations

import dataclasses

import pytest

from alloc.errors import UnsupportedFeatureError
from alloc.objectives import round_utility
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.job_view import JobView
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers import make_scheduler
from alloc.schedulers.exact_round import ExactRound
from alloc.simulation import simulate
from alloc.solving.round.online import RoundMemory, allocate_round
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

HOSTS = flat_cluster("one", HostType("h", 4, "generic", 8000, 0), 1)


def slots(*jobs: Job, **changes: object) -> Instance:
    return Instance("slots", HOSTS, jobs, slot_s=10.0).replace(**changes)


def test_exact_progress_beats_the_greedy_choice() -> None:
    """Four GPUs: 3 + 1 gives 0.9 + 0.4 of a job, 4 gives 1.0; FIFO takes the 4."""
    long = Job("long", 0.0, 100.0, (rigid_gang(3, rate=9.0), rigid_gang(4, rate=10.0)))
    short = Job("short", 0.0, 10.0, (rigid_gang(1, rate=0.4),))
    for name, first in (("exact-progress", {"long", "short"}), ("fifo", {"long"})):
        result = simulate(slots(long, short), make_scheduler(name), max_time_s=10.0)
        assert {run.job for run in result.schedule.runs} == first, name


def test_continuous_time_is_refused() -> None:
    """There are no rounds to choose for."""
    with pytest.raises(UnsupportedFeatureError, match=r"allocates in rounds.*set slot_s"):
        simulate(slots(Job("a", 0.0, 1.0, (rigid_gang(1),)), slot_s=None), ExactRound("goodput"))


def test_jobs_that_must_not_pause_keep_their_hosts_and_quota() -> None:
    """The round is solved for the others, on what is left of hosts and quotas."""
    steady = Job("steady", 0.0, 25.0, (rigid_gang(2),), preemptible=False, tenant="red")
    better = Job("better", 10.0, 1000.0, (rigid_gang(3, rate=500.0), rigid_gang(2, rate=1.0)))
    mate = Job("mate", 10.0, 5.0, (rigid_gang(1),), tenant="red")
    instance = slots(steady, better, mate, tenants=(Tenant("red", 2000),))
    result = simulate(instance, ExactRound("progress"))
    assert result.completion_s["steady"] == 25.0
    assert result.start_s["mate"] == 30.0
    assert result.unfinished == ()


def test_moldable_jobs_keep_their_configuration() -> None:
    """Once begun, only the chosen configuration is offered to the solver."""
    table = (rigid_gang(2, rate=2.0), rigid_gang(4, rate=3.0))
    first = Job("a", 0.0, 200.0, table, elasticity="moldable")
    second = Job("b", 0.0, 25.0, (rigid_gang(2, rate=2.0),), elasticity="rigid")
    result = simulate(slots(first, second), ExactRound("goodput"))
    assert {run.configuration for run in result.schedule.runs_of["a"]} == {0}
    assert result.completion_s["a"] == 100.0


def test_shares_are_counted_around_gpus_already_shared() -> None:
    """A pinned job that shares GPU 0 leaves three whole GPUs, by their own positions."""
    half = (Configuration((TaskGroup("worker", 1, 500),), 1.0),)
    pinned = Job("pinned", 0.0, 15.0, half, preemptible=False)
    others = [Job(f"j{k}", 0.0, 5.0, half) for k in range(2)]
    there = Assignment("pinned", 0, (TaskPlacement("host-0", "worker", 1, (0,)),))
    result = simulate(slots(pinned, *others, running=(there,)), ExactRound("progress"))
    assert result.completion_s == {"pinned": 15.0, "j0": 5.0, "j1": 5.0}


def test_jobs_without_room_beside_the_pinned_wait() -> None:
    """A job larger than what is left is not offered, and nothing is solved when nobody is."""
    steady = Job("steady", 0.0, 15.0, (rigid_gang(3),), preemptible=False)
    large = Job("large", 5.0, 10.0, (rigid_gang(2),))
    result = simulate(slots(steady, large), ExactRound("progress"))
    assert result.start_s == {"steady": 0.0, "large": 20.0}


def seen(id_: str, table: tuple[Configuration, ...], **changes: object) -> JobView:
    values: dict[str, object] = {"weight": 1.0, "work": 90.0, "work_left": 60.0}
    return JobView(id_, 0.0, table, **{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("utility", ["progress", "remaining_time", "goodput"])
def test_a_round_that_remembers_decides_like_one_that_does_not(utility: str) -> None:
    """Jobs come and go with their tables; the quota and the cluster change under the last ones."""
    small = (rigid_gang(1), rigid_gang(2, rate=1.5))
    large = (rigid_gang(2), rigid_gang(4, rate=2.5), rigid_gang(3, rate=0.5))
    unknown = {"work": None, "work_left": None}
    first, second = seen("a", small, work_left=9.0), seen("b", large, weight=2.0)
    third, late = seen("c", small, tenant="red"), seen("d", small, **unknown)
    bigger = flat_cluster("two", HostType("h", 4, "generic", 8000, 0), 2)
    memory = RoundMemory()
    for topology, views, quotas in (
        (HOSTS, (first, second), {}),
        (HOSTS, (first, second), {}),
        (HOSTS, (first, third, seen("b", large, work_left=1e-15)), {}),
        (HOSTS, (third, late), {"red": 1000}),
        (HOSTS, (third, late), {"red": 2000}),
        (bigger, (second, third, late), {"red": 2000}),
        (bigger, (), {}),
    ):
        fresh = allocate_round(topology, views, 10.0, utility, quotas)
        assert allocate_round(topology, views, 10.0, utility, quotas, memory=memory) == fresh
        gpus = {view.id: view.configurations for view in views}
        value = sum(gpus[a.job][a.configuration].demand[0] for a in fresh[0])
        assert value <= topology.totals[0]


def test_amounts_of_views_are_those_of_jobs_made_of_them() -> None:
    """A utility of somebody's own is given jobs; one by work gets the same numbers without."""
    table = (rigid_gang(1), rigid_gang(3, rate=1.7))
    views = [
        seen("a", table, work=0.3, work_left=0.1),
        seen("b", table, work=0.7, work_left=0.9, weight=3.0),
        seen("c", table, work=1e6, work_left=1e-9),
        seen("d", table, work=None, work_left=None),
        seen("e", table, work=5.0, work_left=None),
    ]
    by_work = round_utility("remaining_time")
    by_job = dataclasses.replace(by_work, by_work=False)
    one, two = (
        RoundMemory().lay_out(HOSTS, views, 10.0, utility, {}) for utility in (by_work, by_job)
    )
    assert one.members == two.members
    assert one.utility.tolist() == two.utility.tolist()
