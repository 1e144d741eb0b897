"""Simulate streams of rigid jobs on 2,500 GPUs under FIFO, all checks included.

Run it with ``python -m benchmarks.simulator_stream``, and ``--jobs 1000000`` for a million, or with
``--rule srtf`` for another rule. Beside FIFO run two programs that neither place nor check nor keep
a schedule, and only count GPUs: a heap of events, and SimPy where it is installed. All times are
CPU times, medians of turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import statistics
import sys
import time
from collections.abc import Sequence

import numpy as np

from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.simulation import SimulationResult, simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Job, rigid_gang
from benchmarks.alternatives.ratios import cpu_s
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

SIZES = (20_000, 80_000)
NUM_JOBS = 80_000
NUM_HOSTS = 313
LOAD = 0.95
"""Offered load: GPU time asked for per GPU time there is. Close to 1, queues are long."""

RULES = ("fifo", "srtf", "edf")
"""Rules that serve a stream by a rank that is known when a job arrives."""
EVENT_US = 6.0
"""Most CPU time of an event, microseconds; an arrival and an end are two."""
MAX_S = {80_000: 1.0, 1_000_000: 15.0}
"""Most CPU time of all, seconds, by number of jobs."""
MAX_MIB = {1_000_000: 1024.0}
"""Most memory beyond that of the jobs themselves, MiB, by number of jobs."""


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


def run(instance: Instance, rule: str = "fifo") -> tuple[float, SimulationResult]:
    """Simulate the stream under a rule; return the CPU seconds it took and the result."""
    began = time.process_time()
    result = simulate(instance, make_scheduler(rule))
    return time.process_time() - began, result


def peak_mib() -> float:
    """Return the most memory that this process has held so far, MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (2**20 if sys.platform == "darwin" else 2**10)


def measure(num_jobs: int, repeats: int, seed: int, rule: str = "fifo") -> list[Verdict]:
    """Print what a stream of some size takes, alone and beside other programs, which know FIFO."""
    from benchmarks.alternatives.event_loop import by_heap, by_simpy  # it imports this module

    others = {"a heap": lambda instance: by_heap(instance, hosts=False)}
    if importlib.util.find_spec("simpy") is not None:
        others["SimPy"] = by_simpy
    if rule != "fifo":
        others.clear()
    spent: list[float] = []
    ratios: dict[str, list[float]] = {name: [] for name in others}
    grown_mib = 0.0
    for turn in range(repeats):
        instance = stream(num_jobs, seed=seed + turn)
        before_mib = peak_mib()
        seconds, result = run(instance, rule)
        assert result.verified
        assert not result.unfinished
        if not turn:  # later turns reuse what is free
            grown_mib = peak_mib() - before_mib
        spent.append(seconds)
        begun = [result.start_s[job.id] or 0.0 for job in instance.jobs]
        del result
        arrived = [job.arrival_s for job in instance.jobs]
        wait_s = statistics.fmean(b - a for a, b in zip(arrived, begun, strict=True))
        for name, program in others.items():
            took, found_s = cpu_s(program, instance)
            if abs(found_s - wait_s) > 1e-6 * max(found_s, wait_s, 1.0):
                raise SystemExit(f"the mean waits are {wait_s:g} s and, by {name}, {found_s:g} s")
            ratios[name].append(seconds / took)
    median_s = statistics.median(spent)
    event_us = 1e6 * median_s / (2 * num_jobs)
    beside = "".join(
        f"; {statistics.median(found):.1f} times {name}" for name, found in ratios.items()
    )
    print(
        f"{num_jobs:9,d} jobs: {median_s:7.2f} s, {event_us:5.1f} us an event, "
        f"{grown_mib:5.0f} MiB{beside}",
        flush=True,
    )
    verdicts = [
        Verdict(
            f"{EVENT_US:g} us an event, placed and checked, with {num_jobs:,} jobs",
            f"{event_us:.1f} us",
            event_us <= EVENT_US,
        )
    ]
    if num_jobs in MAX_S:
        limit = MAX_S[num_jobs]
        verdicts.append(
            Verdict(f"{num_jobs:,} jobs in {limit:g} s", f"{median_s:.2f} s", median_s <= limit)
        )
    if num_jobs in MAX_MIB:
        most = MAX_MIB[num_jobs]
        verdicts.append(
            Verdict(f"{num_jobs:,} jobs in {most:g} MiB", f"{grown_mib:.0f} MiB", grown_mib <= most)
        )
    return verdicts


def main(argv: Sequence[str] | None = None) -> int:
    """Print times, memory and ratios; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulator_stream")
    parser.add_argument("--jobs", type=int, action="append", help=f"default: {SIZES}")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the first turn (default: 0)")
    parser.add_argument("--rule", choices=RULES, default="fifo")
    arguments = parser.parse_args(argv)
    run(stream(100))  # loads what is needed
    print(f"rigid jobs of 1-64 GPUs on {8 * NUM_HOSTS} GPUs ({NUM_HOSTS} hosts), load {LOAD}")
    verdicts = []
    for num_jobs in sorted(arguments.jobs or SIZES):  # the peak of memory only rises
        verdicts += measure(num_jobs, arguments.repeats, arguments.seed, arguments.rule)
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
