"""What `tests/unit/foundation/test_parallel.py` runs with each kind of workers, as a program.

By a program of its own, for Dask and Ray keep threads that no test should inherit. It prints what
it saw as JSON.
"""

from __future__ import annotations

import json
import os
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


def look(value: Counted, number: int) -> tuple[int, int, int]:
    time.sleep(0.02)  # so that no worker does all calls alone
    return number, os.getpid(), value.unpacked


def main(kind: str) -> None:
    from alloc.comparison import compare
    from alloc.instances import load, stored_planning
    from alloc.parallel import CLUSTERS, workers
    from alloc.planning.replay import ReplaySettings
    from alloc.planning.report import plan

    value = Counted()
    calls = [(value, number) for number in range(12)]
    with workers(kind, 2) as outer, workers(None, 2, [value]) as crew:
        # A run within that of somebody who opened a cluster for several.
        assert (outer is crew) is (kind in CLUSTERS)
        seen = [list(crew.run(look, calls)) for _ in range(2)]
    grid: dict[str, Any] = {"schedulers": ["fifo", "srtf"], "time_limit_s": 20, "seeds": (0, 1)}
    instances = [load("elastic-tiny/01"), load("elastic-tiny/03")]
    found = {}
    for name, jobs in (("serial", 1), (kind, 2)):
        rows = compare(instances, **grid, parallel=kind if jobs > 1 else None, jobs=jobs).rows
        found[name] = [(r.instance, r.scheduler, r.seed, r.objective, r.error) for r in rows]
    plans = {}
    for name, count in (("serial", 1), (kind, 2)):
        settings = ReplaySettings(jobs=100, workers=count)
        with workers(None if count == 1 else kind, count):
            report = plan(
                stored_planning.load_stored_planning("planning-tiny"),
                replay=settings,
                max_iterations=1,
            )
        assert report.replayed is not None
        plans[name] = [repr(turn.measured) for turn in report.replayed.iterations]
    told = {
        "packed": len(PACKED),
        "numbers": [sorted(number for number, *_ in run) for run in seen],
        "processes": [sorted({process for _, process, _ in run}) for run in seen],
        "unpacked": max(times for run in seen for *_, times in run),
        "rows": [found["serial"], found[kind]],
        "plans": [plans["serial"], plans[kind]],
        "here": os.getpid(),
    }
    print(json.dumps(told))
