"""The recursion for queues of gangs says what the simulator says, and what theory says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.planning.gang_queue import start_times
from alloc.planning.pools import Operation, Pool, Regime, Stream
from alloc.planning.replay import ReplaySettings, replay
from alloc.problems.right_sizing import JobClass, JobOption, ServiceGoal


def random_pool(rng: np.random.Generator) -> Operation:
    """Return a pool of hosts of one or two sizes, near its load, with gangs of three sizes."""
    streams = []
    for i in range(3):
        gang, hours = int(rng.choice([1, 2, 4, 8, 16])), float(rng.uniform(0.2, 3.0))
        measure = str(rng.choice(["wait", "jct"]))
        goal = ServiceGoal(measure, 3.0 + float(rng.uniform(0, 3)), 0.9)  # type: ignore[arg-type]
        job_class = JobClass(f"class {i}", (JobOption("a100", gang, hours),), goal=goal)
        streams.append(Stream(job_class, 0, hours, float(rng.uniform(0.05, 1.0))))
    load = sum(stream.load for stream in streams)
    hosts = {8: max(int(load * rng.uniform(0.9, 1.6) // 8) + 1, 2)}
    if rng.random() < 0.5:
        hosts[4] = int(rng.integers(1, 3))
    return Operation(Pool("a100", "hall", False), Regime("1", 0, 0), hosts, tuple(streams))


@pytest.mark.parametrize("seed", range(6))
def test_the_replay_by_recursion_is_that_of_the_simulator(seed: int) -> None:
    """An option that changes nothing makes the simulator run instead."""
    rng = np.random.default_rng(seed)
    variation = float(rng.choice([0.0, 1.0]))
    settings = ReplaySettings(jobs=60, replications=2, variation=variation)
    pool = random_pool(rng)
    quick = replay(pool, settings)
    slow = replay(pool, dataclasses.replace(settings, options={"skip": False}))
    assert [(m.job_class, m.jobs, m.holds) for m in quick] == [
        (m.job_class, m.jobs, m.holds) for m in slow
    ]
    for one, other in zip(quick, slow, strict=True):
        assert one.value.mean == pytest.approx(other.value.mean, abs=1e-9)


def test_gangs_wait_for_all_their_gpus_and_nobody_overtakes() -> None:
    jobs = [(0.0, 5.0, 2), (1.0, 1.0, 2), (2.0, 1.0, 4), (2.5, 1.0, 1)]
    assert start_times(4, jobs) == [0.0, 1.0, 5.0, 6.0]
    assert start_times(5, jobs) == [0.0, 1.0, 5.0, 5.0]
    assert start_times(9, jobs) == [0.0, 1.0, 2.0, 2.5]


@pytest.mark.parametrize("seed", range(20))
def test_starts_are_the_earliest_that_the_gpus_allow(seed: int) -> None:
    """By brute force over the moments at which GPUs become free."""
    rng = np.random.default_rng(seed)
    gpus = int(rng.integers(4, 9))
    arrivals = np.sort(rng.integers(0, 30, 25)).astype(float)
    jobs = [(a, float(rng.integers(1, 6)), int(rng.integers(1, 5))) for a in arrivals]
    starts = start_times(gpus, jobs)
    for i, (arrival, _, gang) in enumerate(jobs):
        earliest = max([arrival, *starts[:i]])
        ends = [start + jobs[j][1] for j, start in enumerate(starts[:i])]

        def busy(at: float, i: int = i, ends: list[float] = ends) -> int:
            return sum(jobs[j][2] for j in range(i) if starts[j] <= at < ends[j])

        moments = sorted({earliest, *(end for end in ends if end > earliest)})
        assert starts[i] == next(at for at in moments if busy(at) + gang <= gpus)


def test_a_gang_that_never_fits_is_refused() -> None:
    with pytest.raises(InstanceError, match="takes 5 GPUs, and there are 4"):
        start_times(4, [(0.0, 1.0, 5)])
