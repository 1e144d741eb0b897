"""The bound in continuous time: exact for each job, never above a schedule, whatever the unit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import alloc
from alloc.backends.scaling import power_of_two
from alloc.formulation import Array
from alloc.instances import generate_elastic
from alloc.models.malleable import slot_data
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.fluid import FluidPricing, fluid_bound
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.result import Limits
from alloc.solving.malleable import timed_search
from alloc.solving.malleable.search import Search
from alloc.solving.malleable.timed_search import TimedPrices, raise_prices
from alloc.topology import HostType, flat_cluster
from alloc.workload import Job, rigid_gang
from benchmarks.tiny.malleable import Problem, make, truth

OBJECTIVES = ("weighted_jct", "mean_jct", "tardiness", "makespan", "max_slowdown")


def world(seed: int) -> Instance:
    """Return a tiny instance in slots of one second: gangs or tables, some without pauses."""
    rng = np.random.default_rng(seed)
    if seed % 3 == 0:
        made = generate_elastic(
            "bound", num_jobs=3, num_hosts=1, max_workers=2, max_ps=2, seed=seed
        )
        jobs = made.jobs
        topology, slot_s = made.topology, made.slot_s
    else:
        jobs = tuple(
            Job(
                f"job-{k}",
                float(rng.integers(0, 4)),
                float(rng.integers(1, 6)),
                (rigid_gang(int(rng.integers(1, 4))),),
                weight=float(rng.integers(1, 4)),
                elasticity="rigid",
                preemptible=bool(rng.random() < 0.7),
            )
            for k in range(4)
        )
        topology, slot_s = flat_cluster("one", HostType("host", 3, "gpu"), 1), 1.0
    due = [job.arrival_s + job.min_run_s * (1 + rng.random()) for job in jobs]
    dated = tuple(job.replace(due_date_s=at) for job, at in zip(jobs, due, strict=True))
    return Instance(f"bound-{seed}", topology, dated, slot_s)


def in_time(data: SlotData) -> SlotData:
    """Return data whose floors of peaks hold in continuous time."""
    return replace(data, target=replace(data.target, floors=data.floors(data.arrival)))


def proved(instance: Instance, name: str) -> float:
    """Return the bound that an ascent of some rounds proves."""
    data = in_time(slot_data(instance, name))
    unit = power_of_two(data.target.level.size)
    data = replace(data, target=data.target.scaled(unit, []))
    rounds = iter(range(120))
    shares = tuple(np.full(data.num_jobs, 1 / data.num_jobs) for _ in data.target.peaks)
    given = replace(data.target.nothing(), peaks=shares)
    start = np.zeros((16, len(data.rows.names)))
    upper = 100 * float(data.target.costs.at(data.arrival + data.shortest).sum()) + 1
    *_, found = raise_prices(
        data, start, given, upper, lambda: next(rounds, None) is None, lambda line: None
    )
    assert found.bound == pytest.approx(fluid_bound(data, found.prices, given, found.edges))
    return found.bound / unit


def least_at(data: SlotData, j: int, end: float, prices: Array, edges: Array) -> float:
    """Return the least price of a job's work until a moment: a knapsack filled by hand."""
    table = data.table(j)
    assert len(table.rate) == 1
    bounds = np.append(edges, max(end, edges[-1]) + 1)
    price = np.append(prices @ table.use[0], 0.0)
    free = np.minimum(bounds[1:], end) - np.maximum(bounds[:-1], data.arrival[j])
    left, total = float(data.work[j] / table.rate[0]), 0.0
    for t in np.argsort(price, kind="stable"):
        part = min(left, max(float(free[t]), 0.0))
        total, left = total + part * float(price[t]), left - part
    return total if left < 1e-9 else math.inf


@pytest.mark.parametrize("name", OBJECTIVES[:3])
def test_the_value_of_a_gang_is_its_cheapest_completion(name: str) -> None:
    """Every completion of a fine grid costs at least the value, and some hardly more."""
    rng = np.random.default_rng(5)
    for seed in (2, 5):
        data = slot_data(world(seed), name)
        edges = np.append(0.0, np.cumsum(rng.random(9) * 3 + 0.1))
        prices = rng.random((9, len(data.rows.names))) * rng.random() / data.rows.capacity
        prices[rng.random(9) < 0.3] = 0.0
        values = FluidPricing(data, edges).solve(prices, data.target.costs).values
        for j in range(data.num_jobs):
            first = float(data.arrival[j] + data.shortest[j])
            ends = np.append(np.linspace(first, first + 30, 1500), edges[edges > first])
            best = min(
                data.target.costs.of(j, end) + least_at(data, j, end, prices, edges)
                for end in ends.tolist()
            )
            assert values[j] <= best * (1 + 1e-9) + 1e-9
            assert values[j] >= best - 0.05 * max(abs(best), 0.1)


def test_few_prices_of_work_bound_from_below() -> None:
    """With few prices of work to try the value is smaller, never larger."""
    rng = np.random.default_rng(1)
    for seed in range(6):
        data = slot_data(world(seed))
        edges = np.arange(13.0)
        prices = rng.random((12, len(data.rows.names))) / data.rows.capacity
        values = [
            FluidPricing(data, edges, most).solve(prices, data.target.costs).values
            for most in (32, 1024)
        ]
        assert (values[0] <= values[1] + 1e-9 * np.abs(values[1])).all()


