"""Gangs put beside what runs, by alloc and by first fit, best fit and FGD of a dozen lines each.

A cluster of racks of 16 hosts with 8 GPUs is about half full; gangs of 1 to 32 tasks of 1, 2, 4 or
8 GPUs wait, for most of the GPUs that are free, and a third of them must stand in one rack. The
goal is "gpus_placed then fragmentation". Times are CPU time from the instance in memory to the
answer; that of alloc holds the check and the certificate. The alternatives neither prove nor check
anything; their answers are checked here, outside their time.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

import alloc
from alloc import Moves
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, Solution, TaskPlacement
from alloc.result import Result
from alloc.topology import Domain, Host, HostType, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup
from benchmarks.alternatives.ratios import cpu_s, exponent
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # some minutes

GOAL = "gpus_placed then fragmentation"
SIZES = {100: 5.0, 500: 10.0, 2000: 20.0}
"""Hosts, and the time that alloc is given, seconds."""
FIRST_S = {100: 0.3, 500: 0.3, 2000: 0.3, 20_000: 3.0}
"""CPU time in which the first placement is to stand, seconds."""
GPUS, RACK = 8, 16

Ints = npt.NDArray[np.int64]
Pick = Callable[[Ints, int], Ints]
"""The order in which hosts are filled, from what is free on each, and a task's GPUs."""


def gang(tasks: int, gpus: int) -> tuple[Configuration, ...]:
    """Return the one way to run a gang of tasks of some GPUs each."""
    return (Configuration((TaskGroup("worker", tasks, gpus * MILLI),), 1.0),)


