"""Named resources beside running jobs: who may start, what is said, and what moves."""

from __future__ import annotations

import pytest

from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.gang.decision import decide_for
from alloc.solving.placing.defragmentation import drain
from alloc.topology import Host, HostType, Topology
from alloc.verification import verify
from alloc.verification.migration import verify_migration
from alloc.workload import Configuration, Job, TaskGroup

DISK = HostType("disk", 4, "a", 8000, 1024, resources={"nvme_gib": 10})
BARE = HostType("bare", 4, "a", 8000, 1024)
CLUSTER = Topology(
    "c",
    (DISK, BARE),
    (Host("d0", "disk"), Host("d1", "disk"), Host("b0", "bare")),
    resources={"licence": 3},
)


def job(name: str, count: int = 1, **resources: int) -> Job:
    group = TaskGroup("w", count, 1000, resources=resources)
    return Job(name, 0.0, 1.0, (Configuration((group,), 1.0),))


def on(name: str, host: str, count: int = 1) -> Assignment:
    return Assignment(name, 0, (TaskPlacement(host, "w", count),))


RUNNING = (job("x", licence=2), job("y", nvme_gib=6))
WHERE = (on("x", "b0"), on("y", "d0"))


@pytest.mark.parametrize(
    ("waiting", "sentence", "cures"),
    [
        (
            job("j", licence=2),
            'job "j" needs 1 GPU, 2 licence a task; the cluster has 1 licence left; '
            "with 1 licence a task it would start.",
            ["licence"],
        ),
        (
            job("j", 2, licence=1),
            'job "j" needs 2 GPUs, 1 licence a task; the cluster has 1 licence left; '
            "1 GPU would start now.",
            ["GPUs"],
        ),
        (
            job("j", 2, nvme_gib=7),
            'job "j" needs 2 GPUs, 7 nvme_gib a task; the cluster has 10 free, 9 of them on hosts '
            "without nvme_gib for it; with 5 nvme_gib a task it would start.",
            ["nvme_gib", "GPUs"],
        ),
    ],
)
def test_a_gang_is_told_which_resource_it_lacks(waiting, sentence, cures) -> None:
    instance = Instance("i", CLUSTER, (*RUNNING, waiting), running=WHERE)
    explanation = decide_for(instance, "j").explanation
    assert explanation is not None
    assert explanation.sentence == sentence
    assert [cure.requirement for cure in explanation.relaxations] == cures


def test_a_gang_starts_with_the_last_licence_and_the_last_of_a_disk() -> None:
    waiting = job("j", 1, licence=1, nvme_gib=10)
    instance = Instance("i", CLUSTER, (*RUNNING, waiting), running=WHERE)
    assignment = decide_for(instance, "j").assignment
    assert assignment is not None
    assert [task.host for task in assignment.tasks] == ["d1"]


def test_a_task_that_moves_holds_its_licence_once_and_its_disk_twice() -> None:
    """All licences are out, and the disks have room for one of the two at a time."""
    jobs = (job("x", licence=3), job("y", nvme_gib=6))
    instance = Instance("i", CLUSTER, jobs, running=(on("x", "d0"), on("y", "d0")))
    found = drain(instance, ["d0"])
    assert found.emptied == ("d0",)
    assert found.migration is not None
    assert verify_migration(instance, found.migration) == []
    held = [task.host for a in found.migration.allocation.assignments for task in a.tasks]
    assert held[1] == "d1"


@pytest.mark.parametrize("backend", ["auto", "highs", "pyomo", "cpsat"])
def test_running_jobs_that_hold_too_many_licences_give_them_back(backend: str) -> None:
    """A smaller contract came into force: what may be stopped is, by weight."""
    jobs = (
        job("x", licence=2).replace(weight=3.0),
        job("y", licence=2).replace(weight=1.0),
        job("z", licence=1).replace(weight=1.0),
    )
    running = (on("x", "b0"), on("y", "d0"), on("z", "d1"))
    instance = Instance("i", CLUSTER, jobs, running=running, moves=Moves(evict=True))
    result = solve(
        instance, "placement", backend, objective="weight_placed", limits=Limits(seconds=10.0)
    )
    assert result.certificate.objective == 4.0
    assert result.solution is not None
    assert verify(instance, result.solution) == []
