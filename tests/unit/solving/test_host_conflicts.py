"""Gangs that the hosts do not hold together: the exact packing, and the rows it gives."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

import alloc
from alloc.backends import SolverOptions, highs
from alloc.clock import time_limit
from alloc.errors import SolverError
from alloc.families import FAMILIES
from alloc.models.capacity import burden_on_hosts, capacity_rows, pareto_front, use_order
from alloc.models.host_conflicts import (
    Conflict,
    Hosts,
    conflict_rows,
    is_as_hard,
    kind_of,
    with_new,
)
from alloc.packing import Steps, Undecided, place_together
from alloc.packing.alone import _smallest
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.solving.outcome import Settings
from alloc.solving.refinement import Question, solve_refined
from alloc.topology import Host, HostType, Topology, flat_cluster
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang
from benchmarks.tiny.cluster import packs, random_gang, random_topology


def random_gangs(seed: int) -> tuple[Topology, list[Configuration]]:
    """A tiny cluster, and gangs that each stand there alone."""
    rng = Random(seed)
    while True:
        topology = random_topology(rng, 4)
        gangs = [random_gang(rng, 1.0) for _ in range(rng.randint(2, 5))]
        gangs += rng.choices(gangs, k=rng.randint(0, 2))
        gangs = [gang for gang in gangs if packs(topology, [gang])]
        if len(gangs) > 1:
            return topology, gangs


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_placing_together_agrees_with_trying_every_host(first: int) -> None:
    """Where it says no, there is no way; where it says yes, the checker accepts the placement."""
    for seed in range(first, first + 50):
        topology, gangs = random_gangs(seed)
        placed = place_together(topology, gangs)
        assert (placed is not None) == packs(topology, gangs), seed
        if placed is None:
            continue
        jobs = tuple(Job(f"j{i}", 0.0, 1.0, (gang,)) for i, gang in enumerate(gangs))
        instance = Instance("together", topology, jobs, slot_s=1.0)
        assignments = tuple(Assignment(f"j{i}", 0, tasks) for i, tasks in enumerate(placed))
        assert verify(instance, Allocation(assignments, {})) == [], seed


def test_a_search_without_steps_says_nothing() -> None:
    """Gangs beyond the totals are refused without a step; these stand together."""
    worlds = (random_gangs(seed) for seed in range(20))
    topology, gangs = next(world for world in worlds if packs(*world))
    with pytest.raises(Undecided):
        place_together(topology, gangs, Steps(0))


def test_a_search_looks_at_the_clock() -> None:
    """Its steps may take long on large clusters; one that must be decided has no clock."""
    worlds = (random_gangs(seed) for seed in range(20))
    topology, gangs = next(world for world in worlds if packs(*world))
    with time_limit(0.0):
        with pytest.raises(Undecided):
            place_together(topology, gangs)
        assert Hosts(topology).conflict(gangs) is None
        Steps().take(10**6)
    assert place_together(topology, gangs) is not None


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_a_conflict_is_smallest_and_holds_for_harder_gangs(first: int) -> None:
    """Without any one of its gangs a conflict stands; the rows cut off every set that contains it
    and no set that stands."""
    found = 0
    for seed in range(first, first + 50):
        topology, gangs = random_gangs(seed)
        conflict = Hosts(topology).conflict(gangs)
        assert (conflict is None) == packs(topology, gangs), seed
        if conflict is None:
            continue
        found += 1
        members = [
            next(gang for gang in gangs if kind_of(gang) == kind)
            for kind, number in conflict.gangs
            for _ in range(number)
        ]
        assert not packs(topology, members), seed
        for gang in members:
            without = list(members)
            without.remove(gang)
            assert packs(topology, without), seed
        rows, switches = conflict_rows(
            [conflict.parts((i, kind_of(gang), i, 1) for i, gang in enumerate(gangs))]
        )
        for chosen in itertools.product((0, 1), repeat=len(gangs)):
            allowed = any(
                all(
                    sum(chosen[i] for i in row.columns) + sum(f * y[k] for k, f in row.switches)
                    <= row.limit
                    for row in rows
                )
                for y in itertools.product((0, 1), repeat=switches)
            )
            running = [gang for gang, runs in zip(gangs, chosen, strict=True) if runs]
            if packs(topology, running):
                assert allowed, seed
            elif all(
                sum(kind_of(gang) == kind for gang in running) >= number
                for kind, number in conflict.gangs
            ):
                assert not allowed, seed
    assert found > 5


def test_a_gang_with_more_tasks_or_ties_is_as_hard() -> None:
    two, three = rigid_gang(2, rate=1.0), rigid_gang(3, rate=9.0)
    tied = Configuration(two.tasks, 1.0, "v100", "rack")
    kinds = [kind_of(gang) for gang in (two, three, tied)]
    hard = [[is_as_hard(own, other) for other in kinds] for own in kinds]
    assert hard == [[True, False, False], [True, True, False], [True, False, True]]


def test_a_configuration_that_another_stands_in_for_is_dominated_on_hosts() -> None:
    """Two small tasks use no more than a large one of as many GPUs, but may miss its host."""
    topology = Topology("two", (HostType("k", 4, "v100", 0, 0),), (Host("a", "k"), Host("b", "k")))
    large = Configuration((TaskGroup("w", 1, 3000),), 1.0)
    small = Configuration((TaskGroup("w", 3, 1000),), 2.0)
    fewer = Configuration((TaskGroup("w", 2, 1000),), 2.0)
    configurations = (large, small, fewer)
    use = capacity_rows(topology, [configurations], {}).use(configurations, None)
    rate = use[:, 0] * 0 + [c.rate for c in configurations]
    front = pareto_front(use_order(burden_on_hosts(configurations, use)), rate)
    assert front.tolist() == [0, 2]


def test_a_conflict_met_again_is_the_solvers_fault() -> None:
    conflict = Conflict(frozenset({(kind_of(rigid_gang(1, rate=1.0)), 3)}))
    assert with_new((), [conflict]) == (conflict,)
    with pytest.raises(SolverError, match="forbids"):
        with_new((conflict,), [conflict])


@pytest.mark.long
def test_a_search_is_ended_by_its_steps_whatever_it_spends_them_on() -> None:
    """Comparing what is left over is work too: it took minutes where steps were not counted."""
    with pytest.raises(Undecided):
        _smallest([(i, 100 - i) for i in range(100)], Steps(1000))
    kinds = [
        Configuration((TaskGroup("w", 1, 5000, cpu_milli=1000 + 100 * k),), 1.0) for k in range(4)
    ]
    cluster = flat_cluster("many", HostType("h", 8, "v100", 64_000), 100)
    hosts = Hosts(cluster)
    assert hosts.holds([kinds[k % 4] for k in range(150)]) is None
    assert hosts.conflict([kinds[k % 4] for k in range(150)]) is None


@pytest.fixture
def two_hosts() -> Instance:
    """Three gangs that fit the totals, of which the hosts hold two."""
    cluster = flat_cluster("two", HostType("h", 4, "v100"), 2)
    sizes = (3, 3, 2)
    jobs = tuple(
        Job(f"j{k}", 0.0, 100.0, (Configuration((TaskGroup("w", 1, 1000 * n),), 1.0),))
        for k, n in enumerate(sizes)
    )
    return Instance("two", cluster, jobs, slot_s=1.0)


def test_an_interrupt_keeps_what_was_found_and_proved(two_hosts: Instance) -> None:
    """The first model is solved, its answer does not stand, and then the user has enough."""
    asked: list[Any] = []

    def solve_once(built):
        if asked:
            raise KeyboardInterrupt
        asked.append(built)
        return highs.solve(built.model, SolverOptions(10.0))

    question = Question(two_hosts, FAMILIES["round"], "progress")
    built = FAMILIES["round"].build("arrays", two_hosts)
    raw, solution = solve_refined(question, built, solve_once, Settings(), lambda line: None)
    assert raw.limit == "interrupt"
    assert question.family.check(two_hosts, solution) == []
    assert len(solution.assignments) == 2
    best = alloc.solve(two_hosts, "round")
    assert raw.bound >= best.objective


def test_time_that_ends_as_hosts_are_searched_keeps_what_was_found_and_proved(
    two_hosts: Instance,
) -> None:
    """The first answer does not stand; why it does not is no longer searched."""
    question = Question(two_hosts, FAMILIES["round"], "progress")
    built = FAMILIES["round"].build("arrays", two_hosts)
    settings = Settings(10.0)

    def solve_until_the_end(built):
        raw = highs.solve(built.model, SolverOptions(10.0))
        object.__setattr__(settings, "seconds_left", lambda: 0.0)
        return raw

    raw, solution = solve_refined(question, built, solve_until_the_end, settings, lambda line: None)
    assert raw.limit == "time"
    assert question.family.check(two_hosts, solution) == []
    assert len(solution.assignments) == 2
    assert raw.bound >= alloc.solve(two_hosts, "round").objective