def made(num_hosts: int, seed: int) -> Instance:
    """Return a cluster with jobs that run and gangs that wait."""
    rng = np.random.default_rng(seed)
    kind = HostType("server", GPUS, "H100")
    racks = [f"rack-{r}" for r in range(-(-num_hosts // RACK))]
    hosts = tuple(Host(f"host-{h}", kind.name, racks[h // RACK]) for h in range(num_hosts))
    topology = Topology(
        "racks", (kind,), hosts, ("rack",), tuple(Domain(rack, "rack") for rack in racks)
    )
    gangs = {(n, g): gang(n, g) for n in (1, 2, 4, 8, 16, 32) for g in (1, 2, 4, 8)}
    jobs: list[Job] = []
    running: list[Assignment] = []
    for host in hosts:
        left = int(rng.integers(0, GPUS + 1))
        while left:
            size = min(left, int(rng.choice((1, 1, 2, 4))))
            job = Job(f"run-{len(jobs)}", 0.0, 3600.0, gangs[1, 1 << size.bit_length() - 1])
            jobs.append(job)
            running.append(Assignment(job.id, 0, (TaskPlacement(host.id, "worker", 1),)))
            left -= 1 << size.bit_length() - 1
    wanted = 0.85 * (num_hosts * GPUS - sum(j.configurations[0].demand[0] // MILLI for j in jobs))
    while wanted > 0:
        tasks = int(rng.choice((1, 2, 4, 8, 16, 32), p=(0.3, 0.2, 0.2, 0.15, 0.1, 0.05)))
        size = int(rng.choice((1, 2, 4, 8), p=(0.3, 0.2, 0.2, 0.3)))
        rules = PlacementRules(required="rack" if rng.random() < 1 / 3 else None)
        jobs.append(Job(f"wait-{len(jobs)}", 0.0, 3600.0, gangs[tasks, size], placement=rules))
        wanted -= tasks * size
    return Instance(f"gangs-{seed}", topology, tuple(jobs), running=tuple(running), moves=Moves(0))


def first_fit(free: Ints, gpus: int) -> Ints:
    """Return the hosts as they come."""
    del gpus
    return np.arange(len(free))


def best_fit(free: Ints, gpus: int) -> Ints:
    """Return the fullest hosts first."""
    del gpus
    return np.argsort(free, kind="stable")


def fgd(free: Ints, gpus: int) -> Ints:
    """Return the hosts first whose free GPUs become useless to the fewest sizes of tasks.

    The gradient of Weng et al., "Beware of Fragmentation", ATC 2023, for tasks of 1, 2, 4 and 8
    GPUs, all alike popular.
    """
    sizes = np.array([1, 2, 4, 8])
    grid = np.arange(GPUS + 1)
    useless = np.where(sizes[None] > grid[:, None], grid[:, None], grid[:, None] % sizes).sum(
        axis=1
    )
    after = useless[np.maximum(free - gpus, 0)] - useless[free]
    return np.lexsort((free, after))


def by_rule(instance: Instance, pick: Pick) -> Allocation:
    """Place the largest gangs first, each on hosts in the order of a rule."""
    topology = instance.topology
    free = topology.capacity[:, 0] // MILLI
    index = topology.host_index
    for assignment in instance.running:
        gpus = instance.job(assignment.job).configurations[0].demand[0] // MILLI
        free[index[assignment.tasks[0].host]] -= gpus
    rack = np.arange(topology.num_hosts) // RACK
    placed = list(instance.running)
    started = {a.job for a in placed}
    waiting = [job for job in instance.jobs if job.id not in started]
    for job in sorted(waiting, key=lambda job: -job.configurations[0].demand[0]):
        group = job.configurations[0].tasks[0]
        gpus = group.gpu_milli // MILLI
        room = free // gpus
        if job.placement.required:
            fitting = np.flatnonzero(np.bincount(rack, room) >= group.count)
            if not len(fitting):
                continue
            room = np.where(rack == fitting[0], room, 0)
        elif room.sum() < group.count:
            continue
        order = pick(free, gpus)
        taken = np.minimum(room[order], group.count)
        taken = np.diff(np.minimum(np.cumsum(taken), group.count), prepend=0)
        hosts = order[taken > 0]
        number = taken[taken > 0]
        free[hosts] -= gpus * number
        tasks = tuple(
            TaskPlacement(topology.hosts[h].id, "worker", int(n))
            for h, n in zip(hosts.tolist(), number.tolist(), strict=True)
        )
        placed.append(Assignment(job.id, 0, tasks))
    return Allocation(tuple(placed))


RULES: dict[str, Pick] = {"first fit": first_fit, "best fit": best_fit, "FGD": fgd}


def value(instance: Instance, solution: object) -> tuple[float, float]:
    """Return GPUs placed, negative, and fragmentation to nine digits: less is better."""
    assert isinstance(solution, Allocation)
    placed = alloc.objective("gpus_placed").evaluate(instance, solution)
    return -placed, round(alloc.objective("fragmentation").evaluate(instance, solution), 9)


def first_placement_s(instance: Instance) -> float:
    """Return the CPU time to the first placement of alloc, seconds.

    Set-up, both checks, the certificate and its fingerprint are in it.
    """
    found: list[object] = []

    def note(line: object) -> None:
        if "first placement" in str(line) and not found:
            found.append(line)
            raise KeyboardInterrupt  # what was found is kept; the rest is not asked for

    began = time.process_time()
    result = alloc.solve(
        instance,
        "placement",
        objective="gpus_placed",
        limits=alloc.Limits(seconds=600.0),
        progress=note,
    )
    assert result.certificate.verified
    assert result.certificate.fingerprint
    assert found
    return time.process_time() - began


def solved(instance: Instance, seconds: float) -> Result[Solution]:
    """Return alloc's answer to the whole goal."""
    limits = alloc.Limits(seconds=seconds)
    return alloc.solve(instance, "placement", objective=GOAL, limits=limits)


def compare(num_hosts: int, seconds: float, seed: int) -> list[Verdict]:
    """Print what each program reaches on one instance; judge alloc's answer."""
    instance = made(num_hosts, seed)
    best = (0.0, 0.0)
    for name, pick in RULES.items():
        spent, allocation = cpu_s(by_rule, instance, pick)
        assert not alloc.verify(instance, allocation, "placement")
        theirs = value(instance, allocation)
        best = min(best, theirs)
        print(f"{-theirs[0]:9,.0f} {theirs[1]:9.2f} {'':>9s} {spent:9.4f}  {name}")
    spent, result = cpu_s(solved, instance, seconds)
    ours = value(instance, result.require_solution())
    bound = result.certificate.bound
    print(f"{-ours[0]:9,.0f} {ours[1]:9.2f} {bound:9.2f} {spent:9.4f}  alloc", flush=True)
    return [
        Verdict(
            f"{num_hosts:,} hosts: no worse than first fit, best fit and FGD",
            f"{-ours[0]:,.0f} GPUs and {ours[1]:.2f} lost, {-best[0]:,.0f} and {best[1]:.2f}",
            ours <= best,
        )
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print values and CPU times; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alternatives.gang_placement")
    parser.add_argument("--hosts", type=int, action="append", choices=list(SIZES))
    parser.add_argument("--first", type=int, action="append", choices=list(FIRST_S))
    parser.add_argument("--seed", type=int, help="of the instances (default: drawn)")
    arguments = parser.parse_args(argv)
    seed = random.randrange(2**20) if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    first_placement_s(made(20, seed))  # loads what is needed
    verdicts, sizes, took = [], arguments.first or list(FIRST_S), []
    for num_hosts in sizes:
        instance = made(num_hosts, seed)
        took.append(first_placement_s(instance))
        print(f"first placement on {num_hosts:,} hosts: {took[-1]:.3f} s", flush=True)
        verdicts.append(
            Verdict(
                f"first placement on {num_hosts:,} hosts in {FIRST_S[num_hosts]:g} s",
                f"{took[-1]:.3f} s",
                took[-1] <= FIRST_S[num_hosts],
            )
        )
    if len(sizes) > 1:
        print(f"time grows as the hosts to the {exponent(sizes, took):.2f}")
    for num_hosts in arguments.hosts or SIZES:
        print(f"\n{num_hosts:,} hosts\n{'GPUs':>9s} {'lost':>9s} {'bound':>9s} {'CPU s':>9s}")
        verdicts += compare(num_hosts, SIZES[num_hosts], seed)
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
