"""Gangs put down by rules and along plans, and the bound on fragmentation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from placement_brute_force import MOST, feasible, options
from placement_oracle import fits_somewhere, random_instance

import alloc
from alloc.backends.linear_program import LinearProgram
from alloc.clock import time_limit
from alloc.models.placement.data import PlacementData
from alloc.objectives import objective, parse_goal
from alloc.objectives.goals import Held
from alloc.problems.allocation.instance import Instance, Moves
from alloc.solving.placement import fragments_bound as bounds
from alloc.solving.placement import gang_search, method
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.fragments_bound import fragments_bound, planned_again, relaxed
from alloc.solving.placement.fragments_program import program_of
from alloc.solving.placement.gang_search import first_placements, waiting_jobs
from alloc.solving.placement.gangs import Gangs
from alloc.solving.placement.greedy import RULES, HostStates, Rule, put_down_by
from benchmarks.alternatives import gang_placement

GPUS, FRAGMENTS = parse_goal("gpus_placed then fragmentation").levels


def small(seed: int) -> Instance:
    """Return a random cluster small enough to look at every placement."""
    rng = np.random.default_rng(seed)
    while True:
        instance = random_instance(rng, (None, Moves(budget=0), Moves(evict=True)))
        few = math.prod(len(options(instance, job)) for job in instance.jobs) <= MOST // 100
        if few and any(True for _ in feasible(instance)):
            return instance


@pytest.mark.parametrize("seed", range(12))
def test_whatever_a_rule_puts_down_stands(seed: int) -> None:
    """Every rule keeps what runs and breaks no rule of placement."""
    instance = small(seed)
    problem = Problem(PlacementData.of(instance))
    before = Gangs(problem, problem.data.initial)
    for rule in RULES:
        gangs = before.copy()
        put_down_by(gangs, waiting_jobs(problem, before, by_size=True), rule)
        allocation = problem.data.allocation(gangs.counts())
        assert {*before.placed} <= {*gangs.placed}
        if not alloc.verify(instance, problem.data.allocation(before.counts())):
            assert not alloc.verify(instance, allocation)
        # Nobody is left out who would find room beside the others.
        for job in waiting_jobs(problem, gangs, by_size=False):
            single = len(problem.instance.jobs[job].configurations[0].tasks) == 1
            assert not (single and gangs.copy().insert(job))


@pytest.mark.parametrize("rule", RULES)
def test_what_gangs_in_slices_take_is_not_given_again(rule: Rule) -> None:
    """A gang in slices fills the only host, so the next finds no room."""
    sliced = alloc.Job(
        "sliced",
        0.0,
        1.0,
        (alloc.Configuration((alloc.TaskGroup("w", 2, 2000),), 1.0),),
        placement=alloc.PlacementRules(slices=(alloc.Slice("host", 2),)),
    )
    plain = alloc.Job(
        "plain", 0.0, 1.0, (alloc.Configuration((alloc.TaskGroup("w", 1, 2000),), 1.0),)
    )
    small = alloc.Job(
        "small", 0.0, 1.0, (alloc.Configuration((alloc.TaskGroup("w", 1, 1000),), 1.0),)
    )
    host = alloc.HostType("server", 4, "x")
    cluster = alloc.Topology("c", (host,), (alloc.Host("h", "server"),))
    problem = Problem(PlacementData.of(Instance("one host", cluster, (small, sliced, plain))))
    gangs = Gangs(problem, problem.data.initial)
    put_down_by(gangs, [1, 2, 0], rule)
    assert gangs.placed == {1: 0}
    assert not alloc.verify(problem.instance, problem.data.allocation(gangs.counts()))


@pytest.mark.parametrize(("tasks", "where"), [(1, "two"), (2, "two"), (3, "three"), (4, "four")])
def test_a_gang_that_one_host_holds_goes_to_the_tightest(tasks: int, where: str) -> None:
    """Not to the first one that holds it: larger ones are kept for larger gangs."""
    rooms = {"four": 4, "two": 2, "three": 3}
    kinds = tuple(alloc.HostType(f"{n} GPUs", n, "x") for n in rooms.values())
    hosts = tuple(alloc.Host(name, f"{n} GPUs") for name, n in rooms.items())
    # The largest gang waits too: a rule looks no further than it.
    gangs_of = [
        (alloc.Configuration((alloc.TaskGroup("w", number, 1000),), 1.0),) for number in (tasks, 5)
    ]
    jobs = tuple(alloc.Job(f"j{n}", 0.0, 1.0, ways) for n, ways in enumerate(gangs_of))
    problem = Problem(PlacementData.of(Instance("t", alloc.Topology("c", kinds, hosts), jobs)))
    gangs = Gangs(problem, problem.data.initial)
    put_down_by(gangs, [0], ("tightest", "fullest"))
    (placed,) = problem.data.allocation(gangs.counts()).assignments
    assert {task.host for task in placed.tasks} == {where}


@pytest.mark.parametrize("seed", range(6))
def test_gangs_taken_off_and_put_down_again_stand_as_they_did(seed: int) -> None:
    """What stands, what is used and what is counted agree whatever was moved."""
    instance = gang_placement.made(20, seed)
    problem = Problem(PlacementData.of(instance))
    gangs, rng = Gangs(problem, problem.data.initial), np.random.default_rng(seed)
    put_down_by(gangs, waiting_jobs(problem, gangs, by_size=True), RULES[0])
    before = gangs.counts()
    for job in rng.choice(list(gangs.placed), 15, replace=False).tolist():
        gangs.restore(job, gangs.remove(job))
    assert not (gangs.counts() != before).nnz
    some = rng.choice(list(gangs.placed), 10, replace=False).tolist()
    other = gangs.copy()
    for job in some:
        other.remove(job)
    assert (other.used == problem.used(other.counts())).all()
    assert (gangs.used == problem.used(before)).all()
    assert not {*some} & {*other.placed}
    standing = np.flatnonzero(np.diff(other.counts().indptr))
    assert {*problem.data.job_of[standing].tolist()} == {*other.placed}


@pytest.mark.parametrize("seed", range(25))
def test_no_placement_passes_the_bound_on_fragments(seed: int) -> None:
    """Beside the most GPUs that can be placed, the bound is below every placement there is."""
    instance = small(seed)
    problem = Problem(PlacementData.of(instance))
    every = list(feasible(instance))
    most = max(objective("gpus_placed").evaluate(instance, a) for a in every)
    for held in ((), (Held(GPUS, most),)):
        left = [
            objective("fragmentation").evaluate(instance, a)
            for a in every
            if not held or objective("gpus_placed").evaluate(instance, a) >= most
        ]
        bound = fragments_bound(problem, FRAGMENTS, held, 60.0)
        assert 0.0 <= bound <= min(left) + 1e-9


def nested(seed: int) -> Instance:
    """Return two pods of two racks with gangs that must stand in one of either, small enough."""
    rng = np.random.default_rng(seed)
    kind = alloc.HostType("server", 3, "x", 9000, 9)
    pods = tuple(alloc.Domain(f"p{n}", "pod") for n in range(2))
    racks = tuple(alloc.Domain(f"r{n}", "rack", f"p{n // 2}") for n in range(4))
    # The last host stands in no domain.
    hosts = [alloc.Host(f"h{n}", "server", f"r{n % 4}") for n in range(int(rng.integers(3, 5)))]
    hosts.append(alloc.Host("h-out", "server"))
    jobs = []
    for n in range(int(rng.integers(2, 5))):
        ways = tuple(
            alloc.Configuration(
                (alloc.TaskGroup("w", int(rng.integers(1, 4)), 1000 * int(rng.integers(1, 4))),),
                1.0,
                within=(None, "rack")[int(rng.random() < 0.3)],
            )
            for _ in range(1 + int(rng.random() < 0.3))
        )
        rules = alloc.PlacementRules(required=(None, "rack", "pod")[int(rng.integers(3))])
        jobs.append(alloc.Job(f"j{n}", 0.0, 1.0, ways, placement=rules))
    topology = alloc.Topology("nested", (kind,), tuple(hosts), ("pod", "rack"), (*pods, *racks))
    fitting = [job for job in jobs if fits_somewhere(topology, job)]
    if not fitting:
        return nested(seed + 1000)
    return Instance("nested", topology, tuple(fitting))


@pytest.mark.parametrize("seed", range(25))
def test_no_placement_passes_the_bound_where_racks_stand_in_pods(seed: int) -> None:
    """Domains of two levels, gangs of both, ways within racks, and a host outside any."""
    instance = nested(seed)
    problem = Problem(PlacementData.of(instance))
    if math.prod(len(options(instance, job)) for job in instance.jobs) > MOST // 100:
        instance = instance.replace(jobs=instance.jobs[:1])
        problem = Problem(PlacementData.of(instance))
    every = list(feasible(instance))
    most = max(objective("gpus_placed").evaluate(instance, a) for a in every)
    least = min(
        objective("fragmentation").evaluate(instance, a)
        for a in every
        if objective("gpus_placed").evaluate(instance, a) >= most
    )
    bound = fragments_bound(problem, FRAGMENTS, (Held(GPUS, most),), 60.0)
    assert 0.0 <= bound <= least + 1e-9


def test_no_part_of_a_gang_fills_what_is_left_of_a_rack() -> None:
    """In three racks one GPU is left on a host and two on another; a gang takes three in one rack.

    In parts it would take the single GPUs of all racks. It cannot, so those of two racks are lost
    to tasks of two GPUs, a third of all tasks.
    """
    kind = alloc.HostType("server", 3, "x")
    racks = tuple(alloc.Domain(f"r{n}", "rack") for n in range(3))
    hosts = tuple(alloc.Host(f"h{n}", "server", f"r{n % 3}") for n in range(6))

    def job(name: str, tasks: int, gpus: int, required: str | None = None) -> alloc.Job:
        ways = (alloc.Configuration((alloc.TaskGroup("w", tasks, gpus * 1000),), 1.0),)
        rules = alloc.PlacementRules(required=required)
        return alloc.Job(name, 0.0, 1.0, ways, placement=rules)

    stand = [job(f"run-{n}", 1, 2 if n < 3 else 1) for n in range(6)]
    running = tuple(
        alloc.Assignment(own.id, 0, (alloc.TaskPlacement(host.id, "w", 1),))
        for own, host in zip(stand, hosts, strict=True)
    )
    topology = alloc.Topology("racks", (kind,), hosts, ("rack",), racks)
    jobs = (*stand, job("gang", 3, 1, "rack"))
    instance = Instance("parts", topology, jobs, running=running, moves=Moves(budget=0))
    problem = Problem(PlacementData.of(instance))
    held = (Held(GPUS, 12.0),)
    program = program_of(Gangs(problem, problem.data.initial), held, domains=True)
    assert program is not None
    in_parts = LinearProgram(program.arrays()).optimum("without cases", 60.0).value
    assert in_parts == pytest.approx(0.0, abs=1e-6)
    assert fragments_bound(problem, FRAGMENTS, held, 60.0) == pytest.approx(2 / 3)
    result = alloc.solve(instance, "placement", objective="gpus_placed then fragmentation")
    assert result.objective == pytest.approx(2 / 3)


def test_the_bound_keeps_its_limit() -> None:
    """No time, no bound: neither jobs nor patterns are gone through without a look at the clock."""
    problem = Problem(PlacementData.of(gang_placement.made(48, 0)))
    assert fragments_bound(problem, FRAGMENTS, (), 0.0) == 0.0
    assert planned_again(problem, problem.data.initial, (), 0.0) is None


def test_hosts_with_too_many_patterns_for_domains_have_the_bound_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Domains make the bound sharper where there is room for them; they are no condition of it."""
    problem = Problem(PlacementData.of(gang_placement.made(20, 0)))
    without, _ = relaxed(problem, FRAGMENTS, (), 60.0, domains=False)
    assert fragments_bound(problem, FRAGMENTS, (), 60.0) >= without > 0.0
    monkeypatch.setattr(bounds, "_MAX_COLUMNS", 0)
    assert fragments_bound(problem, FRAGMENTS, (), 60.0) == without


