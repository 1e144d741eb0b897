"""A grid of 40 cells on local processes, Dask and Ray, with 1, 2 and 4 workers: docs/parallel.md.

The clock runs from the call of `compare` to its last cell, with workers that are there and have
done a small grid before. The bounds have no part in it: their time is the solver's limit, whoever
works. The kinds take turns, and the least time of each counts, for the machine may have other work.
Where Dask or Ray is not installed it is left out, and said.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from alloc.comparison import CellEvent, compare
from alloc.errors import BackendUnavailableError
from alloc.instances import load
from alloc.parallel import workers
from alloc.problems.allocation.instance import Instance
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

KINDS = ("loky", "dask", "ray")
NUM_INSTANCES = 5
SCHEDULERS = ("fifo", "srtf", "las", "drf", "optimus", "tetris", "srtf-dl2", "random-ps")
TURNS = 2
"""How often each kind begins anew: the machine may have been busy in one of its turns."""
TARGET = 1.3
"""Time of a cluster of local workers over that of local processes, at most (issue 13)."""


class _CellsDone(Exception):
    """The last cell is done."""


def seconds(instances: Sequence[Instance], kind: str, count: int, repeats: int) -> list[float]:
    """Return the start of the workers and the times of the grids, seconds.

    Parameters
    ----------
    instances
        The instances of the grid.
    kind
        Kind of workers.
    count
        Number of workers.
    repeats
        Number of grids.
    """
    began = time.perf_counter()
    with workers(kind, count):
        _grid(instances[:2], count)
        times = [time.perf_counter() - began]
        times += [_grid(instances, count) for _ in range(repeats)]
    return times


def _grid(instances: Sequence[Instance], count: int) -> float:
    wanted = len(instances) * len(SCHEDULERS)
    began = time.perf_counter()

    def stop(event: CellEvent) -> None:
        if event.done == wanted:
            raise _CellsDone

    try:
        compare(instances, SCHEDULERS, jobs=count, progress=stop)
    except _CellsDone:
        return time.perf_counter() - began
    raise AssertionError("the grid has more cells than it says")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 0 if clusters of two workers keep the target."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.parallel_workers", description=__doc__
    )
    parser.add_argument("--workers", default="1,2,4", help="numbers of workers")
    parser.add_argument("--family", default="elastic-medium", help="stored family of instances")
    parser.add_argument("--repeats", type=int, default=3, help="grids in each turn")
    arguments = parser.parse_args(argv)
    print(describe_environment(), flush=True)
    instances = [load(f"{arguments.family}/{k:02d}") for k in range(1, NUM_INSTANCES + 1)]
    best: dict[tuple[str, int], float] = {}
    kinds = list(KINDS)
    print(f"load of the last minute {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'workers':10s}{'number':>8s}{'start (s)':>12s}{'40 cells (s)':>14s}")
    for count in map(int, arguments.workers.split(",")):
        for _ in range(TURNS):
            for kind in tuple(kinds):
                try:
                    start, *times = seconds(instances, kind, count, arguments.repeats)
                except BackendUnavailableError as error:
                    print(f"NOT RUN: {error}")
                    kinds.remove(kind)
                    continue
                best[kind, count] = min(*times, best.get((kind, count), times[0]))
                print(f"{kind:10s}{count:8d}{start:12.1f}{min(times):14.2f}", flush=True)
    verdicts = []
    for (kind, count), least in best.items():
        if (kind, 1) in best:
            print(f"{kind}, {count} workers: {best[kind, 1] / least:.2f} times as fast as one")
    for kind in KINDS[1:]:
        if (kind, 2) in best:
            ratio = best[kind, 2] / best["loky", 2]
            target = f"2 workers of {kind} within {TARGET:g} times of 2 local processes"
            verdicts.append(Verdict(target, f"{ratio:.2f} times", ratio <= TARGET))
    return conclude(verdicts)


if __name__ == "__main__":
    sys.exit(main())
