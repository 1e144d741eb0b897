"""Random tiny clusters with every rule: levels, slices, spreads, affinities, quotas, all resources.

Some hosts stand outside every domain, some tasks hold no GPU, some running jobs are malleable, and
in some worlds what runs breaks a rule from the start.
"""

from __future__ import annotations

import math
from typing import Literal, cast

import numpy as np

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, Elasticity, Job, PlacementRules, Slice, Spread, TaskGroup
from benchmarks.gang_oracle import Oracle, Standing

_MAX_PLACEMENTS = 150_000
"""Combinations of placements up to which a world is small enough to enumerate."""


def random_world(seed: int) -> Instance:
    """Return the world of a seed: two to four hosts, running jobs, and one or two that wait."""
    rng = np.random.default_rng(seed)
    while True:
        try:
            world = _draw(rng, seed)
        except InstanceError:
            continue  # a job that fits no empty cluster, or a quota above all GPUs: draw again
        if world is not None and _size(world) <= _MAX_PLACEMENTS:
            return world


def _size(world: Instance) -> int:
    oracle = Oracle(world)
    return math.prod(
        1 + sum(len(oracle.placements(job, c)) for c in range(len(job.configurations)))
        for job in world.jobs
    )


def _draw(rng: np.random.Generator, seed: int) -> Instance | None:
    topology = _cluster(rng)
    levels = (*topology.levels, "host")
    names = ["t0", "t1"] if rng.random() < 0.4 else []
    jobs = [_job(rng, f"j{k}", levels, names) for k in range(int(rng.integers(2, 5)))]
    waiting = 1 if len(jobs) == 2 or rng.random() < 0.7 else 2
    cohort = "all" if rng.random() < 0.4 else None
    tenants = tuple(
        Tenant(
            name,
            1000 * int(rng.integers(0, 5)),
            cohort,
            1000 * int(rng.integers(0, 3)) if cohort else 0,
        )
        for name in names
    )
    affinities = tuple(
        _affinity(rng, [job.id for job in jobs], levels)
        for _ in range(int(rng.choice(3, p=[0.5, 0.35, 0.15])))
    )
    budget = [0, 0, 1, 2, None][int(rng.integers(5))]
    bare = Instance(f"world {seed}", topology, tuple(jobs), tenants=tenants, affinities=affinities)
    running = _running(rng, bare, len(jobs) - waiting)
    if running is None:
        return None
    return bare.replace(running=running, moves=Moves(budget))


def _cluster(rng: np.random.Generator) -> Topology:
    kinds = (
        HostType("large", int(rng.integers(2, 5)), "H100", 6000, 12),
        HostType("small", 2, "A100", 4000, 8),
        HostType("plain", 0, None, 6000, 12),
    )
    levels = [("pod", "rack"), ("rack",), ()][int(rng.choice(3, p=[0.45, 0.45, 0.1]))]
    domains: list[Domain] = []
    if "pod" in levels:
        domains += [Domain(f"p{k}", "pod") for k in range(2)]
    if "rack" in levels:
        for k in range(2):
            inside = "pod" in levels and rng.random() < 0.85
            domains.append(Domain(f"r{k}", "rack", f"p{k}" if inside else None))
    hosts = []
    for h in range(int(rng.integers(2, 5))):
        kind = kinds[int(rng.choice(3, p=[0.7, 0.2, 0.1]))]
        where: str | None = None
        if levels and rng.random() < 0.85:
            level = levels[-1] if rng.random() < 0.9 else levels[0]
            able = [domain.id for domain in domains if domain.level == level]
            where = able[int(rng.integers(len(able)))]
        hosts.append(Host(f"h{h}", kind.name, where))
    return Topology("tiny", kinds, tuple(hosts), levels, tuple(domains))


def _group(rng: np.random.Generator, role: str, count: int) -> TaskGroup:
    gpus = int(rng.choice([0, 1, 2, 3], p=[0.2, 0.55, 0.2, 0.05]))
    cpu = 0 if gpus and rng.random() < 0.5 else 1000 * int(rng.integers(1, 5))
    memory = int(rng.integers(1, 8)) if rng.random() < 0.4 else 0
    return TaskGroup(role, count, 1000 * gpus, cpu, memory)


