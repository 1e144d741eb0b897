"""The ledger of free capacity against the checker: what it places fits, what it frees is free."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

from alloc.errors import InstanceError
from alloc.packing import HostPool, Rule
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.topology import Domain, Host, HostType, Topology, flat_cluster
from alloc.units import MILLI
from alloc.verification import verify
from alloc.workload import Configuration, TaskGroup

RULES: tuple[Rule, ...] = ("best_fit", "least_loaded", "first_fit")
quick = settings(max_examples=80, deadline=None)
CONTENDED: dict[str, Any] = {"max_jobs": 6, "max_hosts": 3, "max_count": 4, "quotas": False}


def state(pool: HostPool) -> Any:
    """Return the free capacity in a form that can be compared."""
    return pool.free.tolist(), {h: dict(gpus) for h, gpus in pool.open_gpus.items() if gpus}


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
@quick
@given(data=st.data())
def test_what_is_placed_is_feasible(rule: Rule, data: st.DataObject) -> None:
    """Gangs placed one after the other on the same cluster pass the checker together."""
    instance: Instance = data.draw(instances(**CONTENDED))
    pool = HostPool(instance.topology)
    placed = []
    for job in instance.jobs:
        c = data.draw(st.integers(0, len(job.configurations) - 1))
        tasks = pool.place(job.configurations[c], rule)
        if tasks is not None:
            placed.append(Assignment(job.id, c, tasks))
        assert (pool.free >= 0).all()
        assert all(left >= 0 for gpus in pool.open_gpus.values() for left in gpus.values())
    assert verify(instance, Allocation(tuple(placed))) == []


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
@quick
@given(data=st.data())
def test_a_gang_that_finds_no_room_takes_nothing(rule: Rule, data: st.DataObject) -> None:
    """Half a gang left on the hosts would leak capacity at every failed attempt."""
    instance: Instance = data.draw(instances(**CONTENDED))
    pool = HostPool(instance.topology)
    for job in instance.jobs:
        for configuration in job.configurations:
            before = state(pool)
            if pool.place(configuration, rule) is None:
                assert state(pool) == before


@pytest.mark.long
@quick
@given(st.data())
def test_release_restores_and_take_repeats(data: st.DataObject) -> None:
    """In any order of releases the cluster is as it was; taking again gives the same state."""
    instance: Instance = data.draw(instances(**CONTENDED))
    pool = HostPool(instance.topology)
    empty = state(pool)
    placed = []
    for job in instance.jobs:
        configuration = data.draw(st.sampled_from(job.configurations))
        tasks = pool.place(configuration, data.draw(st.sampled_from(RULES)))
        if tasks is not None:
            placed.append((configuration, tasks))
    full = state(pool)
    for configuration, tasks in data.draw(st.permutations(placed)):
        pool.release(configuration, tasks)
    assert state(pool) == empty
    for configuration, tasks in data.draw(st.permutations(placed)):
        pool.take(configuration, tasks)
    assert state(pool) == full
    pool.reset()
    assert state(pool) == empty


@pytest.mark.long
@quick
@given(st.data())
def test_room_is_exact_for_one_group(data: st.DataObject) -> None:
    """`room` says how many tasks fit on a host: that many place, one more does not."""
    instance: Instance = data.draw(instances(**CONTENDED, constraints=False))
    pool = HostPool(instance.topology)
    for job in instance.jobs[1:]:
        pool.place(data.draw(st.sampled_from(job.configurations)))
    first = instance.jobs[0].configurations[0].tasks[0]
    group = TaskGroup(first.role, 50, first.gpu_milli, first.cpu_milli, first.memory_mib)
    room = pool.room(group)
    total = int(room.sum())
    for rule in RULES:
        before = state(pool)
        fits = TaskGroup("worker", total, *group.demand) if total else None  # type: ignore[arg-type]
        if fits is not None and room.max() < 50:
            tasks = pool.place(Configuration((fits,), 1.0), rule)
            assert tasks is not None
            counts = np.zeros(len(room), dtype=int)
            for task in tasks:
                counts[instance.topology.host_index[task.host]] += task.count
            assert (counts == room).all()
            pool.release(Configuration((fits,), 1.0), tasks)
        if room.max() < 50:
            more = TaskGroup("worker", total + 1, *group.demand)  # type: ignore[arg-type]
            assert pool.place(Configuration((more,), 1.0), rule) is None
        assert state(pool) == before


WORKERS = Configuration((TaskGroup("worker", 2, MILLI, 1000),), 1.0)


def test_best_fit_keeps_empty_hosts_empty() -> None:
    """Fragmentation is what best fit is for: the fuller host that still holds the gang."""
    pool = HostPool(flat_cluster("c", HostType("h", 4, "v100", 8000), 3))
    assert pool.place(WORKERS, "best_fit") is not None
    (second,) = pool.place(WORKERS, "best_fit") or ()
    assert second.host == "host-0"


def test_best_fit_uses_few_hosts_when_none_is_enough() -> None:
    """The roomiest first: a gang over two hosts, not over three."""
    pool = HostPool(flat_cluster("c", HostType("h", 4, "v100", 8000), 3))
    pool.place(WORKERS)
    placed = pool.place(Configuration((TaskGroup("worker", 8, MILLI),), 1.0)) or ()
    assert {task.host for task in placed} == {"host-1", "host-2"}


def test_best_fit_keeps_tasks_without_gpus_off_gpu_hosts() -> None:
    """A parameter server on a GPU host blocks its GPUs for want of CPU."""
    gpu, cpu = HostType("gpu", 4, "v100", 8000), HostType("cpu", 0, None, 64_000)
    cluster = Topology("c", (gpu, cpu), (Host("g", "gpu"), Host("c", "cpu")))
    (server,) = HostPool(cluster).place(Configuration((TaskGroup("ps", 2, 0, 2000),), 1.0)) or ()
    assert server.host == "c"


def test_least_loaded_spreads() -> None:
    """Tetris and Kubernetes' default spread: one task a host before a second anywhere."""
    pool = HostPool(flat_cluster("c", HostType("h", 4, "v100", 8000), 3))
    placed = pool.place(Configuration((TaskGroup("worker", 3, MILLI),), 1.0), "least_loaded") or ()
    assert sorted((task.host, task.count) for task in placed) == [
        ("host-0", 1),
        ("host-1", 1),
        ("host-2", 1),
    ]


