"""F2 in no time: quick insertion, placing that always ends, and a clock that every step asks."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from alloc.models.malleable import slot_data
from alloc.models.malleable.placing import place_plan
from alloc.models.malleable.profiles import Program
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.malleable.insertion import Builder
from alloc.solving.malleable.master import make_column
from alloc.solving.malleable.quick_insertion import earliest_profile
from alloc.solving.outcome import Settings
from alloc.topology import Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks.tiny.malleable import MALLEABLE


def split_hosts(*configurations: Configuration, jobs: int = 1) -> Instance:
    """Jobs on hosts of four and two cores: six in all, but no task is split."""
    kinds = (HostType("k0", 1, "g", 4000), HostType("k1", 1, "g", 2000))
    topology = Topology("c", kinds, (Host("h0", "k0"), Host("h1", "k1")))
    made = tuple(Job(f"j{j}", 0.0, 100.0, configurations) for j in range(jobs))
    return Instance("x", topology, made, slot_s=10.0)


@pytest.mark.parametrize("backend", ["auto", "highs", "pyomo", "cpsat"])
def test_a_configuration_that_no_host_can_carry_out_is_never_chosen(backend: str) -> None:
    """It fits the totals, two tasks of three cores in six, and was planned for ever and ever."""
    small = Configuration((TaskGroup("a", 1, 0, 1000),), 0.1)
    both = Configuration((TaskGroup("a", 1, 0, 3000), TaskGroup("b", 1, 0, 3000)), 10.0)
    certificate = solve(split_hosts(small, both), "malleable", backend).certificate
    assert certificate.objective == pytest.approx(1000.0)
    chosen = solve(split_hosts(small, both), "round", backend).certificate
    assert (chosen.status, chosen.objective) == ("optimal", pytest.approx(0.01))  # type: ignore[comparison-overlap]


def test_jobs_that_fit_the_totals_and_not_the_hosts_together_wait_for_each_other() -> None:
    """Two gangs of three cores: the second makes up for its slots, and placing ends."""
    large = Configuration((TaskGroup("a", 1, 0, 3000),), 1.0)
    instance = split_hosts(large, jobs=2)
    data = slot_data(instance)
    room = Builder(data, 40).empty()
    plan = {}
    for j in range(2):
        profile = earliest_profile(data, j, room)
        assert profile is not None
        plan[j] = profile
    schedule = place_plan(data, plan)
    assert verify(instance, schedule) == []
    assert objective("weighted_jct").evaluate(instance, schedule) == pytest.approx(300.0)
    result = solve(instance, "malleable", limits=Limits(seconds=20))
    assert result.certificate.bound <= 300.0
    assert result.certificate.objective == pytest.approx(300.0)


@pytest.mark.parametrize("part", range(4))
def test_every_plan_is_placed_whatever_the_hosts(part: int) -> None:
    """Profiles of jobs alone, all at once, far over capacity: every job completes all the same."""
    for seed in range(40 * part, 40 * (part + 1)):
        instance, _ = MALLEABLE.problem(seed)
        instance = instance.replace(
            horizon_s=None,
            tenants=(),
            jobs=tuple(j.replace(deadline_s=None, preemptible=True) for j in instance.jobs),
        )
        data = slot_data(instance)
        room = Builder(data, 400).empty()
        plan = {}
        for j in range(data.num_jobs):
            profile = earliest_profile(data, j, room)
            assert profile is not None, seed
            plan[j] = profile
        assert verify(instance, place_plan(data, plan)) == [], seed


@pytest.mark.parametrize("part", range(4))
def test_a_quick_profile_fits_and_is_the_earliest_of_jobs_that_may_pause(part: int) -> None:
    """Against the exact dynamic program of the pricing, in random room."""
    compared = 0
    for seed in range(60 * part, 60 * (part + 1)):
        instance = MALLEABLE.problem(seed)[0].replace(tenants=())
        data = slot_data(instance)
        rng = np.random.default_rng(seed)
        builder = Builder(data, 40)
        room = builder.empty() * rng.choice((0.0, 0.5, 1.0), size=(40, 1))
        for j in range(data.num_jobs):
            quick = earliest_profile(data, j, room)
            if quick is not None:
                column = make_column(data, j, quick)
                assert (room.ravel()[column.rows] >= column.use - 1e-6).all()
                assert quick.completion <= data.limit[j] + 1e-9
                assert quick.start >= data.release[j]
            by_program = builder.insert(j, room, np.zeros_like(room))
            if by_program is None or builder.counted[j]:
                continue
            if instance.jobs[j].preemptible:
                assert quick is not None, seed
                assert quick.completion <= by_program.profile.completion + 1e-9, seed
                compared += 1
    assert compared > 10


@pytest.mark.long
def test_without_any_time_there_is_a_schedule_and_no_dynamic_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock is up from the start: each step must ask it before it begins."""
    solved: list[int] = []
    program = Program.solve

    def counted(self: Program, *arguments: object, **options: object) -> object:
        solved.append(1)
        return program(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Program, "solve", counted)
    monkeypatch.setattr(Settings, "seconds_left", lambda self: 0.0)
    for seed in range(30):
        rng = Random(seed)
        instance, goal = MALLEABLE.problem(seed, large=True)
        free = tuple(j.replace(deadline_s=None) for j in instance.jobs)
        instance = instance.replace(jobs=free, horizon_s=None, tenants=())
        limits = Limits(seed=rng.randrange(9))
        result = solve(instance, "malleable", objective=goal, limits=limits)
        assert isinstance(result.solution, Schedule)
        assert verify(instance, result.solution) == []
        assert result.certificate.limit == "time" or result.certificate.status == "optimal"
    assert not solved


@pytest.mark.long
@pytest.mark.parametrize("goal", ["weighted_jct", "tardiness + makespan", "max_slowdown"])
def test_a_clock_that_runs_out_anywhere_leaves_a_schedule(
    monkeypatch: pytest.MonkeyPatch, goal: str
) -> None:
    """Time is up at the n-th question, whatever step asks it."""
    instance, _ = MALLEABLE.problem(3, large=True)
    jobs = tuple(
        j.replace(deadline_s=None, due_date_s=j.arrival_s + 2 * j.min_run_s) for j in instance.jobs
    )
    instance = instance.replace(jobs=jobs, horizon_s=None)
    best = solve(instance, "malleable", objective=goal, limits=Limits(seconds=10)).certificate
    for questions in (1, 2, 4, 8, 16, 32, 64, 200, 1000):
        asked = iter(range(10**9))
        monkeypatch.setattr(
            Settings,
            "seconds_left",
            lambda self, asked=asked, most=questions: 5.0 if next(asked) < most else 0.0,
        )
        result = solve(instance, "malleable", objective=goal)
        assert result.solution is not None
        assert verify(instance, result.solution) == []
        assert result.certificate.bound <= best.objective * (1 + 1e-9)
