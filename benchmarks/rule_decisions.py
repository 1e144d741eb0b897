"""CPU time of a decision of the rules with 5,000 elastic jobs on 2,500 full hosts.

All jobs are there at the start and ask for more than there is, each with 256 configurations of
workers and parameter servers. The first decision meets tables and hosts for the first time; the
median is of those that follow. What the simulator does between decisions is not counted.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
from collections.abc import Sequence

from alloc.instances import generate_elastic
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate
from benchmarks.alternatives.ratios import exponent
from benchmarks.environment import describe_environment
from benchmarks.online import Timed
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # a minute

SIZES = (500, 2000, 5000)
SLOTS = 12
MAX_MS = {
    "srtf": 20.0,
    "las": 20.0,
    "tetris": 20.0,
    "drf": 20.0,
    "optimus": 20.0,
    "exact-progress": 100.0,
    "set-policy": 40.0,
}
"""Most CPU time of a decision with the most jobs, milliseconds."""


def made(num_jobs: int, seed: int = 1) -> Instance:
    """Return the jobs and half as many of DL2's servers."""
    return generate_elastic(
        "full house",
        num_jobs=num_jobs,
        num_hosts=num_jobs // 2,
        max_workers=16,
        max_ps=16,
        arrivals="start",
        seed=seed,
    )


def measure(instance: Instance, name: str) -> list[float]:
    """Return the CPU time of each decision in the first slots, milliseconds."""
    timed = Timed(make_scheduler(name))
    assert instance.slot_s is not None
    gc.collect()
    simulate(instance, timed, max_time_s=SLOTS * instance.slot_s)
    return [1e3 * spent for _, spent in timed.spent]


def main(argv: Sequence[str] | None = None) -> int:
    """Print first, median and growth of each rule; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rule_decisions")
    parser.add_argument("--jobs", type=int, action="append", help=f"default: {SIZES}")
    parser.add_argument("--rule", action="append", choices=list(MAX_MS))
    arguments = parser.parse_args(argv)
    sizes = arguments.jobs or SIZES
    instances = [made(num_jobs) for num_jobs in sizes]
    for name in MAX_MS:
        measure(made(50), name)  # loads what is needed
    gc.collect()
    gc.freeze()
    verdicts = []
    print(f"{'rule':16s} {'jobs':>7s} {'first ms':>9s} {'median ms':>9s} {'least ms':>9s}")
    for name in arguments.rule or MAX_MS:
        medians = []
        for num_jobs, instance in zip(sizes, instances, strict=True):
            first, *later = measure(instance, name)
            medians.append(statistics.median(later))
            print(
                f"{name:16s} {num_jobs:7,d} {first:9.1f} {medians[-1]:9.1f} {min(later):9.1f}",
                flush=True,
            )
        if len(sizes) > 1:
            print(f"{'':16s} grows as the jobs to the {exponent(sizes, medians):.2f}")
        verdicts.append(
            Verdict(
                f"{name}: a decision on {sizes[-1]:,} jobs in {MAX_MS[name]:g} ms",
                f"median {medians[-1]:.1f} ms",
                medians[-1] <= MAX_MS[name],
            )
        )
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
