"""Orders of moves: executable step by step, circles broken, and refused when nothing can give."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.errors import AllocError, InstanceError, UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.migration import Migration, Move
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.solving.placing.migration import order_moves
from alloc.topology import HostType, flat_cluster
from alloc.verification.migration import verify_migration
from alloc.workload import Configuration, Job, TaskGroup


def job(name: str, gpus: int, count: int = 1, preemptible: bool = True) -> Job:
    """A rigid job of tasks with so many GPUs each."""
    configuration = Configuration((TaskGroup("worker", count, 1000 * gpus),), 1.0)
    return Job(name, 0.0, 1.0, (configuration,), elasticity="rigid", preemptible=preemptible)


def on(name: str, *hosts: str) -> Assignment:
    """The job with one task on each of the hosts named, more where a host is named again."""
    tasks = tuple(TaskPlacement(h, "worker", hosts.count(h)) for h in dict.fromkeys(hosts))
    return Assignment(name, 0, tasks)


def instance(num_hosts: int, jobs: list[Job], *running: Assignment) -> Instance:
    """Hosts of four GPUs."""
    cluster = flat_cluster("c", HostType("server", 4, "h100"), num_hosts)
    return Instance("i", cluster, tuple(jobs), running=running)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_order_passes_the_judge(data: st.DataObject) -> None:
    """Whatever the two placements are, each step fits and the last one ends where it should."""
    num_hosts = data.draw(st.integers(2, 5))
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), max_size=7))
    jobs, before, after = [], [], []
    free = [[4] * num_hosts, [4] * num_hosts]
    for k, (gpus, count) in enumerate(sizes):
        both = []
        for left in free:
            hosts = []
            for _ in range(count):
                able = [h for h in range(num_hosts) if left[h] >= gpus]
                if not able:
                    break
                h = data.draw(st.sampled_from(able))
                left[h] -= gpus
                hosts.append(f"host-{h}")
            both.append(hosts)
        if all(len(hosts) == count for hosts in both):
            jobs.append(job(f"j{k}", gpus, count))
            before.append(on(f"j{k}", *both[0]))
            after.append(on(f"j{k}", *both[1]))
    if not jobs:
        return
    problem = instance(num_hosts, jobs, *before)
    migration = order_moves(problem, Allocation(tuple(after)))
    assert verify_migration(problem, migration) == []
    if before == after:
        assert migration.steps == ()


def test_two_jobs_that_swap_hosts_use_a_third() -> None:
    """Each waits for the other's host; one steps aside and the moves number three."""
    problem = instance(3, [job("a", 4), job("b", 4)], on("a", "host-0"), on("b", "host-1"))
    migration = order_moves(problem, Allocation((on("a", "host-1"), on("b", "host-0"))))
    assert [str(move) for step in migration.steps for move in step] == [
        'move 1 worker of "a" from host-0 to host-2',
        'move 1 worker of "b" from host-1 to host-0',
        'move 1 worker of "a" from host-2 to host-1',
    ]
    assert migration.num_moves == 3
    assert verify_migration(problem, migration) == []


def test_without_a_third_host_one_job_stops_and_starts_again() -> None:
    """On a full cluster a swap needs a stop; a job that may not stop makes it impossible."""
    target = Allocation((on("a", "host-1"), on("b", "host-0")))
    problem = instance(2, [job("a", 4), job("b", 4)], on("a", "host-0"), on("b", "host-1"))
    migration = order_moves(problem, target)
    assert [str(move) for step in migration.steps for move in step] == [
        'stop 1 worker of "a" on host-0',
        'move 1 worker of "b" from host-1 to host-0',
        'start 1 worker of "a" on host-1',
    ]
    assert verify_migration(problem, migration) == []
    fixed = [job("a", 4, preemptible=False), job("b", 4, preemptible=False)]
    with pytest.raises(AllocError, match="the moves of a, b block each other: no host has room"):
        order_moves(instance(2, fixed, on("a", "host-0"), on("b", "host-1")), target)


def test_moves_that_do_not_meet_go_at_the_same_time() -> None:
    """Two jobs with free targets move in one step."""
    problem = instance(4, [job("a", 4), job("b", 4)], on("a", "host-0"), on("b", "host-1"))
    migration = order_moves(problem, Allocation((on("a", "host-2"), on("b", "host-3"))))
    assert len(migration.steps) == 1
    assert len(migration.steps[0]) == 2


def test_the_judge_sees_both_ends_of_a_move() -> None:
    """Into a host that only becomes free by the same step nothing can move."""
    problem = instance(3, [job("a", 4), job("b", 4)], on("a", "host-0"), on("b", "host-1"))
    at_once = Migration(
        ((Move("a", "worker", 1, "host-0", "host-1"), Move("b", "worker", 1, "host-1", "host-2")),),
        Allocation((on("a", "host-1"), on("b", "host-2"))),
    )
    assert [v.code for v in verify_migration(problem, at_once)] == ["host_capacity"]
    in_turn = Migration(tuple((move,) for move in reversed(at_once.steps[0])), at_once.allocation)
    assert verify_migration(problem, in_turn) == []


def test_the_judge_names_what_a_false_migration_does() -> None:
    """Tasks from where they are not, pinned jobs, unknown names and a wrong end are all found."""
    jobs = [job("a", 1, preemptible=False), job("b", 1)]
    problem = instance(2, jobs, on("a", "host-0"), on("b", "host-0"))
    stay = Allocation((on("a", "host-0"), on("b", "host-0")))
    for move, code in (
        (Move("b", "worker", 1, "host-1", "host-0"), "move_source"),
        (Move("a", "worker", 1, "host-0", "host-1"), "pinned"),
        (Move("z", "worker", 1, "host-0", "host-1"), "unknown_job"),
        (Move("b", "worker", 1, "host-0", "host-9"), "unknown_host"),
        (Move("b", "worker", 1, "host-0", "host-1"), "move_end"),
    ):
        found = verify_migration(problem, Migration(((move,),), stay))
        assert code in {v.code for v in found}


def test_what_is_no_move_is_refused() -> None:
    """A move to where it is, shares of GPUs, and a new configuration are said to be no moves."""
    with pytest.raises(InstanceError, match="goes from host-0 to host-0; give two different hosts"):
        Move("a", "worker", 1, "host-0", "host-0")
    share = Configuration((TaskGroup("worker", 1, 500),), 1.0)
    whole = Configuration((TaskGroup("worker", 1, 1000),), 2.0)
    elastic = Job("a", 0.0, 1.0, (share, whole))
    start = Assignment("a", 0, (TaskPlacement("host-0", "worker", 1, (0,)),))
    problem = instance(2, [elastic], start)
    moved = Assignment("a", 0, (TaskPlacement("host-1", "worker", 1, (0,)),))
    with pytest.raises(UnsupportedFeatureError, match="worker tasks share GPUs"):
        order_moves(problem, Allocation((moved,)))
    grown = Assignment("a", 1, (TaskPlacement("host-0", "worker", 1),))
    with pytest.raises(UnsupportedFeatureError, match="changes its configuration"):
        order_moves(problem, Allocation((grown,)))


def test_a_job_that_is_stopped_makes_room_first() -> None:
    """Eviction comes before the moves that need its host."""
    problem = instance(2, [job("a", 4), job("b", 4)], on("a", "host-0"), on("b", "host-1"))
    migration = order_moves(problem, Allocation((on("b", "host-0"),)))
    assert [str(move) for step in migration.steps for move in step] == [
        'stop 1 worker of "a" on host-0',
        'move 1 worker of "b" from host-1 to host-0',
    ]
    assert verify_migration(problem, migration) == []
