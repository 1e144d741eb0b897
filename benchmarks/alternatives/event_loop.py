"""A stream of rigid gangs under FIFO, by alloc's simulator and by two loops of a dozen lines.

One loop counts free GPUs, as a resource of SimPy does; the other puts each gang on hosts by best
fit. Neither checks a decision or keeps a schedule; alloc does both. The mean waits must agree.
"""

from __future__ import annotations

import argparse
import heapq
import importlib
import random
import statistics
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from alloc.problems.allocation.instance import Instance
from alloc.units import MILLI
from benchmarks.alternatives.ratios import Row, cpu_s, in_turns, print_rows
from benchmarks.environment import describe_environment
from benchmarks.simulator_stream import run, stream
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # `benchmarks.alternatives.table` runs it in short

SIZES = (2000, 10_000, 50_000)
HOSTS = 313
EVENT_US = 6.0
"""Most CPU time of an event, microseconds; an arrival and an end are two."""


def by_heap(instance: Instance, hosts: bool) -> float:
    """Return the mean wait under FIFO, seconds.

    Parameters
    ----------
    instance
        Gangs of tasks of one GPU each, in order of arrival.
    hosts
        Whether gangs go on hosts, the fullest that hold all or else the emptiest, or are counted.
    """
    num_hosts, a_host = instance.topology.num_hosts, 8
    free = np.full(num_hosts, a_host)
    left = num_hosts * a_host
    queue: deque[tuple[float, int, float]] = deque()
    running: list[tuple[float, int, int, list[tuple[int, int]]]] = []
    waits: list[float] = []
    arrivals = iter(
        [(j.arrival_s, j.configurations[0].demand[0] // MILLI, j.work) for j in instance.jobs]
    )
    coming = next(arrivals, None)
    number = 0
    while coming or running:
        if coming and (not running or coming[0] < running[0][0]):
            now_s = coming[0]
            queue.append(coming)
            coming = next(arrivals, None)
        else:
            now_s, _, gpus, places = heapq.heappop(running)
            left += gpus
            for h, n in places:
                free[h] += n
        while queue and queue[0][1] <= left:
            arrival_s, gpus, work = queue.popleft()
            left -= gpus
            places = []
            if hosts:
                whole = np.flatnonzero(free >= gpus)
                order = whole[[free[whole].argmin()]] if whole.size else np.argsort(-free)
                need = gpus
                for h in order.tolist():
                    n = min(need, int(free[h]))
                    places.append((h, n))
                    free[h] -= n
                    need -= n
                    if not need:
                        break
            waits.append(now_s - arrival_s)
            number += 1
            heapq.heappush(running, (now_s + work, number, gpus, places))
    return statistics.fmean(waits)


def by_simpy(instance: Instance) -> float:
    """Return the mean wait under FIFO, seconds, by SimPy, with the GPUs as a container.

    Parameters
    ----------
    instance
        Gangs of tasks of one GPU each, in order of arrival.
    """
    simpy: Any = importlib.import_module("simpy")  # no package of ours: it may be missing
    world = simpy.Environment()
    num_gpus = 8 * instance.topology.num_hosts
    gpus = simpy.Container(world, num_gpus, num_gpus)
    waits: list[float] = []

    def life(number: int, work: float) -> Iterator[Any]:
        arrival_s = world.now
        yield gpus.get(number)
        waits.append(world.now - arrival_s)
        yield world.timeout(work)
        gpus.put(number)

    def arrivals() -> Iterator[Any]:
        for job in instance.jobs:
            yield world.timeout(max(job.arrival_s - world.now, 0.0))
            world.process(life(job.configurations[0].demand[0] // MILLI, job.work))

    world.process(arrivals())
    world.run()
    return statistics.fmean(waits)


def mean_wait_s(instance: Instance) -> float:
    """Return the mean wait by alloc's simulator, all checks included, seconds."""
    _, result = run(instance)
    assert result.verified
    starts = result.start_s
    return statistics.fmean((starts[job.id] or 0.0) - job.arrival_s for job in instance.jobs)


def compare(number: int, seeds: Sequence[int], *, hosts: bool) -> Row:
    """Time both on streams of their own."""
    waits: dict[int, list[float]] = {}

    def ours(seed: int) -> float:
        spent, wait_s = cpu_s(mean_wait_s, stream(number, HOSTS, seed))
        waits.setdefault(seed, []).append(wait_s)
        return spent

    def theirs(seed: int) -> float:
        spent, wait_s = cpu_s(by_heap, stream(number, HOSTS, seed), hosts)
        waits.setdefault(seed, []).append(wait_s)
        return spent

    row = in_turns(number, seeds, ours, theirs)
    for seed, (a, b) in waits.items():
        if abs(a - b) > 1e-6 * max(a, b, 1.0):
            raise SystemExit(f"seed {seed}: the mean waits are {a:g} and {b:g} s")
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Print ratios and CPU times; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alternatives.event_loop")
    parser.add_argument("--jobs", type=int, action="append")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, help="of the first stream (default: drawn)")
    arguments = parser.parse_args(argv)
    seed = random.randrange(2**20) if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    run(stream(100, HOSTS, seed))
    rows: list[Row] = []
    for hosts in (False, True):
        seeds = range(seed, seed + arguments.repeats)
        rows = [compare(n, seeds, hosts=hosts) for n in arguments.jobs or SIZES]
        print_rows(f"FIFO, beside a heap that {'places' if hosts else 'counts'}", rows)
    last = rows[-1]
    event_us = 1e6 * statistics.median(last.ours) / (2 * last.size)
    return conclude(
        [
            Verdict(
                f"{EVENT_US:g} us an event, placed and checked, with {last.size:,} jobs",
                f"{event_us:.1f} us",
                event_us <= EVENT_US,
            )
        ]
    )


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
