"""The engine of placements with named resources, on clusters too large for the sparse arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pattern_worlds import BALANCE, bound_of, crowded, patterns_of

from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import parse_goal
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment
from alloc.solving.outcome import Settings
from alloc.solving.placement import admission
from alloc.solving.placement.admission import solve_admission
from alloc.solving.placement.method import solve_placement
from alloc.solving.placement.pricing import Pricing
from alloc.topology import Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup

GOAL = "gpu_hosts_used + 0.05 moves"


def with_names(instance: Instance, *, offered: int = 0, asked: int = 0, twin: bool = False):
    """Return an instance with names on its hosts; tasks ask for some of them, hardly any of it.

    With `twin`, every task asks for as much of one more resource as of the CPU.
    """
    names = [f"r{k:03d}" for k in range(offered)]

    def own(cpu_milli: int) -> dict[str, int]:
        return {"twin": cpu_milli} if twin else {}

    def asking(group: TaskGroup) -> TaskGroup:
        amounts = {**dict.fromkeys(names[:asked], 1), **own(group.cpu_milli)}
        return replace(group, resources=amounts)

    kinds = tuple(
        replace(kind, resources={**dict.fromkeys(names, 1000), **own(kind.cpu_milli)})
        for kind in instance.topology.host_types
    )
    jobs = tuple(
        job.replace(
            configurations=tuple(
                replace(c, tasks=tuple(map(asking, c.tasks))) for c in job.configurations
            )
        )
        for job in instance.jobs
    )
    return instance.replace(topology=instance.topology.replace(host_types=kinds), jobs=jobs)


def waiting(num_hosts: int, num_jobs: int, seed: int = 0) -> Instance:
    """Return hosts of 4 GPUs, a third of the jobs running and pinned, and more than fit waiting."""
    rng = np.random.default_rng(seed)
    topology = Topology(
        "t",
        (HostType("box", 4, "a", 8000, 64),),
        tuple(Host(f"h{h}", "box") for h in range(num_hosts)),
    )
    jobs = []
    for j in range(num_jobs):
        gpus = int(rng.integers(1, 4))
        group = TaskGroup("w", int(rng.integers(1, 4)), 1000 * gpus, 1000 * (1 + gpus), 8)
        weight = float(rng.integers(1, 4))
        jobs.append(Job(f"j{j}", 0.0, 1.0, (Configuration((group,), 1.0),), weight=weight))
    pool, running = HostPool(topology), []
    for job in jobs[: num_jobs // 3]:
        tasks = pool.place(job.configurations[0])
        if tasks is not None:
            running.append(Assignment(job.id, 0, tasks))
    return Instance("waiting", topology, tuple(jobs), running=tuple(running), moves=Moves(budget=0))


@pytest.mark.long
@pytest.mark.parametrize("goal", [BALANCE.replace("balance", "0.5 balance"), GOAL])
def test_a_bound_knows_a_resource_like_the_cpu(goal: str) -> None:
    """The twin of the CPU binds where the CPU does; in the balance it counts once more."""
    instance = crowded(12)
    twin = with_names(instance, twin=True)
    if "balance" in goal:
        assert bound_of(twin, goal) > bound_of(instance, goal)
    else:
        assert bound_of(twin, goal) == pytest.approx(bound_of(instance, goal), rel=1e-3)


def test_loads_of_subsets_are_places_in_tables_of_any_dimension() -> None:
    """Each host's tasks as they stand are one of its subsets, with the load that they have."""
    for instance in (crowded(12), with_names(crowded(12), twin=True)):
        patterns = patterns_of(instance)
        shapes = [kind.cost.shape for kind in patterns.kinds]
        buckets = Pricing(patterns)._buckets
        assert buckets
        for hosts, tasks, loads in buckets:
            for h, own, each in zip(hosts, tasks, loads, strict=True):
                load = patterns.base[h] + patterns.demand[own].sum(axis=0)
                assert each[-1] == np.ravel_multi_index(load, shapes[patterns.kind_of[h]])


def test_names_that_nobody_asks_for_leave_bounds_as_they_are() -> None:
    """More of them than numpy has dimensions for."""
    assert bound_of(with_names(crowded(), offered=70), GOAL) == bound_of(crowded(), GOAL)


@pytest.mark.parametrize("asked", [5, 30, 70])
def test_bounds_hold_and_stay_useful_with_many_names(asked: int) -> None:
    """Names that never run out change no optimum: a bound may fall, but not to nothing."""
    before, found = (
        bound_of(crowded(), GOAL),
        bound_of(with_names(crowded(), offered=asked, asked=asked), GOAL),
    )
    assert 0.5 * before < found <= before + 1e-6


@pytest.mark.parametrize("goal", ["gpus_placed", "weight_placed"])
@pytest.mark.parametrize("counted", [False, True])
def test_admission_knows_a_resource_like_the_cpu_and_passes_over_idle_ones(
    goal: str, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By patterns and by counts: the same optimum as without names."""
    if counted:
        monkeypatch.setattr(admission._Search, "_choose", lambda *_: None)
    level = parse_goal(goal).levels[0]
    plain = waiting(30, 60)
    found = [
        solve_admission(PlacementData.of(instance), level, 20.0, lambda _: None)
        for instance in (plain, with_names(plain, twin=True), with_names(plain, offered=70))
    ]
    assert {(round(f.value, 6), round(f.bound, 6)) for f in found} == {
        (round(found[0].value, 6), round(found[0].bound, 6))
    }


@pytest.mark.long
def test_the_engine_answers_with_named_resources_on_a_large_cluster() -> None:
    instance = with_names(waiting(60, 200), offered=70, asked=4, twin=True)
    instance = instance.replace(moves=Moves(budget=10))
    for goal in ("balance", "weight_placed"):
        outcome = solve_placement(instance, goal, Settings(2.0), None, lambda line: None)
        assert outcome.solution is not None
        assert verify(instance, outcome.solution) == []
