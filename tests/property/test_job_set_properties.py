"""Laws of the set policy that hold whatever its network answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import instances

from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.job_set import JobSetDecider
from alloc.schedulers.learned.job_set_choice import Chooser
from alloc.simulation import simulate

relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def runnable(drawn: Instance) -> Instance:
    """Make what runs at the start arrive at 0, at a rate above 0: else it cannot go on."""
    running = tuple(
        a for a in drawn.running if drawn.job(a.job).configurations[a.configuration].rate > 0
    )
    ran = {assignment.job for assignment in running}
    jobs = tuple(
        job.replace(arrival_s=0.0, deadline_s=None) if job.id in ran else job for job in drawn.jobs
    )
    return drawn.replace(jobs=jobs, running=running, slot_s=20.0)


class RandomAnswers:
    """A network that says anything: a random worth above 0 for each job, random prices."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        for tensor in tensors.values():
            assert tensor.dtype == np.float32
            assert np.isfinite(tensor).all()
        worth = np.exp(self._rng.normal(0.0, 3.0, (len(tensors["jobs"]), 3)))
        prices = np.exp(self._rng.normal(0.0, 3.0, 3))
        return {"worth": worth.astype(np.float32), "prices": prices.astype(np.float32)}


@pytest.mark.long
@relaxed
@given(instance=instances(quotas=False).map(runnable), seed=st.integers(0, 99))
def test_any_answer_becomes_a_schedule_that_keeps_every_rule(instance: Instance, seed: int) -> None:
    """Gangs, shares, types, levels, restarts: the simulator's judge finds nothing."""
    result = simulate(instance, JobSetDecider(RandomAnswers(seed), "random"))
    assert result.verified
    assert result.unfinished == ()


@relaxed
@given(
    seed=st.integers(0, 10_000),
    jobs=st.integers(1, 30),
    columns=st.integers(1, 12),
    crowding=st.floats(0.01, 3.0),
)
def test_choices_fit_and_leave_no_room_for_a_free_gain(
    seed: int, jobs: int, columns: int, crowding: float
) -> None:
    """What is chosen fits what is free; no idle job with a positive score fits what is left."""
    rng = np.random.default_rng(seed)
    tables = max(1, jobs // 3)
    share = np.sort(rng.exponential(crowding / jobs, (tables, columns, 3)), axis=1)
    score = rng.exponential(1.0, (jobs, columns)) * (rng.random((jobs, columns)) < 0.9)
    table = rng.integers(tables, size=jobs)
    free = rng.uniform(0.2, 1.0, 3)
    chooser = Chooser(score, table, share, free)
    column = chooser.choose(rng.exponential(1.0, 3))
    taken = chooser.taken(column)
    assert (taken <= free + 1e-6).all()
    for j in np.flatnonzero(column < 0):
        fits = (share[table[j]] <= free - taken - 1e-9).all(axis=1) & (score[j] > 0)
        assert not fits.any()


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_choice_ends_and_fits_whatever_the_scores_and_shares(seed: int) -> None:
    """Jobs that leave a dear resource may overrun one that was free: it went on for ever."""
    rng = np.random.default_rng(seed)
    jobs, columns, resources, tables = (int(rng.integers(1, n)) for n in (7, 4, 4, 3))
    # Shares with many zeros: whole resources that some columns do not touch at all.
    share = rng.choice((0.0, 0.0, 0.2, 0.5, 0.9), size=(tables, columns, resources))
    score = rng.choice((0.0, 1e-9, 0.5, 1.0, 2.0, 1e6), size=(jobs, columns))
    free = rng.choice((0.0, 0.3, 1.0), size=resources)
    chooser = Chooser(score, rng.integers(0, tables, size=jobs), share, free)
    chosen = chooser.choose(rng.choice((0.0, 1.0), size=resources))
    assert (chooser.taken(chosen) <= free + 1e-6).all()


def test_a_crowd_that_changes_over_to_another_resource_is_priced_there_too() -> None:
    """All want the first resource, can do with half as much of the second, and fill neither."""
    share = np.array([[[0.5, 0.0], [0.0, 0.5]]])
    chooser = Chooser(np.array([[2.0, 1.0]] * 4), np.zeros(4, dtype=np.int64), share, np.ones(2))
    chosen = chooser.choose(np.ones(2))
    assert (chooser.taken(chosen) <= 1.0 + 1e-6).all()
    assert (chosen >= 0).sum() >= 2
