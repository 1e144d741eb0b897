"""Simulate a stream of 80,000 rigid jobs on 2,500 GPUs under FIFO, all checks included.

Run it with ``python -m benchmarks.simulator_stream``. The goal is 10 s on two cores.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np

from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.simulation import SimulationResult, simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Job, rigid_gang
from benchmarks.environment import describe_environment

NUM_JOBS = 80_000
NUM_HOSTS = 313
LOAD = 0.95
"""Offered load: GPU time asked for per GPU time there is. Close to 1, queues are long."""

GOAL_S = 10.0


def stream(num_jobs: int = NUM_JOBS, num_hosts: int = NUM_HOSTS, seed: int = 0) -> Instance:
    """Return a stream of rigid gangs of 1 to 64 GPUs with Poisson arrivals.

    Sizes are powers of two, small ones more common; durations are log-normal with a median of ten
    minutes.
    """
    rng = np.random.default_rng(seed)
    gpus_per_host = 8
    sizes = 2 ** rng.choice(7, size=num_jobs, p=[0.4, 0.16, 0.14, 0.16, 0.07, 0.04, 0.03])
    durations_s = np.clip(rng.lognormal(np.log(600.0), 1.5, num_jobs), 10.0, 7 * 86400.0)
    span_s = float(sizes @ durations_s) / (LOAD * num_hosts * gpus_per_host)
    arrivals_s = np.sort(rng.uniform(0.0, span_s, num_jobs))
    gangs = {int(size): (rigid_gang(int(size), cpu_milli_per_gpu=4000),) for size in set(sizes)}
    host = HostType("8-gpu", gpus_per_host, "generic", 64_000, 0)
    jobs = tuple(
        Job(f"job-{j}", float(a), float(d), gangs[int(g)], elasticity="rigid", preemptible=False)
        for j, (a, d, g) in enumerate(zip(arrivals_s, durations_s, sizes, strict=True))
    )
    return Instance("stream", flat_cluster("stream", host, num_hosts), jobs)


def run(instance: Instance) -> tuple[float, SimulationResult]:
    """Simulate the stream under FIFO; return the seconds it took and the result."""
    began = time.perf_counter()
    result = simulate(instance, make_scheduler("fifo"))
    return time.perf_counter() - began, result


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was simulated and the seconds it took; return 1 if the goal is missed."""
    del argv  # nothing to choose
    instance = stream()
    print(
        f"instance: {len(instance.jobs)} rigid jobs of 1-64 GPUs on "
        f"{instance.topology.num_gpus} GPUs ({instance.topology.num_hosts} hosts), load {LOAD}"
    )
    seconds, result = run(instance)
    waits = [
        start - job.arrival_s
        for job in instance.jobs
        if (start := result.start_s[job.id]) is not None
    ]
    print(
        f"simulated {result.end_s / 86400:.1f} days in {seconds:.2f} s (goal {GOAL_S:g} s), "
        f"{len(result.decision_s)} decisions, checker's final check included: {result.verified}"
    )
    print(
        f"{len(instance.jobs) - len(result.unfinished)} jobs complete; mean wait "
        f"{np.mean(waits):.0f} s; decision {1e6 * result.decision_s.mean():.0f} us mean"
    )
    return int(seconds > GOAL_S)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
