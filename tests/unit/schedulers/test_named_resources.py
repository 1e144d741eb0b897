"""Every scheduler gives out what hosts and the cluster offer by name, and lets jobs wait."""

from __future__ import annotations

import pytest

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler, scheduler_names
from alloc.simulation import simulate
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup

WITH_DISK = HostType("disk", 4, "v100", 32 * MILLI, 65536, resources={"nvme_gib": 10})
WITHOUT = HostType("bare", 4, "v100", 32 * MILLI, 65536)
CLUSTER = Topology(
    "named",
    (WITH_DISK, WITHOUT),
    (Host("h0", "bare"), Host("h1", "disk"), Host("h2", "bare")),
    resources={"licence": 2, "power_w": 1000},
)


def gang(workers: int, servers: int = 0, **resources: int) -> Configuration:
    """Return workers of one GPU that ask for named resources, and parameter servers."""
    groups = [TaskGroup("worker", workers, MILLI, MILLI, 1024, resources=resources)]
    if servers:
        groups.append(TaskGroup("ps", servers, 0, MILLI))
    return Configuration(tuple(groups), float(workers))


LICENSED, ON_DISK = gang(1, licence=1), gang(1, nvme_gib=6)


def jobs(*, with_servers: bool) -> tuple[Job, ...]:
    """Return more jobs than the licences, the disk or the power let run at once."""
    kinds = {
        "licensed": (LICENSED, gang(2, licence=1)),
        "disk": (ON_DISK,),
        "power": (gang(1, power_w=600),),
        "both": (gang(1, licence=2, nvme_gib=4),),
        "plain": tuple(gang(n, n if with_servers else 0) for n in (1, 2)),
    }
    return tuple(
        Job(f"{name}-{k}", 5.0 * k, 40.0, configurations, elasticity="moldable")
        for name, configurations in kinds.items()
        for k in range(3)
    )


TASK_BY_TASK = ("dl2", "dl2-rl-only", "window-policy")
"""They give out workers and parameter servers one by one, by GPU, CPU and memory, in slots."""


def outcome(name: str, slot_s: float | None, waiting: tuple[Job, ...]) -> str:
    """Let a scheduler run jobs; return what is wrong, or that it does not take them."""
    instance = Instance("named", CLUSTER, waiting, slot_s=slot_s)
    try:
        result = simulate(instance, make_scheduler(name))
    except UnsupportedFeatureError:
        return "refused"
    broken = verify(instance, result.schedule)
    done = {run.job for run in result.schedule.runs}
    return "; ".join(map(str, broken)) or ("" if len(done) == len(waiting) else "not all ran")


@pytest.mark.parametrize("name", [n for n in scheduler_names() if n not in TASK_BY_TASK])
def test_jobs_wait_for_licences_disks_and_power(name: str) -> None:
    """With slots or without, whichever the scheduler takes: all jobs end, no limit is broken."""
    found = {outcome(name, slot, jobs(with_servers=slot is not None)) for slot in (None, 10.0)}
    assert "" in found
    assert found <= {"", "refused"}


@pytest.mark.parametrize("name", TASK_BY_TASK)
def test_schedulers_that_give_out_single_tasks_refuse_what_they_do_not_count(name: str) -> None:
    everything = jobs(with_servers=True)
    plain = tuple(
        job.replace(elasticity="malleable") for job in everything if job.id.startswith("plain")
    )
    assert outcome(name, 10.0, everything) == "refused"
    assert outcome(name, 10.0, plain) == ""
