"""F6: whom to accept, by every choice in every slot, as a dynamic program over all sets of jobs.

Its states are the work left of each job and what its rules remember; what may run in one slot is
what stands on the hosts together. Of each set of accepted jobs those pairs of GPU time and
completion time are kept that no others beat; every goal is then read off value and pairs.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from random import Random

from alloc.objectives import is_best_effort
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Assignment
from alloc.result import Limits
from alloc.solving import solve as solve_instance
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI
from alloc.verification import verify
from alloc.workload import Configuration, Elasticity, Job, TaskGroup
from benchmarks.tiny.cluster import accepted, packs, random_gang, random_topology, what_fits
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

State = tuple[float, bool, int | None, int | None] | None
"""Work left, whether it has started, its configuration in the last slot, the one it must keep; None
of a job that is complete or refused."""
Costs = tuple[float, float]
"""GPU time in hours, and weighted completion time of best-effort jobs in seconds."""
Problem = tuple[Instance, str]

GOALS = (
    *("value",) * 4,
    *("value then gpu_time",) * 3,
    *("value then gpu_time then best_effort_jct",) * 2,
    "value then best_effort_jct",
    "gpu_time",
    "best_effort_jct then value",
    "best_effort_jct then gpu_time",
)
_TIED = 1e-9
"""Relative difference of values that counts as none between levels."""


def make(rng: Random, scaled: bool, large: bool) -> Problem:
    """Return up to six jobs of a few slots each, most of which may be refused, and a goal."""
    goal = rng.choice(GOALS)
    while True:
        linear = rng.random() < 0.3
        instance = _linear(rng, scaled, large) if linear else _general(rng, scaled, large)
        if instance is None:
            continue
        if "best_effort_jct" in goal and not any(map(is_best_effort, instance.jobs)):
            jobs = instance.jobs
            free = jobs[0].replace(refusable=False, deadline_s=None)
            instance = instance.replace(jobs=(free, *jobs[1:]))
        return instance, goal


def _linear(rng: Random, scaled: bool, large: bool) -> Instance | None:
    """Return jobs that are twice as fast on twice the GPUs."""
    gpus = rng.randint(1, 4)
    weight = rng.choice(SCALES) if scaled else 1.0
    rate = rng.choice(SCALES) if scaled else 1.0
    slot_s = rng.choice((0.1, 60.0, 3600.0)) if scaled else 10.0
    table = tuple(
        Configuration((TaskGroup("worker", k, MILLI),), rate * k)
        for k in range(1, rng.randint(1, gpus) + 1)
    )
    topology = Topology("tiny", (HostType("k", gpus, "generic"),), (Host("h", "k"),))
    jobs = []
    for j in range(rng.randint(6, 12) if large else rng.randint(2, 6)):
        begin = rng.randint(0, 2)
        jobs.append(
            Job(
                f"j{j}",
                begin * slot_s,
                rate * slot_s * rng.randint(1, 12) / 2,
                table,
                weight=weight * rng.randint(1, 4),
                deadline_s=slot_s * (begin + rng.randint(1, 3)),
                refusable=rng.random() < 0.9,
            )
        )
    return accepted(topology, jobs, slot_s=slot_s)


def _general(rng: Random, scaled: bool, large: bool) -> Instance | None:
    """Return jobs with tables of any shape, some of them promised, rigid or without deadline."""
    pays = rng.random() < 0.2
    cpu = rng.random() < 0.3
    topology = random_topology(rng, 5 if large else 1 if pays else rng.choice((1, 2)), cpu=cpu)
    if pays and topology.num_hosts > 1:
        return None
    weight = rng.choice(SCALES) if scaled else 1.0
    rate = rng.choice(SCALES) if scaled else 1.0
    slot_s = rng.choice((0.1, 60.0, 3600.0)) if scaled else 10.0
    number = rng.randint(5, 12) if large else rng.randint(1, 4)
    table = tuple(
        random_gang(rng, rate * rng.randint(2, 9) / 4, shares=not pays, cpu=cpu)
        for _ in range(rng.randint(1, 3 if number < 4 else 2))
    )
    quota = MILLI * rng.randint(1, max(topology.num_gpus, 1))
    tenants: tuple[Tenant, ...] = ()
    if topology.num_gpus and rng.random() < 0.2:
        tenants = (Tenant("red", min(quota, MILLI * topology.num_gpus)),)
    jobs = []
    for j in range(number):
        arrival = slot_s * rng.choice((0.0, 0.0, 1.0, 1.3))
        due = arrival + slot_s * rng.randint(2, 8) / 2
        refusable = rng.random() < 0.75
        kinds: tuple[Elasticity, ...] = ("malleable", "moldable" if len(table) > 1 else "rigid")
        jobs.append(
            Job(
                f"j{j}",
                arrival,
                rate * slot_s * rng.randint(1, 8) / 4,
                table,
                weight=weight * rng.choice((1.0, 1.0, 0.5, 3.0)),
                deadline_s=due if refusable or rng.random() < 0.5 else None,
                tenant=rng.choice((None, "red")) if tenants else None,
                elasticity=rng.choice((*kinds, "malleable")),
                preemptible=rng.random() < 0.7,
                restart_cost_s=slot_s * rng.choice((0.0, 0.2, 0.5)) if pays else 0.0,
                refusable=refusable,
            )
        )
    horizon = slot_s * rng.randint(4, 8) if rng.random() < 0.1 else None
    made = accepted(topology, jobs, slot_s=slot_s, tenants=tenants, horizon_s=horizon)
    able = [] if made is None else [j for j in made.jobs if not j.refusable and not j.arrival_s]
    if made is None or not able or rng.random() < 0.6:
        return made
    # One of the promised jobs runs before the start, its hosts not said.
    first = rng.choice(able)
    ways = [
        c for c, way in enumerate(first.configurations) if way.rate > 0 and packs(topology, [way])
    ]
    if not ways:
        return made
    return made.replace(running=(Assignment(first.id, rng.choice(ways), ()),))


def truth(problem: Problem) -> Truth:
    """Return the best value of each level among the outcomes that are best in those before."""
    instance, goal = problem
    left = outcomes(instance)
    levels = goal.split(" then ")
    senses = tuple("max" if level == "value" else "min" for level in levels)
    if not left:
        return Truth(None, senses)
    at = {"value": 0, "gpu_time": 1, "best_effort_jct": 2}
    values = []
    for level, sense in zip(levels, senses, strict=True):
        each = [outcome[at[level]] for outcome in left]
        best = max(each) if sense == "max" else min(each)
        values.append(best)
        off = _TIED * abs(best)
        left = [o for o in left if abs(o[at[level]] - best) <= off]
    return Truth(tuple(values), senses)


def outcomes(instance: Instance) -> list[tuple[float, float, float]]:
    """Return value, GPU time and completion time of all answers that no others beat."""
    slot_s, jobs = instance.slot_s, instance.jobs
    assert slot_s is not None
    limit = [
        min(
            math.inf if job.deadline_s is None else job.deadline_s,
            math.inf if instance.horizon_s is None else instance.horizon_s,
        )
        for job in jobs
    ]
    release = [math.ceil(job.arrival_s / slot_s - 1e-9) for job in jobs]
    end = max(release) + sum(
        math.ceil(job.work_left / (job.min_rate * slot_s)) + (job.restart_cost_s > 0)
        for job in jobs
    )
    if all(map(math.isfinite, limit)):
        end = min(end, math.ceil(max(limit) / slot_s))
    fits, able = what_fits(instance)

    @cache
    def moves(j: int, state: State, t: int) -> list[tuple[int | None, State, Costs]]:
        """Return what a job may do in slot t: configuration, state after it, what that costs."""
        if state is None or t < release[j]:
            return [(None, state, (0.0, 0.0))]
        left, started, last, only = state
        job = jobs[j]
        found: list[tuple[int | None, State, Costs]] = []
        hours = slot_s / 3600.0
        if (job.preemptible or not started) and (t + 1) * slot_s < limit[j]:
            found.append((None, (left, started, None, only), (0.0, 0.0)))
        for c in able[j]:
            if only is not None and c != only:
                continue
            # It ran on hosts that are not said, so that none are the same.
            pause = job.restart_cost_s if started and (last != c or t == 0) else 0.0
            rate = job.configurations[c].rate
            gpus = job.configurations[c].demand[0] / MILLI
            held = 0.0 if is_best_effort(job) else gpus * hours
            done = rate * (slot_s - pause)
            if done >= left - 1e-9 * job.work:
                at = t * slot_s + pause + left / rate
                if at <= limit[j] + 1e-6 * min(slot_s, 1.0):
                    late = job.weight * (at - job.arrival_s) if is_best_effort(job) else 0.0
                    found.append((c, None, (held, late)))
                continue
            after = round((left - done) / job.work, 12) * job.work
            remembers = job.restart_cost_s > 0 or not job.preemptible
            keeps = c if job.elasticity != "malleable" else None
            found.append((c, (after, remembers, c if remembers else None, keeps), (held, 0.0)))
        return found

    @cache
    def least(t: int, states: tuple[State, ...]) -> list[Costs]:
        if all(state is None for state in states):
            return [(0.0, 0.0)]
        if t == end:
            return []
        found: set[Costs] = set()
        for choice in itertools.product(*(moves(j, s, t) for j, s in enumerate(states))):
            if fits(tuple(c for c, _, _ in choice)):
                own = (sum(m[2][0] for m in choice), sum(m[2][1] for m in choice))
                for costs in least(t + 1, tuple(state for _, state, _ in choice)):
                    found.add((own[0] + costs[0], own[1] + costs[1]))
        return _unbeaten(found)

    held = {a.job: a.configuration for a in instance.running}
    first: dict[str, State] = {}
    for job in jobs:
        c = held.get(job.id)
        keeps = c if job.elasticity != "malleable" else None
        first[job.id] = (job.work_left, c is not None, c, keeps)
    result = []
    for chosen in itertools.product(*((False, True) if j.refusable else (True,) for j in jobs)):
        states: tuple[State, ...] = tuple(
            first[job.id] if taken else None for job, taken in zip(jobs, chosen, strict=True)
        )
        value = math.fsum(j.weight for j, taken in zip(jobs, chosen, strict=True) if taken)
        result += [(value, *costs) for costs in least(0, states)]
    return result


def _unbeaten(found: set[Costs]) -> list[Costs]:
    """Return the pairs that no others beat or equal in both."""
    kept: list[Costs] = []
    for costs in sorted(found):
        if not kept or costs[1] < kept[-1][1]:
            kept.append(costs)
    return kept


def solve(problem: Problem, way: str, seconds: float) -> Answer:
    """Solve with a backend."""
    instance, goal = problem
    limits = Limits(seconds=seconds)
    result = solve_instance(instance, "admission", way, objective=goal, limits=limits)
    broken = [] if result.solution is None else verify(instance, result.solution)
    return of_result(result, broken)


ADMISSION = Family("admission", make, ("auto", "highs", "pyomo"), truth, solve)
