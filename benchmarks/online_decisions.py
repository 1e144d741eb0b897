"""CPU time of a decision with many jobs at once: of `rollout`, and of the rolling horizon.

All jobs arrive at the start; the first slots are simulated. The rows are chosen to be hard: gangs
with and without restarts, few large gangs at a time, elastic jobs of 16 and 256 configurations, and
errors in the rates that are drawn anew for every job at every look, so that no two jobs share a
table. The first decision counts; loading the solvers does not: a small run before does that, and
what it leaves in memory is kept from Python's collector of garbage.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from alloc.instances import generate_elastic
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate
from alloc.topology import HostType
from alloc.topology.topology import flat_cluster
from alloc.workload import Job, rigid_gang
from benchmarks.environment import describe_environment
from benchmarks.online import DECISION_MS, MANY_JOBS, Timed
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
"""Minutes; run by name only."""

SLOT_S = 1_200.0
SLOTS = 12
"""Slots that are simulated: prices and the order of the decision before have set in by then."""
REPEATS = 3
"""Runs of `rollout`, whose decisions are the same in each: the least time of a decision counts, as
others at work on the machine only ever add to it."""
ROLLING_JOBS = 300
ROLLING_MS = 1e3
"""Most CPU time of a decision of the rolling horizon on `ROLLING_JOBS` jobs, milliseconds."""


@dataclass(frozen=True)
class Queue:
    """Jobs that are all there at the start.

    Parameters
    ----------
    name
        Name of the row.
    options
        Options of `gangs` or, with ``max_workers`` among them, of `generate_elastic`.
    speed_error
        Largest relative error of the rates seen.
    """

    name: str
    options: Mapping[str, object] = field(default_factory=dict)
    speed_error: float = 0.0

    def make(self, num_jobs: int, seed: int) -> Instance:
        """Return the instance."""
        if "max_workers" not in self.options:
            return gangs(num_jobs, seed, **self.options)  # type: ignore[arg-type]
        instance = generate_elastic(self.name, num_jobs=num_jobs, seed=seed, **self.options)  # type: ignore[arg-type]
        jobs = tuple(dataclasses.replace(job, arrival_s=0.0) for job in instance.jobs)
        return dataclasses.replace(instance, jobs=jobs)


def gangs(
    num_jobs: int,
    seed: int,
    *,
    sizes: Sequence[int] = (1, 1, 2, 4, 8, 16),
    restart_s: float = 0.0,
    slot_s: float | None = SLOT_S,
) -> Instance:
    """Return rigid gangs of the given sizes, of minutes to days, on 14 hosts of 8 GPUs."""
    rng = np.random.default_rng(seed)
    jobs = tuple(
        Job(
            id=f"job-{j}",
            arrival_s=0.0,
            work=float(np.exp(rng.uniform(np.log(600.0), np.log(400_000.0)))),
            configurations=(rigid_gang(int(rng.choice(sizes))),),
            elasticity="rigid",
            restart_cost_s=restart_s,
        )
        for j in range(num_jobs)
    )
    hosts = flat_cluster("hosts", HostType("host", 8, "generic"), 14)
    return Instance(name="gangs", topology=hosts, jobs=jobs, slot_s=slot_s)


def _elastic() -> list[Queue]:
    """Return the elastic rows: tables, models that scale little or far, cluster, errors."""
    return [
        Queue(
            f"elastic, {side**2} configurations, compute x {scale:g}, {hosts} hosts"
            + (f", rates within {error:.0%}" if error else ""),
            {
                "max_workers": side,
                "max_ps": side,
                "num_hosts": hosts,
                "compute_scale": scale,
                "weights": "classes",
            },
            error,
        )
        for side in (4, 16)
        for scale in (1.0, 8.0)
        for hosts in (20, 50, 100)
        for error in (0.0, 0.2)
    ]


GANGS = (
    Queue("gangs"),
    Queue("gangs with restarts", {"restart_s": 300.0}),
    Queue("gangs, continuous time", {"slot_s": None}),
    Queue("gangs with restarts, continuous time", {"restart_s": 300.0, "slot_s": None}),
    Queue("gangs, few at a time", {"sizes": (8, 64, 96)}),
    Queue("gangs with restarts, few at a time", {"sizes": (8, 64, 96), "restart_s": 300.0}),
)
ROLLING = (GANGS[0], GANGS[4], _elastic()[2], _elastic()[-1])
"""The rolling horizon is given these: it plans at most 40 jobs at a time."""


def measure(queue: Queue, scheduler: str, num_jobs: int, repeats: int = 1) -> list[float]:
    """Return the CPU time of each decision, milliseconds, the least of some equal runs."""
    runs = []
    for _ in range(repeats):
        timed = Timed(make_scheduler(scheduler))
        simulate(
            queue.make(num_jobs, seed=1),
            timed,
            knowledge="estimate" if queue.speed_error else "exact",
            speed_error=queue.speed_error,
            rng=1,
            max_time_s=SLOTS * SLOT_S,
        )
        runs.append([1e3 * spent for _, spent in timed.spent])
    return [min(spent) for spent in zip(*runs, strict=True)]


def report(
    queues: Sequence[Queue], scheduler: str, num_jobs: int, repeats: int, limit_ms: float
) -> Verdict:
    """Print median and maximum of each row; return whether all decisions kept the limit."""
    print(f"\n{scheduler}, {num_jobs} jobs at once: decisions, median and longest (ms of CPU time)")
    longest = {}
    for queue in queues:
        spent = measure(queue, scheduler, num_jobs, repeats)
        longest[queue.name] = max(spent)
        print(
            f"{queue.name:76s} {len(spent):4d} {np.median(spent):7.1f} {max(spent):7.1f}",
            flush=True,
        )
    worst = max(longest, key=lambda name: longest[name])
    return Verdict(
        f"every decision of {scheduler} on at most {num_jobs} jobs in {limit_ms:g} ms of CPU time",
        f"longest {longest[worst]:.0f} ms: {worst}",
        longest[worst] <= limit_ms,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.online_decisions")
    parser.add_argument("--match", default="", help="only rows that have this in their name")
    arguments = parser.parse_args(argv)
    for scheduler in ("rollout", "rolling-horizon"):
        measure(_elastic()[2], scheduler, 8)  # loads the solvers
    gc.collect()
    gc.freeze()
    rows = [queue for queue in (*GANGS, *_elastic()) if arguments.match in queue.name]
    rolling = [queue for queue in ROLLING if arguments.match in queue.name]
    verdicts = [report(rows, "rollout", MANY_JOBS, REPEATS, DECISION_MS)] if rows else []
    if rolling:
        verdicts.append(report(rolling, "rolling-horizon", ROLLING_JOBS, 1, ROLLING_MS))
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
