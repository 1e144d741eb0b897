"""Slot by slot: schedules of F2 whose slots are decided one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from alloc.formulation import Array
from alloc.instances import load
from alloc.models.malleable.data import SlotData, slot_data
from alloc.models.malleable.profiles import IDLE, Profile
from alloc.problems.allocation.instance import Instance
from alloc.solving.malleable import improvement
from alloc.solving.malleable.column_generation import generate_columns
from alloc.solving.malleable.improvement import Improver
from alloc.solving.malleable.insertion import Builder, value_of
from alloc.solving.malleable.joint_pricing import ROOM
from alloc.solving.malleable.master import Column, make_column
from alloc.solving.malleable.slot_fixing import SlotFixing
from alloc.solving.outcome import Settings
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup


def _silent(line: str) -> None:
    del line


def _drawn(seed: int, size: int = 1, slots: float = 1.0) -> Instance:
    """Return three jobs that take up to three of four times `size` tokens, in drawn ways."""
    rng = np.random.default_rng(seed)
    task = TaskGroup("w", 1, 1000, 1000, 1, resources={"tokens": size})
    jobs = []
    for n in range(3):
        rates = np.cumsum(rng.uniform(0.2, 1.0, 3))
        ways = tuple(
            Configuration(
                (replace(task, gpu_milli=1000 * k, resources={"tokens": k * size}),), float(rate)
            )
            for k, rate in enumerate(rates, start=1)
        )
        work = float(rng.uniform(0.5, 1.8) * rates[1] * 100.0 * slots)
        jobs.append(Job(f"j{n}", 0.0, work, ways, weight=float(rng.uniform(0.5, 2.0))))
    kind = HostType("box", 16, "a", 64_000, 1024)
    topology = Topology("t", (kind,), (Host("h", "box"),), resources={"tokens": 4 * size})
    return Instance("drawn", topology, tuple(jobs), slot_s=100.0 * slots)


def _every_column(data: SlotData, job: int, num_slots: int) -> list[Column]:
    """Return every profile of a job that ends within some slots, by going through all of them."""
    rate, work = data.table(job).rate, float(data.work[job])
    found = []
    for choice in itertools.product((IDLE, *range(len(rate))), repeat=num_slots):
        done = np.cumsum([0.0 if c == IDLE else float(rate[c]) for c in choice])
        if done[-1] < work * (1 - 1e-9):
            continue
        last = int(np.argmax(done >= work * (1 - 1e-9)))
        if any(c != IDLE for c in choice[last + 1 :]):
            continue
        own = float(rate[choice[last]])
        start = next(t for t, c in enumerate(choice) if c != IDLE)
        end = last + min((work - float(done[last]) + own) / own, 1.0)
        found.append(make_column(data, job, Profile(start, choice[start : last + 1], end)))
    return found


def _least(columns: list[list[Column]], room: Array) -> float:
    """Return the least cost of one column each that fit together, by enumeration."""
    best = np.inf
    alone = [min(column.cost for column in own) for own in columns]

    def go_on(job: int, cost: float, free: Array) -> None:
        nonlocal best
        if job == len(columns):
            best = min(best, cost)
            return
        for column in sorted(columns[job], key=lambda one: one.cost):
            if cost + column.cost + sum(alone[job + 1 :]) >= best:
                return
            if (column.use <= free[column.rows] + ROOM).all():
                rest = free.copy()
                rest[column.rows] -= column.use
                go_on(job + 1, cost + column.cost, rest)

    go_on(0, 0.0, room.ravel())
    return best


def _inserted(
    data: SlotData, num_slots: int, order: list[int]
) -> tuple[Builder, dict[int, Column]]:
    builder = Builder(data, num_slots)
    plan = builder.insert_all(order, builder.empty(), None)
    assert plan is not None
    return builder, plan


def _crowded(name: str) -> tuple[SlotData, Builder, dict[int, Column], list[Column]]:
    """Return an instance, a plan that serves the longest first, and the columns of its master."""
    data = slot_data(load(name), "weighted_jct", ())
    builder, plan = _inserted(data, 40, np.argsort(-data.work).tolist())
    relaxation = generate_columns(data, 40, [*plan.values()], Settings(60.0), 60.0, _silent)
    return data, builder, plan, relaxation.columns


def _keeps_all(data: SlotData, builder: Builder, plan: Mapping[int, Column]) -> None:
    """Hold a plan against the rules: capacity, all the work and no more, the completions."""
    assert sorted(plan) == list(range(data.num_jobs))
    assert builder.room_of(plan.values()).min() >= -ROOM
    for job, column in plan.items():
        profile, table = column.profile, data.table(job)
        rates = [0.0 if c == IDLE else float(table.rate[c]) for c in profile.choice]
        assert profile.start >= data.release[job]
        assert sum(rates[:-1]) < data.work[job] <= sum(rates) * (1 + 1e-9)
        part = (data.work[job] - sum(rates[:-1])) / rates[-1]
        last = profile.start + len(rates) - 1
        assert profile.completion == pytest.approx(last + min(part, 1.0), abs=1e-9)
        assert column.cost == pytest.approx(data.target.costs.of(job, profile.completion))


@pytest.mark.long
@pytest.mark.parametrize(("size", "slots"), [(1, 1.0), (10**6, 1e-3), (10**8, 1e4)])
def test_small_plans_are_as_good_as_enumeration_finds(size: int, slots: float) -> None:
    """With all profiles known, eight of ten drawn instances end with an optimum, none below it."""
    best = 0
    for seed in range(10):
        data = slot_data(_drawn(seed, size, slots), "weighted_jct", ())
        builder, plan = _inserted(data, 7, [0, 1, 2])
        horizon = int(np.ceil(max(own.profile.completion for own in plan.values()))) + 1
        ways = [_every_column(data, j, min(horizon, 5)) for j in range(data.num_jobs)]
        least = _least(ways, builder.empty())
        known = [column for own in ways for column in own]
        found = SlotFixing(data, plan, 0, known, Settings(60.0)).run(np.inf)
        assert found is not None
        _keeps_all(data, builder, found)
        value = value_of(data, found)
        assert value >= least * (1 - 1e-9) or horizon > 5
        best += value <= least * (1 + 1e-6)
        # Below the least there is nothing.
        assert SlotFixing(data, plan, 0, known, Settings(60.0)).run(0.999 * least) is None
    assert best >= 8


@pytest.mark.long
def test_slots_that_stay_are_as_in_the_plan() -> None:
    """Before the first slot all do what they did, whoever they are."""
    data, builder, plan, known = _crowded("elastic-small/04")
    found = SlotFixing(data, plan, 3, known, Settings(60.0)).run(np.inf)
    assert found is not None
    _keeps_all(data, builder, found)
    assert any(found[j].profile != plan[j].profile for j in plan)
    for j, column in found.items():
        for t in range(3):
            one, other = (
                own.choice[t - own.start] if 0 <= t - own.start < len(own.choice) else IDLE
                for own in (column.profile, plan[j].profile)
            )
            assert one == other


@pytest.mark.long
def test_plans_of_insertion_get_better() -> None:
    """A schedule decided slot by slot beats insertion by a tenth on a crowded instance."""
    data, builder, plan, known = _crowded("elastic-small/08")
    found = SlotFixing(data, plan, 0, known, Settings(60.0)).run(value_of(data, plan))
    assert found is not None
    _keeps_all(data, builder, found)
    assert value_of(data, found) < 0.9 * value_of(data, plan)


def test_without_time_nothing_is_found_and_nothing_raised() -> None:
    data = slot_data(load("elastic-tiny/04"), "weighted_jct", ())
    _, plan = _inserted(data, 40, list(range(data.num_jobs)))
    assert SlotFixing(data, plan, 0, [], Settings(0.0)).run(np.inf) is None


def test_a_choice_that_leaves_no_solution_ends_it() -> None:
    """HiGHS keeps rows up to a tolerance: the next master may find what is left too much."""
    data = slot_data(load("elastic-tiny/04"), "weighted_jct", ())
    _, plan = _inserted(data, 40, list(range(data.num_jobs)))
    fixed: list[int] = []

    class Tight(SlotFixing):
        def _fix(self, slot: int, chosen: Mapping[int, int]) -> None:
            super()._fix(slot, chosen)
            fixed.append(slot)
            self._data = replace(self._data, rows=replace(self._data.rows, capacity=nothing))

        def _whole(self, jobs: list[int], share: Array) -> None:
            del jobs, share

    nothing = np.zeros_like(data.rows.capacity)
    assert Tight(data, plan, 0, [], Settings(60.0)).run(np.inf) is None
    assert fixed == [0]


@pytest.mark.parametrize("change", [{"preemptible": False}, {"elasticity": "moldable"}])
def test_jobs_that_may_not_pause_or_change_do_not(change: dict[str, Any]) -> None:
    """Once such a job runs, it goes on as it began."""
    data = slot_data(load("elastic-small/04"), "weighted_jct", ())
    held = set(range(0, data.num_jobs, 3))
    jobs = tuple(
        replace(job, **change) if j in held else job for j, job in enumerate(data.instance.jobs)
    )
    data = slot_data(data.instance.replace(jobs=jobs), "weighted_jct", ())
    builder, plan = _inserted(data, 40, np.argsort(-data.work).tolist())
    found = SlotFixing(data, plan, 0, [], Settings(60.0)).run(np.inf)
    assert found is not None
    _keeps_all(data, builder, found)
    for j in held:
        choice = found[j].profile.choice
        if "preemptible" in change:
            assert IDLE not in choice
        else:
            assert len(set(choice) - {IDLE}) == 1


@pytest.mark.long
def test_completions_keep_their_limits() -> None:
    data, builder, plan, known = _crowded("elastic-small/04")
    free = SlotFixing(data, plan, 0, known, Settings(60.0)).run(np.inf)
    assert free is not None
    limit = np.array([plan[j].profile.completion for j in range(data.num_jobs)]) + 0.25
    assert any(free[j].profile.completion > limit[j] + 1e-6 for j in free)
    data = replace(data, limit=limit)
    known = [column for column in known if column.profile.completion <= limit[column.job]]
    found = SlotFixing(data, plan, 0, known, Settings(60.0)).run(np.inf)
    assert found is not None
    _keeps_all(data, builder, found)
    assert all(found[j].profile.completion <= limit[j] + 1e-6 for j in found)


@pytest.mark.long
def test_ctrl_c_keeps_what_was_decided_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted while slots are decided, a search leaves the best plan that it had."""
    data = slot_data(load("elastic-small/04"), "weighted_jct", ())
    builder, plan = _inserted(data, 40, np.argsort(-data.work).tolist())
    settings = Settings(300.0)
    relaxation = generate_columns(data, 40, list(plan.values()), settings, 60.0, _silent)
    improver = Improver(data, builder, relaxation, plan, settings)
    calls: list[float] = []

    class Interrupted(SlotFixing):
        def run(self, most: float) -> dict[int, Column] | None:
            calls.append(improver.value)
            if len(calls) > 1:
                raise KeyboardInterrupt
            return super().run(most)

    monkeypatch.setattr(improvement, "SlotFixing", Interrupted)
    first = improver.value
    with pytest.raises(KeyboardInterrupt):
        improver.search(120.0, _silent)
    assert len(calls) == 2
    assert improver.value < first
    _keeps_all(data, builder, improver.plan)
    assert improver.value == pytest.approx(value_of(data, improver.plan))
