"""Decide each slot exactly for 200 jobs on 500 hosts, placement included, in 50 ms (median).

The policy is ``exact-progress``: the optimum of F1 with DL2's progress, put on hosts. It runs
through the simulator, which times every decision: on 200 jobs that are all in the system from the
first slot to the last, and on the stored ``elastic-large`` instances, where jobs come and go.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from alloc.instances import generate_elastic, load, manifest
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.simulation import SimulationResult, simulate
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

SCHEDULER = "exact-progress"
NUM_JOBS = 200
NUM_HOSTS = 500
NUM_SLOTS = 20
TARGET_MS = 50.0
FAMILY = "elastic-large"


def full_house(
    num_jobs: int = NUM_JOBS, num_hosts: int = NUM_HOSTS, size: int = 16, seed: int = 0
) -> Instance:
    """Return jobs that are all there at 0 and too long to complete in the slots simulated."""
    return generate_elastic(
        f"{num_jobs} jobs at once",
        num_jobs=num_jobs,
        num_hosts=num_hosts,
        max_workers=size,
        max_ps=size,
        arrivals="start",
        run_slots=(2.0 * NUM_SLOTS, 8.0 * NUM_SLOTS),
        compute_scale=4.0,
        weights="classes",
        seed=seed,
    )


def row(name: str, result: SimulationResult) -> tuple[str, float]:
    """Return a line of the table and the median decision in milliseconds."""
    decision_ms = 1e3 * np.asarray(result.decision_s)
    median = float(np.median(decision_ms))
    line = (
        f"{name:22s} {len(decision_ms):6d} {median:8.1f} {np.quantile(decision_ms, 0.95):8.1f} "
        f"{decision_ms.max():8.1f} {result.notes.get('unplaced', 0.0):9.0f}"
    )
    return line, median


def main(argv: Sequence[str] | None = None) -> int:
    """Print the times of decisions; return 1 if a median misses the target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.round_scheduler")
    parser.add_argument("--jobs", type=int, default=NUM_JOBS)
    parser.add_argument("--hosts", type=int, default=NUM_HOSTS)
    parser.add_argument("--size", type=int, default=16, help="most workers and servers")
    parser.add_argument("--slots", type=int, default=NUM_SLOTS)
    parser.add_argument("--family", default=FAMILY, help='of stored instances; "" for none')
    arguments = parser.parse_args(argv)
    crowd = full_house(arguments.jobs, arguments.hosts, arguments.size)
    assert crowd.slot_s is not None
    scheduler = make_scheduler(SCHEDULER)
    simulate(crowd, scheduler, max_time_s=crowd.slot_s, check=False)  # load the solver
    print(f"{SCHEDULER}, seconds of each decision as the simulator times them, in ms")
    print(
        f"{'instance':22s} {'slots':>6s} {'median':>8s} {'p95':>8s} {'most':>8s} {'unplaced':>9s}"
    )
    line, median = row(
        crowd.name, simulate(crowd, scheduler, max_time_s=arguments.slots * crowd.slot_s)
    )
    print(line, flush=True)
    verdicts = [_verdict(crowd.name, median)]
    for entry in manifest():
        if entry.family == arguments.family:
            line, median = row(entry.id, simulate(load(entry.id), scheduler))
            print(line, flush=True)
            verdicts.append(_verdict(entry.id, median))
    return conclude(verdicts)


def _verdict(name: str, median: float) -> Verdict:
    return Verdict(
        f"{name}: median decision in {TARGET_MS:g} ms", f"{median:.1f} ms", median <= TARGET_MS
    )


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