def test_the_rules_of_schedulers_come_before_any_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that takes all of the time, or is broken off, leaves what a rule puts down."""

    def broken_off(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(method, "relaxed", broken_off)
    instance = gang_placement.made(20, 0)
    result = alloc.solve(instance, "placement", objective="gpus_placed")
    assert result.certificate.limit == "interrupt"
    theirs = gang_placement.by_rule(instance, gang_placement.best_fit)
    assert (
        gang_placement.value(instance, result.solution)[0]
        <= gang_placement.value(instance, theirs)[0]
    )


@pytest.mark.parametrize("through", [0, 2])
def test_ctrl_c_among_the_rules_keeps_those_that_are_through(
    through: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take seconds on many hosts; without any, what runs goes on as it stands."""
    calls: list[Rule] = []

    def then_broken_off(gangs: Gangs, jobs: list[int], rule: Rule, before: HostStates) -> None:
        if len(calls) == through:
            raise KeyboardInterrupt
        calls.append(rule)
        put_down_by(gangs, jobs, rule, before)

    monkeypatch.setattr(gang_search, "put_down_by", then_broken_off)
    instance = gang_placement.made(20, 0)
    result = alloc.solve(instance, "placement", objective="gpus_placed")
    assert result.certificate.limit == "interrupt"
    assert len(calls) == through
    placed = [GPUS.evaluate(instance, alloc.Allocation(instance.running))]
    for rule in RULES[:through]:
        problem = Problem(PlacementData.of(instance))
        gangs = Gangs(problem, problem.data.initial)
        put_down_by(gangs, waiting_jobs(problem, gangs, by_size=True), rule)
        placed.append(GPUS.evaluate(instance, problem.data.allocation(gangs.counts())))
    assert result.objective == max(placed)


