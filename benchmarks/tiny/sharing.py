"""F5: shares, MIG slices and whole GPUs against every GPU for every task, and co-location."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
from sharing_oracle import brute_force

from alloc.errors import InstanceError
from alloc.families import FAMILIES
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.problems.colocation import ColocationProblem
from alloc.result import Limits
from alloc.solving import solve as solve_instance
from alloc.topology import Host, HostType, Topology
from alloc.topology.mig import mig_profiles
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup
from alloc.workload.interference import InterferenceTable
from benchmarks.tiny.cluster import NAMED, asking_for_names
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

KINDS = (
    HostType("two", 2, "a100", 8000, 8192),
    HostType("one", 1, "a100", 4000, 4096),
    HostType("old", 1, "t4", 8000, 8192),
    HostType("none", 0, None, 8000, 8192),
)
_PROFILES = ("1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb")
_MAXIMISED = ("weight_placed", "gpus_placed")


def _group(rng: Random) -> TaskGroup:
    kind = rng.randrange(5)
    cpu = rng.choice((0, 1000, 3000))
    if kind < 2:
        return TaskGroup("w", rng.randint(1, 2), cpu_milli=cpu, mig_profile=rng.choice(_PROFILES))
    if kind < 4:
        milli, memory = rng.choice((300, 500, 700, 1000)), rng.choice((0, 9000, 15000))
        return TaskGroup("w", rng.randint(1, 2), milli, cpu, gpu_memory_mib=memory)
    return TaskGroup("w", 1, gpu_milli=2000)


def _configuration(rng: Random) -> Configuration:
    cpu = rng.choice((0, 0, 2000))
    groups = (_group(rng), *([TaskGroup("ps", 1, cpu_milli=cpu)] if cpu else []))
    return Configuration(groups, 1.0, rng.choice((None, None, "a100")))


def make(rng: Random, scaled: bool, large: bool) -> tuple[Instance, str]:
    """Return one to three small hosts and up to three jobs, some of which hold slices already."""
    while True:
        kinds = [rng.choice(KINDS) for _ in range(rng.randint(1, 8 if large else 3))]
        hosts = tuple(Host(f"h{k}", kind.name) for k, kind in enumerate(kinds))
        topology = Topology("tiny", tuple(dict.fromkeys(kinds)), hosts)
        weight = rng.choice(SCALES) if scaled else 1.0
        jobs: list[Job] = []
        for j in range(rng.randint(6, 40) if large else rng.randint(1, 3)):
            ways = tuple(dict.fromkeys(_configuration(rng) for _ in range(rng.randint(1, 2))))
            ways = jobs[0].configurations if jobs and rng.random() < 0.5 else ways
            job = Job(
                f"j{j}",
                0.0,
                1.0,
                ways,
                weight=weight * rng.randint(1, 3),
                tenant=rng.choice((None, "t")),
            )
            try:
                Instance("tiny", topology, (job,))
            except InstanceError:
                continue
            jobs.append(job)
        if not jobs:
            continue
        quota = min(1000, 1000 * topology.num_gpus)
        tenants = (Tenant("t", quota),) if rng.random() < 0.5 else ()
        running = _running(rng, topology, jobs) if rng.random() < 0.5 else ()
        objective = rng.choice(FAMILIES["sharing"].objectives)
        instance = Instance("tiny", topology, tuple(jobs), running=running, tenants=tenants)
        named = rng.random() < NAMED
        return _with_names(rng, instance) if named else instance, objective


def _with_names(rng: Random, instance: Instance) -> Instance:
    """Return the instance with named resources, or as it is where not all jobs could run then."""
    topology, jobs = asking_for_names(rng, instance)
    try:
        return instance.replace(topology=topology, jobs=jobs)
    except InstanceError:
        return instance


def _running(rng: Random, topology: Topology, jobs: list[Job]) -> tuple[Assignment, ...]:
    """Let jobs of one MIG task run at random starts that do not overlap."""
    spots = [
        (h, g)
        for h, host in enumerate(topology.hosts)
        if topology.gpu_types[h] == "a100"
        for g in range(topology.host_type(host).num_gpus)
    ]
    found: list[Assignment] = []
    for job in jobs:
        group = job.configurations[0].tasks[0]
        if not spots or group.mig_profile is None or group.count > 1:
            continue
        if len(job.configurations[0].tasks) > 1:
            continue
        where = rng.choice(spots)
        start = rng.choice(mig_profiles("a100")[group.mig_profile].starts)
        task = TaskPlacement(topology.hosts[where[0]].id, "w", 1, (where[1],), (start,))
        more = (*found, Assignment(job.id, 0, (task,)))
        try:
            Instance("tiny", topology, tuple(jobs), running=more)
        except InstanceError:
            continue
        found.append(more[-1])
    return tuple(found)


def truth(problem: tuple[Instance, str]) -> Truth:
    """Try every GPU for every task."""
    instance, objective = problem
    best = brute_force(instance, objective)
    senses = ("max" if objective in _MAXIMISED else "min",)
    return Truth(None if best is None else (best,), senses)


def solve(problem: tuple[Instance, str], way: str, seconds: float) -> Answer:
    """Solve with a backend."""
    instance, objective = problem
    result = solve_instance(
        instance, "sharing", way, objective=objective, limits=Limits(seconds=seconds)
    )
    broken = [] if result.solution is None else verify(instance, result.solution)
    return of_result(result, broken)


SHARING = Family("sharing", make, ("auto", "highs", "pyomo"), truth, solve)


def make_together(rng: Random, scaled: bool, large: bool) -> ColocationProblem:
    """Return kinds of jobs, weights, GPUs and how many jobs may share one."""
    number = rng.randint(2, 8) if large else rng.randint(1, 4)
    beside = np.array(
        [[rng.choice((0.0, 0.3, 0.5, 0.8, 1.0, 1.1)) for _ in range(number)] for _ in range(number)]
    )
    kinds = tuple("abcdefgh"[:number])
    table = InterferenceTable("gpu", kinds, np.ones(number), beside)
    jobs = [rng.choice(kinds) for _ in range(rng.randint(20, 200) if large else rng.randint(1, 5))]
    weight = rng.choice(SCALES) if scaled else 1.0
    weights = [weight * rng.choice((1.0, 1.0, 2.5)) for _ in jobs]
    num_gpus = rng.randint(5, 50) if large else rng.randint(1, 3)
    return ColocationProblem(jobs, table, num_gpus, rng.randint(1, 3), weights)


def _worth(problem: ColocationProblem, on: list[int]) -> float:
    speeds = problem.table.speeds([problem.kinds[j] for j in on])
    if speeds is None:
        return -np.inf
    return sum(problem.weights[j] * speed for j, speed in zip(on, speeds, strict=True))


def truth_together(problem: ColocationProblem) -> Truth:
    """Try every GPU, or none, for every job."""
    gpus, best = problem.num_gpus, 0.0
    for where in itertools.product(range(gpus + 1), repeat=len(problem.kinds)):
        groups = [[j for j, g in enumerate(where) if g == k] for k in range(gpus)]
        if all(len(group) <= problem.max_per_gpu for group in groups):
            best = max(best, sum(_worth(problem, g) for g in groups if g))
    return Truth((best,), ("max",))


def solve_together(problem: ColocationProblem, way: str, seconds: float) -> Answer:
    """Pack and recompute the value."""
    result = solve_instance(problem, backend=way, limits=Limits(seconds=seconds))
    packing = result.solution
    if packing is None:  # at a short limit
        return of_result(result)
    everyone = sorted([*packing.left_out, *(j for gpu in packing.gpus for j in gpu)])
    value = sum(_worth(problem, list(gpu)) for gpu in packing.gpus)
    jobs = list(range(len(problem.kinds)))
    broken = [] if everyone == jobs else ["a job is nowhere, or twice somewhere"]
    crowded = any(len(gpu) > problem.max_per_gpu for gpu in packing.gpus)
    if len(packing.gpus) > problem.num_gpus or crowded:
        broken.append("more GPUs, or more jobs on one, than there may be")
    claimed = result.certificate.objective or 0.0
    if abs(value - claimed) > 1e-9 * max(abs(value), abs(claimed)):
        broken.append(f"claims {claimed}, is worth {value}")
    return of_result(result, broken)


WAYS = ("auto", "highs", "pyomo")
COLOCATION = Family("colocation", make_together, WAYS, truth_together, solve_together)
