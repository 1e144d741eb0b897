"""Dives of F2: some jobs chosen for together in the room that the others leave."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from alloc.backends import SolverOptions
from alloc.instances import load
from alloc.models.malleable.data import SlotData, slot_data
from alloc.models.malleable.profiles import IDLE, Pricing, Profile
from alloc.problems.allocation.instance import Instance
from alloc.solving.malleable.column_generation import generate_columns
from alloc.solving.malleable.dive import Dive
from alloc.solving.malleable.improvement import Improver
from alloc.solving.malleable.insertion import Builder, value_of
from alloc.solving.malleable.joint_pricing import ROOM
from alloc.solving.malleable.master import Column, make_column, solve_integer_master
from alloc.solving.malleable.search import Search
from alloc.solving.outcome import Settings
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup


def _silent(line: str) -> None:
    del line


def _every_column(data: SlotData, job: int, num_slots: int) -> list[Column]:
    """Return every profile of a job that ends within some slots, by going through all of them."""
    rate, work = data.table(job).rate, float(data.work[job])
    found = []
    for start in range(int(data.release[job]), num_slots):
        for length in range(1, num_slots - start + 1):
            for choice in itertools.product((IDLE, *range(len(rate))), repeat=length):
                if IDLE in (choice[0], choice[-1]):
                    continue
                done = [0.0 if c == IDLE else float(rate[c]) for c in choice]
                before = sum(done[:-1])
                if before < work * (1 - 1e-9) <= before + done[-1]:
                    end = start + length - 1 + (work - before) / done[-1]
                    found.append(make_column(data, job, Profile(start, choice, end)))
    return found


def _cheapest_together(columns: list[list[Column]], room: np.ndarray) -> float:
    """Return the least cost of one column each that fit together, by enumeration."""

    def least(left: int, free: np.ndarray) -> float:
        if left == len(columns):
            return 0.0
        best = np.inf
        for column in columns[left]:
            if (column.use <= free[column.rows] + ROOM).all():
                rest = free.copy()
                rest[column.rows] -= column.use
                best = min(best, column.cost + least(left + 1, rest))
        return best

    return least(0, room.ravel())


def _small() -> tuple[SlotData, Builder, int, dict[int, Column]]:
    data = slot_data(load("elastic-tiny/01"), "weighted_jct", ())
    num_slots = int(data.release.max() + 3 * np.ceil(data.shortest).max()) + 2
    builder = Builder(data, num_slots)
    order = np.argsort(data.release + data.shortest).tolist()
    plan = builder.insert_all(order, builder.empty(), None)
    assert plan is not None
    return data, builder, num_slots, plan


@pytest.mark.parametrize("seed", range(6))
def test_programs_side_by_side_find_what_each_alone_finds(seed: int) -> None:
    """Priced together or one after the other, jobs get profiles of the same cost that fit."""
    data = slot_data(load("elastic-small/04"), "weighted_jct", ())
    num_slots = 14
    builder, rng = Builder(data, num_slots), np.random.default_rng(seed)
    jobs = sorted(rng.choice(data.num_jobs, 6, replace=False).tolist())
    room = builder.empty() * rng.uniform(0.1, 1.0, (num_slots, 1))
    prices = rng.uniform(0.0, 1e-5, room.shape)
    joint = builder.together(jobs)
    assert joint.jobs == set(jobs)
    together = {column.job: column for column in builder.cheapest(jobs, room, prices, joint)}
    nothing = builder.together([])
    apart = {column.job: column for column in builder.cheapest(jobs, room, prices, nothing)}
    assert together.keys() == apart.keys()
    for job, column in together.items():
        assert (column.use <= room.ravel()[column.rows] + ROOM).all()
        paid = [one.cost + prices.ravel()[one.rows] @ one.use for one in (column, apart[job])]
        assert paid[0] == pytest.approx(paid[1], rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_configurations_left_out_cost_nothing(seed: int) -> None:
    """Of two configurations that cost the same the faster one does: values stay what they were."""
    data = slot_data(load("elastic-small/04"), "weighted_jct", ())
    pricing, rng = Pricing(data, 300), np.random.default_rng(seed)
    key, jobs = pricing.groups[0]
    (program,) = pricing.programs(key, jobs, "upper")
    prices = rng.uniform(0.0, 1.0, (10, len(program.columns)))
    prices[rng.random(prices.shape) < 0.2] = np.inf
    solved = program.solve(prices, 0, last_free=False)
    for t in range(9, -1, -1):
        steps, fraction = program._steps(np.arange(program.num_states + 1), program.table.rate)
        after = np.maximum(np.arange(program.num_states + 1) - steps[:, None], 0)
        ends = np.isfinite(fraction)
        on = np.where(ends, 0.0, solved.value[t + 1][after] + program.weight)
        run = np.where(ends, program.weight * np.where(ends, fraction, 0.0), on)
        cheapest = (run + prices[t][:, None]).min(axis=0)
        expected = np.minimum(cheapest, solved.value[t + 1] + program.weight)
        assert solved.value[t, 1:] == pytest.approx(expected[1:])


def test_a_dive_finds_the_best_of_every_way_to_run_two_jobs() -> None:
    """Of all pairs of profiles that fit together, a dive returns one of least cost."""
    data, builder, num_slots, plan = _small()
    room = builder.room_of(column for job, column in plan.items() if job > 1)
    horizon = min(num_slots, 6)
    room = room[:horizon]
    ways = [_every_column(data, job, horizon) for job in (0, 1)]
    least = _cheapest_together(ways, room)
    assert np.isfinite(least)
    mine = [own for own in (plan[0], plan[1]) if own.rows[-1] < room.size]
    found = Dive(data, builder, [0, 1], room, mine, Settings(60.0)).run(np.inf)
    assert found is not None
    assert sum(column.cost for column in found.values()) <= least * (1 + 1e-3)
    free = room.ravel().copy()
    for column in found.values():
        free[column.rows] -= column.use
    assert free.min() >= -ROOM


def test_a_dive_below_what_is_possible_finds_nothing() -> None:
    """No plan costs less than the least: a dive that is asked for one says so."""
    data, builder, _, plan = _small()
    room = builder.room_of(column for job, column in plan.items() if job > 1)
    alone = float(data.target.costs.at(data.release + data.shortest)[:2].sum())
    assert Dive(data, builder, [0, 1], room, [plan[0], plan[1]], Settings(60.0)).run(alone) is None


def test_a_dive_without_time_finds_nothing_and_raises_nothing() -> None:
    data, builder, _, plan = _small()
    room = builder.room_of(column for job, column in plan.items() if job > 1)
    dive = Dive(data, builder, [0, 1], room, [plan[0], plan[1]], Settings(0.0))
    assert dive.run(np.inf) is None


@pytest.mark.parametrize("size", [10, 10**6, 10**7, 4 * 10**8])
def test_one_unit_too_much_is_not_run_together(size: int) -> None:
    """Two jobs take one token more than there are: below the tolerance of a solver, still none."""
    task = TaskGroup("w", 1, 1000, 1000, 1, resources={"tokens": size + 1})
    ways = tuple(Configuration((replace(task, gpu_milli=1000 * k),), 0.7 + 0.3 * k) for k in (1, 2))
    jobs = tuple(Job(f"j{n}", 0.0, 1000.0 + 250.0 * n, ways) for n in range(2))
    kind = HostType("box", 16, "a", 64_000, 1024)
    topology = Topology("t", (kind,), (Host("h", "box"),), resources={"tokens": 2 * size + 1})
    data = slot_data(Instance("far", topology, jobs, slot_s=400.0), "weighted_jct", ())
    builder = Builder(data, 12)
    plan = builder.insert_all([0, 1], builder.empty(), None)
    assert plan is not None
    columns = list(plan.values())
    found = Dive(data, builder, [0, 1], builder.empty(), columns, Settings(60.0)).run(np.inf)
    assert found is not None
    assert builder.room_of(found.values()).min() >= -ROOM
    early = [builder.insert(job, builder.empty(), None) for job in (0, 1)]
    columns += [column for column in early if column is not None]
    chosen, _ = solve_integer_master(data, columns, builder.empty(), [0, 1], SolverOptions(30.0))
    assert chosen is None or builder.room_of(chosen).min() >= -ROOM


def _improver(seed: int) -> tuple[SlotData, Improver]:
    data = slot_data(load("elastic-small/04"), "weighted_jct", ())
    builder = Builder(data, 40)
    order = np.argsort(-data.work).tolist()
    plan = builder.insert_all(order, builder.empty(), None)
    assert plan is not None
    settings = Settings(300.0, seed=seed)
    relaxation = generate_columns(data, 40, list(plan.values()), settings, 60.0, _silent)
    return data, Improver(data, builder, relaxation, plan, settings)


@pytest.mark.long
def test_a_search_by_dives_ends_with_the_best_schedule_it_met() -> None:
    """Dives may leave the incumbent for worse ones; what a search leaves behind is the best."""
    data, improver = _improver(0)
    assert improver.dives
    first, met = improver.value, []
    improver.search(2.0, lambda line: met.append(float(line.split(": ")[-1])))
    assert met
    assert improver.value == pytest.approx(min(met), abs=1e-4)
    assert improver.relaxation.bound <= improver.value < first
    assert improver.builder.room_of(improver.plan.values()).min() >= -ROOM
    assert sorted(improver.plan) == list(range(data.num_jobs))


@pytest.mark.long
def test_a_search_that_had_given_up_goes_on_from_a_better_schedule() -> None:
    """Rounds without a better schedule count from the last one, wherever it was found."""
    _, improver = _improver(0)
    improver.search(1.0, _silent)
    improver._idle = 10**6
    improver.search(60.0, _silent)
    assert improver._idle == 10**6
    _, other = _improver(1)
    other.plan = improver.plan
    before = improver.value
    other.search(2.0, _silent)
    improver.plan = dict(other.plan)
    improver.search(0.2, _silent)
    assert improver._idle < 10**6
    assert improver.value <= before


@pytest.mark.long
def test_ctrl_c_keeps_what_others_found_in_turns_that_are_over(monkeypatch) -> None:
    """What they found is the incumbent before they are asked again, and before a proof is tried."""
    data, improver = _improver(0)
    first = improver.plan
    improver.search(2.0, _silent)
    better, improver.plan = improver.plan, first
    assert value_of(data, better) < value_of(data, first)
    search = Search(data, "weighted_jct", improver.settings, None, _silent)
    search.plan = first

    def interrupted(own: Improver, seconds: float) -> None:
        own.adopt(better)
        raise KeyboardInterrupt

    monkeypatch.setattr(search.companions, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search._ask_others(improver, 1.0)
    assert search.plan is better


@pytest.mark.long
def test_what_two_searches_changed_goes_together_where_it_fits() -> None:
    """Merged, two searches from one plan are at least as good as the better one, and fit."""
    _, one = _improver(1)
    _, other = _improver(2)
    other.plan = one.plan
    one.search(1.0, _silent)
    other.search(1.0, _silent)
    best = min(one.value, other.value)
    one.merge(other.plan, other.gains)
    assert one.value <= best
    assert one.builder.room_of(one.plan.values()).min() >= -ROOM
    assert one.value == value_of(one.data, one.plan)
