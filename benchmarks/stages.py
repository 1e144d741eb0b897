"""Jobs with stages: what is proved of 10 jobs on 10 GPUs, and how far schedulers are from it.

``python -m benchmarks.stages --seeds 3 --seconds 60``

The first table is of projects, whose resources are those of the whole cluster; the second of the
simulator, on 5 hosts of 2 GPUs, where each scheduler sees the graphs of the jobs that have arrived.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import alloc
from alloc.instances.projects import generate_dags, generate_staged
from alloc.objectives import objective
from alloc.simulation import simulate

SCHEDULERS = (
    "fifo",
    "srtf",
    "lpt",
    "critical-path",
    "heft",
    "shortest-job",
    "troublesome-first",
    "weighted-fair",
)


def proofs(seeds: range, seconds: float) -> None:
    """Print what is proved of each project."""
    print("seed  objective     status    value     bound     gap %  CPU s")
    for seed in seeds:
        problem = generate_dags(num_jobs=10, num_gpus=10, seed=seed)
        for goal in ("makespan", "weighted_jct"):
            began = time.process_time()
            result = alloc.solve(problem, objective=goal, limits=alloc.Limits(seconds=seconds))
            took, proved = time.process_time() - began, result.certificate
            gap = 100 * (proved.gap or 0.0)
            print(
                f"{seed:4}  {goal:12}  {result.status:8}  {result.objective:8.1f}  "
                f"{proved.bound:8.1f}  {gap:5.1f}  {took:5.1f}"
            )


def gaps(seeds: range, seconds: float) -> None:
    """Print how far each scheduler is above the bound, over the seeds."""
    print("\nscheduler          mean gap %  worst gap %   (weighted JCT)")
    above: dict[str, list[float]] = {name: [] for name in ("alloc.solve", *SCHEDULERS)}
    for seed in seeds:
        instance = generate_staged(seed=seed)
        best = alloc.solve(instance, limits=alloc.Limits(seconds=seconds))
        above["alloc.solve"].append((best.objective or np.inf) / best.certificate.bound - 1)
        for name in SCHEDULERS:
            value = objective("weighted_jct").evaluate(instance, simulate(instance, name).schedule)
            above[name].append(value / best.certificate.bound - 1)
    for name, found in above.items():
        print(f"{name:17}  {100 * np.mean(found):10.1f}  {100 * max(found):11.1f}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many draws of each")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each solve")
    chosen = parser.parse_args()
    proofs(range(chosen.seeds), chosen.seconds)
    gaps(range(chosen.seeds), chosen.seconds)


if __name__ == "__main__":
    main()
