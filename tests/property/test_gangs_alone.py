"""Whether a gang stands on the empty cluster: the exact test against trying every placement."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.packing import (
    HostPool,
    place_alone,
    stands_alone,
    surely_stands_alone,
    which_stand_alone,
)
from alloc.packing.alone import Steps, Undecided
from alloc.problems.allocation.instance import Instance, misfit
from alloc.solving import solve
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks.tiny.cluster import packs, random_gang, random_topology


@pytest.mark.parametrize("part", range(8))
def test_a_gang_is_placed_exactly_if_some_placement_exists(part: int) -> None:
    """Groups that compete for a host, shares of GPUs, types and levels: 250 gangs a part."""
    stood = 0
    for seed in range(250 * part, 250 * (part + 1)):
        rng = Random(seed)
        topology = random_topology(rng, 3)
        gang = random_gang(rng, 1.0)
        exists = packs(topology, [gang])
        tasks = place_alone(topology, gang)
        assert (tasks is not None) == exists == stands_alone(topology, gang), seed
        assert (misfit(topology, gang) is None) == exists, seed
        if tasks is not None:
            stood += 1
            placed = {role: 0 for role in gang.counts}
            for task in tasks:
                placed[task.role] += task.count
            assert placed == gang.counts, seed
            assert HostPool(topology).fits(gang, tasks), seed
    assert 50 < stood < 200


@pytest.mark.parametrize("part", range(4))
def test_many_gangs_are_told_as_each_alone(part: int) -> None:
    """Tables of all counts up to a gang's, beside gangs of other kinds: 40 clusters a part."""
    stood = refused = 0
    for seed in range(40 * part, 40 * (part + 1)):
        rng = Random(seed)
        topology = random_topology(rng, 3)
        gangs = [random_gang(rng, 1.0) for _ in range(3)]
        table = [
            Configuration(
                tuple(replace(g, count=n) for g, n in zip(gang.tasks, counts, strict=True)),
                1.0,
                gang.gpu_type,
                gang.within,
            )
            for gang in gangs
            for counts in product(*(range(1, g.count + 2) for g in gang.tasks))
        ]
        rng.shuffle(table)
        told = which_stand_alone(topology, table)
        # Another topology: the answers are not those that the first question left with it.
        fresh = replace(topology)
        assert told.tolist() == [stands_alone(fresh, gang) for gang in table], seed
        stood += int(told.sum())
        refused += int((~told).sum())
    assert stood > 100
    assert refused > 100


def test_no_gangs_are_told_nothing() -> None:
    assert which_stand_alone(random_topology(Random(0), 3), []).shape == (0,)


def test_a_table_takes_a_search_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no larger than a gang that stands is not searched for: it was 1 search in 4."""
    asked = []
    monkeypatch.setattr(
        "alloc.packing.alone.place_alone", lambda *given: asked.append(given) or place_alone(*given)
    )
    host = HostType("server", 2, "g", 8000, 64)
    topology = Topology("flat", (host,), tuple(Host(f"h{h}", "server") for h in range(40)))
    table = [
        Configuration((TaskGroup("worker", w, 1000), TaskGroup("ps", p, 0, 4000)), 1.0)
        for w in range(1, 17)
        for p in range(1, 17)
    ]
    assert which_stand_alone(topology, table).all()
    # Nor later: who asks for one of them is told what is known.
    assert all(surely_stands_alone(topology, gang) for gang in table)
    assert len(asked) == 1


def test_the_greedy_rule_may_miss_what_the_exact_test_finds() -> None:
    """The fullest host for the large task leaves the small ones none; one host each suits all."""
    kinds = (HostType("wide", 2, "g", 2000), HostType("narrow", 1, "g", 3000))
    racks = (Domain("r0", "rack"),)
    hosts = (Host("h0", "wide", "r0"), Host("h1", "narrow", "r0"))
    topology = Topology("two", kinds, hosts, ("rack",), racks)
    missed = [
        gang
        for gang in (
            Configuration((TaskGroup("a", n, 1000, cpu), TaskGroup("b", m, gpu, more)), 1.0)
            for n in (1, 2)
            for m in (1, 2)
            for gpu in (0, 1000)
            for cpu in (1000, 2000)
            for more in (1000, 2000, 3000)
        )
        if HostPool(topology).place(gang) is None and packs(topology, [gang])
    ]
    for gang in missed:
        assert place_alone(topology, gang) is not None
    assert missed


def test_a_search_without_steps_left_refuses_no_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang that nobody has proved too large may start: the search for it always ends."""
    undecided = 0
    for seed in range(120):
        rng = Random(seed)
        topology = random_topology(rng, 3)
        gang = random_gang(rng, 1.0)
        exists = packs(topology, [gang])
        with monkeypatch.context() as patched:
            patched.setattr("alloc.packing.alone._MAX_STEPS", 0)
            assert stands_alone(topology, gang) or not exists, seed
            undecided += stands_alone(topology, gang) and not exists
        for number in (0, 3, 30, 300):
            with suppress(Undecided):
                placed = place_alone(topology, gang, Steps(number))
                assert (placed is not None) == exists, (seed, number)
    assert undecided > 10


def test_what_stands_nowhere_is_refused_with_the_reason() -> None:
    """Three cores here and three there, on hosts of four and two."""
    kinds = (HostType("k0", 1, "g", 4000), HostType("k1", 1, "g", 2000))
    topology = Topology("c", kinds, (Host("h0", "k0"), Host("h1", "k1")))
    both = Configuration((TaskGroup("a", 1, 0, 3000), TaskGroup("b", 1, 0, 3000)), 1.0)
    with pytest.raises(InstanceError, match=r"1 a \+ 1 b fit by their totals, but not"):
        Instance("x", topology, (Job("j", 0.0, 1.0, (both,)),))
    shares = Configuration((TaskGroup("a", 4, 300),), 1.0)
    assert misfit(topology, Configuration((TaskGroup("a", 6, 300),), 1.0)) is None
    assert misfit(topology, shares) is None
    assert misfit(topology, Configuration((TaskGroup("a", 7, 300),), 1.0)) is not None


def test_a_schedule_never_waits_for_a_gang_that_may_stand_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the last profile a job that is behind gets the empty cluster: it must stand there."""
    monkeypatch.setattr("alloc.packing.alone._MAX_STEPS", 0)
    kinds = (HostType("k0", 1, "g", 4000, 9), HostType("k1", 1, "g", 2000, 9))
    topology = Topology("two", kinds, (Host("h0", "k0"), Host("h1", "k1")))
    groups = (TaskGroup("a", 1, 0, 2500, 1), TaskGroup("b", 1, 0, 2600, 1))
    job = Job("big", 0.0, 2.0, (Configuration(groups, 1.0),), elasticity="rigid")
    instance = Instance("undecided", topology, (job,), slot_s=1.0)
    with pytest.raises(UnsupportedFeatureError, match=r'job "big".* configuration 0'):
        solve(instance, "malleable")
