"""Placing many gangs at once: feasible, stable for gangs that stay, and never half a gang."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

from alloc.packing import HostPool, place_jointly
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.topology import HostType, flat_cluster
from alloc.units import MILLI
from alloc.verification import verify
from alloc.workload import Configuration, TaskGroup

quick = settings(max_examples=100, deadline=None)
CONTENDED: dict[str, Any] = {"max_jobs": 6, "max_hosts": 3, "max_count": 4, "quotas": False}


@pytest.mark.long
@quick
@given(st.data())
def test_what_is_placed_together_is_feasible(data: st.DataObject) -> None:
    """The checker accepts all placements at once, whole gangs only."""
    instance: Instance = data.draw(instances(**CONTENDED))
    chosen = [data.draw(st.integers(0, len(job.configurations) - 1)) for job in instance.jobs]
    requests = [(job.configurations[c], None) for job, c in zip(instance.jobs, chosen, strict=True)]
    placed = place_jointly(instance.topology, requests)
    assert len(placed) == len(requests)
    assignments = tuple(
        Assignment(job.id, c, tasks)
        for job, c, tasks in zip(instance.jobs, chosen, placed, strict=True)
        if tasks is not None
    )
    assert verify(instance, Allocation(assignments)) == []


@pytest.mark.long
@quick
@given(st.data())
def test_gangs_that_fit_where_they_are_stay(data: st.DataObject) -> None:
    """A move costs a restart, so a feasible plan is kept as it is."""
    instance: Instance = data.draw(instances(**CONTENDED))
    pool = HostPool(instance.topology)
    keeps = []
    for job in instance.jobs:
        tasks = pool.place(job.configurations[0])
        if tasks is not None:
            keeps.append((job.configurations[0], tasks))
    assert place_jointly(instance.topology, keeps) == [tasks for _, tasks in keeps]


@pytest.mark.long
@quick
@given(st.data())
def test_fits_says_what_taking_would_do_and_changes_nothing(data: st.DataObject) -> None:
    """It looks by taking and giving back; a trace of that would leak capacity."""
    instance: Instance = data.draw(instances(**CONTENDED))
    pool = HostPool(instance.topology)
    wanted = [(job.configurations[0], pool.place(job.configurations[0])) for job in instance.jobs]
    pool.reset()
    free = pool.free.copy()
    for configuration, tasks in wanted:
        if tasks is not None:
            assert pool.fits(configuration, tasks)
            assert (pool.free == free).all()
            assert not any(pool.open_gpus.values())


def test_a_full_host_does_not_fit_more() -> None:
    """For whole GPUs, shares of one GPU, and CPU."""
    pool = HostPool(flat_cluster("c", HostType("h", 1, "v100", 2000), 1))
    for group in (
        TaskGroup("worker", 1, MILLI),
        TaskGroup("worker", 1, 600),
        TaskGroup("ps", 1, 0, 2000),
    ):
        configuration = Configuration((group,), 1.0)
        tasks = pool.place(configuration)
        assert tasks is not None
        assert not pool.fits(configuration, tasks)
        pool.release(configuration, tasks)
        assert pool.fits(configuration, tasks)


def test_a_few_gangs_are_placed_in_some_order_if_not_in_one_sweep() -> None:
    """Tasks of two gangs, one of each a host: dealt group by group, the second gang found no room.

    A round then ran one job where two fit, and could not say that two were the optimum.
    """
    topology = flat_cluster("c", HostType("h", 2, "a", 5000, 0), 2)
    wide = Configuration((TaskGroup("w", 2, 1000, 3000),), 1.0)
    for other in (
        Configuration((TaskGroup("w", 2, 1000, 2000),), 1.0, "a"),
        Configuration((TaskGroup("a", 1, 300), TaskGroup("b", 3, 300)), 1.0),
    ):
        placed = place_jointly(topology, [(wide, None), (other, None)])
        assert None not in placed
        pool = HostPool(topology)
        for configuration, tasks in zip((wide, other), placed, strict=True):
            assert pool.fits(configuration, tasks)
            pool.take(configuration, tasks)
