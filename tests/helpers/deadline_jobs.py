"""Small jobs with deadlines on one host, for tests of admission."""

from __future__ import annotations

from alloc.problems.allocation.instance import Instance
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup

HOUR = 3600.0
TABLE = tuple(
    Configuration((TaskGroup("worker", k, 1000),), rate)
    for k, rate in ((1, 1.0), (2, 1.9), (4, 3.4))
)
LINEAR = tuple(Configuration((TaskGroup("worker", k, 1000),), float(k)) for k in (1, 2, 3, 4))


def cluster(gpus: int = 4) -> Topology:
    return Topology("c", (HostType("k", gpus, "a100"),), (Host("h", "k"),))


def job(name: str, hours: float, deadline_h: float, *, table=LINEAR, **fields) -> Job:
    """Return a job of some hours on one GPU, with a deadline."""
    given = {"arrival_s": 0.0, "refusable": True, "deadline_s": deadline_h * HOUR, **fields}
    return Job(name, work=hours * HOUR, configurations=table, **given)


def instance(*jobs: Job, gpus: int = 4) -> Instance:
    return Instance("night", cluster(gpus), jobs, slot_s=HOUR)
