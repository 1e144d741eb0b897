"""Jobs with stages on one small host, for tests."""

from __future__ import annotations

from typing import Any

from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, Stage, TaskGroup

BOX = flat_cluster("box", HostType("box", 4, "generic"), 1)


def of(*stages: Stage, job_id: str = "q", **fields: Any) -> Instance:
    """Return a job with stages on one host of four GPUs."""
    return Instance("one", BOX, (Job(job_id, 0.0, stages=stages, **fields),))


def stage(stage_id: str, *before: str, work: float = 4.0, sizes: tuple[int, ...] = (1, 2)) -> Stage:
    """Return a stage that is as many times as fast as it has GPUs."""
    ways = tuple(Configuration((TaskGroup("w", n, 1000),), float(n)) for n in sizes)
    return Stage(stage_id, work, ways, before)