def problems(kind: str) -> Iterator[Problem]:
    """Yield gangs of whole seconds, which lose nothing on slots, or jobs with every feature."""
    rng = Random(7)
    if kind == "gangs":
        yield from ((world(3 * seed + 1), name) for seed, name in enumerate(OBJECTIVES))
    else:
        yield from (make(rng, kind == "scaled", large=False) for _ in range(20))


@pytest.mark.parametrize(
    "kind", [pytest.param("gangs", marks=pytest.mark.long), "features", "scaled"]
)
def test_no_bound_is_above_the_optimum_on_slots(kind: str) -> None:
    """A schedule on slots is one in continuous time: every choice there is no less than a bound."""
    rng = np.random.default_rng(7)
    for instance, goal in problems(kind):
        optimum, name = truth((instance, goal)).values, goal.split(" then ")[0]
        if not optimum:
            continue
        data = in_time(slot_data(instance, name))
        scale = 100 * data.num_jobs * max(optimum[0], 1e-300) / float(data.rows.capacity.max())
        shares = tuple(rng.dirichlet(np.ones(data.num_jobs)) for _ in data.target.peaks)
        given = replace(data.target.nothing(), peaks=shares)
        bounds = [proved(instance, name)]
        for num in (1, 4, 12):
            edges = np.append(0.0, np.cumsum(rng.random(num) * 3 + 0.05))
            prices = rng.random((num, len(data.rows.names))) ** 8 * scale / data.slot_s
            bounds.append(fluid_bound(data, prices, given, edges))
        rounding = objective(name).rounding(instance, Schedule(()))
        assert max(bounds) <= optimum[0] * (1 + 1e-9) + rounding


@pytest.mark.long
@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e6, 1e12])
def test_weights_of_any_size_leave_the_bound_what_it_is(factor: float) -> None:
    """The unit of the weights is the unit of the bound."""
    instance = world(4)
    jobs = tuple(job.replace(weight=job.weight * factor) for job in instance.jobs)
    for name in ("weighted_jct", "tardiness"):
        bounds = [proved(each, name) for each in (instance, instance.replace(jobs=jobs))]
        assert bounds[1] == pytest.approx(factor * bounds[0], rel=0.05)


@pytest.mark.long
def test_finer_prices_prove_no_less() -> None:
    """Each grid goes on from the prices of the coarser one."""
    data = slot_data(world(1))
    start = np.zeros((8, 1))
    rounds = iter(range(700))
    raised = raise_prices(data, start, None, 1e3, lambda: next(rounds, None) is None, print)
    found = [each.bound for each in raised]
    assert len(found) > 1
    assert found == sorted(found)


@pytest.mark.long
def test_an_interrupt_keeps_what_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prices to begin from prove their bound before the ascent; a schedule is kept, too."""
    seen: list[TimedPrices] = []

    def interrupted() -> bool:
        raise KeyboardInterrupt

    data = slot_data(world(1))
    start = np.random.default_rng(2).random((8, 1)) / data.rows.capacity
    for factor in (1e-3, 1e6):  # prices that are far too high are worse than none
        raised = raise_prices(data, factor * start, None, 1e3, interrupted, print)
        known = [fluid_bound(data, factor * start), fluid_bound(data, 0 * start)]
        assert next(raised).bound == pytest.approx(max(known))
    with pytest.raises(KeyboardInterrupt):
        next(raised)

    def raised_once(*given: Any) -> Iterator[TimedPrices]:
        seen.append(next(raise_prices(*given)))
        yield seen[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(timed_search, "raise_prices", raised_once)
    instance = world(1).replace(slot_s=None)
    result = alloc.solve(instance, "malleable", limits=Limits(seconds=5))
    assert seen
    assert result.certificate.limit == "interrupt"
    assert result.solution is not None


@pytest.mark.long
def test_prices_are_raised_where_the_grid_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid that is out of time leaves no prices; the bound is above that of each job alone."""
    monkeypatch.setattr(Search, "_improve", lambda self: None)
    monkeypatch.setattr(timed_search, "TimedSearch", _Interrupted)
    host = flat_cluster("one", HostType("host", 1, "gpu"), 1)
    jobs = tuple(Job(f"j{k}", 0.0, 60.0, (rigid_gang(1),)) for k in range(6))
    result = alloc.solve(Instance("six", host, jobs), "malleable", limits=Limits(seconds=5))
    assert 1.5 * 6 * 60.0 < result.certificate.bound <= 21 * 60.0 * (1 + 1e-9)


class _Interrupted:
    """A search that is interrupted at once."""

    def __init__(self, *given: Any) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("second", [1e-9, 1e-6, 1e-3, 1.0, 1e6])
def test_jobs_of_any_length_are_solved(second: float) -> None:
    """The grid is this program's affair: no length of a job makes it one that is refused."""
    host = flat_cluster("one", HostType("host", 4, "gpu"), 1)
    jobs = tuple(Job(f"j{k}", k * second, (k + 1) * second, (rigid_gang(1),)) for k in range(4))
    certificate = alloc.solve(
        Instance("short", host, jobs), "malleable", limits=Limits(seconds=5)
    ).certificate
    assert certificate.status == "optimal"
    assert certificate.objective == pytest.approx(10 * second)
