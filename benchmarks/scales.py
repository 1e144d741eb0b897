"""The same problem in other units: status and relative values must not move, and no claim is false.

Random tiny problems of every formulation and planning family are solved by every backend and
method, then again with weights, work, times, memory or prices times 1e-9 to 1e12, with jobs and
hosts in another order, and with an idle host more. All answers are compared: among ways to solve
the same problem no value may beat another's bound, and between units nothing may change but the
unit. ``python -m benchmarks.scales --seeds 0 200`` takes a range, so that runs add up.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from alloc.backends import BACKENDS, backend
from alloc.certificate import beats
from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.families import FAMILIES, instance_families
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.solving import solve
from alloc.topology import Host, HostType, NetworkLink, Topology
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks.environment import describe_environment
from benchmarks.scales_planning import (
    LIMIT_S,
    Case,
    Claim,
    colocation,
    inference,
    operation,
    quotas,
    ranks,
    right_sizing,
)
from benchmarks.verdict import Verdict, conclude

FACTORS = tuple(10.0**k for k in range(-9, 13))
CLOSE = 1e-5
"""Relative difference between values that two answers called optimal may have: each is within 1e-6,
and planning stops at 1e-6 of its bound."""
COARSE = 1e-3
"""The same where CP-SAT counts parts of a slot."""


def able(name: str) -> list[str]:
    """Return the backends that have a model of a formulation, and its method."""
    chosen = FAMILIES[name]
    general = [known for known in BACKENDS if backend(known).MODEL_KIND in chosen.models]
    return [*general, *chosen.exact_methods]


def tiny_instance(seed: int) -> Instance:
    """Return a few jobs that contend for a host or two, with numbers of no special form."""
    rng = np.random.default_rng(seed)
    kind = HostType("box", int(rng.integers(2, 9)), "v100", 16_000, 65_536)
    hosts = tuple(Host(f"h{n}", "box") for n in range(int(rng.integers(1, 3))))
    jobs = []
    for n in range(int(rng.integers(2, 5))):
        sizes = sorted(rng.choice(np.arange(1, kind.num_gpus + 1), size=2).tolist())
        rate = float(rng.uniform(0.5, 2.0))
        table = tuple(
            Configuration((TaskGroup("w", size, 1000, int(rng.integers(500, 2500)), 1024),), r)
            for size, r in zip(sizes, (rate, rate * float(rng.uniform(1.05, 1.9))), strict=True)
        )
        work = float(rng.uniform(5.0, 60.0))
        jobs.append(Job(f"j{n}", 0.0, work, table, weight=float(rng.uniform(0.2, 3.0))))
    links = (NetworkLink("h0", "h1", 25.0),) if len(hosts) > 1 else ()
    topology = Topology("c", (kind,), hosts, links=links)
    return Instance(f"tiny-{seed}", topology, tuple(jobs), slot_s=20.0)


def small_schedule(seed: int) -> Instance:
    """Return jobs that end within a few slots, for formulations in which time makes the size."""
    instance = tiny_instance(seed)
    jobs = tuple(
        replace(job, work=job.work / 2, due_date_s=10.0 + 15.0 * n)
        for n, job in enumerate(instance.jobs[:3])
    )
    return instance.replace(jobs=jobs)


def promised(instance: Instance) -> Instance:
    """Return an instance whose jobs but the last have a deadline, and may be refused."""
    jobs = tuple(
        replace(job, deadline_s=60.0 + 20.0 * n, refusable=True)
        for n, job in enumerate(instance.jobs[:-1])
    )
    return instance.replace(jobs=(*jobs, instance.jobs[-1]))


def one_host_round(seed: int) -> Instance:
    """Return a round as people have it: jobs of days, rates as a fraction of the job a second."""
    rng = np.random.default_rng(seed)
    kind = HostType("box", 8, "v100", 64_000, 0)
    jobs = []
    for n in range(int(rng.integers(3, 7))):
        gpus, days = int(rng.integers(1, 7)), float(rng.integers(20, 100))
        table = (Configuration((TaskGroup("w", gpus, 1000),), 1 / (days * 86_400)),)
        jobs.append(Job(f"j{n}", 0.0, 1.0, table))
    topology = Topology("c", (kind,), (Host("h0", "box"),))
    return Instance(f"round-{seed}", topology, tuple(jobs), slot_s=60.0)


def rigid(instance: Instance) -> Instance:
    """Return an instance whose jobs each keep their first configuration, for placement."""
    jobs = tuple(
        replace(job, configurations=job.configurations[:1], elasticity="rigid")
        for job in instance.jobs
    )
    return instance.replace(jobs=jobs)


def asked_of(name: str, seed: int) -> Instance:
    """Return the tiny instance that a formulation is asked about."""
    if name in OVER_TIME:
        instance = small_schedule(seed)
        return promised(instance) if name == "admission" else instance
    instance = tiny_instance(seed)
    return instance if name == "round" else rigid(instance)


def certificates(name: str, objective: str, instance: Instance) -> list[Claim]:
    """Solve an instance by all ways that a formulation has."""
    found = []
    for way in able(name):
        try:
            result = solve(instance, name, way, objective=objective, limits=Limits(seconds=LIMIT_S))
        except UnsupportedFeatureError:
            continue
        c = result.certificate
        found.append(Claim(way, c.status, c.objective, c.bound, c.sense, c.bound_proof))
    return found


def weighted(instance: Instance, factor: float) -> Instance:
    """Return the instance with all weights times a factor."""
    jobs = tuple(replace(job, weight=job.weight * factor) for job in instance.jobs)
    return instance.replace(jobs=jobs)


def reworked(instance: Instance, factor: float) -> Instance:
    """Return the instance with work counted in another unit."""
    jobs = tuple(
        replace(
            job,
            work=job.work * factor,
            work_done=job.work_done * factor,
            configurations=tuple(replace(c, rate=c.rate * factor) for c in job.configurations),
        )
        for job in instance.jobs
    )
    return instance.replace(jobs=jobs)


def slowed(instance: Instance, factor: float) -> Instance:
    """Return the instance with all times longer by a factor."""
    assert instance.slot_s is not None
    jobs = tuple(
        replace(
            job,
            arrival_s=job.arrival_s * factor,
            due_date_s=None if job.due_date_s is None else job.due_date_s * factor,
            deadline_s=None if job.deadline_s is None else job.deadline_s * factor,
            configurations=tuple(replace(c, rate=c.rate / factor) for c in job.configurations),
        )
        for job in instance.jobs
    )
    return instance.replace(slot_s=instance.slot_s * factor, jobs=jobs)


def finer(instance: Instance, factor: int) -> Instance:
    """Return the instance with memory counted in smaller units."""
    kinds = tuple(
        replace(kind, memory_mib=kind.memory_mib * factor) for kind in instance.topology.host_types
    )
    jobs = tuple(
        replace(
            job,
            configurations=tuple(
                replace(
                    c, tasks=tuple(replace(t, memory_mib=t.memory_mib * factor) for t in c.tasks)
                )
                for c in job.configurations
            ),
        )
        for job in instance.jobs
    )
    return instance.replace(topology=replace(instance.topology, host_types=kinds), jobs=jobs)


def reordered(instance: Instance) -> Instance:
    """Return the instance with jobs and hosts the other way round."""
    topology = replace(instance.topology, hosts=instance.topology.hosts[::-1])
    return instance.replace(topology=topology, jobs=instance.jobs[::-1])


def with_idle_host(instance: Instance) -> Instance:
    """Return the instance with a host on which no task fits."""
    useless = HostType("crumb", 0, None, 0, 1)
    topology = replace(
        instance.topology,
        host_types=(*instance.topology.host_types, useless),
        hosts=(*instance.topology.hosts, Host("idle", "crumb")),
    )
    return instance.replace(topology=topology)


OVER_TIME = ("malleable", "moldable", "admission", "stages")
"""Formulations in which time makes the size."""
WEIGHTED = {
    "progress",
    "remaining_time",
    "goodput",
    "weighted_jct",
    "tardiness",
    "weight_placed",
    "value",
    "best_effort_jct",
}
"""Objectives that are sums of weights."""
TIMED = {
    "weighted_jct": 1,
    "mean_jct": 1,
    "makespan": 1,
    "tardiness": 1,
    "remaining_time": 1,
    "gpu_time": 1,
    "best_effort_jct": 1,
    "goodput": -1,
}
"""Objectives with a unit of time, and its power."""


def of_formulation(
    name: str, objective: str, instance: Instance, factors: Sequence[float]
) -> Iterator[Case]:
    """Return a problem in all its units, the problem as it is first."""

    def case(change: str, changed: Instance, unit: float = 1.0) -> Case:
        return Case(
            f"{name} {objective}, {change}", lambda: certificates(name, objective, changed), unit
        )

    yield case("as it is", instance)
    yield case("reordered", reordered(instance))
    if objective in WEIGHTED or objective == "gpus_placed":
        yield case("an idle host", with_idle_host(instance))
    yield case("memory x 8", finer(instance, 8))
    for factor in factors:
        if objective in WEIGHTED:
            yield case(f"weights x {factor:g}", weighted(instance, factor), factor)
        if name in ("round", *OVER_TIME):
            unit = factor if objective == "goodput" else 1.0
            yield case(f"work x {factor:g}", reworked(instance, factor), unit)
            if 1e-3 <= 20.0 * factor <= 1e8:
                unit = factor ** TIMED.get(objective, 0)
                yield case(f"times x {factor:g}", slowed(instance, factor), unit)


def families(seed: int, factors: Sequence[float]) -> Iterator[tuple[str, Iterator[Case]]]:
    """Return every family with its problem of a seed, in all its units."""
    for name, chosen in instance_families().items():
        instance = asked_of(name, seed)
        for objective in chosen.objectives:
            yield f"{name} {objective}", of_formulation(name, objective, instance, factors)
    yield "one-host rounds", of_formulation("round", "goodput", one_host_round(seed), ())
    for one in (right_sizing, operation, inference, quotas, ranks, colocation):
        yield one.__name__, one(seed, factors)


def disagreements(cases: Iterator[Case], proofs: Counter[str]) -> Iterator[str]:
    """Yield what contradicts itself among the answers to one problem, in one sentence each."""
    first: list[Claim] = []
    for case in cases:
        try:
            claims = case.solve()
        except InstanceError as refusal:
            proofs[f"refused: {str(refusal)[:40]}"] += 1
            continue
        proofs.update(claim.proof for claim in claims if claim.status == "optimal")
        yield from _among(case, claims)
        if not first:
            first = claims
        else:
            yield from _between(case, claims, first)


def _among(case: Case, claims: Sequence[Claim]) -> Iterator[str]:
    """Compare the ways to solve one problem."""
    for one in claims:
        for other in claims:
            close = COARSE if "cpsat" in (one.way, other.way) else CLOSE
            if one.objective is None or not math.isfinite(other.bound):
                continue
            if beats(one.objective, other.bound, one.sense, 1e-9 * case.unit, close):
                yield (
                    f"{case.name}: {one.way} has {one.objective!r}, better than the bound "
                    f"{other.bound!r} of {other.way}"
                )
            if {one.status, other.status} == {"optimal", "infeasible"}:
                yield f"{case.name}: {one.way} {one.status}, {other.way} {other.status}"


def _between(case: Case, claims: Sequence[Claim], first: Sequence[Claim]) -> Iterator[str]:
    """Compare the answers in one unit with those in the first."""
    for now, before in zip(claims, first, strict=True):
        close = COARSE if now.way == "cpsat" else CLOSE
        if now.status != before.status:
            yield f"{case.name}: {now.way} says {now.status}, and {before.status} in the first unit"
        elif now.status == "optimal":
            assert now.objective is not None
            assert before.objective is not None
            expected = before.objective * case.unit
            if not math.isclose(now.objective, expected, rel_tol=close, abs_tol=1e-9 * case.unit):
                yield f"{case.name}: {now.way} has {now.objective!r}, expected {expected!r}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a range of seeds; return 1 if answers disagree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 3), metavar=("FIRST", "END"))
    parser.add_argument("--only", default="", help="families whose name has this in it")
    parser.add_argument("--factors", type=float, nargs="*", default=FACTORS)
    args = parser.parse_args(argv)
    print(describe_environment())
    proofs: Counter[str] = Counter()
    problems, wrong, began = 0, 0, time.process_time()
    for seed in range(*args.seeds):
        for name, cases in families(seed, args.factors):
            if args.only not in name:
                continue
            problems += 1
            for sentence in disagreements(cases, proofs):
                wrong += 1
                print(f"seed {seed}: {sentence}", flush=True)
    spent = time.process_time() - began
    kinds = ", ".join(f"{kind} {number}" for kind, number in proofs.most_common())
    print(f"{problems} problems in all their units, {spent:.0f} CPU s; optimal by proof: {kinds}")
    return conclude([Verdict("0 disagreements between units", f"{wrong}", wrong == 0)])


if __name__ == "__main__":
    sys.exit(main())
