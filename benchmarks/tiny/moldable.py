"""F3: the best completions over every order of the jobs, and every way and place to run each.

Jobs are put one by one, each as early as those before it leave room: of every objective that never
gains by a later completion, some order has an optimum. So of all orders those completions are kept
that no others beat for every job; every goal is then read off them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random

from alloc.problems.allocation.instance import Instance, Tenant
from alloc.result import Limits
from alloc.solving import solve as solve_instance
from alloc.units import MILLI
from alloc.verification.moldable import verify_moldable
from alloc.workload import Configuration, Elasticity, Job
from benchmarks.tiny.cluster import (
    NAMED,
    accepted,
    random_gang,
    random_topology,
    with_named_resources,
)
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

Problem = tuple[Instance, str]
Ends = tuple[float, ...]
"""Completion of each job, seconds."""
Held = tuple[float, float, tuple[tuple[object, int], ...]]
"""Start, end, and what a run takes of what."""
Mode = tuple[float, float, tuple[tuple[object, int], ...]]
"""Seconds to the completion and to the end of the run, and what it takes of what."""

GOALS = (
    *("makespan",) * 5,
    *("weighted_jct",) * 5,
    "mean_jct",
    *("tardiness",) * 2,
    "max_slowdown",
    "mean_jct + 0.5 makespan",
    "makespan then weighted_jct",
    "weighted_jct then makespan",
    "tardiness then makespan",
)
_MAX_ORDERS = 15_000
"""Orders times ways and places of all jobs: some tenths of a second to list."""
_TIED = 1e-9
"""Relative difference of values that counts as none between levels."""


def make(rng: Random, scaled: bool, large: bool) -> Problem:
    """Return an instance and a goal; where tardiness counts, most jobs have a due date."""
    while True:
        instance = _instance(rng, scaled, large)
        if instance is not None:
            break
    goal = rng.choice(GOALS)
    if "+" in goal:
        jobs = tuple(job.replace(weight=min(job.weight, 1e6)) for job in instance.jobs)
        instance = instance.replace(jobs=jobs)
    if "tardiness" in goal:
        jobs = tuple(
            job.replace(due_date_s=job.arrival_s + job.min_run_s * rng.choice((0.5, 1.0, 1.5, 3.0)))
            if j == 0 or rng.random() < 0.7
            else job
            for j, job in enumerate(instance.jobs)
        )
        instance = instance.replace(jobs=jobs)
    return instance, goal


def _instance(rng: Random, scaled: bool, large: bool) -> Instance | None:
    cpu = rng.random() < 0.3
    topology = random_topology(rng, 4 if large else rng.choice((1, 2, 2, 3)), cpu=cpu)
    weight = rng.choice(SCALES) if scaled else 1.0
    rate = rng.choice(SCALES) if scaled else 1.0
    unit_s = rng.choice((1e-3, 1.0, 1e6)) if scaled else rng.choice((1.0, 60.0))
    slot_s = unit_s * rng.choice((1.0, 2.5)) if unit_s >= 1.0 and rng.random() < 0.4 else None
    number = rng.randint(5, 12) if large else rng.choice((1, 2, 3, 3, 4, 5, 6))
    tables = [
        tuple(
            random_gang(rng, rate * rng.randint(2, 9) / 4, shares=False, cpu=cpu)
            for _ in range(rng.randint(1, 3 if number < 4 else 2))
        )
        for _ in range(rng.randint(1, 2))
    ]
    bare = rng.random() < 0.5
    jobs = []
    for j in range(number):
        table = rng.choice(tables)
        kinds: tuple[Elasticity, ...] = ("moldable", "malleable") if len(table) > 1 else ("rigid",)
        arrival = 0.0 if bare else unit_s * rng.choice((0.0, 0.0, 1.0, 1.3, 4.0))
        done = not bare and rng.random() < 0.2
        work = rate * unit_s * rng.randint(1, 30) / rng.choice((1, 4, 7))
        late = not bare and rng.random() < 0.15
        jobs.append(
            Job(
                f"j{j}",
                arrival,
                work,
                table,
                weight=weight * rng.choice((1.0, 1.0, 0.5, 3.0)),
                deadline_s=arrival + unit_s * rng.randint(3, 40) if late else None,
                elasticity=rng.choice(kinds),
                preemptible=rng.random() < 0.3,
                restart_cost_s=unit_s * rng.choice((0.0, 0.7)) if done else 0.0,
                work_done=work * 0.25 if done else 0.0,
            )
        )
    tenants: tuple[Tenant, ...] = ()
    if topology.num_gpus and rng.random() < 0.2:
        tenants = (Tenant("red", MILLI * rng.randint(1, topology.num_gpus)),)
        jobs = [job.replace(tenant=rng.choice((None, "red"))) for job in jobs]
    horizon = unit_s * rng.randint(10, 60) if rng.random() < 0.1 else None
    instance = accepted(topology, jobs, slot_s=slot_s, tenants=tenants, horizon_s=horizon)
    if instance is not None and rng.random() < NAMED:
        instance = with_named_resources(rng, instance)
    if instance is None or large:
        return instance
    orders = math.factorial(len(instance.jobs))
    orders *= math.prod(max(len(_modes(instance, job)), 1) for job in instance.jobs)
    return instance if orders <= _MAX_ORDERS else None


def _modes(instance: Instance, job: Job) -> list[Mode]:
    """Return the ways and places in which a job can run on the empty cluster."""
    found = set()
    slot_s = instance.slot_s
    for way in job.configurations:
        if way.rate <= 0:
            continue
        run_s = job.work_left / way.rate + (job.restart_cost_s if job.work_done > 0 else 0.0)
        hold_s = run_s if slot_s is None else max(math.ceil(run_s / slot_s - 1e-9), 1) * slot_s
        for use in _places(instance, way):
            if job.tenant in {tenant.name for tenant in instance.tenants}:
                use = (*use, (job.tenant, way.demand[0]))
            if all(amount <= _capacity(instance, what) for what, amount in use):
                found.add((run_s, hold_s, use))
    return sorted(found, key=repr)


def _places(instance: Instance, way: Configuration) -> Iterator[tuple[tuple[object, int], ...]]:
    """Yield what the tasks of a configuration take of what, for each host of each task."""
    topology = instance.topology
    tasks = [group for group in way.tasks for _ in range(group.count)]
    seen = set()
    for hosts in itertools.product(range(topology.num_hosts), repeat=len(tasks)):
        if any(way.gpu_type not in (None, topology.gpu_types[h]) for h in hosts):
            continue
        if way.within is not None:
            places = {int(topology.domain_of_host[way.within][h]) for h in hosts}
            if len(places) > 1 or places == {-1}:
                continue
        use: dict[object, int] = {}
        for task, h in zip(tasks, hosts, strict=True):
            amounts = {"gpu": task.gpu_milli, "cpu": task.cpu_milli, "memory": task.memory_mib}
            for name, amount in (*amounts.items(), *task.resources.items()):
                what = name if name in topology.resources else (h, name)
                use[what] = use.get(what, 0) + amount
        taken = tuple(sorted(((w, n) for w, n in use.items() if n), key=repr))
        if taken not in seen:
            seen.add(taken)
            yield taken


def _capacity(instance: Instance, what: object) -> int:
    topology = instance.topology
    if isinstance(what, tuple):
        h, name = what
        kind = topology.host_type(topology.hosts[h])
        own = {"gpu": MILLI * kind.num_gpus, "cpu": kind.cpu_milli, "memory": kind.memory_mib}
        return int({**kind.resources, **own}.get(name, 0))
    if what in topology.resources:
        return int(topology.resources[str(what)])
    return next(t.gpu_quota_milli for t in instance.tenants if t.name == what)


def best_ends(instance: Instance) -> list[Ends]:
    """Return all completions that no others beat or equal for every job."""
    jobs, slot_s = instance.jobs, instance.slot_s
    modes = [_modes(instance, job) for job in jobs]
    horizon = math.inf if instance.horizon_s is None else instance.horizon_s
    limit = [min(horizon, math.inf if j.deadline_s is None else j.deadline_s) for j in jobs]
    release = [
        j.arrival_s if slot_s is None else math.ceil(j.arrival_s / slot_s - 1e-9) * slot_s
        for j in jobs
    ]
    found: set[Ends] = set()
    seen: set[frozenset[tuple[int, Held, float]]] = set()

    def fits(
        runs: list[Held], start: float, end: float, use: tuple[tuple[object, int], ...]
    ) -> bool:
        moments = [start, *(a for a, _, _ in runs if start < a < end)]
        for what, amount in use:
            room = _capacity(instance, what) - amount
            for t in moments:
                if sum(dict(u).get(what, 0) for a, b, u in runs if a <= t < b) > room:
                    return False
        return True

    def put(placed: dict[int, Held], ends: dict[int, float]) -> None:
        key = frozenset((j, held, ends[j]) for j, held in placed.items())
        if key in seen:
            return
        seen.add(key)
        if len(placed) == len(jobs):
            found.add(tuple(ends[j] for j in range(len(jobs))))
            return
        runs = list(placed.values())
        for j in range(len(jobs)):
            if j in placed:
                continue
            for run_s, hold_s, use in modes[j]:
                starts = sorted({release[j], *(b for _, b, _ in runs if b > release[j])})
                start = next(s for s in starts if fits(runs, s, s + hold_s, use))
                if start + run_s > limit[j] * (1 + 1e-12):
                    continue
                end = (
                    start + hold_s if slot_s is None else round((start + hold_s) / slot_s) * slot_s
                )
                put({**placed, j: (start, end, use)}, {**ends, j: start + run_s})

    put({}, {})
    kept: list[Ends] = []
    for ends in sorted(found):
        if not any(all(a <= b for a, b in zip(other, ends, strict=True)) for other in kept):
            kept.append(ends)
    return kept


def truth(problem: Problem) -> Truth:
    """Return the best value of each level among the completions that are best in those before."""
    instance, goal = problem
    left = best_ends(instance)
    if not left:
        return Truth(None)
    values = []
    for level in goal.split(" then "):
        each = {ends: _value(instance, level, ends) for ends in left}
        least = min(each.values())
        values.append(least)
        left = [ends for ends, value in each.items() if value <= least * (1 + _TIED)]
    size = max((j.weight * (j.due_date_s or 0.0) for j in instance.jobs), default=0.0)
    return Truth(tuple(values), ("min",) * len(values), 1e-8 * size if "tardiness" in goal else 0.0)


def _value(instance: Instance, level: str, ends: Ends) -> float:
    """Return the value of a level, by plain arithmetic."""
    total = 0.0
    for term in level.split(" + "):
        *factor, name = term.split()
        jobs = list(zip(instance.jobs, ends, strict=True))
        if name == "weighted_jct":
            value = sum(job.weight * (end - job.arrival_s) for job, end in jobs)
        elif name == "mean_jct":
            value = sum(end - job.arrival_s for job, end in jobs) / len(jobs)
        elif name == "makespan":
            value = max(ends)
        elif name == "tardiness":
            late = [
                (job.weight, end - job.due_date_s)
                for job, end in jobs
                if job.due_date_s is not None
            ]
            value = sum(weight * over for weight, over in late if over > 1e-12 * max(ends))
        else:
            value = max((end - job.arrival_s) / job.min_run_s for job, end in jobs)
        total += float(factor[0]) * value if factor else value
    return total


def solve(problem: Problem, way: str, seconds: float) -> Answer:
    """Solve with a backend."""
    instance, goal = problem
    if way == "highs" and instance.slot_s is None:
        way = "cpsat"  # the arrays are of slots
    result = solve_instance(
        instance, "moldable", way, objective=goal, limits=Limits(seconds=seconds)
    )
    broken = [] if result.solution is None else verify_moldable(instance, result.solution)
    return of_result(result, broken)


MOLDABLE = Family("moldable", make, ("auto", "pyomo", "cpsat", "highs"), truth, solve)
