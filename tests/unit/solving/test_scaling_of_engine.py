"""Counted jobs: what makes trace weeks of rigid gangs solvable equals the general method."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import alloc
from alloc.models.malleable.data import SlotData, slot_data
from alloc.models.malleable.labels import lagrangian_bound
from alloc.models.malleable.profiles import IDLE, Pricing
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.solving.malleable.ascent import ascend
from alloc.solving.malleable.column_generation import generate_columns
from alloc.solving.malleable.counted import (
    CountedPricing,
    cheapest_slots,
    counted_profile,
    insert_counted,
    is_counted,
    last_fraction,
    slots_needed,
)
from alloc.solving.malleable.improvement import Improver
from alloc.solving.malleable.insertion import (
    Builder,
    serial_horizon,
    steering_costs,
    total_cost,
)
from alloc.solving.outcome import Settings
from alloc.topology import HostType, flat_cluster
from alloc.workload import Job, rigid_gang

SLOT_S = 100.0


def gangs(
    num_jobs: int, seed: int, *, hosts: int = 2, weighted: bool = True, preemptible: bool = True
) -> Instance:
    """Return rigid gangs of 1, 2 or 4 GPUs on hosts of 4 GPUs."""
    rng = np.random.default_rng(seed)
    shared = {n: (rigid_gang(n),) for n in (1, 2, 4)}
    jobs = tuple(
        Job(
            id=f"job-{j}",
            arrival_s=float(rng.uniform(0, 6 * SLOT_S)),
            work=float(rng.uniform(0.2, 6.0) * SLOT_S),
            configurations=shared[int(rng.choice([1, 2, 4]))],
            weight=float(rng.choice([1.0, 2.5])) if weighted else 1.0,
            elasticity="rigid",
            preemptible=preemptible,
        )
        for j in range(num_jobs)
    )
    cluster = flat_cluster("gangs", HostType("h", 4, "generic", 8000, 0), hosts)
    return Instance("gangs", cluster, jobs, slot_s=SLOT_S)


def cheapest_by_trying(cost: np.ndarray, first: int, need: int, delay: np.ndarray) -> float:
    """Return the least cost over all sets of slots."""
    sets = itertools.combinations(range(first, len(cost)), need)
    return min(delay[slots[-1]] + cost[list(slots)].sum() for slots in sets)


@pytest.mark.parametrize("seed", range(30))
def test_heap_finds_the_cheapest_slots_of_all(seed: int) -> None:
    """The running sum replaces a dynamic program; trying every set of slots says the same."""
    rng = np.random.default_rng(seed)
    cost = np.round(rng.uniform(0, 3, 9), 2) * (rng.random(9) < 0.7)
    cost[rng.random(9) < 0.2] = np.inf
    first, need = int(rng.integers(0, 3)), int(rng.integers(1, 5))
    # Weighted completion, or tardiness: free until the due date.
    delay = float(rng.choice([0.1, 1.0])) * np.arange(9.0)
    delay = np.maximum(delay - float(rng.choice([0.0, 0.4, 3.0])), 0.0) + 1e-3 * np.arange(9)
    least = cheapest_by_trying(cost, first, need, delay)
    slots = cheapest_slots(cost, first, need, delay)
    if slots is None:
        assert not np.isfinite(least)
        return
    assert len(set(slots.tolist())) == need
    assert slots.min() >= first
    assert (np.diff(slots) > 0).all()
    assert delay[slots[-1]] + cost[slots].sum() == pytest.approx(least)


def test_free_slots_are_taken_from_the_front() -> None:
    """Without prices the earliest slots are best, and a limit leaves none beyond it."""
    cost = np.array([0.0, np.inf, 0.0, 0.0])
    delay = np.arange(4.0)
    assert cheapest_slots(cost, 0, 2, delay).tolist() == [0, 2]
    assert cheapest_slots(cost, 0, 2, delay, latest=1.5) is None
    assert cheapest_slots(cost, 1, 3, delay) is None


def general_insertion(data: SlotData, job: int, room: np.ndarray, prices: np.ndarray) -> float:
    """Return the least cost of inserting a job by the dynamic program over profiles."""
    pricing = Pricing(data, job_costs=steering_costs(data))
    key, _ = next(group for group in pricing.groups if job in group[1])
    (program,) = pricing.programs(key, np.array([job]), "upper")
    use = program.table.use[program.columns]
    cost = prices @ use.T
    cost[(room[:, None, :] < use[None, :, :] - 1e-6).any(axis=2)] = np.inf
    solved = program.solve(cost, int(data.release[job]), last_free=False)
    return solved.cost(int(data.release[job]), float(data.work[job]))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("horizon_s", [None, 12 * SLOT_S])
@pytest.mark.parametrize("objective", ["weighted_jct", "tardiness", "max_slowdown + makespan"])
def test_counted_insertion_equals_the_dynamic_program(
    seed: int, horizon_s: float | None, objective: str
) -> None:
    """Inserting a job by counting costs what the profile program says, limits included."""
    rng = np.random.default_rng(seed)
    jobs = tuple(
        replace(job, due_date_s=job.arrival_s + job.work * float(rng.uniform(0.5, 3.0)))
        for job in gangs(6, seed).jobs
    )
    instance = replace(gangs(6, seed), horizon_s=horizon_s, jobs=jobs)
    data = slot_data(instance, objective)
    costs = steering_costs(data)
    room = np.tile(data.rows.capacity, (16, 1)) * rng.choice([0.0, 0.3, 1.0], (16, 1))
    prices = rng.uniform(0, 1e-3, room.shape)
    for job in range(data.num_jobs):
        least = general_insertion(data, job, room, prices)
        profile = insert_counted(data, job, room, prices, costs)
        if profile is None:
            assert not np.isfinite(least)
            continue
        use = data.table(job).use[0]
        slots = profile.start + np.flatnonzero(np.array(profile.choice) != IDLE)
        price = float((prices[slots] @ use).sum())
        cost = costs.of(job, profile.completion) - costs.of(job, float(data.release[job])) + price
        assert cost == pytest.approx(least)
        assert (room[slots] >= use).all()
        assert profile.completion <= data.limit[job] + 1e-9


@pytest.mark.parametrize("seed", range(15))
def test_pricing_side_by_side_equals_the_bound_of_every_job(seed: int) -> None:
    """The shared program's value is the Lagrangian bound that is proved apart from it."""
    data = slot_data(gangs(8, seed))
    num_slots = serial_horizon(data)
    assert CountedPricing.applies(data, num_slots)
    prices = np.random.default_rng(seed).uniform(0, 1e-3, (num_slots, len(data.rows.names)))
    prices[num_slots // 2 :] = 0.0
    pricing = CountedPricing(data, num_slots)
    priced = pricing.solve(prices)
    value = priced.value - float((prices @ data.rows.capacity).sum())
    assert value * data.slot_s == pytest.approx(lagrangian_bound(data, prices))
    assert (priced.chosen.sum(axis=0) == pricing.need).all()
    cost = 0.0
    for j in range(data.num_jobs):
        slots = np.flatnonzero(priced.chosen[:, j])
        profile = counted_profile(data, j, slots)
        cost += data.weight[j] * (profile.completion - data.release[j] + data.lag[j])
    bill = float((prices * pricing.total_use(priced.chosen)).sum())
    assert cost + bill == pytest.approx(priced.value)


def test_only_jobs_that_may_pause_are_counted() -> None:
    """A gang that must not pause, a limit and a program too large need the general method."""
    data = slot_data(gangs(4, 0))
    assert CountedPricing.applies(data, 40)
    assert not CountedPricing.applies(data, 10**8)
    assert not CountedPricing.applies(data, int(data.release.max()))
    bound = slot_data(gangs(4, 0, preemptible=False))
    assert not is_counted(bound, 0)
    assert not CountedPricing.applies(bound, 40)
    assert not CountedPricing.applies(slot_data(replace(gangs(4, 0), horizon_s=4000.0)), 40)


def test_needs_and_fractions_follow_the_work() -> None:
    """2.5 slots of work take three slots, the last by half; whole slots use all of the last."""
    base = gangs(2, 0)
    jobs = tuple(replace(base.jobs[i], work=w * SLOT_S) for i, w in enumerate((2.5, 3.0)))
    data = slot_data(replace(base, jobs=jobs))
    assert [slots_needed(data, j) for j in (0, 1)] == [3, 3]
    assert [last_fraction(data, j) for j in (0, 1)] == pytest.approx([0.5, 1.0])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_ascent_comes_close_to_the_linear_master_and_never_above(seed: int) -> None:
    """Prices by ascent prove nearly what column generation proves, and nothing false."""
    data = slot_data(gangs(20, seed, hosts=1))
    num_slots = serial_horizon(data)
    builder = Builder(data, num_slots)
    plan = builder.insert_all(range(data.num_jobs), builder.empty(), None)
    assert plan is not None
    settings = Settings(60.0)
    lines: list[str] = []
    found = ascend(data, num_slots, total_cost(plan), settings, 20.0, lines.append)
    exact = generate_columns(data, num_slots, list(plan.values()), settings, 30.0, lambda _: None)
    proved = lagrangian_bound(data, found.prices) / data.slot_s
    assert found.value == pytest.approx(proved)
    assert proved <= exact.value * (1 + 1e-9)
    assert proved >= 0.99 * exact.value
    assert found.rounds > 50
    assert lines
    share = np.zeros(data.num_jobs)
    np.add.at(share, [column.job for column in found.columns], found.z)
    assert share == pytest.approx(np.ones(data.num_jobs))


def test_ascent_stops_where_nothing_competes() -> None:
    """One job alone: no capacity is short, and the value is its own length."""
    data = slot_data(gangs(1, 0))
    found = ascend(data, 20, 100.0, Settings(60.0), 20.0, lambda _: None)
    assert not found.prices.any()
    assert found.value * data.slot_s == pytest.approx(data.no_contention)
    assert found.rounds == 1


@pytest.mark.long
def test_long_instances_take_the_ascent_and_the_answer_is_certified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a size on there is no linear master; short or long, bounds and answers must agree."""
    instance = gangs(6, 3, hosts=1)
    # Long instances are too large for the time-indexed program, so both go without it.
    monkeypatch.setattr("alloc.solving.malleable.method._MAX_COLUMNS", 0)
    short = alloc.solve(instance, limits=Limits(seconds=60))
    monkeypatch.setattr("alloc.solving.malleable.column_generation._LONG", 1)
    # What is proved may not depend on how far a second run of HiGHS gets on a busy machine.
    monkeypatch.setattr("alloc.backends.second_proof._BRIEF_S", 0.0)
    long = alloc.solve(instance, limits=Limits(seconds=60))
    assert not any("ascent done" in line for line in short.log)
    assert any("ascent done" in line for line in long.log)
    assert long.certificate.verified
    # Of the choice among the listed profiles no more is proved again than the list reaches.
    assert long.certificate.bound_proof == "recomputed"
    assert short.certificate.objective is not None
    assert long.certificate.objective is not None
    assert long.certificate.bound <= short.certificate.objective * (1 + 1e-9)
    assert short.certificate.bound <= long.certificate.objective * (1 + 1e-9)
    assert long.certificate.objective <= 1.05 * short.certificate.objective


@pytest.mark.long
def test_room_is_what_the_plan_leaves() -> None:
    """The room kept between rounds must follow the incumbent when that changes."""
    data = slot_data(gangs(10, 1, hosts=1))
    num_slots = serial_horizon(data)
    builder = Builder(data, num_slots)
    plan = builder.insert_all(range(data.num_jobs), builder.empty(), None)
    assert plan is not None
    relaxation = replace(
        generate_columns(
            data, num_slots, list(plan.values()), Settings(20.0), 10.0, lambda _: None
        ),
        mastered=False,
    )
    improver = Improver(data, builder, relaxation, plan, Settings(20.0))
    assert not improver.integer_master(1.0)
    before = improver.value
    improver.search(2.0, lambda _: None)
    assert improver.value <= before
    left = builder.empty()
    for column in improver.plan.values():
        left.reshape(-1)[column.rows] -= column.use
    assert (left >= -1e-6).all()
    assert improver.room_without([]) == pytest.approx(left)