def test_first_fit_fills_in_order() -> None:
    """The plainest rule, and the fastest."""
    pool = HostPool(flat_cluster("c", HostType("h", 4, "v100", 8000), 3))
    pool.place(Configuration((TaskGroup("worker", 3, MILLI),), 1.0), "first_fit")
    placed = pool.place(WORKERS, "first_fit") or ()
    assert [(task.host, task.count) for task in placed] == [("host-0", 1), ("host-1", 1)]


def test_shares_fill_one_gpu_before_the_next() -> None:
    """A GPU that is opened for a share is lost to whole-GPU tasks."""
    pool = HostPool(flat_cluster("c", HostType("h", 2, "v100"), 1))
    share = Configuration((TaskGroup("worker", 1, 400),), 1.0)
    positions = [pool.place(share)[0].gpus for _ in range(4)]
    assert positions == [(0,), (0,), (1,), (1,)]
    assert pool.place(Configuration((TaskGroup("worker", 1, MILLI),), 1.0)) is None


def test_the_tightest_domain_that_may_do_is_taken() -> None:
    """Small gangs in the small leaf leave the large leaf for large gangs."""
    kind = HostType("h", 4, "v100", 8000)
    hosts = tuple(Host(f"h{k}", "h", "small" if k == 2 else "large") for k in range(3))
    leaves = (Domain("large", "leaf"), Domain("small", "leaf"))
    pool = HostPool(Topology("c", (kind,), hosts, ("leaf",), leaves))
    tied = Configuration((TaskGroup("worker", 2, MILLI),), 1.0, within="leaf")
    assert [task.host for task in pool.place(tied) or ()] == ["h2"]
    large = Configuration((TaskGroup("worker", 8, MILLI),), 1.0, within="leaf")
    assert {task.host for task in pool.place(large) or ()} == {"h0", "h1"}
    assert pool.place(large) is None


def test_a_gpu_type_that_is_not_there_finds_no_room() -> None:
    """No room, not an error: the instance's own check says what is wrong."""
    pool = HostPool(flat_cluster("c", HostType("h", 4, "v100"), 1))
    assert pool.place(Configuration((TaskGroup("worker", 1, MILLI),), 1.0, "h100")) is None


def test_a_level_that_is_not_there_is_named() -> None:
    """A misspelled level would otherwise never find room and look like a full cluster."""
    pool = HostPool(flat_cluster("c", HostType("h", 4, "v100"), 1))
    with pytest.raises(InstanceError, match='level "laef" is not in topology "c"; its levels are'):
        pool.place(Configuration((TaskGroup("worker", 1, MILLI),), 1.0, within="laef"))
