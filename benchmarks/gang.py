"""Decide on one gang of 512 GPUs on 10,000 hosts, explanation included, in 200 ms.

The cluster has 20 pods of 50 racks of 10 hosts with 8 GPUs, half of them in use at random. What is
timed is the decision of `alloc.solving.gang.decide` on free capacity that is at hand, as in a
scheduler: first gangs that can start, then gangs that cannot and are told why.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from alloc.packing import HostPool
from alloc.solving.gang import GangDecision, Tree, decide
from alloc.topology import Domain, Host, HostType, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

TARGET_S = 0.2
_PODS, _RACKS, _HOSTS = 20, 50, 10
_CORES_PER_GPU = 12

GANGS: dict[str, dict[str, Any]] = {
    "512 x 1": {"count": 512},
    "64 x 8": {"count": 64, "gpus": 8},
    "64 x 8 in one pod": {"count": 64, "gpus": 8, "required": "pod"},
    "512 x 1 in one pod, 32 per rack": {
        "count": 512,
        "required": "pod",
        "slices": (Slice("rack", 32),),
    },
    "512 x 1, at most 1 per rack": {"count": 512, "spread": (Spread("rack", 1),)},
    "512 x 1 in one rack": {"count": 512, "required": "rack"},
    "64 x 8 in one rack": {"count": 64, "gpus": 8, "required": "rack"},
    "512 x 1 in one pod, 32 per rack, 1 per host": {
        "count": 512,
        "required": "pod",
        "slices": (Slice("rack", 32),),
        "spread": (Spread("host", 1),),
    },
    "64 x 8 with 1 TiB each in one pod": {
        "count": 64,
        "gpus": 8,
        "required": "pod",
        "memory_mib": 1_048_576,
    },
}


def build_pool(seed: int = 0) -> HostPool:
    """Return 10,000 hosts, half of whose GPUs are in use with cores and memory beside them."""
    kind = HostType("server", 8, "H100", 128 * MILLI, 1_048_576)
    pods = [Domain(f"pod-{p}", "pod") for p in range(_PODS)]
    racks = [Domain(f"rack-{r}", "rack", f"pod-{r // _RACKS}") for r in range(_PODS * _RACKS)]
    hosts = [
        Host(f"host-{h}", kind.name, racks[h // _HOSTS].id) for h in range(_HOSTS * len(racks))
    ]
    pool = HostPool(
        Topology("10,000 hosts", (kind,), tuple(hosts), ("pod", "rack"), (*pods, *racks))
    )
    used = np.random.default_rng(seed).integers(0, 9, len(hosts))
    pool.free -= np.outer(used, [MILLI, _CORES_PER_GPU * MILLI, 65_536])
    return pool


def build_gang(count: int, gpus: int = 1, memory_mib: int = 0, **rules: object) -> Job:
    """Return a rigid gang of `count` tasks."""
    group = TaskGroup("worker", count, gpus * MILLI, gpus * _CORES_PER_GPU * MILLI, memory_mib)
    placement = PlacementRules(**rules)  # type: ignore[arg-type]
    return Job(
        "gang", 0.0, 1.0, (Configuration((group,), 1.0),), elasticity="rigid", placement=placement
    )


def measure(pool: HostPool, job: Job, tree: Tree, repetitions: int) -> tuple[float, GangDecision]:
    """Return the median seconds of a decision, and the decision."""
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        decision = decide(pool, job, tree=tree)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), decision


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each gang; return 0 if every decision keeps the target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gang", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=9, help="runs to take the median of")
    arguments = parser.parse_args(argv)
    pool = build_pool()
    start = time.perf_counter()
    tree = Tree.of(pool.topology)
    print(describe_environment())
    print(f"the domains as arrays, once per topology: {time.perf_counter() - start:.3f} s")
    worst = 0.0
    for name, gang in GANGS.items():
        seconds, decision = measure(pool, build_gang(**gang), tree, arguments.repetitions)
        worst = max(worst, seconds)
        if decision.assignment is not None:
            answer = f"starts on {len({t.host for t in decision.assignment.tasks})} hosts"
        else:
            answer = "" if decision.explanation is None else decision.explanation.sentence
        print(f"{name:44s} {1e3 * seconds:6.1f} ms  {answer}")
    return conclude(
        [
            Verdict(
                f"a gang of 512 GPUs on 10,000 hosts decided and explained in {TARGET_S:g} s",
                f"{worst:.3f} s at most",
                worst <= TARGET_S,
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
