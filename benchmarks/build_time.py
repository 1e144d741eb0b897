"""Build every array model in at most 20 % of the time that HiGHS takes to solve it.

Measured at medium size: rounds of 60 jobs on 96 hosts, and the stored ``elastic-medium`` instances
over time. Building is all from the instance to the structure that HiGHS takes: pruning, sparse
arrays, hand-over. Solving is HiGHS on the mixed-integer program with a time limit; where even the
limit is too short, the true share is smaller still.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from alloc.backends import SolverOptions, highs
from alloc.certificate import OPTIMALITY_GAP
from alloc.families import require_family
from alloc.formulation import ArrayModel
from alloc.instances import generate_elastic, load
from alloc.problems.allocation.instance import Instance
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

LARGEST_SHARE = 0.2
LIMIT_S = 60.0
NUM_JOBS = 60
NUM_HOSTS = 96
STORED = ("elastic-medium/02", "elastic-medium/06")


@dataclass(frozen=True)
class Timing:
    """How long a model took to build and to solve, seconds, and its size."""

    build_s: float
    solve_s: float
    rows: int
    columns: int
    entries: int
    status: str

    @property
    def share(self) -> float:
        """Building as a share of solving."""
        return self.build_s / self.solve_s


def crowd(num_jobs: int, num_hosts: int, seed: int) -> Instance:
    """Return jobs that are all there at 0, with more to gain than the cluster has."""
    return generate_elastic(
        f"{num_jobs} jobs, seed {seed}",
        num_jobs=num_jobs,
        num_hosts=num_hosts,
        arrivals="start",
        compute_scale=4.0,
        weights="classes",
        seed=seed,
    )


def measure(name: str, instance: Instance, limit_s: float, repetitions: int = 3) -> Timing:
    """Return the median time to build the arrays of a formulation, and the time to solve them."""
    seconds = []
    for _ in range(repetitions):
        began = time.perf_counter()
        model = cast(ArrayModel, require_family(name).build("arrays", instance).model)
        highs.highs_model(model)
        seconds.append(time.perf_counter() - began)
    began = time.perf_counter()
    raw = highs.solve(model, SolverOptions(limit_s, gap=OPTIMALITY_GAP))
    solve_s = time.perf_counter() - began
    rows, columns = model.matrix.shape
    return Timing(
        statistics.median(seconds), solve_s, rows, columns, model.matrix.nnz, raw.native_status
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print a model a line; return 1 if one takes too long to build."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.build_time")
    parser.add_argument("--time-limit", type=float, default=LIMIT_S, metavar="S")
    parser.add_argument("--jobs", type=int, default=NUM_JOBS, help="jobs of the rounds")
    parser.add_argument("--hosts", type=int, default=NUM_HOSTS, help="hosts of the rounds")
    parser.add_argument(
        "--stored", nargs="*", default=STORED, metavar="ID", help="instances over time"
    )
    arguments = parser.parse_args(argv)
    cases = [("round", crowd(arguments.jobs, arguments.hosts, seed)) for seed in range(3)]
    cases += [("malleable", load(instance_id)) for instance_id in arguments.stored]
    print(
        f"{'model':10s} {'instance':18s} {'rows':>8s} {'columns':>8s} {'entries':>9s} "
        f"{'build s':>8s} {'solve s':>8s} {'share':>7s}  status"
    )
    verdicts = []
    for name, instance in cases:
        timing = measure(name, instance, arguments.time_limit)
        print(
            f"{name:10s} {instance.name:18s} {timing.rows:8,d} {timing.columns:8,d} "
            f"{timing.entries:9,d} {timing.build_s:8.3f} {timing.solve_s:8.3f} "
            f"{timing.share:7.1%}  {timing.status}",
            flush=True,
        )
        verdicts.append(
            Verdict(
                f"{name} on {instance.name}: build at most {LARGEST_SHARE:.0%} of solve",
                f"{timing.share:.1%}",
                timing.share <= LARGEST_SHARE,
            )
        )
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
