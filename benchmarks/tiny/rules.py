"""F4 with every rule: levels, slices, spreads, affinities, cohorts, GPU memory, pins and budgets.

The enumeration knows nothing but the checker and the objectives: it tries every way to put tasks on
hosts and lets the checker judge each.
"""

from __future__ import annotations

from random import Random

from placement_brute_force import optimum, size

from alloc.errors import InstanceError
from alloc.objectives import parse_goal
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Assignment
from alloc.topology import Domain, GpuLink, Host, HostType, NetworkLink, Topology
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup
from benchmarks.tiny.family import SCALES, Family, Truth
from benchmarks.tiny.placement import Problem, solve

GOALS = (
    "gpus_placed",
    "weight_placed",
    "moves",
    "gpus_placed + 0.3 weight_placed",
    "balance + 0.05 moves",
    "hosts_used + 0.25 gpus_placed",
    "gpus_placed then domains_spanned then moves",
    "gpus_placed then balance",
    "weight_placed then hosts_used",
)
_MOST = 300
"""Allocations to try: each takes the checker a tenth of a millisecond."""


def _topology(rng: Random, hosts: int) -> Topology:
    wires = tuple(GpuLink(f"gpu{g}", "nvswitch0", "nvswitch", 300.0) for g in range(2))
    kinds = (
        HostType("two", 2, "a100", 4000, 4096, wires if rng.random() < 0.5 else ()),
        HostType("three", 3, rng.choice(("a100", "h100")), 3000, 2048),
        HostType("cpu", 0, None, 4000, 1024),
    )
    racks = (Domain("r0", "rack", rng.choice((None, "p0"))), Domain("r1", "rack", "p0"))
    made = tuple(
        Host(
            f"h{h}",
            rng.choice(("two", "two", "three", "cpu")) if h else "two",
            rng.choice(("r0", "r1", "r1", "p0", None)),
        )
        for h in range(hosts)
    )
    links = tuple(NetworkLink(h.id, h.domain or "core", rng.choice((10.0, 25.0))) for h in made)
    links += tuple(NetworkLink(d, "core", 20.0) for d in ("r0", "r1", "p0"))
    return Topology("tiny", kinds, made, ("pod", "rack"), (Domain("p0", "pod"), *racks), links)


def _rules(rng: Random, levels: tuple[str, ...], counts: tuple[int, ...]) -> PlacementRules:
    if rng.random() < 0.4:
        return PlacementRules()
    sliced = sorted(rng.sample(levels, rng.choice((0, 0, 1, 2))), key=levels.index)
    sizes: list[int] = []
    for _ in sliced:
        of = (sizes[-1],) if sizes else counts
        sizes.append(rng.choice([d for d in (1, 2, 3) if all(n % d == 0 for n in of)]))
    return PlacementRules(
        rng.choice((None, None, *levels)),
        rng.choice((None, *levels)),
        tuple(Slice(level, n) for level, n in zip(sliced, sizes, strict=True)),
        tuple(
            Spread(level, rng.randint(1, 4))
            for level in rng.sample(levels, rng.choice((0, 0, 1, 2)))
        ),
    )


def _group(rng: Random, role: str, most: int) -> TaskGroup:
    gpu = MILLI * rng.choice((0, 1, 1, 1, 2))
    return TaskGroup(
        role,
        rng.randint(1, most),
        gpu,
        rng.choice((0, 0, 1000, 1500)),
        rng.choice((0, 0, 1024, 600)),
        rng.choice((0, 0, 0, 60_000)) if gpu else 0,
    )


def make(rng: Random, scaled: bool, large: bool) -> Problem:
    """Return up to three jobs on two or three hosts, with any rule."""
    while True:
        instance = _instance(rng, rng.choice(SCALES) if scaled else 1.0, large)
        if instance is not None and (large or size(instance) <= _MOST):
            return instance, rng.choice(GOALS)


def _instance(rng: Random, weight: float, large: bool) -> Instance | None:
    topology = _topology(rng, rng.randint(3, 6) if large else rng.randint(2, 3))
    levels = (*topology.levels, HOST)
    jobs: list[Job] = []
    for j in range(rng.randint(4, 10) if large else rng.randint(1, 3)):
        if jobs and rng.random() < 0.3:
            jobs.append(jobs[-1].replace(id=f"j{j}"))
            continue
        ways = tuple(
            Configuration(
                (_group(rng, "w", 3), *([_group(rng, "ps", 1)] if rng.random() < 0.25 else [])),
                1.0,
                rng.choice((None, None, None, "a100")),
                rng.choice((None, None, None, *levels)),
            )
            for _ in range(rng.choice((1, 1, 2)))
        )
        counts = tuple(group.count for way in ways for group in way.ruled_groups)
        jobs.append(
            Job(
                f"j{j}",
                0.0,
                1.0,
                ways,
                weight=weight * rng.choice((1.0, 1.0, 2.5)),
                tenant=rng.choice((None, "red", "blue")),
                elasticity=rng.choice(("moldable", "malleable")),
                preemptible=rng.random() < 0.5,
                placement=_rules(rng, levels, counts),
            )
        )
    pool, running = HostPool(topology), []
    for job in jobs:
        if rng.random() < 0.5:
            c = rng.randrange(len(job.configurations))
            tasks = pool.place(job.configurations[c], rng.choice(("best_fit", "least_loaded")))
            if tasks is not None:
                running.append(Assignment(job.id, c, tasks))
    affinities: tuple[Affinity, ...] = ()
    if len(jobs) > 1 and rng.random() < 0.4:
        ids = tuple(job.id for job in jobs[: rng.randint(2, len(jobs))])
        affinities = (Affinity(rng.choice(("together", "apart")), rng.choice(levels), ids),)
    tenants: tuple[Tenant, ...] = ()
    if rng.random() < 0.5:
        cohort = rng.choice((None, "ml"))
        tenants = tuple(
            Tenant(
                name,
                MILLI * rng.randint(0, min(topology.num_gpus, 3)),
                cohort,
                MILLI * rng.randint(0, 2) if cohort else 0,
            )
            for name in ("red", "blue")
        )
    moves = Moves(rng.choice((None, 0, 1, 2)), rng.random() < 0.5) if rng.random() < 0.6 else None
    try:
        return Instance(
            "tiny",
            topology,
            tuple(jobs),
            running=tuple(running),
            affinities=affinities,
            tenants=tenants,
            moves=moves,
        )
    except InstanceError:
        return None  # a job that stands nowhere


def truth(problem: Problem) -> Truth:
    """Let the checker look at every allocation."""
    instance, goal = problem
    senses = tuple(level.sense for level in parse_goal(goal).levels)
    return Truth(optimum(instance, goal), senses, 0.0 if "weight" in goal else 1.0)


RULES = Family("rules", make, ("auto", "highs", "pyomo", "cpsat"), truth, solve)
