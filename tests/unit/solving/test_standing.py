"""Whom it concerns that rules are broken from the start."""

from __future__ import annotations

import pytest

from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.placing.standing import jobs_concerned
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import initial_violations
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup


def on(name: str, **counts: int) -> Assignment:
    """The job with so many tasks on each host."""
    return Assignment(name, 0, tuple(TaskPlacement(h, "worker", n) for h, n in counts.items()))


def broken_from_the_start(names: dict[str, str]) -> Instance:
    """Every kind of thing that is over its limit, with jobs called as `names` says."""
    kind = HostType("server", 2, "h100", 8_000, 1_000)
    hosts = tuple(Host(f"h{k}", "server", f"r{k // 4}") for k in range(8))
    racks = tuple(Domain(f"r{k}", "rack") for k in range(2))
    topology = Topology("t", (kind,), hosts, ("rack",), racks, resources={"licence": 1})

    def job(name: str, gpus: int = 1, tasks: int = 1, **more: object) -> Job:
        group = TaskGroup("worker", tasks, 1000 * gpus, resources=more.pop("own", {}))  # type: ignore[arg-type]
        configuration = Configuration((group,), 1.0)
        return Job(names.get(name, name), 0.0, 1.0, (configuration,), elasticity="rigid", **more)  # type: ignore[arg-type]

    apart = (names.get("x", "x"), names.get("y", "y"))
    return Instance(
        "broken",
        topology,
        (
            job("wide", gpus=2),
            job("beside"),
            job("licensed", own={"licence": 1}),
            job("licensed too", own={"licence": 1}),
            job("owned", gpus=2, tenant="team"),
            job("lent", gpus=2, tenant="other"),
            job("x"),
            job("y"),
            job("split", tasks=2, placement=PlacementRules(required="rack")),
            job("sound"),
            job("waits"),
        ),
        tenants=(Tenant("team", 1000), Tenant("other", 4000)),
        affinities=(Affinity("apart", "host", apart),),
        moves=Moves(),
        running=tuple(
            on(names.get(name, name), **counts)
            for name, counts in {
                "wide": {"h0": 1},
                "beside": {"h0": 1},
                "licensed": {"h1": 1},
                "licensed too": {"h7": 1},
                "owned": {"h2": 1},
                "lent": {"h5": 1},
                "x": {"h3": 1},
                "y": {"h3": 1},
                "split": {"h1": 1, "h4": 1},
                "sound": {"h6": 1},
            }.items()
        ),
    )


@pytest.mark.parametrize("renamed", ["sound", "lent", "waits"])
@pytest.mark.parametrize("name", ["other name", "h0", "h3", "r0", "rack", "licence", "team"])
def test_who_is_concerned_by_what_is_broken_does_not_hang_on_names(renamed: str, name: str) -> None:
    """A job may be called as a host, a domain, a level, a resource or a tenant is."""
    instance = broken_from_the_start({renamed: name})
    broken = initial_violations(instance)
    assert {v.code for v in broken} == {
        *("host_capacity", "cluster_capacity", "quota", "apart", "required_level")
    }
    concerned = {"wide", "beside", "licensed", "licensed too", "owned", "x", "y", "split"}
    assert jobs_concerned(instance, broken) == concerned
