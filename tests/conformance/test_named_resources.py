"""A named resource binds as GPU, CPU and memory do, in every family; what nobody asks for does not.

The optima themselves are held to enumeration by `benchmarks.exhaustive`, half of whose instances
have named resources.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from placement_oracle import Oracle

from alloc.errors import UnsupportedFeatureError
from alloc.families import FAMILIES, load
from alloc.objectives.goals import parse_goal
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.operation.from_instance import operation_from_instance
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.sharing.offline_packing import pack_offline
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, Stage, TaskGroup
from benchmarks.tiny.families import FAMILIES as TINY

ALL = ("round", "malleable", "moldable", "admission", "placement", "sharing")
BACKENDS = {"auto": None, "highs": "arrays", "pyomo": "pyomo"}
"""Backends, with the model that each solves."""
SEEDS = range(0, 30, 5)
Problem = tuple[Instance, str]


def problem(family: str, seed: int) -> Problem:
    """Return a tiny problem, with its objective or the first level of it."""
    made = TINY[family].problem(seed)
    if not isinstance(made, tuple):
        return made, FAMILIES[family].objectives[0]
    instance, goal = made
    return instance, goal.partition(" then ")[0]


def value(family: str, instance: Instance, objective: str, backend: str = "auto") -> float | None:
    """Return the proved optimum, or None if there is no solution."""
    result = solve(instance, family, backend, objective=objective, limits=Limits(seconds=10.0))
    assert result.certificate.status in ("optimal", "infeasible")
    if result.solution is not None:
        assert verify(instance, result.solution) == []
    return result.certificate.objective


def with_tasks(instance: Instance, change) -> tuple[Job, ...]:
    """Return the jobs of an instance with every task group changed."""
    return tuple(
        job.replace(
            configurations=tuple(
                replace(c, tasks=tuple(map(change, c.tasks))) for c in job.configurations
            )
        )
        for job in instance.jobs
    )


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_resource_that_nobody_asks_for_changes_no_entry_of_the_model(
    family: str, seed: int
) -> None:
    instance, objective = problem(family, seed)
    kinds = tuple(
        replace(kind, resources={**kind.resources, "spare": k})
        for k, kind in enumerate(instance.topology.host_types, start=1)
    )
    own = {**instance.topology.resources, "spare_seats": 2}
    more = instance.replace(topology=instance.topology.replace(host_types=kinds, resources=own))
    assert more.fingerprint != instance.fingerprint
    # Moldable gangs in continuous time have no arrays.
    in_time = family == "moldable" and instance.slot_s is None
    if "arrays" in FAMILIES[family].models and not in_time:
        before: Any = FAMILIES[family].build("arrays", instance, objective).model
        after: Any = FAMILIES[family].build("arrays", more, objective).model
        assert (before.matrix != after.matrix).nnz == 0
        for name in ("cost", "row_lower", "row_upper", "lower", "upper"):
            assert np.array_equal(getattr(before, name), getattr(after, name)), name
    limits = Limits(seconds=10.0)
    answers = [solve(i, family, objective=objective, limits=limits) for i in (instance, more)]
    assert answers[0].solution == answers[1].solution


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_resource_with_the_numbers_of_the_cpu_binds_as_the_cpu_does(
    family: str, seed: int
) -> None:
    instance, objective = problem(family, seed)
    kinds = tuple(
        replace(kind, cpu_milli=0, resources={**kind.resources, "core_milli": kind.cpu_milli})
        for kind in instance.topology.host_types
    )
    topology = instance.topology.replace(host_types=kinds)

    def renamed(group: TaskGroup) -> TaskGroup:
        return replace(
            group, cpu_milli=0, resources={**group.resources, "core_milli": group.cpu_milli}
        )

    other = instance.replace(topology=topology, jobs=with_tasks(instance, renamed))
    expected, found = value(family, instance, objective), value(family, other, objective)
    assert (found is None) == (expected is None)
    assert expected is None or found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("family", "backend"),
    [
        (family, backend)
        for family in ALL
        for backend, model in BACKENDS.items()
        if model is None or model in FAMILIES[family].models
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_resource_of_the_cluster_binds_as_one_quota_for_all(
    family: str, backend: str, limit: int
) -> None:
    """As many seats as a quota has GPUs, and a seat for every GPU: the same rows."""
    kind = HostType("k", 2, "a", 8000, 1024)
    topology = Topology("t", (kind,), tuple(Host(f"h{h}", "k") for h in range(3)))

    def jobs(*, seats: bool) -> tuple[Job, ...]:
        def way(tasks: int) -> Configuration:
            own = {"seat": 1} if seats else {}
            return Configuration((TaskGroup("w", tasks, 1000, resources=own),), float(tasks))

        ways = ((way(1),), (way(1), way(2)), (way(1),), (way(1), way(3)))
        owner = None if seats else "all"
        limits: dict[str, Any] = {"deadline_s": 40.0, "refusable": True}
        more = limits if family == "admission" else {}
        return tuple(
            Job(f"j{k}", 0.0, 30.0, own, weight=1.0 + k, tenant=owner, **more)
            for k, own in enumerate(ways)
        )

    slot_s = 10.0
    quota = Instance(
        "quota", topology, jobs(seats=False), slot_s, tenants=(Tenant("all", 1000 * limit),)
    )
    seats = Instance("seats", topology.replace(resources={"seat": limit}), jobs(seats=True), slot_s)
    objective = {
        "round": "progress",
        "malleable": "weighted_jct",
        "moldable": "weighted_jct",
        "admission": "value",
        "placement": "weight_placed",
        "sharing": "gpus_placed",
    }[family]
    found = value(family, seats, objective, backend)
    assert found == pytest.approx(value(family, quota, objective, backend), rel=1e-6)
    if family == "sharing":
        assert found == limit


@pytest.mark.parametrize("backend", ["auto", "highs", "pyomo", "cpsat"])
@pytest.mark.parametrize("limit", range(5))
def test_a_seat_a_job_is_a_cardinality_row(backend: str, limit: int) -> None:
    kind = HostType("k", 4, "a")
    seated = Configuration((TaskGroup("w", 1, 1000, resources={"seat": 1}),), 1.0)
    free = Configuration((TaskGroup("w", 2, 1000),), 1.0)
    topology = Topology("t", (kind,), (Host("h0", "k"), Host("h1", "k")), resources={"seat": limit})
    jobs = tuple(Job(f"j{k}", 0.0, 1.0, (seated,) if limit else (seated, free)) for k in range(6))
    instance = Instance("seats", topology, jobs)
    # Without seats the gangs of two GPUs still run: four of them.
    assert value("placement", instance, "weight_placed", backend) == (limit or 4)


def test_the_oracle_knows_that_nobody_offers_a_name() -> None:
    """Hosts with a disk of 0 have none: a gang that asks for one stays out."""
    group = TaskGroup("w", 1, 1000, resources={"disk": 2})
    ways = (Configuration((group,), 1.0), Configuration((TaskGroup("w", 2, 1000),), 1.0))
    kind = HostType("k", 1, "a", 8000, 1024, resources={"disk": 0})
    hosts = (Host("h0", "k", "r"), Host("h1", "k", "r"))
    topology = Topology("t", (kind,), hosts, ("rack",), (Domain("r", "rack"),))
    jobs = tuple(Job(f"j{k}", 0.0, 1.0, ways) for k in range(2))
    instance = Instance("none", topology, jobs)
    assert Oracle(instance).best(parse_goal("weight_placed").levels[0]) == 1.0
    assert value("placement", instance, "weight_placed") == 1.0


def stated_in(hint: Any, seen: set[Any]) -> set[Any]:
    """Return every class that a value of a type may hold, at any depth."""
    if hint in seen or isinstance(hint, str):
        return seen
    seen.add(hint)
    for inner in get_args(hint):
        stated_in(inner, seen)
    if isinstance(hint, type) and is_dataclass(hint):
        own = get_type_hints(hint)
        for field in fields(hint):
            stated_in(own[field.name], seen)
    return seen


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_that_can_be_asked_for_a_name_is_held_to_it(name: str) -> None:
    """The problems of the others have no tasks, so nobody can ask them for a licence in vain."""
    asks = TaskGroup in stated_in(load(FAMILIES[name].problem), set())
    assert asks == (name in {*ALL, "stages", "saturn-spase"})


@pytest.mark.parametrize("own", ["hosts", "cluster"])
@pytest.mark.parametrize("seats", [1, 2])
def test_stages_wait_for_a_seat(own: str, seats: int) -> None:
    instance = seated(own, seats, stages=True)
    result = solve(instance, "stages", objective="makespan")
    assert result.status == "optimal"
    assert result.objective == pytest.approx(20.0 / seats)
    assert verify(instance, result.require_solution()) == []


@pytest.mark.parametrize("own", ["hosts", "cluster"])
def test_the_program_of_saturn_knows_gpus_alone(own: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="takes more than GPUs of one host"):
        solve(seated(own, 1, stages=False), "saturn-spase")


def seated(own: str, seats: int, *, stages: bool) -> Instance:
    """Return two jobs of 10 s and a seat each, with GPUs for both."""
    kind = HostType("k", 4, "a", resources={"seat": seats} if own == "hosts" else {})
    topology = Topology(
        "t", (kind,), (Host("h", "k"),), resources={"seat": seats} if own == "cluster" else {}
    )
    ways = (Configuration((TaskGroup("w", 1, 1000, resources={"seat": 1}),), 1.0, within="host"),)
    work: dict[str, Any] = {"work": 10.0, "configurations": ways}
    if stages:
        work = {"stages": (Stage("x", 10.0, ways),)}
    jobs = (Job(n, 0.0, **work, elasticity="rigid", preemptible=False) for n in "ab")
    return Instance("seats", topology, tuple(jobs))


@pytest.mark.parametrize("own", ["hosts", "cluster"])
def test_doors_from_an_instance_refuse_what_their_family_cannot_keep(own: str) -> None:
    """A job that runs only with a seat; one that can do without is operated without."""
    kind = HostType("k", 4, "a", 8000, 1024, resources={"seat": 1} if own == "hosts" else {})
    seats = {"seat": 1} if own == "cluster" else {}
    topology = Topology("t", (kind,), (Host("h", "k"),), resources=seats)
    seated = Configuration((TaskGroup("w", 1, 1000, resources={"seat": 1}),), 9.0)
    plain = Configuration((TaskGroup("w", 2, 1000),), 1.0)

    def asking(*ways: Configuration) -> Instance:
        return Instance("seats", topology, (Job("j", 0.0, 30.0, ways, due_date_s=10.0),))

    with pytest.raises(UnsupportedFeatureError, match=r"operation has .* no named resources"):
        operation_from_instance(asking(seated))
    with pytest.raises(UnsupportedFeatureError, match=r"named resources .* offline packing"):
        pack_offline(asking(seated))
    (job,) = operation_from_instance(asking(seated, plain)).jobs
    assert job.duration_s == {"k": (None, 30.0, None, None)}
