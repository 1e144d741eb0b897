"""Jobs with stages: what is proved of 10 jobs on 10 GPUs, and how far schedulers are from it.

``python -m benchmarks.stages --seeds 3 --seconds 60``

``--cpu-time`` lets limits count CPU seconds, and ``--goals makespan`` leaves out the other proofs.

The first table is of projects, whose resources are those of the whole cluster; the second of the
simulator, on 5 hosts of 2 GPUs, where each scheduler sees the graphs of the jobs that have arrived:
the rules, Decima's agent and the tree distilled from it, each with the system it stands for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

import alloc
from alloc.comparison import mean_interval
from alloc.instances.learning_worlds import HELD_OUT_SEEDS
from alloc.instances.projects import generate_dags, generate_staged
from alloc.objectives import objective
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate
from benchmarks.cpu_limits import count_cpu_time

SCHEDULERS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("fifo", "Decima's FIFO; NetLLM's too", {}),
    ("srtf", "shortest stage first", {}),
    ("lpt", "longest stage first", {}),
    ("critical-path", "Octopus', Bengre's order by path", {}),
    ("heft", "Octopus' HEFT", {}),
    ("shortest-job", "Decima's SJF-CP; Bengre's", {}),
    ("troublesome-first", "Graphene", {}),
    ("weighted-fair", "Decima's fair", {}),
    ("weighted-fair", "Decima's optimised fair", {"alpha": -1.0}),
    ("decima", "Decima", {}),
    ("decima-tree", "Hu et al.'s tree", {}),
)
"""Schedulers, what each stands for, and their options."""


def proofs(seeds: range, seconds: float, goals: Sequence[str]) -> None:
    """Print what is proved of each project."""
    print("seed  objective     status    value     bound     gap %  CPU s")
    for seed in seeds:
        problem = generate_dags(num_jobs=10, num_gpus=10, seed=seed)
        for goal in goals:
            began = time.process_time()
            result = alloc.solve(problem, objective=goal, limits=alloc.Limits(seconds=seconds))
            took, proved = time.process_time() - began, result.certificate
            gap = 100 * (proved.gap or 0.0)
            print(
                f"{seed:4}  {goal:12}  {result.status:8}  {result.objective:8.1f}  "
                f"{proved.bound:8.1f}  {gap:5.1f}  {took:5.1f}",
                flush=True,
            )


def gaps(seeds: Sequence[int], seconds: float, move_s: float) -> None:
    """Print how far each scheduler is above the proved bound, over the seeds."""
    print(f"\nweighted JCT above the proved bound, {len(seeds)} instances, move_s {move_s:g}")
    print(f"{'scheduler':25}  {'stands for':33}  mean %   95 %            worst %")
    above: dict[tuple[str, str], list[float]] = {}
    for seed in seeds:
        instance = generate_staged(seed=seed, move_s=move_s)
        values = {}
        for name, of, options in SCHEDULERS:
            scheduler = make_scheduler(name, **options)
            schedule = simulate(instance, scheduler).schedule
            shown = ", ".join(f"{key}={value:g}" for key, value in options.items())
            label = f"{name}({shown})" if shown else name
            value = objective("weighted_jct").evaluate(instance, schedule)
            values[label, of] = value, schedule
        # The best of them is where the search starts, so that its answer is never worse.
        _, start = min(values.values(), key=lambda found: found[0])
        best = alloc.solve(instance, warm_start=start, limits=alloc.Limits(seconds=seconds))
        values["alloc.solve", "knows all jobs beforehand"] = best.objective or np.inf, start
        for row, (value, _) in values.items():
            above.setdefault(row, []).append(100 * (value / best.certificate.bound - 1))
    for (label, of), found in above.items():
        mean = mean_interval(found)
        interval = "" if mean.low is None else f"{mean.low:.1f} to {mean.high:.1f}"
        print(f"{label:25}  {of:33}  {mean.mean:6.1f}   {interval:14}  {max(found):6.1f}")


def main(argv: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many draws of each")
    parser.add_argument("--first", type=int, default=0, help="first seed of the table of proofs")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each solve")
    parser.add_argument("--move-s", type=float, default=0.0, help="time that GPUs take to move")
    parser.add_argument("--table", choices=("proofs", "gaps"), help="only this one")
    parser.add_argument("--goals", default="makespan,weighted_jct", help="of the table of proofs")
    parser.add_argument("--cpu-time", action="store_true", help="limits count CPU seconds")
    chosen = parser.parse_args(argv)
    if chosen.cpu_time:
        count_cpu_time()
    if chosen.table != "gaps":
        seeds = range(chosen.first, chosen.first + chosen.seeds)
        proofs(seeds, chosen.seconds, chosen.goals.split(","))
    if chosen.table != "proofs":
        # Apart from the seeds that the agent was trained and chosen on.
        gaps(HELD_OUT_SEEDS[: chosen.seeds], chosen.seconds, chosen.move_s)


if __name__ == "__main__":
    main()
