"""First-fit decreasing where it is a theorem: against enumeration, and refused elsewhere."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.result import Limits
from alloc.solving.placement.buddies import are_divisible, buddies_of, buddy_optimum, pack_buddies
from alloc.solving.solver import solve
from alloc.topology import Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup


def cluster(*gpus: int, cpu_milli: int = 64_000) -> Topology:
    """Hosts with so many GPUs."""
    types = tuple(HostType(f"{n}-gpu", n, "h100", cpu_milli, 0) for n in sorted(set(gpus)))
    return Topology("c", types, tuple(Host(f"h{k}", f"{n}-gpu") for k, n in enumerate(gpus)))


def job(name: str, size: int, count: int = 1, cpu_milli: int = 0, **more: Any) -> Job:
    """A gang of tasks with so many GPUs each."""
    group = TaskGroup("worker", count, 1000 * size, cpu_milli)
    return Job(name, 0.0, 1.0, (Configuration((group,), 1.0),), elasticity="rigid", **more)


def best(sizes: tuple[int, ...], capacity: tuple[int, ...]) -> tuple[int, int]:
    """Most GPUs placed and, for that, fewest hosts used, by trying everything."""

    @lru_cache(None)
    def search(k: int, free: tuple[int, ...]) -> tuple[int, int]:
        if k == len(sizes):
            return (0, -sum(f != c for f, c in zip(free, capacity, strict=True)))
        options = [search(k + 1, free)]
        for h, room in enumerate(free):
            if room >= sizes[k]:
                gpus, hosts = search(k + 1, (*free[:h], room - sizes[k], *free[h + 1 :]))
                options.append((gpus + sizes[k], hosts))
        return max(options)

    gpus, hosts = search(0, capacity)
    return gpus, -hosts


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=7),
    st.lists(st.sampled_from([4, 8]), min_size=1, max_size=3),
)
def test_no_packing_places_more_or_uses_fewer_hosts(sizes: list[int], gpus: list[int]) -> None:
    """The theorem itself: both optima at once, for every list of buddies."""
    instance = Instance(
        "i", cluster(*gpus), tuple(job(f"j{k}", size) for k, size in enumerate(sizes))
    )
    buddies = buddies_of(instance)
    assert buddies is not None
    allocation = pack_buddies(buddies)
    assert verify(instance, allocation) == []
    placed = objective("gpus_placed").evaluate(instance, allocation)
    used = objective("gpu_hosts_used").evaluate(instance, allocation)
    assert (placed, used) == best(tuple(sizes), tuple(gpus))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 4)), min_size=1, max_size=8)
)
def test_gangs_start_whole_and_leave_less_than_the_smallest_that_waits(
    gangs: list[tuple[int, int]],
) -> None:
    """A gang that waits is larger than what is idle, and every gang that runs is whole."""
    jobs = tuple(job(f"j{k}", size, count) for k, (size, count) in enumerate(gangs))
    fitting = tuple(j for j in jobs if j.configurations[0].demand[0] <= 24_000)
    if not fitting:
        return
    instance = Instance("i", cluster(8, 8, 8), fitting)
    buddies = buddies_of(instance)
    assert buddies is not None
    allocation = pack_buddies(buddies)
    assert verify(instance, allocation) == []
    idle = 24 - objective("gpus_placed").evaluate(instance, allocation)
    waiting = [j for j in fitting if j.id not in allocation.configuration_of]
    assert all(j.configurations[0].demand[0] / 1000 > idle for j in waiting)


@pytest.mark.parametrize(
    "instance",
    [
        Instance("sizes", cluster(8), (job("a", 2), job("b", 3))),
        Instance("hosts", cluster(6), (job("a", 4),)),
        Instance("cpu", cluster(8), (job("a", 1, cpu_milli=9_000),)),
        Instance("rules", cluster(8), (job("a", 1, placement=PlacementRules(required="host")),)),
        Instance("quota", cluster(8), (job("a", 1, tenant="t"),), tenants=(Tenant("t", 4000),)),
    ],
    ids=lambda instance: instance.name,
)
def test_where_the_theorem_does_not_hold_nothing_is_claimed(instance: Instance) -> None:
    """Sizes that do not divide, or anything else that binds, are left to the general method."""
    assert buddies_of(instance) is None


def test_divisible_sizes() -> None:
    """1, 2, 4 on hosts of 8; not 2 and 3, and not 4 on hosts of 6."""
    assert are_divisible([4, 1, 2, 1], [8, 4])
    assert not are_divisible([2, 3])
    assert not are_divisible([4], [8, 6])
    assert not are_divisible([])


def test_the_method_of_placement_uses_the_theorem() -> None:
    """Three hundred tasks on 120 hosts: both levels proved without a search, in numpy."""
    sizes = [8] * 40 + [4] * 60 + [2] * 100 + [1] * 100
    jobs = tuple(job(f"j{k}", size) for k, size in enumerate(sizes))
    instance = Instance("large", cluster(*[8] * 120), jobs)
    goal = "gpus_placed then gpu_hosts_used"
    result = solve(instance, "placement", objective=goal, limits=Limits(seconds=30.0))
    assert [c.status for c in result.stages] == ["optimal", "optimal"]
    assert [c.objective for c in result.stages] == [860.0, 108.0]
    assert all(c.bound_proof == "recomputed" for c in result.stages)
    assert any("first-fit decreasing is optimal" in line for line in result.log)


def test_gangs_that_wait_beside_idle_gpus_are_left_to_the_search() -> None:
    """With gangs the most GPUs is a knapsack: 3 + 3 beats the 5 that comes first."""
    jobs = (job("five", 1, 5), job("three", 1, 3), job("also-three", 1, 3))
    instance = Instance("knapsack", cluster(2, 2, 2), jobs)
    assert buddy_optimum(instance) is None
    result = solve(instance, "placement", objective="gpus_placed", limits=Limits(seconds=10.0))
    assert (result.certificate.status, result.certificate.objective) == ("optimal", 6.0)
