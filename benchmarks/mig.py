"""Place 10,000 MIG requests onto 1,000 GPUs, proved optimal in 30 s.

The requests are drawn from all seven profiles of an 80 GB H100, on 125 hosts of eight GPUs. Four
questions: which requests run when not all can (weights 1 to 5, and weights all of their own); how
few GPUs hold the requests that can; and which run beside what is running now, with as few GPUs
drained and cut anew as the best choice allows. What is timed is `alloc.solve`, checker included.
The greedy answer of the host pool stands beside each. Pods of the openb trace that share GPUs are
real examples, if the trace is there (``ALLOC_TRACES``, or ``../shared/data/traces`` beside the
repository).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alloc.instances.readers import openb_instance
from alloc.objectives import objective
from alloc.objectives.sharing import gpus_cut_anew
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.result import Limits, Result
from alloc.solving import solve
from alloc.topology import HostType, flat_cluster
from alloc.topology.mig import mig_profiles
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks.data import data_folder
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

TARGET_S = 30.0
POD_GAP = 0.005
GPU_TYPE = "h100-sxm-80gb"
MIX = {
    "small": (0.40, 0.05, 0.12, 0.20, 0.13, 0.07, 0.03),
    "large": (0.20, 0.05, 0.12, 0.25, 0.20, 0.10, 0.08),
}
"""Shares of the seven profiles, in the order of the table, in two mixes."""


@dataclass(frozen=True)
class Case:
    """A question: an instance and what is asked of it."""

    name: str
    instance: Instance
    goal: str


def requests(
    number: int, mix: str, seed: int, *, prefix: str = "r", own: bool = False
) -> list[Job]:
    """Return requests of one slice each, with weights 1 to 5, or weights all of their own."""
    rng = np.random.default_rng(seed)
    table = {
        name: (
            Configuration(
                (TaskGroup("slice", 1, cpu_milli=1000, memory_mib=4096, mig_profile=name),), 1.0
            ),
        )
        for name in mig_profiles(GPU_TYPE)
    }
    names = rng.choice(list(table), number, p=MIX[mix])
    weights = rng.uniform(1, 5, number) if own else rng.integers(1, 6, number)
    return [
        Job(f"{prefix}{k}", 0.0, 1.0, table[name], weight=float(weight))
        for k, (name, weight) in enumerate(zip(names, weights, strict=True))
    ]


def cases(number: int, num_gpus: int) -> list[Case]:
    """Return the four questions; on the last cluster slices of another mix are running."""
    host = HostType("dgx-h100", 8, GPU_TYPE, 224_000, 2 * 1024 * 1024)
    cluster = flat_cluster("h100s", host, num_gpus // 8)
    many = requests(number, "small", 0)
    own = requests(number, "small", 0, own=True)
    some = requests(int(number * 0.33), "small", 1)
    earlier = Instance("before", cluster, tuple(requests(int(number * 0.35), "small", 2)))
    before = solve(earlier, "sharing").require_solution()
    assert isinstance(before, Allocation)
    rng = np.random.default_rng(3)
    running = tuple(a for a in before.assignments if rng.random() < 0.7)
    stay = [earlier.job(a.job) for a in running]
    new = requests(number - len(stay), "large", 4, prefix="n")
    return [
        Case("most weight", Instance("many", cluster, tuple(many)), "weight_placed"),
        Case("most weight, own weights", Instance("own", cluster, tuple(own)), "weight_placed"),
        Case("fewest GPUs", Instance("some", cluster, tuple(some)), "gpus_used"),
        Case(
            "most weight beside running slices",
            Instance("running", cluster, (*stay, *new), running=running),
            "weight_placed",
        ),
    ]


def greedy(case: Case) -> float:
    """Return the value when the host pool places the heaviest requests first."""
    pool = HostPool(case.instance.topology)
    share = {n: p.memory_slices for n, p in mig_profiles(GPU_TYPE).items()}

    def rank(job: Job) -> tuple[float, int]:
        size = share[str(job.configurations[0].tasks[0].mig_profile)]
        return (-job.weight / size, -size) if case.goal == "weight_placed" else (0.0, -size)

    placed = []
    hopeless: set[int] = set()
    for job in sorted(case.instance.jobs, key=rank):
        if id(job.configurations) in hopeless:
            continue
        tasks = pool.place(job.configurations[0])
        if tasks is None:
            hopeless.add(id(job.configurations))
        else:
            placed.append(Assignment(job.id, 0, tasks))
    return objective(case.goal).evaluate(case.instance, Allocation(tuple(placed)))


def run(case: Case) -> tuple[Result, float]:
    """Solve a case; return the result and the wall time, seconds."""
    began = time.perf_counter()
    result = solve(case.instance, "sharing", objective=case.goal, limits=Limits(seconds=60.0))
    return result, time.perf_counter() - began


def real_pods() -> list[Case]:
    """Return openb pods on a part of its GPU nodes and on all nodes; none without the trace."""
    traces = data_folder("traces")
    folder = traces / "alibaba-gpu-v2023-openb"
    if not folder.is_dir():
        return []
    pods = folder / "openb_pod_list_default.csv.gz"
    part, _ = openb_instance(
        folder / "openb_node_list_gpu_node.csv.gz",
        pods,
        snapshot=True,
        num_hosts=200,
        max_jobs=600,
    )
    whole, _ = openb_instance(folder / "openb_node_list_all_node.csv.gz", pods, snapshot=True)
    return [
        Case("openb: fewest GPUs, 200 nodes", part, "gpus_used"),
        Case("openb: most GPUs held, all nodes", whole, "gpus_placed"),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print values, bounds and times; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mig")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--gpus", type=int, default=1000, help="a multiple of 8")
    arguments = parser.parse_args(argv)
    print(
        f"{'':34s} {'jobs':>7s} {'value':>10s} {'bound':>10s} {'greedy':>10s} {'cut anew':>8s} "
        f"{'seconds':>8s}  bound"
    )
    verdicts = []
    for case in cases(arguments.requests, arguments.gpus):
        result, seconds = run(case)
        certificate = result.certificate
        solution = result.solution
        anew = gpus_cut_anew(case.instance, solution) if isinstance(solution, Allocation) else -1
        print(
            f"{case.name:34s} {len(case.instance.jobs):7,d} {certificate.objective:10,.2f} "
            f"{certificate.bound:10,.2f} {greedy(case):10,.2f} {anew:8d} {seconds:8.2f}  "
            f"{certificate.bound_proof}",
            flush=True,
        )
        verdicts.append(
            Verdict(
                f"{case.name}: {len(case.instance.jobs):,} requests on {arguments.gpus:,} GPUs "
                f"proved optimal in {TARGET_S:g} s",
                f"{certificate.status} in {seconds:.2f} s",
                certificate.status == "optimal" and seconds <= TARGET_S,
            )
        )
    pods = real_pods()
    if not pods:
        print("openb: the trace is not there; set ALLOC_TRACES to the folder of the extracts")
    for case in pods:
        result, seconds = run(case)
        certificate = result.certificate
        print(
            f"{case.name:34s} {len(case.instance.jobs):7,d} {certificate.objective:10,.2f} "
            f"{certificate.bound:10,.2f} {'':19s} {seconds:8.2f}  {certificate.bound_proof}",
            flush=True,
        )
        gap = certificate.gap
        verdicts.append(
            Verdict(
                f"{case.name}: {len(case.instance.jobs):,} pods proved within {POD_GAP:.1%}",
                f"gap {gap:.2%} in {seconds:.1f} s",
                gap is not None and gap <= POD_GAP,
            )
        )
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