def test_rules_ask_no_clock_but_where_gangs_take_long_to_put_down() -> None:
    """All rules are tried in no time; with slices what the first rule places, and what runs."""
    instance = gang_placement.made(20, 0)
    with time_limit(0.0):
        problem = Problem(PlacementData.of(instance))
        assert len(list(first_placements(problem, GPUS))) == len(RULES) + 2
        sliced = alloc.PlacementRules(slices=(alloc.Slice("host", 1),))
        jobs = (*instance.jobs[:-1], instance.jobs[-1].replace(placement=sliced))
        problem = Problem(PlacementData.of(instance.replace(jobs=jobs)))
        assert len(list(first_placements(problem, GPUS))) == 2


@pytest.mark.parametrize("num_hosts", [40, 100])
@pytest.mark.parametrize("seed", [1, 7, 11, 13])
def test_without_any_time_the_answer_is_no_worse_than_the_rules_of_schedulers(
    num_hosts: int, seed: int
) -> None:
    """Whatever the clock says: the rules come first, and later levels choose among their best."""
    instance = gang_placement.made(num_hosts, seed)
    limits = alloc.Limits(seconds=1e-9, seed=seed)
    result = alloc.solve(instance, "placement", objective=gang_placement.GOAL, limits=limits)
    assert result.certificate.verified
    ours = gang_placement.value(instance, result.require_solution())
    for rule in gang_placement.RULES.values():
        assert ours <= gang_placement.value(instance, gang_placement.by_rule(instance, rule))


