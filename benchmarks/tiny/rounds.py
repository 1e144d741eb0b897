"""F1: every choice of configurations whose gangs stand together on the hosts."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np

from alloc.objectives import round_utility
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.result import Limits
from alloc.solving import solve as solve_instance
from alloc.units import MILLI
from alloc.verification import verify
from alloc.workload import Job
from benchmarks.tiny.cluster import (
    NAMED,
    accepted,
    packs,
    random_gang,
    random_topology,
    with_named_resources,
)
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

Problem = tuple[Instance, str]


def make(rng: Random, scaled: bool, large: bool) -> Problem:
    """Return a round of up to four jobs, and an objective."""
    while True:
        cpu = rng.random() < 0.6
        topology = random_topology(rng, 6 if large else rng.choice((1, 1, 2, 3)), cpu=cpu)
        weight = rng.choice(SCALES) if scaled else 1.0
        rate = rng.choice(SCALES) if scaled else 1.0
        slot_s = rng.choice((0.1, 60.0, 3600.0)) if scaled else 10.0
        tables = [
            tuple(
                random_gang(rng, rate * rng.randint(1, 40) / 4, cpu=cpu)
                for _ in range(rng.randint(1, 3))
            )
            for _ in range(rng.randint(1, 3))
        ]
        jobs = [
            Job(
                f"j{j}",
                0.0,
                rate * slot_s * rng.choice((2.0, 7.0, 30.0, 1000.0)),
                rng.choice(tables),
                weight=weight * rng.choice((1.0, 1.0, 0.7, 3.0)),
                tenant=rng.choice((None, "red")),
            )
            for j in range(rng.randint(6, 30) if large else rng.randint(1, 4))
        ]
        quota = MILLI * rng.randint(0, topology.num_gpus)
        tenants = (Tenant("red", quota),) if rng.random() < 0.3 else ()
        instance = accepted(topology, jobs, slot_s=slot_s, tenants=tenants)
        if instance is not None:
            objective = rng.choice(("progress", "remaining_time", "goodput"))
            named = rng.random() < NAMED
            return with_named_resources(rng, instance) if named else instance, objective


def truth(problem: Problem) -> Truth:
    """Try every configuration, or none, of every job."""
    instance, objective = problem
    measure = round_utility(objective)
    assert instance.slot_s is not None
    quota = {tenant.name: tenant.gpu_quota_milli for tenant in instance.tenants}
    options: list[list[Any]] = []
    for job in instance.jobs:
        rates = np.array([c.rate for c in job.configurations])
        values = measure.of_rates(job, rates, instance.slot_s).tolist()
        options.append([(0.0, None, 0), *zip(values, job.configurations, itertools.repeat(1))])
    choices = sorted(
        itertools.product(*options), key=lambda choice: -sum(value for value, _, _ in choice)
    )
    for choice in choices:
        gangs = [c for _, c, runs in choice if runs]
        held: dict[str | None, int] = {}
        for job, (_, c, runs) in zip(instance.jobs, choice, strict=True):
            if runs:
                held[job.tenant] = held.get(job.tenant, 0) + c.demand[0]
        within = all(held.get(name, 0) <= most for name, most in quota.items())
        if within and packs(instance.topology, gangs):
            return Truth((sum(value for value, _, _ in choice),), ("max",))
    raise AssertionError("running nothing is feasible")


def solve(problem: Problem, way: str, seconds: float) -> Answer:
    """Solve the round with a backend."""
    instance, objective = problem
    result = solve_instance(
        instance, "round", way, objective=objective, limits=Limits(seconds=seconds)
    )
    broken = [] if result.solution is None else verify(instance, result.solution)
    return of_result(result, broken)


ROUND = Family("round", make, ("auto", "highs", "pyomo", "cpsat"), truth, solve)
