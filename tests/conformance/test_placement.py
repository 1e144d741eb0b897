"""F4 held against brute force: every drawing says what trying all allocations says.

The brute force (`placement_brute_force`) knows only the judge and the objectives.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from placement_brute_force import optimum, size
from rule_strategies import placement_rules

from alloc.instance import Affinity, Instance, Moves, Tenant
from alloc.models.placement.facts import NOT_LINEAR
from alloc.objectives import PLACEMENT_OBJECTIVES
from alloc.packing import HostPool
from alloc.solution import Assignment
from alloc.solving import solve
from alloc.topology import Domain, GpuLink, Host, HostType, NetworkLink, Topology
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.verification import verify
from alloc.verification.claims import check_claims
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

DRAWINGS = ("highs", "pyomo", "cpsat")
LINEAR = tuple(o.name for o in PLACEMENT_OBJECTIVES if o.name not in NOT_LINEAR)
GOALS = (
    *LINEAR,
    "gpus_placed + 0.3 weight_placed",
    "gpus_placed + 0.05 balance",
    "balance + 0.05 moves",
    "gpu_hosts_used + 0.05 moves",
    "hosts_used + 0.25 gpus_placed",
    "gpus_placed + 0.2 domains_spanned",
    "gpus_placed then domains_spanned then moves",
    "weight_placed then fragmentation",
    "gpus_placed then balance",
    "gpus_placed then largest_gang",
)

few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
LARGEST = 20_000


@st.composite
def clusters(draw: st.DrawFn) -> Topology:
    """Two or three hosts, perhaps in racks and pods, with links."""
    wires = tuple(GpuLink(f"gpu{g}", "nvswitch0", "nvswitch", 300.0) for g in range(2))
    kinds = (
        HostType("two", 2, "a100", 4000, 4096, wires if draw(st.booleans()) else ()),
        HostType("three", 3, draw(st.sampled_from(("a100", "h100"))), 3000, 2048),
        HostType("cpu", 0, None, 4000, 1024),
    )
    racks = (Domain("r0", "rack", draw(st.sampled_from((None, "p0")))), Domain("r1", "rack", "p0"))
    domains = (Domain("p0", "pod"), *racks)
    number = draw(st.integers(2, 3))
    stands = st.sampled_from(("r0", "r1", "r1", "p0", None))
    kind = st.sampled_from(("two", "two", "three", "cpu"))
    hosts = tuple(Host(f"h{h}", draw(kind) if h else "two", draw(stands)) for h in range(number))
    links = tuple(
        NetworkLink(host.id, host.domain or "core", draw(st.sampled_from((10.0, 25.0))))
        for host in hosts
    )
    links += (NetworkLink("r0", "core", 20.0), NetworkLink("r1", "core", 20.0))
    links += (NetworkLink("p0", "core", 40.0),)
    return Topology("tiny", kinds, hosts, ("pod", "rack"), domains, links)


@st.composite
def groups(draw: st.DrawFn, topology: Topology, role: str, most: int) -> TaskGroup:
    """Groups of tasks that fit on some host."""
    gpu = MILLI * draw(st.sampled_from((0, 1, 1, 1, 2)))
    cpu = draw(st.sampled_from((0, 0, 1000, 1500)))
    memory = draw(st.sampled_from((0, 0, 1024, 600)))
    need = draw(st.sampled_from((0, 0, 0, 60_000))) if gpu else 0
    return TaskGroup(role, draw(st.integers(1, most)), gpu, cpu, memory, need)


@st.composite
def tiny_placements(draw: st.DrawFn, *, rules: bool = True, equal: bool = False) -> Instance:
    """Up to three jobs on two or three hosts, with any rule; `equal` jobs form classes."""
    topology = draw(clusters())
    levels = (*topology.levels, HOST)
    jobs: list[Job] = []
    pool = HostPool(topology)
    for j in range(draw(st.integers(1, 3))):
        if equal and jobs and draw(st.integers(0, 3)):
            jobs.append(jobs[-1].replace(id=f"j{j}"))
            continue
        ways = []
        for _ in range(draw(st.sampled_from((1, 1, 2)))):
            parts = [draw(groups(topology, "w", 3))]
            if draw(st.integers(0, 3)) == 0:
                parts.append(draw(groups(topology, "ps", 1)))
            kind = draw(st.sampled_from((None, None, None, "a100")))
            inside = draw(st.sampled_from((None, None, None, *levels))) if rules else None
            way = Configuration(tuple(parts), 1.0, kind, inside)
            if pool.topology is topology and pool.place(way) is not None:
                pool.reset()
                ways.append(way)
        if not ways:
            ways = [Configuration((TaskGroup("w", 1, MILLI),), 1.0)]
        own = PlacementRules()
        if rules and draw(st.booleans()):
            counts = tuple(g.count for c in ways for g in c.ruled_groups)
            own = draw(placement_rules(levels, counts))
        jobs.append(
            Job(
                f"j{j}",
                0.0,
                1.0,
                tuple(ways),
                weight=draw(st.sampled_from((1.0, 1.0, 2.5))),
                tenant=draw(st.sampled_from((None, "red", "blue"))),
                elasticity=draw(st.sampled_from(("moldable", "malleable"))),
                preemptible=draw(st.booleans()),
                placement=own,
            )
        )
    running = []
    pool.reset()
    for job in jobs:
        if draw(st.booleans()):
            c = draw(st.integers(0, len(job.configurations) - 1))
            tasks = pool.place(
                job.configurations[c], draw(st.sampled_from(("best_fit", "least_loaded")))
            )
            if tasks is not None:
                running.append(Assignment(job.id, c, tasks))
    affinities: tuple[Affinity, ...] = ()
    if rules and len(jobs) > 1 and draw(st.booleans()):
        kind = draw(st.sampled_from(("together", "apart")))
        ids = tuple(job.id for job in jobs[: draw(st.integers(2, len(jobs)))])
        affinities = (Affinity(kind, draw(st.sampled_from(levels)), ids),)
    most = topology.num_gpus
    tenants: tuple[Tenant, ...] = ()
    if draw(st.booleans()):
        cohort = draw(st.sampled_from((None, "ml")))
        tenants = tuple(
            Tenant(
                name,
                MILLI * draw(st.integers(0, min(most, 3))),
                cohort,
                MILLI * draw(st.integers(0, 2)) if cohort else 0,
            )
            for name in ("red", "blue")
        )
    moves = draw(
        st.one_of(st.none(), st.builds(Moves, st.sampled_from((None, 0, 1, 2)), st.booleans()))
    )
    instance = Instance(
        "tiny",
        topology,
        tuple(jobs),
        running=tuple(running),
        affinities=affinities,
        tenants=tenants,
        moves=moves,
    )
    assume(size(instance) <= LARGEST)
    return instance


def close(value: float) -> Any:
    return pytest.approx(value, rel=3e-6, abs=3e-6)


def check(instance: Instance, goal: str, backends: tuple[str, ...] = DRAWINGS) -> None:
    """Hold drawings to the brute force: status, value of every level, bound, and a clean judge."""
    best = optimum(instance, goal)
    for backend in backends:
        result = solve(instance, "placement", backend, objective=goal)
        if best is None:
            assert result.certificate.status == "infeasible", backend
            assert "placement" in str(result.conflict)
            continue
        assert verify(instance, result.require_solution()) == []
        assert check_claims(instance, result) == []
        stages = result.stages or (result.certificate,)
        assert len(stages) == len(best)
        for stage, value in zip(stages, best, strict=True):
            assert stage.objective == close(value), (backend, stage.objective_name)
            assert stage.bound == close(value), (backend, stage.objective_name)
            assert stage.verified
            worse = stage.bound + 1e-5 if stage.sense == "max" else value + 1e-5
            assert worse >= (value if stage.sense == "max" else stage.bound)


@few
@given(tiny_placements(), st.sampled_from(GOALS))
def test_every_drawing_finds_the_optimum(instance: Instance, goal: str) -> None:
    """Whatever rules a placement has, arrays, Pyomo and CP-SAT say what brute force says."""
    check(instance, goal)


@few
@given(tiny_placements(rules=False, equal=True), st.sampled_from(GOALS))
def test_equal_jobs_as_classes_change_nothing(instance: Instance, goal: str) -> None:
    """Counts of equal jobs are dealt out to the jobs again; moves are those of the class."""
    check(instance, goal, ("highs", "cpsat"))


@pytest.mark.slow
@many
@given(st.one_of(tiny_placements(), tiny_placements(equal=True)), st.sampled_from(GOALS))
def test_every_drawing_finds_the_optimum_of_many_placements(instance: Instance, goal: str) -> None:
    """The same on many more, with equal jobs among them."""
    check(instance, goal)


def one_rack(num_hosts: int = 2, gpus: int = 2) -> Topology:
    """Return equal hosts in one rack."""
    kind = HostType("k", gpus, "a100", 8000, 8192)
    hosts = tuple(Host(f"h{h}", "k", "r0") for h in range(num_hosts))
    return Topology("rack", (kind,), hosts, ("rack",), (Domain("r0", "rack"),))


def gangs(*sizes: int, **fields: Any) -> tuple[Job, ...]:
    """Return rigid gangs of one-GPU workers."""
    return tuple(
        Job(
            f"j{n}",
            0.0,
            1.0,
            (Configuration((TaskGroup("w", size, MILLI),), 1.0),),
            elasticity="rigid",
            **fields,
        )
        for n, size in enumerate(sizes)
    )


def test_small_weights_survive_the_integers_of_cp_sat() -> None:
    """A weight of 0.05 on eight-digit shares once rounded to nothing, and the bound was off."""
    instance = Instance("i", one_rack(), gangs(1, 1))
    for goal in ("gpus_placed + 0.05 balance", "gpus_placed + 0.001 balance"):
        check(instance, goal)
