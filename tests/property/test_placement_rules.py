"""Laws of the placement rules: nothing overfull, all or nothing, order of hosts, rules of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.schedulers.placement import (
    BestFit,
    Fgd,
    FirstFit,
    FreeHosts,
    HivedCells,
    KaiBinPack,
    KueueBalanced,
    KueueBestFit,
    PlacementPolicy,
    RandomFit,
    Request,
)
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup

RULES: tuple[Callable[[], PlacementPolicy], ...] = (
    *(FirstFit, BestFit, RandomFit, Fgd, HivedCells, KaiBinPack),
    *(KueueBestFit, KueueBalanced),
)
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
quick = settings(max_examples=40, deadline=None)
LEVELS = ("pod", "rack")
IDLE = Configuration((TaskGroup("worker", 2),), 0.5)


@st.composite
def clusters(draw: st.DrawFn) -> Topology:
    """Return one or two pods of one or two racks of one to three hosts, of three types."""
    types = (
        HostType("big", 8, "H100", 64_000, 64_000),
        HostType("small", 2, "T4", 16_000, 16_000),
        HostType("bare", 0, None, 32_000, 32_000),
    )
    domains, hosts = [], []
    for p in range(draw(st.integers(1, 2))):
        domains.append(Domain(f"p{p}", "pod"))
        for r in range(draw(st.integers(1, 2))):
            domains.append(Domain(f"p{p}r{r}", "rack", f"p{p}"))
            for h in range(draw(st.integers(1, 3))):
                kind = draw(st.sampled_from(types)).name
                hosts.append(Host(f"p{p}r{r}h{h}", kind, f"p{p}r{r}"))
    return Topology("drawn", types, tuple(hosts), LEVELS, tuple(domains))


@st.composite
def gangs(draw: st.DrawFn, index: int, *, ruled: bool) -> Job:
    """Return a gang of workers, perhaps with a server beside them, perhaps with rules."""
    gpu = draw(st.sampled_from((0, 200, 350, 500, 1000, 2000)))
    count = draw(st.sampled_from((1, 1, 2, 4, 6)))
    cpu = draw(st.sampled_from((0, 1000, 4000)))
    groups = [TaskGroup("worker", count, gpu, cpu, draw(st.sampled_from((0, 500))))]
    if draw(st.booleans()):
        groups.append(TaskGroup("server", 2 if ruled else 1, 0, 2000, 100))
    rules = PlacementRules()
    if ruled:
        slices = [s for s in draw(st.sampled_from(((), (2,), (2, 1)))) if count % s == 0]
        rules = PlacementRules(
            required=draw(st.sampled_from((None, "pod", "rack"))),
            preferred=draw(st.sampled_from((None, "rack", "host"))),
            slices=tuple(
                Slice(level, size) for level, size in zip(("rack", "host"), slices, strict=False)
            ),
            spread=draw(st.sampled_from(((), (Spread("rack", 3),), (Spread("host", 2),)))),
        )
    kind = draw(st.sampled_from((None, None, "H100"))) if gpu else None
    # The second way to run, which nothing here looks at, fits every cluster: instances refuse jobs
    # that could never run.
    ways = (Configuration(tuple(groups), 1.0, kind), IDLE)
    return Job(f"j{index}", 0.0, 1.0, ways, placement=rules)


@st.composite
def problems(draw: st.DrawFn, *, ruled: bool = False) -> Instance:
    """Return a drawn cluster with up to ten gangs."""
    number = draw(st.integers(1, 10))
    jobs = tuple(draw(gangs(k, ruled=ruled)) for k in range(number))
    return Instance("drawn", draw(clusters()), jobs)


def state(free: FreeHosts) -> Any:
    """Return what is free, to compare."""
    return [a.tolist() for a in (free.cpu, free.memory, free.gpus, free.whole, free.left)]


def run(rule: PlacementPolicy, instance: Instance) -> tuple[Allocation, FreeHosts]:
    """Place every job that fits, in order."""
    free, rng = FreeHosts(instance.topology), np.random.default_rng(0)
    placed = []
    for job in instance.jobs:
        before = state(free)
        tasks = rule.place(free, Request(job.configurations[0], job.placement), rng)
        if tasks is None:
            assert state(free) == before  # all or nothing
        else:
            placed.append(Assignment(job.id, 0, tasks))
    return Allocation(tuple(placed)), free


@every_rule
@quick
@given(instance=problems())
def test_nothing_is_overfull_and_gangs_are_whole(
    rule: Callable[[], PlacementPolicy], instance: Instance
) -> None:
    """The checker accepts what was placed, and both ledgers agree on what is left."""
    allocation, free = run(rule(), instance)
    assert verify(instance, allocation) == []
    pool = HostPool(instance.topology)
    for a in allocation.assignments:
        pool.take(instance.job(a.job).configurations[0], a.tasks)
    again = FreeHosts.of_pool(pool)
    assert (again.cpu == free.cpu).all()
    assert (again.memory == free.memory).all()
    assert (np.sort(again.gpus, axis=1) == np.sort(free.gpus, axis=1)).all()


def broken_rules(instance: Instance, assignment: Assignment) -> list[str]:
    """Return the rules of a job that its tasks break, recomputed from their hosts."""
    job, topology = instance.job(assignment.job), instance.topology
    ruled = {group.role for group in job.configurations[0].ruled_groups}
    broken = []

    def counts(level: str, roles: set[str]) -> Counter[int]:
        found: Counter[int] = Counter()
        for task in assignment.tasks:
            if task.role in roles:
                domain = topology.domain_of_host[level][topology.host_index[task.host]]
                found[int(domain)] += task.count
        return found

    everyone = {group.role for group in job.configurations[0].tasks}
    required = job.placement.required
    if required is not None and len(counts(required, everyone)) > 1:
        broken.append(f"required {required}")
    for cut in job.placement.slices:
        for role in ruled:
            if any(n % cut.size for n in counts(cut.level, {role}).values()):
                broken.append(f"slices per {cut.level}")
    for limit in job.placement.spread:
        if max(counts(limit.level, ruled).values()) > limit.most:
            broken.append(f"spread over {limit.level}")
    return broken


@pytest.mark.long
@every_rule
@quick
@given(instance=problems(ruled=True))
def test_rules_of_placement_hold(rule: Callable[[], PlacementPolicy], instance: Instance) -> None:
    """Required levels, slices and limits on the spread hold, and nothing is overfull."""
    allocation, _ = run(rule(), instance)
    assert verify(instance, allocation) == []
    assert [broken_rules(instance, a) for a in allocation.assignments if a.tasks] == [
        [] for a in allocation.assignments
    ]


@pytest.mark.parametrize("rule", RULES[:-2], ids=lambda rule: rule.name)
@quick
@given(instance=problems())
def test_a_single_task_that_fits_somewhere_is_placed(
    rule: Callable[[], PlacementPolicy], instance: Instance
) -> None:
    """A rule chooses among hosts; it never turns a task away that some host has room for."""
    free, rng = FreeHosts(instance.topology), np.random.default_rng(0)
    policy = rule()
    for job in instance.jobs:
        configuration = job.configurations[0]
        if len(configuration.tasks) > 1 or configuration.tasks[0].count > 1:
            continue
        fits = bool(free.fits(configuration.tasks[0], configuration.gpu_type).any())
        assert (policy.place(free, Request(configuration), rng) is not None) == fits


@pytest.mark.parametrize("rule", [BestFit, KaiBinPack, HivedCells], ids=lambda rule: rule.name)
@quick
@given(data=st.data())
def test_the_order_of_equal_hosts_does_not_matter(
    rule: Callable[[], PlacementPolicy], data: st.DataObject
) -> None:
    """On equal hosts, a rule that looks at no order places the same jobs however hosts are listed.

    Not so first-fit, random-fit, and FGD, whose points tie between unequal hosts.
    """
    kind = HostType("kind", 4, "V100", 16_000, 16_000)
    names = [f"h{k}" for k in range(data.draw(st.integers(1, 4)))]
    sizes = data.draw(st.lists(st.sampled_from((1000, 2000, 4000)), min_size=1, max_size=12))
    jobs = tuple(
        Job(f"j{k}", 0.0, 1.0, (Configuration((TaskGroup("w", 1, n, 4 * n),), 1.0),))
        for k, n in enumerate(sizes)
    )
    order = data.draw(st.permutations(names))
    one, two = (
        Instance("n", Topology("t", (kind,), tuple(Host(n, "kind") for n in hosts)), jobs)
        for hosts in (names, order)
    )
    assert [a.job for a in run(rule(), one)[0].assignments] == [
        a.job for a in run(rule(), two)[0].assignments
    ]


@quick
@given(instance=problems())
def test_more_free_capacity_never_hurts_a_single_placement(instance: Instance) -> None:
    """What Kueue places on a cluster with guests, it places on the empty cluster as well."""
    policy, rng = KueueBestFit(), np.random.default_rng(0)
    _, crowded = run(policy, instance)
    for job in instance.jobs:
        request = Request(job.configurations[0])
        if policy.place(crowded, request, rng) is not None:
            assert policy.place(FreeHosts(instance.topology), request, rng) is not None
