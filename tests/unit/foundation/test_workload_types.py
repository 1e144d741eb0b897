"""Jobs and configurations: what they derive, and what they refuse when built by a program."""

from __future__ import annotations

import re

import pytest

from alloc.errors import InstanceError
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

WORKERS = TaskGroup("worker", 2, 1000, 4000, 1024)
SERVERS = TaskGroup("ps", 3, 0, 2000, 512)


def test_the_demand_of_a_configuration_is_the_sum_over_its_tasks() -> None:
    """Every model and bound multiplies with this vector."""
    configuration = Configuration((WORKERS, SERVERS), 1.5)
    assert WORKERS.demand == (1000, 4000, 1024)
    assert configuration.demand == (2000, 14_000, 3584)
    assert configuration.label == "2 worker + 3 ps"
    assert configuration.num_tasks("ps") == 3
    assert configuration.num_tasks("chief") == 0


@pytest.mark.parametrize(
    ("gpu_milli", "shares"), [(0, False), (10, True), (999, True), (1000, False)]
)
def test_sharing_is_less_than_a_whole_gpu(gpu_milli: int, shares: bool) -> None:
    """A share needs a position on its host; a whole GPU does not."""
    assert TaskGroup("worker", 1, gpu_milli).shares_gpu is shares


@pytest.mark.parametrize("gpu_milli", [1000, 2000, 8000])
def test_whole_gpus_come_in_any_number(gpu_milli: int) -> None:
    """A task of eight GPUs is one process on one host."""
    assert TaskGroup("worker", 1, gpu_milli).demand[0] == gpu_milli


def test_a_rigid_gang_has_one_worker_per_gpu() -> None:
    """With rate 1 a job's work is its duration, as traces give it."""
    gang = rigid_gang(4, cpu_milli_per_gpu=2000, memory_mib_per_gpu=512)
    assert gang.demand == (4000, 8000, 2048)
    assert gang.rate == 1.0
    with pytest.raises(InstanceError, match="rigid gang: num_gpus is 0; it must be more than 0"):
        rigid_gang(0)


def test_what_a_job_derives() -> None:
    """Rates have any shape: the fastest need not be the largest."""
    rates = (0.0, 4.0, 2.0)
    job = Job("a", 0.0, 10.0, tuple(Configuration((WORKERS,), r) for r in rates), work_done=2.0)
    assert job.work_left == 8.0
    assert job.max_rate == 4.0
    assert job.min_run_s == 2.0


def test_replace_checks_again() -> None:
    """A copy is as valid as the first, and the first stays as it was."""
    job = Job("a", 0.0, 10.0, (rigid_gang(1),))
    assert job.replace(work=5.0).work == 5.0
    assert job.work == 10.0
    with pytest.raises(InstanceError, match='job "a": work is 0'):
        job.replace(work=0)


@pytest.mark.parametrize(
    ("elasticity", "sentence"),
    [
        (
            "maleable",
            'elasticity "maleable" is unknown; did you mean "malleable"? known: malleable,',
        ),
        ("fixed", 'elasticity "fixed" is unknown; known: malleable, moldable, rigid.'),
    ],
)
def test_unknown_elasticity(elasticity: str, sentence: str) -> None:
    """Programs pass strings from tables."""
    with pytest.raises(InstanceError, match=re.escape(sentence)):
        Job("a", 0.0, 10.0, (rigid_gang(1),), elasticity=elasticity)  # type: ignore[arg-type]


def test_a_deadline_must_come_after_the_arrival() -> None:
    """At the arrival itself nothing can be done."""
    with pytest.raises(InstanceError, match="a job must arrive before its deadline"):
        Job("a", 5.0, 1.0, (rigid_gang(1),), deadline_s=5.0)
    assert Job("a", 5.0, 1.0, (rigid_gang(1),), deadline_s=5.1).deadline_s == 5.1
    # A due date may have passed already: it is soft.
    assert Job("a", 5.0, 1.0, (rigid_gang(1),), due_date_s=1.0).due_date_s == 1.0
