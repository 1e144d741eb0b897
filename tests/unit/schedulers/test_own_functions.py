"""Plain functions as schedulers: what they return, and what they must not."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from alloc.errors import SimulationError
from alloc.instances import load
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import ClusterState
from alloc.simulation import simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Job, rigid_gang

INSTANCE = load("elastic-tiny/04")


def four_gpus(*jobs: Job) -> Instance:
    host = HostType("host", num_gpus=4, gpu_type="generic")
    return Instance("four GPUs", flat_cluster("four", host, 1), jobs)


def gang(name: str, gpus: int, hours: float, arrival_s: float = 0.0, **more: Any) -> Job:
    return Job(
        name,
        arrival_s,
        hours * 3600.0,
        (rigid_gang(gpus),),
        elasticity="rigid",
        **more,
    )


def test_jobs_in_order_each_take_what_they_can_use() -> None:
    """By remaining time this is SRTF, to the last host."""

    def by_time(state: ClusterState) -> Any:
        return sorted(
            state.jobs,
            key=lambda job: job.work_left / max(c.rate for c in job.configurations),
        )

    for name in ("elastic-tiny/04", "elastic-tiny/05"):
        instance = load(name)
        mine, theirs = simulate(instance, by_time), simulate(instance, "srtf")
        assert mine.schedule == theirs.schedule


def test_running_jobs_that_are_not_named_keep_what_they_have() -> None:
    instance = four_gpus(gang("long", 4, 2.0), gang("short", 4, 0.5, 600.0))
    waiting = simulate(instance, lambda state: state.waiting)
    assert waiting.restarts == 0
    assert waiting.completion_s["long"] == 7200.0
    # Those that are named make room.
    short = simulate(instance, lambda state: sorted(state.jobs, key=lambda job: job.work_left))
    assert short.completion_s == {"short": 2400.0, "long": 9000.0}


def test_jobs_that_must_not_be_paused_are_not() -> None:
    instance = four_gpus(gang("long", 4, 2.0, preemptible=False), gang("short", 4, 0.5, 600.0))
    run = simulate(instance, lambda state: sorted(state.jobs, key=lambda job: job.work_left))
    assert run.completion_s["long"] == 7200.0
    # Nor by a share of nothing.
    last = simulate(instance, lambda state: {j.id: 4 * (j is state.jobs[-1]) for j in state.jobs})
    assert last.completion_s == {"long": 7200.0, "short": 9000.0}


def test_gpus_by_job_choose_the_fastest_configuration_within() -> None:
    def shares(state: ClusterState) -> dict[str, float]:
        each = state.topology.num_gpus / max(len(state.jobs), 1)
        return {job.id: max(each, 1) for job in state.jobs}

    run = simulate(INSTANCE, shares)
    assert run.verified
    for made in run.schedule.runs:
        (job,) = [job for job in INSTANCE.jobs if job.id == made.job]
        assert job.configurations[made.configuration].demand[0] <= INSTANCE.topology.num_gpus * 1000


def test_zero_gpus_pause_a_job() -> None:
    """The last to arrive runs, the others wait."""
    instance = four_gpus(gang("a", 4, 1.0), gang("b", 4, 1.0, 1800.0))

    def last(state: ClusterState) -> dict[str, int]:
        return {job.id: 4 * (job is state.jobs[-1]) for job in state.jobs}

    run = simulate(instance, last)
    assert run.completion_s == {"b": 5400.0, "a": 7200.0}


def test_a_decision_is_taken_as_it_is() -> None:
    fifo = make_scheduler("fifo")
    run = simulate(INSTANCE, lambda state: fifo.decide(state))
    assert run.schedule == simulate(INSTANCE, "fifo").schedule


BAD: dict[str, tuple[Any, str]] = {
    "nothing": (lambda state: None, "returned None; it must return jobs"),
    "a number": (lambda state: 3, "returned 3"),
    "text": (lambda state: state.jobs[0].id, "returned 'dssm-0'"),
    "positions": (lambda state: [0, 1], r"returned \[0, 1\], in which 0 is no job"),
    "a stranger": (lambda state: ["dssm-9"], 'named job "dssm-9", which is not in the system'),
    "too many": (lambda state: {j.id: 100 for j in state.jobs}, "GPUs of a cluster of"),
    "too few": (lambda state: {"vgg-16-1": 0.5}, r"0\.5 GPUs, and it needs at least 1"),
    "less than none": (lambda state: {"dssm-0": -1}, 'gave job "dssm-0" -1 GPUs'),
    "text for GPUs": (lambda state: {"dssm-0": "all"}, "gave job \"dssm-0\" 'all' GPUs"),
    "not a number": (lambda state: {"dssm-0": float("nan")}, "nan GPUs"),
    "more than numbers": (lambda state: {"dssm-0": 1e308}, r"1e\+308 GPUs"),
    "an end": (lambda state: sys.exit(0), r"fails at 0 s, SystemExit: 0 \(test_own_functions\.py"),
    "a fault": (
        lambda state: 1 / 0,
        r"ZeroDivisionError: division by zero \(test_own_functions\.py",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_a_function_must_not_return_is_one_sentence(case: str) -> None:
    function, sentence = BAD[case]
    with pytest.raises(SimulationError, match=sentence) as raised:
        simulate(INSTANCE, function)
    assert "\n" not in str(raised.value)
