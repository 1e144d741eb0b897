"""Two jobs on a GPU, in rounds: what packing gains, and how far its makespan is from the best.

``python -m benchmarks.round_packing [--seeds 10] [--jobs 60]``. Jobs of the models that Gavel's
authors measured alone and in pairs on K80, P100 and V100 (in the extracts at ``ALLOC_TRACES``, or
``../shared/data/traces`` beside the repository; without them speeds are drawn), all there at the
start, on four GPUs of each type. Rounds of six minutes; the makespan is held against a bound of
`makespan_bound`, with 95 % confidence intervals over seeds. Beside others a scheduler knows every
model, every second or every fourth; which ones share a GPU it learns from the most similar ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from alloc.comparison.intervals import mean_interval
from alloc.comparison.tables import show_interval
from alloc.instances.readers import read_gavel_interference
from alloc.instances.shared_gpus import generate_shared_gpus
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import Scheduler
from alloc.simulation import simulate
from alloc.solving.colocation.makespan import makespan_bound
from alloc.workload import InterferenceTable
from benchmarks.colocation import random_table
from benchmarks.data import data_folder
from benchmarks.environment import describe_environment

ON_REQUEST = True

SCHEDULERS: Mapping[str, Mapping[str, object]] = {
    "similarity-packing(pairing=none)": {"pairing": "none"},
    "similarity-packing(measured_every=4)": {"measured_every": 4},
    "similarity-packing": {},
    "similarity-packing(measured_every=1)": {"measured_every": 1},
    "similarity-packing(pairing=matching, measured_every=1)": {
        "pairing": "matching",
        "measured_every": 1,
    },
}
"""Schedulers by what they are called: no pairs first, then ever more that is known of them."""
_TYPES = ("k80", "p100", "v100")


def tables() -> tuple[InterferenceTable, ...]:
    """Return Gavel's tables, or drawn ones where the extracts are not."""
    derived = data_folder("traces") / "gavel" / "derived"
    if not derived.is_dir():
        print("Gavel's tables are not there; set ALLOC_TRACES. Speeds are drawn at random.")
        return (random_table(26),)
    alone, pairs = (derived / f"throughputs_{which}.csv.gz" for which in ("isolated", "colocated"))
    return tuple(read_gavel_interference(alone, pairs, worker_type=t)[0] for t in _TYPES)


def made(name: str, options: Mapping[str, object]) -> Scheduler:
    """Return a scheduler by name and options."""
    return make_scheduler(name.partition("(")[0], **options)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each scheduler."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.round_packing")
    parser.add_argument("--seeds", type=int, default=10, help="made instances")
    parser.add_argument("--jobs", type=int, default=60, help="jobs of each")
    given = parser.parse_args(argv)
    measured = tables()
    number = {table.gpu_type: 4 for table in measured}
    gaps: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
    makespans: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
    for seed in range(given.seeds):
        instance = generate_shared_gpus(
            f"shared-{seed}", measured, number, num_jobs=given.jobs, seed=seed
        )
        bound = makespan_bound(instance)
        for name, options in SCHEDULERS.items():
            run = simulate(instance, made(name, options))
            ends = [end for end in run.completion_s.values() if end is not None]
            makespans[name].append(max(ends) / 3600)
            gaps[name].append(max(ends) / bound - 1)
    print("| scheduler | makespan (h) | above the bound (%) | against no pairs (%) |")
    print("|:---|---:|---:|---:|")
    base = makespans["similarity-packing(pairing=none)"]
    for name in SCHEDULERS:
        change = [a / b - 1 for a, b in zip(makespans[name], base, strict=True)]
        print(
            f"| {name} | {show_interval(mean_interval(makespans[name]))} | "
            f"{show_interval(mean_interval(gaps[name]), 100.0)} | "
            f"{show_interval(mean_interval(change), 100.0)} |"
        )
    return 0


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
