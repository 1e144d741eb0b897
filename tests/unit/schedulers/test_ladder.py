"""Ladders: which configurations a policy climbs."""

from __future__ import annotations

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers import JobView, make_scheduler
from alloc.schedulers.ladder import GangLadder, TaskLadder, gang_ladder, ladder_of
from alloc.schedulers.memory import Memory
from alloc.simulation import simulate
from alloc.topology import Host, HostType, Topology, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

HOSTS = flat_cluster("hosts", HostType("h", 2, "generic", 8000, 0), 4)


def pair(workers: int, servers: int, rate: float = 1.0) -> Configuration:
    groups = []
    if workers:
        groups.append(TaskGroup("worker", workers, 1000, 2000))
    if servers:
        groups.append(TaskGroup("ps", servers, 0, 2000))
    return Configuration(tuple(groups), rate)


def view(*configurations: Configuration, **changes: object) -> JobView:
    fields: dict[str, object] = {"weight": 1.0, "work": 10.0, "work_left": 10.0, **changes}
    return JobView("a", 0.0, configurations, **fields)  # type: ignore[arg-type]


def test_table_with_gaps_is_stepped_over() -> None:
    """Real tables have gaps and zeros: (2, 2) was not measured, (3, 3) failed."""
    ladder = ladder_of(view(pair(1, 1), pair(3, 3, 0.0), pair(4, 4), pair(1, 3), pair(3, 1)), HOSTS)
    assert isinstance(ladder, TaskLadder)
    assert ladder.pairs == (1, 4)
    assert ladder.first == (1, 1)
    assert ladder.next_pair(1) == 4
    assert ladder.next_pair(4) is None
    assert ladder.next_servers(1, 1) == 3
    assert ladder.next_workers(1, 1) == 3
    assert ladder.next_workers(1, 3) is None
    assert ladder.next_servers(7, 7) is None


def test_what_is_no_table_of_tasks_is_climbed_as_gangs() -> None:
    """Shares, GPU types, levels, other roles, unequal tasks, no equal pair, small hosts: gangs."""
    plain = (pair(1, 1), pair(2, 2))
    assert isinstance(ladder_of(view(*plain), HOSTS), TaskLadder)
    typed = Configuration(pair(1, 1).tasks, 1.0, gpu_type="generic")
    tied = Configuration(pair(1, 1).tasks, 1.0, within="host")
    shared = Configuration((TaskGroup("worker", 1, 500), TaskGroup("ps", 1, 0, 100)), 1.0)
    chief = Configuration((TaskGroup("chief", 1, 1000), TaskGroup("ps", 1, 0, 2000)), 1.0)
    unequal = (pair(1, 1), Configuration((TaskGroup("worker", 2, 2000),), 1.0))
    for configurations in (
        (typed,), (tied,), (shared,), (chief,), unequal, (pair(1, 2),), (pair(2, 0),)
    ):  # fmt: skip
        assert isinstance(ladder_of(view(*configurations), HOSTS), GangLadder)
    assert isinstance(ladder_of(view(*plain, elasticity="moldable"), HOSTS), GangLadder)
    small = flat_cluster("small", HostType("s", 2, "generic", 3000, 0), 4)
    assert isinstance(ladder_of(view(*plain), small), GangLadder)


def test_dominated_configurations_are_left_out() -> None:
    """More of everything for less speed is no step; another GPU type is a choice of its own."""
    configurations = (
        rigid_gang(2, rate=2.0),
        rigid_gang(1, rate=1.0),
        rigid_gang(3, rate=1.5),
        rigid_gang(4, rate=0.0),
        Configuration(rigid_gang(2).tasks, 1.7, gpu_type="a100"),
    )
    levels = gang_ladder(view(*configurations)).levels
    assert [level.configurations for level in levels] == [(1,), (0, 4)]


def test_bound_job_has_one_level() -> None:
    """A moldable job that has begun is a rigid one."""
    bound = view(
        rigid_gang(1), rigid_gang(2), elasticity="moldable", last=Assignment("a", 1), work=None
    )
    assert bound.bound_to == 1
    assert [level.configurations for level in gang_ladder(bound).levels] == [(1,)]


def test_jobs_of_one_kind_share_a_ladder() -> None:
    """A table of hundreds of configurations is read once, not once a job."""
    cache = Memory()
    first = view(pair(1, 1), pair(2, 2))
    second = JobView("b", 0.0, first.configurations, 1.0, None, None)
    assert cache.ladder(first, HOSTS) is cache.ladder(second, HOSTS)
    cache.clear()
    assert isinstance(cache.ladder(first, HOSTS), TaskLadder)


def test_nobody_starves_where_the_rule_starts_nothing() -> None:
    """Three pairs at least, but the least loaded hosts fill up after two: the job runs as a gang.

    The rule of the least loaded host cannot place it; the host pool can.
    """
    kinds = (HostType("big", 4, "generic", 16000, 0), HostType("small", 1, "generic", 4000, 0))
    hosts = (Host("b", "big"), Host("s", "small"))
    topology = Topology("uneven", kinds, hosts)
    instance = Instance("uneven", topology, (Job("a", 0.0, 10.0, (pair(4, 4),)),), slot_s=10.0)
    for name in ("fifo", "drf", "optimus", "tetris", "random-ps", "srtf", "srtf-dl2", "las"):
        result = simulate(instance, make_scheduler(name))
        assert result.completion_s == {"a": 10.0}, name