def _job(rng: np.random.Generator, name: str, levels: tuple[str, ...], tenants: list[str]) -> Job:
    counts = [int(rng.integers(1, 5))]
    if rng.random() < 0.3:
        counts.append(int(rng.integers(1, 5)))
    first = _group(rng, "w", counts[0])
    second = _group(rng, "p", int(rng.integers(1, 3))) if rng.random() < 0.2 else None
    gpu_type = None if rng.random() < 0.85 else ["H100", "A100"][int(rng.integers(2))]
    within = levels[int(rng.integers(len(levels)))] if rng.random() < 0.1 else None
    ways = []
    for k, count in enumerate(counts):
        main = TaskGroup("w", count, first.gpu_milli, first.cpu_milli, first.memory_mib)
        groups = (main,) if second is None else (main, second)
        ways.append(Configuration(groups, float(count + k), gpu_type, within))
    elastic = "malleable" if rng.random() < 0.6 else "moldable"
    every = [group.count for way in ways for group in way.ruled_groups]
    return Job(
        name,
        0.0,
        60.0,
        tuple(ways),
        tenant=tenants[int(rng.integers(2))] if tenants and rng.random() < 0.8 else None,
        elasticity=cast(Elasticity, elastic if len(ways) > 1 else "rigid"),
        preemptible=bool(rng.random() < 0.8),
        placement=_rules(rng, levels, every),
    )


def _rules(rng: np.random.Generator, levels: tuple[str, ...], counts: list[int]) -> PlacementRules:
    def level() -> str:
        return levels[int(rng.integers(len(levels)))]

    slices: tuple[Slice, ...] = ()
    if rng.random() < 0.25:
        # From the outside in, sizes that divide each other and every number of tasks.
        sizes = [n for n in (4, 2, 1) if all(count % n == 0 for count in counts)]
        chosen = sorted({int(s) for s in rng.choice(sizes, size=2)}, reverse=True)
        at = sorted(rng.choice(len(levels), size=min(len(chosen), len(levels)), replace=False))
        slices = tuple(Slice(levels[int(k)], size) for k, size in zip(at, chosen, strict=False))
    spread: tuple[Spread, ...] = ()
    if rng.random() < 0.25:
        chosen_levels = dict.fromkeys(level() for _ in range(int(rng.integers(1, 3))))
        spread = tuple(Spread(own, int(rng.integers(1, 4))) for own in chosen_levels)
    return PlacementRules(
        required=level() if rng.random() < 0.4 else None,
        preferred=level() if rng.random() < 0.15 else None,
        slices=slices,
        spread=spread,
    )


def _affinity(rng: np.random.Generator, names: list[str], levels: tuple[str, ...]) -> Affinity:
    kind: Literal["together", "apart"] = "together" if rng.random() < 0.5 else "apart"
    size = int(rng.integers(2, len(names) + 1))
    jobs = tuple(str(name) for name in rng.choice(names, size=size, replace=False))
    return Affinity(kind, levels[int(rng.integers(len(levels)))], jobs)


def _running(
    rng: np.random.Generator, bare: Instance, number: int
) -> tuple[Assignment, ...] | None:
    """Put the first jobs on hosts within capacity; in one world of five they may break rules."""
    rough = rng.random() < 0.2
    oracle = Oracle(bare)
    chosen: dict[str, Standing] = {}
    for job in bare.jobs[:number]:
        ways = [
            standing
            for c in range(len(job.configurations))
            for standing in (
                Oracle(_without_rules(bare, job)).placements(_freed(job), c)
                if rough
                else oracle.placements(job, c)
            )
        ]
        for k in rng.permutation(len(ways))[:30]:
            trial = {**chosen, job.id: ways[int(k)]}
            wrong = oracle.broken(trial)
            if not any(key[0] == "host" for key in wrong) and (rough or not wrong):
                chosen = trial
                break
        else:
            return None
    hosts = bare.topology.hosts
    return tuple(
        Assignment(
            name, c, tuple(TaskPlacement(hosts[h].id, role, n) for (role, h), n in tasks.items())
        )
        for name, (c, tasks) in chosen.items()
    )


def _freed(job: Job) -> Job:
    return job.replace(placement=PlacementRules())


def _without_rules(bare: Instance, job: Job) -> Instance:
    return bare.replace(jobs=tuple(_freed(j) if j.id == job.id else j for j in bare.jobs))
