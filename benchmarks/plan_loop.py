"""Plan, replay in the simulator, keep the capacity that is required, until the goals hold.

Every stored planning problem, in at most five iterations, with the goals replayed in the two
tightest regimes of every pool and the tightest of each class that comes in neither; or, with
``--drawn``, problems that no stored one was drawn with the seed of. Converged is a problem whose
plan meets its goals in the replay, by the mean of the replications. What that capacity costs stands
beside it: the answer against the first plan, which only the model believes in, and the iteration it
is from. It may cost less: the model takes goals class by class, in pools whose size it does not
know, and sets aside more for some.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator, Sequence

from alloc.instances.planning import generate_planning
from alloc.instances.stored_planning import load_stored_planning, stored_planning_ids
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Limits
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

MAX_ITERATIONS = 5
# What the capacity for the replay may cost over the first plan.
MEDIAN, WORST = 0.05, 0.15
# Seconds of computing that a large problem may take.
LARGE_S = 180.0


def problems(given: argparse.Namespace) -> Iterator[tuple[str, PlanningProblem]]:
    """Yield the problems that are asked for, with their names."""
    for seed in given.drawn:
        # Of the size of the small ones, from a few to many GPUs.
        gpus = 80.0 + 40.0 * (seed % 5)
        yield f"drawn/{seed}", generate_planning(f"drawn-{seed}", gpus=gpus, seed=seed)
    for problem_id in given.only or ([] if given.drawn else stored_planning_ids()):
        if not problem_id.startswith(tuple(given.skip)):
            yield problem_id, load_stored_planning(problem_id)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the loop on every problem and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="ID", action="append", choices=stored_planning_ids())
    parser.add_argument("--skip", metavar="PREFIX", action="append", default=[])
    parser.add_argument("--drawn", metavar="SEED", action="append", type=int, default=[])
    parser.add_argument("--scheduler", default="fifo", help="policy of the replay")
    parser.add_argument("--seed", type=int, default=0, help="seed of arrivals and run times")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of a replication")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each solve")
    parser.add_argument("--workers", type=int, default=1, help="processes of the replay")
    parser.add_argument(
        "--cpu-clock",
        action="store_true",
        help="limits count CPU seconds of this process, for a machine that others share; those "
        "inside of HiGHS stay of wall time",
    )
    given = parser.parse_args(arguments)
    if given.cpu_clock:
        time.monotonic = time.perf_counter = time.process_time
    print(describe_environment())
    print(
        f"{'problem':18} {'iterations':>10} {'answer':>6} {'outcome':>10} {'goals':>6} "
        f"{'first':>14} {'cost':>14} {'dearer':>8} {'wall s':>7} {'cpu s':>7}"
    )
    verdicts, surcharges = [], []
    for name, problem in problems(given):
        if all(job_class.goal is None for job_class in problem.classes):
            print(f"{name:18} no class has a goal: there is nothing to hold", flush=True)
            continue
        began, cpu = time.perf_counter(), time.process_time()
        report = plan(
            problem,
            limits=Limits(seconds=given.seconds, gap=0.01),
            replay=ReplaySettings(
                given.scheduler, jobs=given.jobs, seed=given.seed, workers=given.workers
            ),
            max_iterations=MAX_ITERATIONS,
        )
        cpu = time.process_time() - cpu
        found = report.replayed
        assert found is not None
        iterations = len(found.iterations)
        number = next(i for i, one in enumerate(found.iterations, 1) if one is found.answer)
        first, last = found.iterations[0].cost, found.answer.cost
        dearer = last / first - 1 if math.isfinite(last) else math.nan
        if math.isfinite(dearer):
            surcharges.append(dearer)
        print(
            f"{name:18} {iterations:10d} {number:6d} {found.outcome:>10} "
            f"{len(found.answer.measured):6d} {first:14,.0f} {last:14,.0f} "
            f"{100 * dearer:7.1f}% {time.perf_counter() - began:7.1f} {cpu:7.1f}",
            flush=True,
        )
        target = f"{name}: the loop converges in at most {MAX_ITERATIONS} iterations"
        converged = found.outcome == "holds"
        verdicts.append(Verdict(target, f"{iterations} iterations, {found.outcome}", converged))
        if name.startswith("planning-large"):
            target = f"{name}: in at most {LARGE_S:.0f} CPU s"
            verdicts.append(
                Verdict(target, f"{cpu:.0f} s, {found.outcome}", converged and cpu <= LARGE_S)
            )
    if surcharges:
        middle, worst = statistics.median(surcharges), max(surcharges)
        target = f"dearer than the first plan: median at most {100 * MEDIAN:.0f} %"
        verdicts.append(Verdict(target, f"{100 * middle:.1f} %", middle <= MEDIAN))
        target = f"dearer than the first plan: at most {100 * WORST:.0f} %"
        verdicts.append(Verdict(target, f"{100 * worst:.1f} %", worst <= WORST))
    return conclude(verdicts)


if __name__ == "__main__":
    raise SystemExit(main())
