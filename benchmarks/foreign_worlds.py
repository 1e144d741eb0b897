"""Learned policies far from where they were trained: beside their own formula, and beside rules.

Each seed draws a recipe of `alloc.instances.generate_elastic` with what no training world has: GPUs
and CPU of a task, shapes of tables, restart costs, and a compute scale up to 30 for all types. A
policy that is good only at home shows here; a rule's place among rules may be another one, too.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

import joblib
import numpy as np

from alloc.comparison import mean_interval
from alloc.instances import generate_elastic
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.simulation import completion_times_s, simulate
from benchmarks.environment import describe_environment
from benchmarks.studies.contenders import DRAWN

ON_REQUEST = True
"""Minutes; there is no target."""

SCHEDULERS = ("set-policy", "set-rule", "optimus", "drf", "dl2")
SLOT_S = 600.0


def foreign(seed: int) -> Instance:
    """Return the instance of a seed: 30 to 60 jobs that queue for 8 to 16 hosts."""
    rng = np.random.default_rng(seed)
    return generate_elastic(
        f"foreign-{seed}",
        num_jobs=int(rng.integers(30, 61)),
        num_hosts=int(rng.integers(8, 17)),
        slot_s=SLOT_S,
        max_workers=int(rng.choice([12, 16, 24])),
        max_ps=int(rng.choice([6, 16, 20])),
        gpus_per_worker=int(rng.choice([1, 2])),
        task_cpu_milli=int(rng.choice([1000, 2000, 3000, 4000])),
        compute_scale=float(rng.choice([2.0, 4.0, 12.0, 30.0])),
        arrivals=str(rng.choice(["poisson", "bursty", "diurnal"])),
        slots_per_day=24.0,
        arrivals_per_slot=float(rng.choice([1.0, 2.0, 3.0])),
        restart_cost_s=float(rng.choice([0.0, 60.0])),
        table=str(rng.choice(["fit", "plateaus", "dips"])),
        seed=seed,
    )


def measure(scheduler: str, seed: int) -> float:
    """Return the mean JCT of a scheduler on the instance of a seed, slots."""
    instance = foreign(seed)
    options = {"sample": True} if scheduler in DRAWN else {}
    result = simulate(instance, make_scheduler(scheduler, **options), rng=seed)
    return float(completion_times_s(result).mean()) / SLOT_S


def compared(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return in words how one scheduler does beside another, paired over the instances."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    found = mean_interval(logs)
    low, high = (math.nan if end is None else math.exp(end) for end in (found.low, found.high))
    won = sum(log < 0 for log in logs)
    return (
        f"{math.exp(found.mean):.3f} [{low:.3f}, {high:.3f}], {math.exp(min(logs)):.3f} to "
        f"{math.exp(max(logs)):.3f}, better on {won} of {len(logs)}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print each instance, and each pair of schedulers over all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.foreign_worlds")
    parser.add_argument("--seeds", default="0:30", help="first:end, the end excluded")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args(argv)
    seeds = range(*map(int, arguments.seeds.split(":")))
    done = joblib.Parallel(n_jobs=arguments.jobs)(
        joblib.delayed(measure)(name, seed) for name in SCHEDULERS for seed in seeds
    )
    rows = np.array(done).reshape(len(SCHEDULERS), len(seeds))
    print("mean JCT, slots")
    print("seed " + " ".join(f"{name:>10s}" for name in SCHEDULERS))
    for seed, row in zip(seeds, rows.T, strict=True):
        print(f"{seed:4d} " + " ".join(f"{value:10.2f}" for value in row))
    print("\nratio of mean JCTs: geometric mean, its 95 % interval, least and largest")
    for first, ours in enumerate(SCHEDULERS):
        for second in range(first + 1, len(SCHEDULERS)):
            print(f"{ours} over {SCHEDULERS[second]}: {compared(rows[first], rows[second])}")
    return 0


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
