"""Plans in continuous time: what is inserted fits, what is followed keeps every rule, and lasts."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from alloc import simulate
from alloc.instances import generate_elastic
from alloc.models.malleable import slot_data
from alloc.models.malleable.data import SlotData
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.solving.malleable.insertion import value_of
from alloc.solving.malleable.list_scheduling import Candidate, ListScheduler
from alloc.solving.malleable.timed_insertion import (
    TimedBuilder,
    TimedColumn,
    pieces_s,
    timed_plan,
)
from alloc.solving.malleable.timed_search import TimedPrices, TimedSearch
from alloc.solving.outcome import Settings
from alloc.topology import HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Job, rigid_gang

KINDS = ("gangs", "one piece", "tables", "restarts")


def world(kind: str, seed: int) -> Instance:
    """Return an instance without slots, one time unit of whose data is ten seconds."""
    rng = np.random.default_rng(seed)
    if kind == "tables":
        made = generate_elastic("timed", num_jobs=8, num_hosts=2, seed=seed)
        return made.replace(slot_s=None)
    jobs = tuple(
        Job(
            f"job-{k}",
            float(rng.integers(0, 60)),
            float(rng.integers(5, 90)),
            (rigid_gang(int(rng.integers(1, 5))),),
            weight=float(rng.integers(1, 4)),
            elasticity="rigid",
            preemptible=kind != "one piece",
            restart_cost_s=5.0 if kind == "restarts" else 0.0,
        )
        for k in range(14)
    )
    return Instance(f"{kind}-{seed}", flat_cluster("two", HostType("host", 4, "gpu"), 2), jobs)


def data_of(instance: Instance, name: str = "weighted_jct") -> SlotData:
    """Return the data of an instance on a grid of ten seconds, or of minutes for long jobs."""
    slot_s = 10.0 if min(job.min_run_s for job in instance.jobs) < 100 else 600.0
    return slot_data(instance.replace(slot_s=slot_s), name)


def some_prices(data: SlotData, seed: int) -> TimedPrices:
    """Return prices on a grid of uneven intervals, some of them 0."""
    rng = np.random.default_rng(seed)
    edges = np.append(0.0, np.cumsum(rng.random(30) * 2 + 0.05))
    prices = rng.random((30, len(data.rows.names))) / data.rows.capacity
    prices[rng.random(30) < 0.3] = 0.0
    return TimedPrices(edges, prices, data.arrival + data.shortest, -math.inf)


@dataclass(frozen=True)
class Counted(Settings):
    """Limits of which a unit passes at every look at the clock."""

    looks: itertools.count[int] = field(default_factory=itertools.count)

    def seconds_left(self) -> float:
        """Return the units left."""
        return max(self.time_limit_s - next(self.looks), 0.0)

    def time_is_up(self) -> bool:
        """Return whether none is left."""
        return self.seconds_left() <= 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("priced", [False, True])
def test_what_is_inserted_fits_and_does_its_work(kind: str, priced: bool) -> None:
    """Each column keeps capacity and arrival, ends when its work is done, and can be taken out."""
    for seed in range(3):
        data = data_of(world(kind, seed))
        known = some_prices(data, seed)
        builder = TimedBuilder(data, known.edges)
        room = builder.empty()
        placed: dict[int, TimedColumn] = {}
        for j in np.random.default_rng(seed).permutation(data.num_jobs).tolist():
            column = builder.insert(j, room, known.prices if priced else None)
            assert column is not None
            pieces, rate = column.profile.pieces, data.table(j).rate
            assert sum((end - start) * rate[c] for start, end, c in pieces) == pytest.approx(
                data.work[j], rel=1e-9
            )
            assert pieces[0][0] >= data.arrival[j] - 1e-12
            assert pieces[-1][1] == column.profile.completion
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(pieces))
            if kind in ("one piece", "restarts"):
                assert len(pieces) == 1
            builder.take(room, column)
            assert (room.left >= -1e-6).all()
            placed[j] = column
        again = builder.room_of(placed.values())
        where = np.searchsorted(room.at, again.at, side="right") - 1
        assert room.left[where] == pytest.approx(again.left)
        for column in placed.values():
            builder.give_back(room, column)
        assert room.left == pytest.approx(np.tile(data.rows.capacity, (len(room.at), 1)))


def test_without_prices_a_gang_completes_as_early_as_it_can() -> None:
    """Minute by minute: no run in the moments where there is room completes earlier."""
    for kind in ("gangs", "one piece"):
        data = data_of(world(kind, 3))
        builder = TimedBuilder(data, np.array([0.0, 40.0]))
        room = builder.empty()
        for j in range(data.num_jobs):
            column = builder.insert(j, room, None)
            assert column is not None
            use, need = data.table(j).use[0], float(data.work[j] / data.table(j).rate[0])
            fine = np.arange(float(data.arrival[j]), column.profile.completion - 0.01, 0.1)
            there = np.searchsorted(room.at, fine + 0.05, side="right") - 1
            fits = (room.left[there] >= use - 1e-6).all(axis=1)
            if kind == "gangs":
                longest = 0.1 * fits.sum()
            else:
                ends = np.flatnonzero(np.append(~fits, True))
                longest = 0.1 * float(np.diff(np.append(-1, ends)).max() - 1)
            assert longest <= need + 0.1 + 1e-6
            builder.take(room, column)


@pytest.mark.parametrize("kind", KINDS)
def test_following_a_plan_keeps_every_rule(kind: str) -> None:
    """Gangs of single GPUs that may pause complete no later than planned; others keep the rules."""
    for seed in range(3):
        instance = world(kind, seed)
        data = data_of(instance)
        start = simulate(instance, make_scheduler("srtf")).schedule
        plan = timed_plan(data, instance, start)
        assert plan is not None
        assert value_of(data, plan) * data.slot_s == pytest.approx(
            objective("weighted_jct").evaluate(instance, start)
        )
        turns = pieces_s(data, plan)
        order = sorted(plan, key=lambda j: plan[j].profile.completion)
        plans = tuple(
            ((own[-1][2], job.work_left),) for own, job in zip(turns, instance.jobs, strict=True)
        )
        made = ListScheduler(instance).schedule(Candidate(tuple(order), plans, turns))
        assert made is not None
        assert verify(instance, made) == []
        if kind == "gangs":
            followed = objective("weighted_jct").evaluate(instance, made)
            assert followed <= value_of(data, plan) * data.slot_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("gangs", "weighted_jct"), ("tables", "makespan"), ("one piece", "mean_jct")],
)
def test_more_steps_are_never_worse(kind: str, name: str) -> None:
    """The longer of two searches goes on where the shorter one ends, and none loses its start."""
    instance = world(kind, 1)
    data = data_of(instance, name)
    start = simulate(instance, make_scheduler("fifo")).schedule
    values = [objective(name).evaluate(instance, start)]
    for steps in (5, 75, 400):
        search = TimedSearch(instance, data, some_prices(data, 1), [start], Counted(steps), name)
        search.run(-math.inf, quiet)
        assert search.best is not None
        assert verify(instance, search.best.schedule) == []
        assert search.best.value == objective(name).evaluate(instance, search.best.schedule)
        values.append(search.best.value)
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0] or name == "makespan"


def quiet(line: str) -> None:
    """Take a line of progress."""
