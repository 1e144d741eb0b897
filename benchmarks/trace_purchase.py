"""From a trace to a purchase: do the hosts planned from its first weeks serve the weeks after them?

The first weeks of the Philly table become a forecast with the default goals of `alloc forecast`
(95 % of the jobs of a class wait no longer than its mean run time), and the forecast a plan of
hosts of eight GPUs that are bought, replayed until its goals hold. Then the trace itself, as it
was, goes on those hosts in the simulator: last weeks of the history to fill them, and the weeks
after it to measure. A class is kept if as many of its jobs as were promised waited no longer than
promised.

The table is not part of the project: ``python -m benchmarks.trace_purchase JOBS.csv.gz``.
"""

from __future__ import annotations

import argparse
import math
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from alloc.instances.readers.jobs import TracedJob
from alloc.instances.readers.philly import read_philly
from alloc.planning.forecasts import bootstrap_weeks
from alloc.planning.history import WEEK_S, history_of_jobs
from alloc.planning.job_classes import GPU_EDGES, HOUR_EDGES
from alloc.planning.promises import with_goals
from alloc.planning.reduction import reduce_scenarios
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import plan
from alloc.problems.allocation.instance import Instance
from alloc.problems.right_sizing import HostOffer, PlanningProblem, Site
from alloc.result import Limits
from alloc.schedulers.registry import make_scheduler
from alloc.simulation import simulate
from alloc.topology import HostType
from alloc.topology.topology import flat_cluster
from alloc.units import HOUR_S
from alloc.workload import Job, rigid_gang
from benchmarks.environment import describe_environment

ON_REQUEST = True
GPUS = 8
WARM_UP_WEEKS = 2
"""Weeks of the history that are simulated to fill the hosts."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan from the first weeks of a table, and simulate the weeks after them on the plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="the Philly job table as derived for Pollux")
    parser.add_argument("--history", type=int, default=8, help="weeks to plan from")
    parser.add_argument("--weeks", type=int, default=4, help="weeks to measure after them")
    parser.add_argument("--scheduler", default="fifo", help="policy of the replay and the trace")
    parser.add_argument("--variation", type=float, default=0.0, help="of run times in the replay")
    parser.add_argument("--scenarios", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2000, help="jobs of a replication")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    print(describe_environment())
    jobs, _ = read_philly(given.table)
    jobs = sorted((j for j in jobs if j.duration_s > 0), key=lambda job: job.submit_s)
    begin_s = jobs[0].submit_s
    cut_s, end_s = (
        begin_s + weeks * WEEK_S for weeks in (given.history, given.history + given.weeks)
    )
    problem = forecast([j for j in jobs if j.submit_s < cut_s], given.scenarios, given.seed)
    planned = sum(
        scenario.probability * scenario.arrivals[c.name][0] * c.options[0].gpu_hours
        for scenario in problem.scenarios
        for c in problem.classes
    )
    after = [j for j in jobs if cut_s <= j.submit_s < end_s]
    came = math.fsum(j.gpu_s for j in after) / (end_s - cut_s)
    cpu = time.process_time()
    settings = ReplaySettings(
        given.scheduler, jobs=given.jobs, variation=given.variation, seed=given.seed
    )
    report = plan(problem, limits=Limits(gap=0.01), replay=settings)
    assert report.replayed is not None
    hosts = sum(order.count for order in report.result.require_solution().orders)
    print(f"replay: {report.replayed.sentence}")
    print(
        f"{hosts} hosts of {GPUS} GPUs ({time.process_time() - cpu:.0f} CPU s); load planned for "
        f"{planned:.0f} GPUs, that came {came:.0f} GPUs ({100 * (came / planned - 1):+.0f} %)"
    )
    since_s = cut_s - WARM_UP_WEEKS * WEEK_S
    waits = simulated([j for j in jobs if since_s <= j.submit_s < end_s], hosts, given.scheduler)
    kept = 0
    print(f"{'class':14} {'jobs':>6} {'promised':>22} {'kept to it':>10} {'mean wait h':>12}")
    of_class: dict[str, list[float]] = defaultdict(list)
    for job in after:
        of_class[class_of(job)].append(waits[job.id])
    for c in problem.classes:
        found = of_class.get(c.name, [])
        if not found or c.goal is None or c.goal.fraction is None:
            continue
        share = sum(wait <= c.goal.hours for wait in found) / len(found)
        kept += share >= c.goal.fraction
        print(
            f"{c.name:14} {len(found):6d} {100 * c.goal.fraction:9.0f} % in {c.goal.hours:6.3g} h "
            f"{100 * share:8.1f} % {math.fsum(found) / len(found):12.2f}"
        )
    every = sorted(waits[job.id] for job in after)
    new = set(of_class) - {c.name for c in problem.classes}
    print(
        f"{kept} of {len(of_class) - len(new)} classes kept, {len(new)} not in the history; wait "
        "of all jobs: mean "
        f"{math.fsum(every) / len(every):.2f} h, p95 {every[int(0.95 * len(every))]:.2f} h"
    )
    return 0


def forecast(jobs: Sequence[TracedJob], scenarios: int, seed: int) -> PlanningProblem:
    """Return the planning problem of a quarter like the weeks of some jobs."""
    history = history_of_jobs(jobs, speeds={"gpu": 1.0})
    classes, _ = with_goals(history.classes, ())
    drawn = bootstrap_weeks(history, 1, num_scenarios=50, seed=seed)
    return PlanningProblem(
        "trace",
        "EUR",
        1,
        (HostOffer("buy", HostType("node", GPUS, "gpu"), "purchase", 100_000.0),),
        (Site("room"),),
        classes,
        reduce_scenarios(drawn, scenarios),
    )


def class_of(job: TracedJob) -> str:
    """Return the name that a history gives the class of a job."""
    gpus = GPU_EDGES[bisect_left(GPU_EDGES, job.num_gpus)]
    at = bisect_left(HOUR_EDGES, job.duration_s / HOUR_S)
    least = 0 if at == 0 else HOUR_EDGES[at - 1]
    return f"{gpus}-gpu {least:g}{f'-{HOUR_EDGES[at]:g}h' if at < len(HOUR_EDGES) else 'h+'}"


def simulated(jobs: Sequence[TracedJob], hosts: int, scheduler: str) -> dict[str, float]:
    """Return the wait of each job of a trace on so many hosts, hours; infinite if never started."""
    cluster = flat_cluster("plan", HostType("node", GPUS, "gpu"), hosts)
    asked = tuple(
        Job(
            job.id,
            job.submit_s - jobs[0].submit_s,
            job.duration_s,
            (rigid_gang(job.num_gpus),),
            elasticity="rigid",
        )
        for job in jobs
        if job.num_gpus <= GPUS * hosts
    )
    result = simulate(Instance("trace", cluster, asked), make_scheduler(scheduler), check=False)
    starts = {job.id: (result.start_s[job.id], job.arrival_s) for job in asked}
    return {
        job.id: math.inf
        if job.id not in starts or starts[job.id][0] is None
        else (starts[job.id][0] - starts[job.id][1]) / HOUR_S  # type: ignore[operator]
        for job in jobs
    }


if __name__ == "__main__":
    raise SystemExit(main())
