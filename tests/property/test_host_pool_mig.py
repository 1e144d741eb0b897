"""The ledger places MIG slices, shares with GPU memory and whole GPUs as the checker wants."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.packing import HostPool, place_jointly
from alloc.problems.allocation.instance import Instance, misfit
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.topology import HostType, flat_cluster
from alloc.topology.mig import mig_profiles
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup

CLUSTER = flat_cluster("c", HostType("box", 2, "a100", 16000, 16384), 2)
groups = st.one_of(
    st.builds(
        TaskGroup,
        st.just("w"),
        st.integers(1, 3),
        cpu_milli=st.sampled_from((0, 1000, 4000)),
        mig_profile=st.sampled_from([p for p in mig_profiles("a100") if p != "7g.40gb"]),
    ),
    st.builds(
        TaskGroup,
        st.just("w"),
        st.integers(1, 3),
        gpu_milli=st.sampled_from((200, 500, 700, 1000, 2000)),
        gpu_memory_mib=st.sampled_from((0, 10000, 30000)),
    ),
)
# What no empty cluster holds is refused by the instance already.
possible = groups.filter(lambda group: misfit(CLUSTER, Configuration((group,), 1.0)) is None)
jobs = st.lists(possible, min_size=1, max_size=10).map(
    lambda found: tuple(
        Job(f"j{k}", 0.0, 1.0, (Configuration((group,), 1.0),)) for k, group in enumerate(found)
    )
)


def state(pool: HostPool) -> object:
    cut = {
        (h, g): (tuple(gpu.memory), gpu.compute, gpu.media)
        for h, gpus in pool.cut.on_host.items()
        for g, gpu in gpus.items()
    }
    shared = {(h, g): left for h, gpus in pool.open_gpus.items() for g, left in gpus.items()}
    asked = {(h, g): used for h, gpus in pool.open_memory.items() for g, used in gpus.items()}
    return pool.free.tolist(), shared, cut, asked


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(jobs, st.sampled_from(("best_fit", "least_loaded", "first_fit")))
def test_what_is_placed_passes_the_judge_and_is_given_back(wanted, rule) -> None:
    """Place one by one, judge the whole, check that `fits` agrees, release: all is free again."""
    instance = Instance("mixed", CLUSTER, wanted)
    pool = HostPool(CLUSTER)
    empty = state(pool)
    placed = []
    for job in wanted:
        before = state(pool)
        tasks = pool.place(job.configurations[0], rule)
        if tasks is None:
            assert state(pool) == before
            continue
        pool.release(job.configurations[0], tasks)
        assert pool.fits(job.configurations[0], tasks)
        pool.take(job.configurations[0], tasks)
        placed.append(Assignment(job.id, 0, tasks))
    assert verify(instance, Allocation(tuple(placed))) == []
    for assignment in placed:
        pool.release(instance.job(assignment.job).configurations[0], assignment.tasks)
    assert state(pool) == empty


@settings(max_examples=60, deadline=None)
@given(jobs)
def test_joint_placement_passes_the_judge(wanted) -> None:
    instance = Instance("mixed", CLUSTER, wanted)
    found = place_jointly(CLUSTER, [(job.configurations[0], None) for job in wanted])
    allocation = Allocation(
        tuple(
            Assignment(job.id, 0, tasks)
            for job, tasks in zip(wanted, found, strict=True)
            if tasks is not None
        )
    )
    assert verify(instance, allocation) == []


@settings(max_examples=60, deadline=None)
@given(jobs)
def test_what_lies_across_something_else_does_not_fit(wanted) -> None:
    """`fits` refuses to put a gang where it already stands, if it uses GPUs."""
    pool = HostPool(CLUSTER)
    for job in wanted:
        configuration = job.configurations[0]
        tasks = pool.place(configuration)
        if tasks is not None and configuration.tasks[0].mig_profile:
            assert not pool.fits(configuration, tasks)
