"""F4 held against brute force: every model says what trying all allocations says.

The brute force (`placement_brute_force`) knows only the checker and the objectives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from placement_brute_force import feasible, optimum, size
from rule_strategies import placement_rules

from alloc.backends import SolverOptions, highs
from alloc.families import require_family
from alloc.formulation import ArrayModel
from alloc.models.placement.facts import NOT_LINEAR
from alloc.objectives import PLACEMENT_OBJECTIVES, parse_level
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.solving import solve
from alloc.topology import Domain, GpuLink, Host, HostType, NetworkLink, Topology
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.verification import verify
from alloc.verification.claims import check_claims
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

BACKENDS_OF_MODELS = ("highs", "pyomo", "cpsat")
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

few = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
LARGEST = 4_000


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
        affinities = (Affinity(kind, draw(st.sampled_from(levels)), ids),)  # type: ignore[arg-type]
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


def check(
    instance: Instance,
    goal: str,
    backends: tuple[str, ...] = BACKENDS_OF_MODELS,
    allocations: Sequence[Allocation] | None = None,
) -> None:
    """Hold models to the brute force: status, value of every level, bound, and a clean checker."""
    best = optimum(instance, goal, allocations)
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


@pytest.mark.long
@few
@given(tiny_placements(), st.sampled_from(GOALS))
def test_every_models_finds_the_optimum(instance: Instance, goal: str) -> None:
    """Whatever rules a placement has, arrays, Pyomo and CP-SAT say what brute force says."""
    check(instance, goal)


@pytest.mark.long
@few
@given(tiny_placements(rules=False, equal=True), st.sampled_from(GOALS))
def test_equal_jobs_as_classes_change_nothing(instance: Instance, goal: str) -> None:
    """Counts of equal jobs are dealt out to the jobs again; moves are those of the class."""
    check(instance, goal, ("highs", "cpsat"))


@pytest.mark.slow
@many
@given(st.one_of(tiny_placements(), tiny_placements(equal=True)), st.sampled_from(GOALS))
def test_every_models_finds_the_optimum_of_many_placements(instance: Instance, goal: str) -> None:
    """The same on many more, with equal jobs among them."""
    check(instance, goal)


SOME = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def value_of(instance: Instance, goal: str, backend: str = "highs") -> float | None:
    """Return the optimum that a model proves, or None if there is none."""
    certificate = solve(instance, "placement", backend, objective=goal).certificate
    assert certificate.status in ("optimal", "infeasible")
    return certificate.objective


@pytest.mark.long
@SOME
@given(tiny_placements(), st.sampled_from(LINEAR))
def test_the_relaxation_lies_on_the_right_side(instance: Instance, goal: str) -> None:
    """Bounds of the linear program hold for every allocation that brute force finds."""
    best = optimum(instance, goal)
    assume(best is not None)
    assert best is not None
    model = require_family("placement").build("arrays", instance, goal).model
    assert isinstance(model, ArrayModel)
    relaxed = dataclasses.replace(model, integer=np.zeros(len(model.cost), dtype=bool))
    raw = highs.solve(relaxed, SolverOptions())
    assert raw.status == "optimal"
    assert raw.objective is not None
    slack = raw.objective - best[0] if model.sense == "max" else best[0] - raw.objective
    assert slack >= -1e-6


@pytest.mark.long
@SOME
@given(tiny_placements(), st.sampled_from(GOALS[:-4]), st.sampled_from(("highs", "cpsat")))
def test_an_optimum_starts_the_search_again(instance: Instance, goal: str, backend: str) -> None:
    """A start is taken as it is: the values of an allocation satisfy every row that they touch."""
    found = solve(instance, "placement", backend, objective=goal)
    assume(found.solution is not None)
    built = require_family("placement").build("arrays", instance, goal)
    assert built.start is not None
    values = built.start(found.require_solution())
    assert values is not None
    assert isinstance(built.model, ArrayModel)
    model, known = built.model, np.isfinite(values)
    assert (values[known] <= model.upper[known]).all()
    unknown = abs(model.matrix) @ (~known).astype(float) > 0
    activity = model.matrix @ np.where(known, values, 0.0)
    assert (activity <= model.row_upper + 1e-9)[~unknown].all()
    assert (activity >= model.row_lower - 1e-9)[~unknown].all()
    again = solve(instance, "placement", backend, objective=goal, warm_start=found.solution)
    assert again.certificate.objective == close(float(found.certificate.objective or 0.0))


@SOME
@given(tiny_placements(), st.sampled_from(LINEAR), st.randoms(use_true_random=False))
def test_the_order_of_jobs_and_hosts_does_not_matter(
    instance: Instance, goal: str, random: Any
) -> None:
    """Classes and columns are made in order of appearance; the optimum must not know."""
    jobs, hosts = list(instance.jobs), list(instance.topology.hosts)
    random.shuffle(jobs)
    random.shuffle(hosts)
    topology = instance.topology.replace(hosts=tuple(hosts))
    other = instance.replace(jobs=tuple(jobs), topology=topology)
    first, second = value_of(instance, goal), value_of(other, goal)
    assert (first is None) == (second is None)
    if first is not None:
        assert second == close(first)


@SOME
@given(tiny_placements(), st.sampled_from(("gpus_placed", "weight_placed", "moves", "hosts_used")))
def test_another_host_never_hurts(instance: Instance, goal: str) -> None:
    """What was feasible stays so: the new host may stand empty."""
    topology = instance.topology
    extra = Host("extra", "two", topology.hosts[0].domain)
    larger = instance.replace(topology=topology.replace(hosts=(*topology.hosts, extra)))
    first, second = value_of(instance, goal), value_of(larger, goal)
    if first is None:
        return
    assert second is not None
    more = second - first if parse_level(goal).sense == "max" else first - second
    assert more >= -1e-6


@SOME
@given(tiny_placements(), st.sampled_from(LINEAR), st.sampled_from((2, 7)))
def test_the_unit_of_memory_does_not_matter(instance: Instance, goal: str, factor: int) -> None:
    """Twice the memory of every host and every task: only data moved doubles."""
    topology = instance.topology
    kinds = tuple(
        dataclasses.replace(kind, memory_mib=factor * kind.memory_mib)
        for kind in topology.host_types
    )
    jobs = tuple(
        job.replace(
            configurations=tuple(
                dataclasses.replace(
                    c,
                    tasks=tuple(
                        dataclasses.replace(g, memory_mib=factor * g.memory_mib) for g in c.tasks
                    ),
                )
                for c in job.configurations
            )
        )
        for job in instance.jobs
    )
    scaled = instance.replace(topology=topology.replace(host_types=kinds), jobs=jobs)
    first, second = value_of(instance, goal), value_of(scaled, goal)
    assert (first is None) == (second is None)
    if first is not None:
        assert second == close(first * (factor if goal == "moved_gb" else 1))


def rich() -> Instance:
    """Two racks of links, NVLink on some hosts, tasks of every kind, two of them running."""
    wires = tuple(GpuLink(f"gpu{g}", "nvswitch0", "nvswitch", 300.0) for g in range(2))
    kinds = (
        HostType("wired", 2, "a100", 4000, 4096, wires),
        HostType("bare", 3, "a100", 3000, 2048, (GpuLink("gpu0", "gpu1", "pcie", 16.0),)),
    )
    hosts = (Host("h0", "wired", "r0"), Host("h1", "wired", "r0"), Host("h2", "bare", "r1"))
    racks = (Domain("r0", "rack"), Domain("r1", "rack"))
    links = (
        *(NetworkLink(h.id, str(h.domain), 25.0) for h in hosts),
        NetworkLink("r0", "core", 10.0),
        NetworkLink("r1", "core", 10.0),
    )
    topology = Topology("rich", kinds, hosts, ("rack",), racks, links)

    def way(count: int, gpus: int, cpu: int, memory: int) -> tuple[Configuration, ...]:
        return (Configuration((TaskGroup("w", count, MILLI * gpus, cpu, memory),), 1.0),)

    jobs = (
        Job("pair", 0.0, 1.0, way(2, 1, 500, 1024), weight=2.0, elasticity="rigid"),
        Job("three", 0.0, 1.0, way(3, 1, 1000, 256), elasticity="rigid"),
        Job(
            "double",
            0.0,
            1.0,
            way(1, 2, 1500, 512),
            elasticity="rigid",
            placement=PlacementRules(preferred="rack"),
        ),
        Job("cpu", 0.0, 1.0, way(1, 0, 2000, 2048), weight=0.5, elasticity="rigid"),
    )
    running = (
        Assignment("pair", 0, (TaskPlacement("h0", "w", 1), TaskPlacement("h2", "w", 1))),
        Assignment("cpu", 0, (TaskPlacement("h1", "w", 1),)),
    )
    return Instance("rich", topology, jobs, running=running, moves=Moves(evict=True))


@cache
def rich_allocations() -> tuple[Allocation, ...]:
    """Return all that the checker accepts; there are too many to look for each time."""
    return tuple(feasible(rich()))


@pytest.mark.parametrize("goal", GOALS)
def test_every_objective_is_drawn_as_the_judge_computes_it(goal: str) -> None:
    """Alone and together with the placed GPUs, where it would rather have none."""
    instance, allocations = rich(), rich_allocations()
    check(instance, goal, allocations=allocations)
    if goal in LINEAR and goal != "gpus_placed":
        check(instance, f"gpus_placed then {goal}", allocations=allocations)
