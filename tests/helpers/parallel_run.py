"""What `tests/unit/foundation/test_parallel.py` runs with each kind of workers, as a program.

By a program of its own, for Dask and Ray keep threads that no test should inherit. It prints what
it saw as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

PACKED: list[int] = []
"""One entry for each time that the value was made ready to travel, in this process."""


class Counted:
    """A value that knows where it was unpacked."""

    def __init__(self) -> None:
        self.unpacked = 0

    def __getstate__(self) -> dict[str, int]:
        PACKED.append(1)
        return {"unpacked": 0}

    def __setstate__(self, state: dict[str, int]) -> None:
        global _UNPACKED
        _UNPACKED += 1
        self.unpacked = _UNPACKED


_UNPACKED = 0


def look(value: Counted, number: int) -> tuple[int, int, int, bool]:
    time.sleep(0.02)  # so that no worker does all calls alone
    deaf = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return number, os.getpid(), value.unpacked, deaf


class Stopped(Exception):
    """Somebody stops a comparison in its middle."""


def stop(event: Any) -> None:
    raise Stopped


def main(kind: str) -> None:
    from alloc.parallel import CLUSTERS, open_cluster, workers

    value = Counted()
    calls = [(value, number) for number in range(12)]
    told: dict[str, Any] = {"here": os.getpid()}
    with workers(kind, 2) as outer:
        with workers(None, 2, [value]) as crew:
            # A run within that of somebody who opened a cluster for several.
            assert (outer is crew) is (kind in CLUSTERS)
            seen = [list(crew.run(look, calls)) for _ in range(2)]
        with workers("threading", 2):
            assert open_cluster() is None  # the inner one is what was asked for last
        assert (open_cluster() is outer) is (kind in CLUSTERS)
        told["packed"] = len(PACKED)
        # What local processes compute is compared in the tests of comparisons and replays.
        if kind in CLUSTERS:
            told["there"] = numbers(kind, 2)
            told["search"] = search()
    if kind in CLUSTERS:
        told["alone"] = numbers(None, 1)
        with workers(kind, 1) as crew, crew.sharing([value]):
            told["single"] = [number for number, *_ in crew.run(look, calls)]
    if kind == "dask":
        told["late"], told["left"] = late()
    told["numbers"] = [sorted(number for number, *_ in run) for run in seen]
    told["processes"] = [sorted({process for _, process, *_ in run}) for run in seen]
    told["unpacked"] = max(times for run in seen for *_, times, _ in run)
    told["deaf"] = all(deaf for run in seen for *_, deaf in run)
    print(json.dumps(told))


def late() -> tuple[int, int]:
    """Return how many late Dask workers find what was sent, and the values left afterwards."""
    from distributed import get_client

    from alloc import parallel
    from alloc.parallel import workers

    with workers("dask", 2) as crew:
        client: Any = get_client()  # its methods have no types
        early = {os.getpid(), *client.run(os.getpid).values()}
        with crew.sharing([Counted()]):
            client.cluster.scale(4)
            client.wait_for_workers(4)
            kept = client.run(lambda: (os.getpid(), len(parallel._on_this_worker)))
        found = sum(values for process, values in kept.values() if process not in early)
        return found, sum(client.run(lambda: len(parallel._on_this_worker)).values())


def search() -> list[Any]:
    """Return what a solve with two workers, and one in parts, find on the workers that are open."""
    from alloc import Limits, solve
    from alloc.instances import load
    from alloc.solving.outcome import Settings
    from alloc.solving.team import Team

    settings = Settings(time_limit_s=300, workers=2)
    with Team(2, lambda line: None) as team:
        team.ask(seed_of, settings, None)
        seeds = team.collect()
    limits = Limits(seconds=300, workers=2)
    parts = solve(load("placement-leaves/03"), "placement", "partitioned", limits=limits)
    return [[seed for seed, _ in seeds], [pid != os.getpid() for _, pid in seeds], parts.objective]


def seed_of(known: None, settings: Any) -> tuple[int, int]:
    return settings.seed, os.getpid()


def numbers(kind: str | None, count: int) -> list[Any]:
    """Return what a comparison and the replays of a plan say, after a run that was stopped."""
    from alloc.comparison import compare
    from alloc.instances import load, stored_planning
    from alloc.planning.replay import ReplaySettings
    from alloc.planning.report import plan

    instances = [load("elastic-tiny/01"), load("elastic-tiny/03")]
    grid: dict[str, Any] = {"schedulers": ["fifo", "srtf"], "time_limit_s": 20}
    try:
        compare(instances, **grid, progress=stop)
    except Stopped:
        # The error still holds the frames in which the run stood.
        rows = compare(instances, **grid, jobs=count, parallel=kind).rows
    problem = stored_planning.load_stored_planning("planning-tiny")
    report = plan(problem, replay=ReplaySettings(jobs=100, workers=count), max_iterations=1)
    assert report.replayed is not None
    replays = [repr(turn.measured) for turn in report.replayed.iterations]
    return [[(r.instance, r.scheduler, r.seed, r.objective, r.error) for r in rows], replays]
