"""List scheduling in continuous time: feasible, never worse than its start, as good as on slots."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, reject, settings
from strategies import instances

import alloc
from alloc import simulate
from alloc.errors import SimulationError
from alloc.instances import generate_elastic
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.schedulers import make_scheduler
from alloc.solving.malleable.list_scheduling import ListScheduler
from alloc.solving.malleable.list_search import ListSearch, best_of, candidate_of
from alloc.topology import HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Job, rigid_gang

WEIGHTED = objective("weighted_jct").evaluate


def tries(count: int) -> Callable[[], float]:
    """Return a clock that is over after so many looks at it."""
    left = itertools.chain(range(count, 0, -1), itertools.repeat(0))
    return lambda: float(next(left))


def gangs(seed: int, num_jobs: int = 5) -> Instance:
    """Return rigid gangs with whole arrivals and run times on one host of four GPUs."""
    rng = np.random.default_rng(seed)
    jobs = tuple(
        Job(
            f"job-{k}",
            float(rng.integers(0, 6)),
            float(rng.integers(1, 9)),
            (rigid_gang(int(rng.integers(1, 5))),),
            weight=float(rng.integers(1, 4)),
            elasticity="rigid",
        )
        for k in range(num_jobs)
    )
    return Instance(f"gangs-{seed}", flat_cluster("one", HostType("host", 4, "gpu"), 1), jobs)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(instance=instances(slotted=False, deadlines=False))
def test_a_schedule_of_a_list_keeps_every_rule(instance: Instance) -> None:
    """Whatever the jobs: gangs, tables, shares, levels, quotas, pauses, restarts, running ones."""
    try:
        start = simulate(instance, make_scheduler("fifo", skip=True)).schedule
    except SimulationError:
        reject()  # a quota that no job of the tenant fits
    search = ListSearch(instance, [start], seed=0, seconds_left=tries(200))
    search.run(-math.inf, lambda line: None)
    assert search.best is not None
    assert verify(instance, search.best.schedule) == []
    assert search.best.value == WEIGHTED(instance, search.best.schedule)
    assert search.best.value <= WEIGHTED(instance, start)
    again = ListScheduler(instance).schedule(candidate_of(instance, search.best.schedule))
    assert again is None or verify(instance, again) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_the_search_is_as_good_as_the_search_on_slots(seed: int) -> None:
    """With whole numbers a schedule in slots of one second is one in continuous time."""
    instance = gangs(seed)
    slotted = alloc.solve(instance.replace(slot_s=1.0), limits=Limits(seconds=1)).certificate
    assert slotted.objective is not None
    start = simulate(instance, make_scheduler("fifo")).schedule
    search = ListSearch(instance, [start], seed=0, seconds_left=tries(20_000))
    search.run(slotted.objective * (1 + 1e-9), lambda line: None)
    assert search.best is not None
    assert search.best.value <= slotted.objective * (1 + 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_an_elastic_plan_on_a_grid_loses_nothing_off_it(seed: int) -> None:
    """Mixed configurations over time are kept as the parts of a job's plan."""
    slotted = generate_elastic("mix", num_jobs=5, num_hosts=2, max_workers=3, max_ps=3, seed=seed)
    plan = alloc.solve(slotted, limits=Limits(seconds=1)).require_solution()
    instance = slotted.replace(slot_s=None)
    made = ListScheduler(instance).schedule(candidate_of(instance, plan))
    assert made is not None
    assert WEIGHTED(instance, made) <= WEIGHTED(instance, plan) * (1 + 1e-9)


def test_a_list_that_is_no_better_is_broken_off() -> None:
    """The cutoff is the value: at it nothing comes back, just above it everything does."""
    instance = gangs(1)
    start = simulate(instance, make_scheduler("srtf")).schedule
    made = ListScheduler(instance).schedule(candidate_of(instance, start))
    assert made is not None
    value = WEIGHTED(instance, made)
    maker = ListScheduler(instance)
    assert maker.schedule(candidate_of(instance, start), value * (1 - 1e-9)) is None
    assert maker.schedule(candidate_of(instance, start), value * (1 + 1e-9)) == made


def test_the_best_of_schedules_breaks_no_rule() -> None:
    """A better schedule that breaks a rule is no incumbent."""
    instance = gangs(2)
    good = simulate(instance, make_scheduler("fifo")).schedule
    short = alloc.Schedule(tuple(run for run in good.runs if run.job != "job-0"))
    found = best_of(instance, [short, good, None])
    assert found is not None
    assert found.schedule == good
    assert best_of(instance, [short]) is None


@pytest.mark.parametrize("slot_s", [None, 600.0])
@pytest.mark.parametrize("scheduler", ["fifo", "srtf", "las"])
def test_an_answer_is_never_worse_than_its_warm_start(scheduler: str, slot_s: float | None) -> None:
    """Also when there is hardly any time, on slots and without."""
    instance = generate_elastic("warm", num_jobs=6, num_hosts=2, seed=3).replace(slot_s=slot_s)
    start = simulate(instance, make_scheduler(scheduler)).schedule
    result = alloc.solve(instance, limits=Limits(seconds=0.2), warm_start=start)
    assert result.certificate.objective is not None
    assert result.certificate.objective <= WEIGHTED(instance, start)
    assert result.certificate.bound <= result.certificate.objective
