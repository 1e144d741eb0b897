"""F2: the best completions over every choice in every slot, by dynamic programming.

Its states are the work left of each job and what its rules remember; what may run in one slot is
what stands on the hosts together. No objective gains by a later completion, so of each state those
completions are kept that no others beat for every job; every goal is then read off them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache
from random import Random

from alloc.objectives import objective as objective_of
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Assignment, Schedule
from alloc.result import Limits
from alloc.solving import solve as solve_instance
from alloc.units import MILLI
from alloc.verification import verify
from alloc.workload import Elasticity, Job
from benchmarks.tiny.cluster import (
    NAMED,
    accepted,
    packs,
    random_gang,
    random_topology,
    what_fits,
    with_named_resources,
)
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

State = tuple[float, bool, int | None, int | None]
"""Work left, whether it has started, its configuration in the last slot, the one it must keep."""
Ends = tuple[float, ...]
"""Completion of each job, seconds; 0 for those that completed before."""
Problem = tuple[Instance, str]

GOALS = (
    *("weighted_jct",) * 6,
    "mean_jct",
    "makespan",
    "tardiness",
    "max_slowdown",
    "mean_jct + 0.5 makespan",
    "tardiness + 0.1 mean_jct",
    "weighted_jct + 3 max_slowdown",
    "makespan then mean_jct",
    "makespan then tardiness",
    "mean_jct then makespan",
    "weighted_jct then max_slowdown",
    "max_slowdown then makespan",
    "tardiness then makespan",
    "tardiness then max_slowdown then mean_jct",
    "makespan + mean_jct then tardiness",
)
"""Goals: weighted JCT most often, every objective by itself, in sums, and at every level."""
_WEIGHT_IN_SUMS = 1e6
"""Largest weight beside terms without weights: a general solver drops what is a billionth of a sum
(1e-7 of the largest cost after scaling)."""
_TIED = 1e-9
"""Relative difference of values that counts as none between levels."""


def make(rng: Random, scaled: bool, large: bool) -> Problem:
    """Return an instance and a goal; where tardiness counts, most jobs have a due date."""
    instance = make_instance(rng, scaled, large)
    goal, slot_s = rng.choice(GOALS), instance.slot_s
    assert slot_s is not None
    if "+" in goal:
        jobs = tuple(job.replace(weight=min(job.weight, _WEIGHT_IN_SUMS)) for job in instance.jobs)
        instance = instance.replace(jobs=jobs)
    if "tardiness" in goal:
        dated = {0} | {j for j in range(1, len(instance.jobs)) if rng.random() < 0.8}
        jobs = tuple(
            job.replace(due_date_s=job.arrival_s + slot_s * rng.randint(0, 16) / 4)
            if j in dated
            else job
            for j, job in enumerate(instance.jobs)
        )
        instance = instance.replace(jobs=jobs)
    return instance, goal


def make_instance(rng: Random, scaled: bool, large: bool) -> Instance:
    """Return up to three jobs of a few slots each; with restart costs on a single host."""
    while True:
        pays = rng.random() < 0.25
        cpu = rng.random() < 0.5
        most = 1 if pays else rng.choice((1, 2, 3))
        topology = random_topology(rng, 5 if large else most, cpu=cpu)
        if pays and topology.num_hosts > 1:
            pays = False
        weight = rng.choice(SCALES) if scaled else 1.0
        rate = rng.choice(SCALES) if scaled else 1.0
        slot_s = rng.choice((0.1, 60.0, 3600.0)) if scaled else rng.choice((10.0, 20.0))
        number = rng.randint(5, 12) if large else rng.choice((1, 2, 2, 3))
        tables = [
            tuple(
                random_gang(rng, rate * rng.randint(2, 9) / 4, shares=not pays, cpu=cpu)
                for _ in range(rng.randint(1, 3 if number < 3 else 2))
            )
            for _ in range(rng.randint(1, 2))
        ]
        bare = rng.random() < 0.5
        jobs = []
        for j in range(number):
            table = rng.choice(tables)
            kinds: tuple[Elasticity, ...] = (
                ("malleable", "moldable") if len(table) > 1 else ("malleable", "rigid")
            )
            arrival = 0.0 if bare else slot_s * rng.choice((0.0, 0.0, 1.0, 1.3, 2.0))
            late = not bare and rng.random() < 0.2
            jobs.append(
                Job(
                    f"j{j}",
                    arrival,
                    rate * slot_s * rng.randint(1, 40 if large else 10) / 4,
                    table,
                    weight=weight * rng.choice((1.0, 1.0, 0.5, 3.0)),
                    deadline_s=arrival + slot_s * rng.randint(3, 16) / 2 if late else None,
                    elasticity="malleable" if bare else rng.choice(kinds),
                    preemptible=bare or rng.random() < 0.6,
                    restart_cost_s=slot_s * rng.choice((0.0, 0.2, 0.5)) if pays else 0.0,
                )
            )
        quota = MILLI * rng.randint(1, max(topology.num_gpus, 1))
        tenants: tuple[Tenant, ...] = ()
        if topology.num_gpus and rng.random() < 0.2:
            tenants = (Tenant("red", min(quota, MILLI * topology.num_gpus)),)
            jobs = [job.replace(tenant=rng.choice((None, "red"))) for job in jobs]
        horizon = slot_s * rng.randint(4, 12) if rng.random() < 0.1 else None
        instance = accepted(topology, jobs, slot_s=slot_s, tenants=tenants, horizon_s=horizon)
        if instance is None:
            continue
        if pays and rng.random() < 0.5:
            instance = _with_running(rng, instance)
        return with_named_resources(rng, instance) if rng.random() < NAMED else instance


def _with_running(rng: Random, instance: Instance) -> Instance:
    """Let a job that arrives first run before the start, its hosts not said."""
    able = [
        (job, c)
        for job in instance.jobs
        if job.arrival_s == 0
        for c, way in enumerate(job.configurations)
        if way.rate > 0 and packs(instance.topology, [way])
    ]
    if not able:
        return instance
    job, c = rng.choice(able)
    return instance.replace(running=(Assignment(job.id, c, ()),))


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
        values.append(_without_rounding(instance, level, least))
        left = [ends for ends, value in each.items() if value <= least * (1 + _TIED)]
    return Truth(tuple(values), ("min",) * len(values))


def _value(instance: Instance, level: str, ends: Ends) -> float:
    """Return the value of a level, by plain arithmetic."""
    jobs = list(zip(instance.jobs, ends, strict=True))
    total = 0.0
    for term in level.split(" + "):
        *factor, name = term.split()
        times = [end - job.arrival_s for job, end in jobs]
        if name == "weighted_jct":
            value = sum(job.weight * time for (job, _), time in zip(jobs, times, strict=True))
        elif name == "mean_jct":
            value = sum(times) / len(times)
        elif name == "makespan":
            value = max(ends)
        elif name == "tardiness":
            late = [(j.weight, end - j.due_date_s) for j, end in jobs if j.due_date_s is not None]
            # What rounding leaves of a difference of moments is no tardiness.
            value = sum(weight * over for weight, over in late if over > 1e-12 * max(ends))
        else:
            value = max(t / job.min_run_s for (job, _), t in zip(jobs, times, strict=True))
        total += float(factor[0]) * value if factor else value
    return total


def best_ends(instance: Instance) -> list[Ends]:
    """Return all completions that no others beat or equal for every job."""
    slot_s = instance.slot_s
    assert slot_s is not None
    jobs = instance.jobs
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
    fits, able = what_fits(instance)

    def moves(j: int, state: State | None, t: int) -> list[tuple[int | None, State | None, float]]:
        """Return what a job may do in slot t: configuration, state after it, its completion."""
        if state is None or t < release[j]:
            return [(None, state, 0.0)]
        left, started, last, only = state
        job = jobs[j]
        found: list[tuple[int | None, State | None, float]] = []
        if job.preemptible or not started or (last is None and job.work_done > 0):
            found.append((None, (left, started, None, only), 0.0))
        for c in able[j]:
            if only is not None and c != only:
                continue
            # It ran on hosts that are not said, so that none are the same.
            fresh = last != c or t == 0
            pause = job.restart_cost_s if started and fresh else 0.0
            rate = job.configurations[c].rate
            done = rate * (slot_s - pause)
            if done >= left - 1e-9 * job.work:
                at = t * slot_s + pause + left / rate
                if at <= limit[j] + 1e-6 * min(slot_s, 1.0):
                    found.append((c, None, at))
                continue
            # What the rules do not ask about is forgotten, so that states meet.
            after = round((left - done) / job.work, 12) * job.work
            remembers = job.restart_cost_s > 0 or not job.preemptible
            keeps = c if job.elasticity != "malleable" else None
            found.append((c, (after, remembers, c if remembers else None, keeps), 0.0))
        return found

    @cache
    def least(t: int, states: tuple[State | None, ...]) -> list[Ends]:
        if all(state is None for state in states):
            return [(0.0,) * len(states)]
        if t == end:
            return []
        found: set[Ends] = set()
        each = [moves(j, state, t) for j, state in enumerate(states)]
        for choice in itertools.product(*each):
            if fits(tuple(c for c, _, _ in choice)):
                done = [at for _, _, at in choice]
                for ends in least(t + 1, tuple(state for _, state, _ in choice)):
                    found.add(tuple(max(a, b) for a, b in zip(done, ends, strict=True)))
        return _unbeaten(found)

    before = {a.job: a.configuration for a in instance.running}
    return least(0, tuple(_first_state(job, before.get(job.id)) for job in jobs))


def _unbeaten(found: set[Ends]) -> list[Ends]:
    """Return the completions that no others beat or equal for every job."""
    kept: list[Ends] = []
    for ends in sorted(found):
        if not any(all(a <= b for a, b in zip(other, ends, strict=True)) for other in kept):
            kept.append(ends)
    return kept


def _first_state(job: Job, held: int | None) -> State:
    keeps = held if job.elasticity != "malleable" else None
    return (job.work_left, held is not None or job.work_done > 0, held, keeps)


def solve(problem: Problem, way: str, seconds: float) -> Answer:
    """Solve over time with a backend."""
    instance, goal = problem
    limits = Limits(seconds=seconds)
    result = solve_instance(instance, "malleable", way, objective=goal, limits=limits)
    broken = [] if result.solution is None else verify(instance, result.solution)
    answer = of_result(result, broken)
    if result.solution is None:
        return answer
    levels = [c.objective_name for c in result.stages or (result.certificate,)]
    values = tuple(
        None if value is None else _without_rounding(instance, level, value)
        for level, value in zip(levels, answer.values, strict=True)
    )
    bounds = tuple(
        _without_rounding(instance, level, bound)
        for level, bound in zip(levels, answer.bounds, strict=True)
    )
    return replace(answer, values=values, bounds=bounds)


def _without_rounding(instance: Instance, level: str, value: float) -> float:
    """Return a value, 0 for what rounding leaves of a tardiness of 0."""
    least = objective_of(level).rounding(instance, Schedule(()))
    return 0.0 if 0 < value <= least else value


MALLEABLE = Family("malleable", make, ("auto", "highs", "pyomo", "cpsat"), truth, solve)
