"""Windows of F2: what all jobs do in a few slots, chosen at once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from alloc.formulation import Array
from alloc.instances import load
from alloc.models.malleable.data import SlotData, slot_data
from alloc.models.malleable.profiles import IDLE, Profile
from alloc.solving.malleable.insertion import Builder, value_of
from alloc.solving.malleable.joint_pricing import ROOM
from alloc.solving.malleable.master import Column, fit_together, make_column
from alloc.solving.malleable.windows import Window
from alloc.solving.outcome import Settings


def _planned(instance_id: str, seed: int) -> tuple[SlotData, Builder, dict[int, Column]]:
    """Return a plan that inserts the jobs in an order drawn at random."""
    data = slot_data(load(instance_id), "weighted_jct", ())
    num_slots = int(data.release.max() + np.ceil(data.shortest).sum()) + 2
    builder = Builder(data, num_slots)
    order = np.random.default_rng(seed).permutation(data.num_jobs).tolist()
    plan = builder.insert_all(order, builder.empty(), None)
    assert plan is not None
    return data, builder, plan


def _ways(data: SlotData, column: Column, slots: tuple[int, ...]) -> list[Column]:
    """Return what a job may do in some slots, the others as they are, one slot at a time."""
    profile, table = column.profile, data.table(column.job)
    doing = {profile.start + k: c for k, c in enumerate(profile.choice)}
    found = []
    allowed = [t for t in slots if t >= data.release[column.job]]
    for chosen in itertools.product((IDLE, *range(len(table.rate))), repeat=len(allowed)):
        ahead = {**doing, **dict(zip(allowed, chosen, strict=True))}
        left, own, end = float(data.work[column.job]), [], None
        for t in range(max(ahead) + 1):
            choice = ahead.get(t, IDLE)
            own.append(choice)
            rate = 0.0 if choice == IDLE else float(table.rate[choice])
            if rate and left <= rate * (1 + 1e-9):
                end = t + min(left / rate, 1.0)
                break
            left -= rate
        if end is not None:
            start = next(t for t, choice in enumerate(own) if choice != IDLE)
            found.append(make_column(data, column.job, Profile(start, tuple(own[start:]), end)))
    return found


def _least(ways: list[list[Column]], room: Array) -> float:
    """Return the least cost of one way each that fit together, by enumeration."""
    alone = [min(column.cost for column in own) for own in ways]
    best = np.inf

    def go_on(job: int, cost: float, free: Array) -> None:
        nonlocal best
        if job == len(ways):
            best = min(best, cost)
            return
        for column in sorted(ways[job], key=lambda one: one.cost):
            if cost + column.cost + sum(alone[job + 1 :]) >= best:
                return
            if (column.use <= free[column.rows] + ROOM).all():
                rest = free.copy()
                rest[column.rows] -= column.use
                go_on(job + 1, cost + column.cost, rest)

    go_on(0, 0.0, room.ravel())
    return best


@pytest.mark.parametrize(
    ("instance_id", "slots"),
    [
        ("elastic-tiny/01", (0,)),
        ("elastic-tiny/01", (1, 2)),
        ("elastic-tiny/01", (0, 1, 2)),
        ("elastic-tiny/04", (0,)),
        ("elastic-tiny/04", (0, 2)),
    ],
)
def test_a_window_is_solved_as_by_enumeration(instance_id: str, slots: tuple[int, ...]) -> None:
    """Of all that jobs may do in a few slots, the window finds what costs least."""
    for seed in range(4):
        data, builder, plan = _planned(instance_id, seed)
        room = builder.room_of(plan.values())
        least = _least([_ways(data, plan[j], slots) for j in sorted(plan)], builder.empty())
        found = Window(data, plan, room, slots, np.zeros_like(room)).better(Settings(60.0))
        after = plan if found is None else {**plan, **found}
        assert value_of(data, after) == pytest.approx(least, rel=2e-5)
        assert fit_together(after.values(), builder.empty())


def test_windows_make_a_plan_of_insertion_better() -> None:
    """The enumeration above is not about plans that nothing can be gained in."""
    gains = []
    for seed in range(4):
        data, builder, plan = _planned("elastic-tiny/04", seed)
        room = builder.room_of(plan.values())
        found = Window(data, plan, room, [0, 1, 2], np.zeros_like(room)).better(Settings(60.0))
        gains.append(
            0.0 if found is None else value_of(data, plan) - value_of(data, {**plan, **found})
        )
    assert max(gains) > 1e-3


def test_a_window_without_time_finds_nothing_and_raises_nothing() -> None:
    data, builder, plan = _planned("elastic-tiny/04", 0)
    room = builder.room_of(plan.values())
    assert Window(data, plan, room, [0, 1, 2], np.zeros_like(room)).better(Settings(0.0)) is None


@pytest.mark.parametrize("change", [{"preemptible": False}, {"elasticity": "moldable"}])
def test_jobs_that_may_not_pause_or_change_stay_as_they_are(change: dict[str, Any]) -> None:
    """What a window changes are other jobs."""
    data, builder, plan = _planned("elastic-small/08", 0)
    held = set(range(0, data.num_jobs, 4))
    jobs = tuple(
        replace(job, **change) if j in held else job for j, job in enumerate(data.instance.jobs)
    )
    data = replace(data, instance=data.instance.replace(jobs=jobs))
    room = builder.room_of(plan.values())
    changed: set[int] = set()
    for first in range(6):
        slots = [first, first + 1, first + 2]
        found = Window(data, plan, room, slots, np.zeros_like(room)).better(Settings(60.0))
        changed |= set(found or ())
    assert changed
    assert not changed & held


@pytest.mark.long
def test_completions_stay_within_limits() -> None:
    """Nobody completes later than its limit, though some would without."""
    free, builder, plan = _planned("elastic-small/08", 0)
    ends = np.array([plan[j].profile.completion for j in range(free.num_jobs)])
    limit = ends + 0.25
    room = builder.room_of(plan.values())
    later = {}
    for data in (free, replace(free, limit=limit)):
        late = 0.0
        for first in range(8):
            slots = [first, first + 1, first + 2]
            found = Window(data, plan, room, slots, np.zeros_like(room)).better(Settings(60.0))
            for job, column in (found or {}).items():
                late = max(late, column.profile.completion - limit[job])
            later[id(data)] = late
    assert later[id(free)] > 1e-3
    assert max(own for key, own in later.items() if key != id(free)) <= 1e-6
