"""Moldable gangs piece by piece: prices, multipliers, units, time lines and plans of F3."""

from __future__ import annotations

import math

import numpy as np
import pytest
from moldable_gangs import boxes, drawn, gang, speed

from alloc import Configuration, Instance, TaskGroup
from alloc.backends import SolverOptions, cpsat
from alloc.formulation import CpSatModel
from alloc.models.moldable.bounds import PricesOfTime, misses_deadlines, pool_of
from alloc.models.moldable.cpsat_model import Builder
from alloc.models.moldable.data import moldable_data
from alloc.models.moldable.serial import Timeline, by_choices, by_ways, plan_of
from alloc.models.moldable.units import Units


@pytest.mark.parametrize("seed", range(6))
def test_prices_of_any_kind_prove_a_bound(seed: int) -> None:
    """Random prices, and the schedules of random lists, which cost no less."""
    rng = np.random.default_rng(seed)
    instance = drawn(seed, 5)
    data = moldable_data(instance, "weighted_jct")
    pool = pool_of(data)
    edges = np.sort(np.concatenate([[0.0], rng.uniform(1.0, 400.0, 12)]))
    priced = PricesOfTime(pool, data.target.level.jobs, edges)
    bounds = [
        priced.bound(rng.uniform(0, scale, (pool.load.shape[1], 12))) for scale in (0, 20, 200)
    ]
    for _ in range(20):
        plan = by_ways(data, rng.permutation(5).tolist(), rng.integers(-1, 3, 5).tolist())
        assert data.target.value(plan.completion) >= max(bounds) * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_starts_that_prices_leave_hold_every_better_schedule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = moldable_data(drawn(seed, 5), "weighted_jct")
    pool = pool_of(data)
    priced = PricesOfTime(pool, data.target.level.jobs, np.linspace(0.0, 300.0, 20))
    prices = rng.uniform(0, 30, (pool.load.shape[1], 19))
    plans = [
        by_ways(data, rng.permutation(5).tolist(), rng.integers(-1, 3, 5).tolist())
        for _ in range(40)
    ]
    value = float(np.median([data.target.value(p.completion) for p in plans]))
    low, high = priced.starts_within(prices, value)
    first = pool.first
    for plan in plans:
        if data.target.value(plan.completion) <= value:
            for j, (w, _) in enumerate(plan.choice):
                at = int(first[j]) + w
                assert low[at] - 1e-9 <= plan.start[j] <= high[at] + 1e-9


def test_multipliers_of_any_kind_prove_no_deadline_missed_that_is_kept() -> None:
    """The solver of the linear program is not believed: here it answers nonsense."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        data = moldable_data(drawn(seed, 5), "makespan")
        pool = pool_of(data)
        plan = by_ways(data, range(5), [-1] * 5)
        kept = np.full(5, plan.completion.max())
        nonsense = lambda model: -rng.exponential(1.0, len(model.row_lower))  # noqa: E731
        assert not any(misses_deadlines(pool, kept, nonsense) for _ in range(20))


@pytest.mark.long
def test_a_neighbourhood_of_gangs_with_many_placements_is_built_in_its_time() -> None:
    """Of 3,600 placements every two were compared: a minute a step."""
    ways = tuple(Configuration((TaskGroup("worker", n, 1000),), float(n)) for n in (6, 8, 9))
    jobs = tuple(gang(f"j{j}", ways, 100.0 + j) for j in range(8))
    data = moldable_data(Instance("wide", boxes(4, 8), jobs), "mean_jct")
    compared = len(Builder(data, free=range(2)).model.proto.variables)
    alone = [len(Builder(data, free=[j]).model.proto.variables) for j in range(2)]
    assert compared == sum(alone) + 2  # who goes first
    all_jobs = len(Builder(data, free=range(8)).model.proto.variables)
    assert all_jobs == sum(len(Builder(data, free=[j]).model.proto.variables) for j in range(8))


def test_a_way_that_could_only_start_after_the_end_of_all_is_left_out() -> None:
    ways = (speed(1, 1.0), speed(2, 1.5))
    data = moldable_data(Instance("late", boxes(1), (gang("a", ways, 6.0),)), "makespan")
    builder = Builder(data, starts=[[(1e3, math.inf), (0.0, 5.0)]])
    built = builder.built()
    assert isinstance(built.model, CpSatModel)
    raw = cpsat.solve(built.model, SolverOptions(5.0, 0, 1, 0.0))
    assert raw.values is not None
    assert builder.plan_of_values(raw.values).completion.tolist() == [4.0]


@pytest.mark.parametrize("slot_s", [None, 10.0])
def test_rounding_down_keeps_every_schedule(slot_s: float | None) -> None:
    """A schedule in seconds is one of the model, whatever its units: CP-SAT takes it as a hint."""
    for seed in range(3):
        instance = drawn(seed, 5).replace(slot_s=slot_s)
        data = moldable_data(instance, "weighted_jct")
        plan = by_ways(data, range(5), [-1, 0, 1, 2, -1])
        builder = Builder(data)
        built = builder.built()
        assert isinstance(built.model, CpSatModel)
        assert built.start is not None
        values = built.start(plan.schedule(data))
        assert values is not None
        for variable, value in zip(built.model.variables, values, strict=True):
            built.model.model.add(variable == int(value))
        raw = cpsat.solve(built.model, SolverOptions(5.0))
        assert raw.status == "optimal"
        assert raw.bound <= data.target.value(plan.completion) * (1 + 1e-12)
        assert raw.values is not None
        again = builder.plan_of_values(raw.values)
        assert (again.completion <= plan.completion * (1 + 1e-6)).all()


def test_units_are_exact_where_times_are_whole() -> None:
    data = moldable_data(
        Instance("whole", boxes(1), (gang("a", (speed(1, 1.0),), 7.0),)), "makespan"
    )
    units = Units.of(data)
    assert units.unit_s == 1.0
    assert (units.down(7.0), units.up(7.0), units.down(7.5), units.up(7.5)) == (7, 7, 7, 8)


def test_a_timeline_counts_what_is_taken() -> None:
    line = Timeline(3)
    line.take(0.0, 10.0, 2)
    line.take(5.0, 8.0, 1)
    assert line.clash(0.0, 5.0, 1) is None
    assert line.clash(0.0, 6.0, 1) == 8.0
    assert line.clash(8.0, 9.0, 2) == 10.0
    assert line.clash(10.0, 99.0, 3) is None


def test_a_plan_is_read_back_from_its_schedule() -> None:
    data = moldable_data(drawn(2, 6), "makespan")
    plan = by_ways(data, [3, 1, 0, 5, 4, 2], [-1] * 6)
    found = plan_of(data, plan.schedule(data))
    assert found is not None
    assert found.choice == plan.choice
    again = by_choices(data, plan.order(), plan.choice)
    assert (again.completion <= plan.completion + 1e-9).all()
    assert math.isfinite(data.target.value(again.completion))
