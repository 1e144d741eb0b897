"""F4 held against brute force: every drawing says what trying all allocations says.

The brute force (`placement_brute_force`) knows only the judge and the objectives.
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
from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.formulation import ArrayModel, require_formulation
from alloc.instance import Affinity, Instance, Moves, Tenant
from alloc.models.placement.facts import NOT_LINEAR, Facts
from alloc.objectives import PLACEMENT_OBJECTIVES, parse_level
from alloc.packing import HostPool
from alloc.solution import Allocation, Assignment, TaskPlacement
from alloc.solving import solve
from alloc.topology import Domain, GpuLink, Host, HostType, NetworkLink, Topology
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.verification import verify
from alloc.verification.claims import check_claims
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup

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


def check(
    instance: Instance,
    goal: str,
    backends: tuple[str, ...] = DRAWINGS,
    allocations: Sequence[Allocation] | None = None,
) -> None:
    """Hold drawings to the brute force: status, value of every level, bound, and a clean judge."""
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


SOME = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def value_of(instance: Instance, goal: str, backend: str = "highs") -> float | None:
    """Return the optimum that a drawing proves, or None if there is none."""
    certificate = solve(instance, "placement", backend, objective=goal).certificate
    assert certificate.status in ("optimal", "infeasible")
    return certificate.objective


@SOME
@given(tiny_placements(), st.sampled_from(LINEAR))
def test_the_relaxation_lies_on_the_right_side(instance: Instance, goal: str) -> None:
    """Bounds of the linear program hold for every allocation that brute force finds."""
    best = optimum(instance, goal)
    assume(best is not None)
    assert best is not None
    model = require_formulation("placement").draw("arrays", instance, goal).model
    assert isinstance(model, ArrayModel)
    relaxed = dataclasses.replace(model, integer=np.zeros(len(model.cost), dtype=bool))
    raw = highs.solve(relaxed, SolverOptions())
    assert raw.status == "optimal"
    assert raw.objective is not None
    slack = raw.objective - best[0] if model.sense == "max" else best[0] - raw.objective
    assert slack >= -1e-6


@SOME
@given(tiny_placements(), st.sampled_from(GOALS[:-4]), st.sampled_from(("highs", "cpsat")))
def test_an_optimum_starts_the_search_again(instance: Instance, goal: str, backend: str) -> None:
    """A start is taken as it is: the values of an allocation satisfy every row that they touch."""
    found = solve(instance, "placement", backend, objective=goal)
    assume(found.solution is not None)
    drawing = require_formulation("placement").draw("arrays", instance, goal)
    assert drawing.start is not None
    values = drawing.start(found.require_solution())
    assert values is not None
    assert isinstance(drawing.model, ArrayModel)
    model, known = drawing.model, np.isfinite(values)
    assert (values[known] <= model.upper[known]).all()
    unknown = abs(model.matrix) @ (~known).astype(float) > 0
    activity = model.matrix @ np.where(known, values, 0.0)
    assert (activity <= model.row_upper + 1e-9)[~unknown].all()
    assert (activity >= model.row_lower - 1e-9)[~unknown].all()
    again = solve(instance, "placement", backend, objective=goal, warm_start=found.solution)
    assert again.certificate.objective == close(float(found.certificate.objective or 0.0))


def test_a_start_is_what_a_stopped_search_returns() -> None:
    """Without time for a search of its own, HiGHS completes the start and hands it back."""
    instance = Instance("i", one_rack(30, 8), gangs(*[7, 5, 3, 2] * 12, weight=2.0))
    first = solve(instance, "placement", "highs", objective="gpus_placed", time_limit_s=20)
    again = solve(
        instance,
        "placement",
        "highs",
        objective="gpus_placed then gpu_hosts_used",
        warm_start=first.solution,
        time_limit_s=5,
    )
    assert again.stages[0].objective == first.certificate.objective == 204.0


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
    """Return all that the judge accepts; there are too many to look for each time."""
    return tuple(feasible(rich()))


@pytest.mark.parametrize("goal", GOALS)
def test_every_objective_is_drawn_as_the_judge_computes_it(goal: str) -> None:
    """Alone and together with the placed GPUs, where it would rather have none."""
    instance, allocations = rich(), rich_allocations()
    check(instance, goal, allocations=allocations)
    if goal in LINEAR and goal != "gpus_placed":
        check(instance, f"gpus_placed then {goal}", allocations=allocations)


class TestWhatClassesDoNotLose:
    """Rules that bind, with the arithmetic by hand."""

    def test_gangs_in_one_rack_are_counted_rack_by_rack(self) -> None:
        """Racks of 6 GPUs hold one gang of 4 each, though 12 GPUs would hold three."""
        kind = HostType("k", 2, "a100")
        hosts = tuple(Host(f"h{n}", "k", f"r{n // 3}") for n in range(6))
        racks = tuple(Domain(f"r{n}", "rack") for n in range(2))
        topology = Topology("two", (kind,), hosts, ("rack",), racks)
        jobs = gangs(4, 4, 4, placement=PlacementRules(required="rack"))
        instance = Instance("i", topology, jobs)
        assert len(Facts(instance, (parse_level("gpus_placed"),)).classes) == 1
        for backend in DRAWINGS:
            assert value_of(instance, "gpus_placed", backend) == 8.0
        free = instance.replace(jobs=gangs(4, 4, 4))
        assert value_of(free, "gpus_placed") == 12.0

    def test_slices_of_equal_jobs_stay_whole(self) -> None:
        """Hosts of 3 GPUs hold one slice of 2 each: two jobs of two slices on four hosts."""
        topology = one_rack(4, 3)
        jobs = gangs(4, 4, 4, placement=PlacementRules(slices=(Slice(HOST, 2),)))
        for backend in DRAWINGS:
            found = solve(Instance("i", topology, jobs), "placement", backend)
            assert found.certificate.objective == 8.0
            assert found.certificate.status == "optimal"

    def test_moves_of_equal_jobs_are_those_of_their_tasks(self) -> None:
        """Four single tasks on four hosts go to two hosts: two of them move, whoever they are."""
        jobs = gangs(1, 1, 1, 1)
        running = tuple(Assignment(f"j{n}", 0, (TaskPlacement(f"h{n}", "w", 1),)) for n in range(4))
        instance = Instance("i", one_rack(4), jobs, running=running, moves=Moves())
        assert len(Facts(instance, (parse_level("moves"),)).classes) == 1
        for backend in DRAWINGS:
            found = solve(instance, "placement", backend, objective="gpu_hosts_used + 0.05 moves")
            assert found.certificate.objective == close(2.1)

    def test_an_eviction_frees_the_gpus_that_a_gang_needs(self) -> None:
        """Both hosts hold a single task; the gang of 4 runs only if both may be stopped."""
        singles = gangs(1, 1)
        gang = gangs(4, weight=9.0)[0].replace(id="gang")
        running = tuple(Assignment(f"j{n}", 0, (TaskPlacement(f"h{n}", "w", 1),)) for n in range(2))
        instance = Instance("i", one_rack(), (*singles, gang), running=running, moves=Moves())
        evicting = instance.replace(moves=Moves(evict=True))
        for backend in DRAWINGS:
            assert value_of(instance, "weight_placed", backend) == 2.0
            assert value_of(evicting, "weight_placed", backend) == 9.0
            assert value_of(evicting.replace(moves=Moves(1, True)), "weight_placed", backend) == 2.0

    def test_nested_slices_count_at_every_level(self) -> None:
        """Pairs per host and fours per rack: racks of 2 + 2 + 1 GPUs hold four of eight tasks."""
        kinds = (HostType("two", 2, "a100"), HostType("one", 1, "a100"))
        hosts = tuple(Host(f"h{n}", "one" if n % 3 == 2 else "two", f"r{n // 3}") for n in range(6))
        racks = tuple(Domain(f"r{n}", "rack") for n in range(2))
        topology = Topology("two", kinds, hosts, ("rack",), racks)
        nested = PlacementRules(slices=(Slice("rack", 4), Slice(HOST, 2)))
        for sizes, placed in (((8,), 8.0), ((4, 4, 4), 8.0)):
            instance = Instance("i", topology, gangs(*sizes, placement=nested))
            for backend in DRAWINGS:
                assert value_of(instance, "gpus_placed", backend) == placed
        # Without the fine slices racks of 5 hold a slice of 4 too, but not one of 5.
        fives = Instance(
            "i", topology, gangs(5, 5, placement=PlacementRules(slices=(Slice("rack", 5),)))
        )
        assert value_of(fives, "gpus_placed") == 10.0
        pairs = gangs(6, 4, placement=PlacementRules(slices=(Slice(HOST, 2),)))
        for backend in DRAWINGS:
            assert value_of(Instance("i", topology, pairs), "gpus_placed", backend) == 6.0

    def test_a_spread_forces_gangs_over_racks(self) -> None:
        """At most two per rack: four tasks need two racks, and six find no third."""
        kind = HostType("k", 4, "a100")
        hosts = tuple(Host(f"h{n}", "k", f"r{n}") for n in range(2))
        racks = tuple(Domain(f"r{n}", "rack") for n in range(2))
        topology = Topology("two", (kind,), hosts, ("rack",), racks)
        jobs = gangs(4, 6, placement=PlacementRules(spread=(Spread("rack", 2),)))
        for backend in DRAWINGS:
            goal = "gpus_placed then domains_spanned"
            found = solve(Instance("i", topology, jobs), "placement", backend, objective=goal)
            assert [stage.objective for stage in found.stages] == [4.0, 2.0]

    def test_pinned_jobs_stay_although_others_could_share_their_host(self) -> None:
        """Both stand on a host of their own: one host would do, but only if the first may move."""
        running = tuple(Assignment(f"j{n}", 0, (TaskPlacement(f"h{n}", "w", 1),)) for n in range(2))
        for preemptible, used in ((True, 1.0), (False, 2.0)):
            jobs = gangs(1, 1, preemptible=preemptible)
            instance = Instance("i", one_rack(), jobs, running=running, moves=Moves(evict=True))
            for backend in DRAWINGS:
                goal = "gpus_placed then hosts_used"
                found = solve(instance, "placement", backend, objective=goal)
                assert found.stages[1].objective == used

    def test_pinned_jobs_without_room_leave_no_placement(self) -> None:
        """An over-full host of pinned jobs is a result with the reason, not an exception."""
        jobs = gangs(2, 2, preemptible=False)
        running = tuple(Assignment(f"j{n}", 0, (TaskPlacement("h0", "w", 2),)) for n in range(2))
        instance = Instance("i", one_rack(), jobs, running=running, moves=Moves())
        for backend in DRAWINGS:
            result = solve(instance, "placement", backend)
            assert result.certificate.status == "infeasible"
            assert "the jobs that must keep running together leave no placement" in str(
                result.conflict
            )
            assert 'Already now: host "h0" is over its gpu_milli by 2000' in str(result.conflict)

    def test_what_is_broken_at_first_is_reported_and_repaired_at_least_cost(self) -> None:
        """A split gang that may move: one task does, and the log says what was wrong."""
        kind = HostType("k", 2, "a100")
        hosts = tuple(Host(f"h{n}", "k", f"r{n // 2}") for n in range(4))
        racks = tuple(Domain(f"r{n}", "rack") for n in range(2))
        topology = Topology("two", (kind,), hosts, ("rack",), racks)
        jobs = gangs(3, placement=PlacementRules(required="rack"))
        split = (TaskPlacement("h0", "w", 2), TaskPlacement("h2", "w", 1))
        running = (Assignment("j0", 0, split),)
        instance = Instance("i", topology, jobs, running=running, moves=Moves())
        for backend in DRAWINGS:
            result = solve(instance, "placement", backend, objective="moves")
            assert result.certificate.objective == 1.0
            line = 'before anything moves: job "j0" must stand in one rack, but stands in "r0"'
            assert any(line in logged for logged in result.log)


class TestRefusals:
    """What the drawings do not have is said, with what to take instead."""

    @pytest.mark.parametrize("name", NOT_LINEAR)
    def test_objectives_that_are_not_linear(self, name: str) -> None:
        instance = Instance("i", one_rack(), gangs(1))
        for backend in DRAWINGS:
            with pytest.raises(UnsupportedFeatureError, match=f"{name} is not linear .* take"):
                solve(instance, "placement", backend, objective=name)

    def test_shares_of_gpus(self) -> None:
        share = (Configuration((TaskGroup("w", 1, 500),), 1.0),)
        instance = Instance("i", one_rack(), (Job("a", 0.0, 1.0, share, elasticity="rigid"),))
        with pytest.raises(UnsupportedFeatureError, match='use the formulation "sharing"'):
            solve(instance, "placement", "highs")

    def test_unknown_objectives_and_weights(self) -> None:
        instance = Instance("i", one_rack(), gangs(1))
        with pytest.raises(InstanceError, match='unknown objective "gpu_placed"; did you mean'):
            solve(instance, "placement", "highs", objective="gpu_placed")
        with pytest.raises(InstanceError, match="the weight of moves is"):
            solve(instance, "placement", "highs", objective="balance + 0 moves")

    def test_bandwidth_without_links_and_without_a_tree(self) -> None:
        instance = Instance("i", one_rack(3), gangs(2))
        with pytest.raises(InstanceError, match="has no links, so gangs have no bandwidth"):
            solve(instance, "placement", "highs", objective="bottleneck_bandwidth")
        # Two rails that meet only in h1: h0 and h2 are not joined, though both are to h1.
        rails = (("h0", "rail0"), ("h1", "rail0"), ("h1", "rail1"), ("h2", "rail1"))
        links = tuple(NetworkLink(a, b, 50.0) for a, b in rails)
        railed = instance.replace(topology=instance.topology.replace(links=links))
        with pytest.raises(UnsupportedFeatureError, match="so its widths are no tree"):
            solve(railed, "placement", "highs", objective="bottleneck_bandwidth")