@pytest.mark.parametrize("seed", range(5))
def test_what_is_left_over_is_what_tasks_of_each_shape_leave(seed: int) -> None:
    """Counted shape by shape: GPUs, cores, memory and GPU type decide how many fit."""
    rng = np.random.default_rng(seed)
    instance = random_instance(rng)
    lost, topology = Problem(PlacementData.of(instance)).lost, instance.topology
    free = [rng.integers(0, row + 1) for row in topology.capacity[:, :3]]
    free = [np.array([1000 * (own[0] // 1000), *own[1:]]) for own in free]
    states = [(int(t), *map(int, own)) for t, own in zip(lost.type_of, free, strict=True)]
    for h, left in enumerate(lost.left_over(states)):
        expected = 0
        for shape in lost.mix:
            asked = (1000 * shape.num_gpus, shape.cpu_milli, shape.memory_mib)
            number = min(int(a) // b for a, b in zip(free[h], asked, strict=True) if b)
            if shape.gpu_type not in (None, topology.gpu_types[h]):
                number = 0
            expected += (int(free[h][0]) - number * asked[0]) if shape.num_gpus else 0
        assert left == expected


@pytest.mark.parametrize("moves", [Moves(budget=0), Moves(evict=True)])
def test_the_bound_knows_that_jobs_which_may_not_move_may_grow(moves: Moves) -> None:
    """A running job that must stay takes more GPUs: its first configuration is not for ever."""
    first, second = (
        alloc.Configuration((alloc.TaskGroup("w", 1, gpus * 1000, 1000, 1),), 1.0)
        for gpus in (1, 4)
    )
    instance = Instance(
        "grows",
        alloc.Topology("c", (alloc.HostType("a", 4, "x", 9000, 9),), (alloc.Host("h", "a"),)),
        (alloc.Job("j", 0.0, 1.0, (first, second), preemptible=False),),
        running=(alloc.Assignment("j", 0, (alloc.TaskPlacement("h", "w", 1),)),),
        moves=moves,
    )
    best = min(objective("fragmentation").evaluate(instance, a) for a in feasible(instance))
    problem = Problem(PlacementData.of(instance))
    assert fragments_bound(problem, FRAGMENTS, (), 60.0) <= best + 1e-9
    result = alloc.solve(instance, "placement", objective="fragmentation")
    assert result.objective == pytest.approx(best, abs=1e-9)


def test_the_bound_is_reached_where_nothing_ties_gangs_to_racks() -> None:
    """On 60 hosts without racks the solve proves what is left over at once."""
    made = gang_placement.made(60, 3)
    free = made.replace(
        jobs=tuple(job.replace(placement=alloc.PlacementRules()) for job in made.jobs)
    )
    result = alloc.solve(
        free, "placement", objective=gang_placement.GOAL, limits=alloc.Limits(seconds=60.0)
    )
    assert result.certificate.bound is not None
    assert result.certificate.bound > 0
    assert result.certificate.gap is not None
    assert result.certificate.gap <= 0.05


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_loses_no_gang(seed: int) -> None:
    """Along a plan of the hosts as many GPUs are placed as before, and no rule is broken."""
    instance = gang_placement.made(48, seed)
    problem = Problem(PlacementData.of(instance))
    gangs = Gangs(problem, problem.data.initial)
    put_down_by(gangs, waiting_jobs(problem, gangs, by_size=True), ("best_fit", "fullest"))
    before = problem.data.allocation(gangs.counts())
    placed = objective("gpus_placed").evaluate(instance, before)
    counts = planned_again(problem, gangs.counts(), (Held(GPUS, placed),), 60.0)
    assert counts is not None
    after = problem.data.allocation(counts)
    assert not alloc.verify(instance, after)
    assert objective("gpus_placed").evaluate(instance, after) >= placed
    assert objective("fragmentation").evaluate(instance, after) <= (
        objective("fragmentation").evaluate(instance, before) + 1e-9
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_solve_is_never_worse_than_the_rules_of_schedulers(seed: int) -> None:
    """First fit, best fit and FGD place no more GPUs, nor lose fewer of the rest."""
    instance = gang_placement.made(32, seed)
    result = alloc.solve(
        instance, "placement", objective=gang_placement.GOAL, limits=alloc.Limits(seconds=60.0)
    )
    ours = gang_placement.value(instance, result.require_solution())
    for rule in gang_placement.RULES.values():
        theirs = gang_placement.by_rule(instance, rule)
        assert not alloc.verify(instance, theirs)
        assert ours <= gang_placement.value(instance, theirs)
