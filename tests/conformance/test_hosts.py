"""Gangs that fit the totals and not the hosts together: every way proves the optimum all the same.

Held against plain enumeration (`benchmarks.tiny`), which tries every choice and puts every task on
every host.
"""

from __future__ import annotations

from random import Random

import pytest

from alloc.problems.allocation.instance import Instance
from alloc.solving import solve
from alloc.topology import Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks.tiny.cluster import packs
from benchmarks.tiny.families import FAMILIES
from benchmarks.tiny.family import Truth, disagreement, of_result

WAYS = ("auto", "highs", "pyomo", "cpsat")
LEFT_OPEN = [
    *(("round", seed) for seed in (103, 430, 437, 512, 574, 638, 761, 821, 935, 965, 993, 1016)),
    *(("malleable", seed) for seed in (404, 484, 698, 963)),
    *(("quotas-scaled", seed) for seed in (700, 785)),
    *(("assignment-scaled", seed) for seed in (197, 665, 1029)),
]
"""Seeds of the sweep whose answers were "feasible" without a limit."""


@pytest.mark.parametrize(("name", "seed"), LEFT_OPEN)
def test_what_was_left_open_is_proved_by_every_way(name: str, seed: int) -> None:
    family = FAMILIES[name]
    problem = family.problem(seed)
    truth = family.truth(problem)
    for way in family.ways:
        answer = family.solve(problem, way, 60.0)
        assert disagreement(truth, answer) is None, way
        assert answer.status == "optimal", way


def holes(seed: int, *, jobs: int, slots: int) -> Instance:
    """Hosts of several sizes and gangs of two kinds of tasks, of which the totals hold more than
    the hosts; among them equal jobs, and ways that use less but are harder to place."""
    rng = Random(f"holes {seed}")
    while True:
        kinds = tuple(
            HostType(f"k{gpus}", gpus, "a", 1000 * rng.randint(3, 8)) for gpus in (1, 3, 5)
        )
        hosts = tuple(Host(f"h{i}", rng.choice(kinds).name) for i in range(rng.randint(2, 3)))
        topology = Topology("holes", kinds, hosts)
        tables = []
        for _ in range(2):
            ways = []
            for _ in range(rng.randint(1, 3)):
                groups = [
                    TaskGroup(
                        "w",
                        rng.randint(1, 2),
                        rng.choice((1000, 2000, 2000)),
                        1000 * rng.randint(0, 2),
                    )
                ]
                if rng.random() < 0.4:
                    groups.append(TaskGroup("p", rng.randint(1, 2), 0, 1000 * rng.randint(1, 3)))
                within = rng.choice((None, None, "host"))
                ways.append(Configuration(tuple(groups), rng.randint(2, 9) / 4, None, within))
            tables.append(tuple(c for c in ways if packs(topology, [c])))
        tables = [table for table in tables if table]
        if not tables:
            continue
        made = tuple(
            Job(
                f"j{j}",
                0.0,
                10.0 * rng.randint(2, 2 * slots) / 4,
                rng.choice(tables),
                weight=rng.choice((1.0, 1.0, 2.0)),
                preemptible=rng.random() < 0.7,
            )
            for j in range(jobs)
        )
        return Instance("holes", topology, made, slot_s=10.0)


def truth_of(name: str, instance: Instance) -> Truth:
    """Return the optimum by enumeration."""
    asked = {"round": "goodput", "malleable": "weighted_jct"}
    return FAMILIES[name].truth((instance, asked[name]) if name in asked else instance)


def prove(name: str, instance: Instance, seed: int) -> bool:
    """Hold every way to the truth; return whether the hosts made a difference."""
    truth = truth_of(name, instance)
    for way in WAYS:
        objective = "goodput" if name == "round" else None
        result = solve(instance, name, way, objective=objective)
        answer = of_result(result, verify(instance, result.require_solution()))
        assert disagreement(truth, answer) is None, (seed, way)
    one = instance.topology.hosts[:1]
    total = sum(instance.topology.host_type(host).num_gpus for host in instance.topology.hosts)
    cpu = sum(instance.topology.host_type(host).cpu_milli for host in instance.topology.hosts)
    whole = Topology("whole", (HostType("all", total, "a", cpu),), (Host(one[0].id, "all"),))
    relaxed = truth_of(name, instance.replace(topology=whole))
    return relaxed.values != pytest.approx(truth.values)


@pytest.mark.long
def test_every_way_proves_rounds_of_gangs_beside_holes() -> None:
    bound_by_hosts = [prove("round", holes(seed, jobs=5, slots=20), seed) for seed in range(25)]
    assert sum(bound_by_hosts) > 8


@pytest.mark.long
def test_every_way_proves_schedules_of_gangs_beside_holes() -> None:
    bound_by_hosts = [prove("malleable", holes(seed, jobs=3, slots=2), seed) for seed in range(7)]
    assert sum(bound_by_hosts) > 3
