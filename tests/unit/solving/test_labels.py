"""The cheapest profiles on the true work are those of enumeration, on any grid of the programs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from alloc.instances import generate_elastic
from alloc.models.malleable import slot_data
from alloc.models.malleable.data import Array, SlotData
from alloc.models.malleable.labels import cheapest_profiles
from alloc.models.malleable.profiles import IDLE, Pricing

_SLOTS = 6


def least_cost(data: SlotData, j: int, prices: Array) -> float:
    """Return the least cost of all profiles within the priced slots, one after the other."""
    table, costs = data.table(j), data.target.costs
    pausable = data.instance.jobs[j].preemptible
    best = math.inf
    open_: list[tuple[int, float, float, bool]] = [
        (int(data.release[j]), float(data.work[j]), 0.0, bool(data.started[j]))
    ]
    while open_:
        t, left, paid, running = open_.pop()
        if t == _SLOTS:
            continue
        if pausable or not running:
            open_.append((t + 1, left, paid, running))
        for c, rate in enumerate(table.rate.tolist()):
            cost = paid + float(prices[t] @ table.use[c])
            if left > rate * (1 + 1e-9):
                open_.append((t + 1, left - rate, cost, True))
            elif (end := t + min(left / rate, 1.0)) <= data.limit[j] + 1e-9:
                best = min(best, cost + costs.of(j, end))
    return best


def case(seed: int, *, pausable: bool) -> tuple[SlotData, Array]:
    """Return jobs of a few configurations, some with limits, and prices."""
    rng = np.random.default_rng(seed)
    instance = generate_elastic(
        "few", run_slots=(1.5, 3.5), seed=seed, num_jobs=4, num_hosts=2, max_workers=2, max_ps=2
    )
    jobs = tuple(replace(job, arrival_s=0.0, preemptible=pausable) for job in instance.jobs)
    data = slot_data(replace(instance, jobs=jobs))
    limit = np.where(rng.random(4) < 0.3, rng.uniform(2.0, 6.0, 4), np.inf)
    prices = rng.exponential(1.0, (_SLOTS, len(data.rows.names))) / data.rows.capacity
    return replace(data, limit=limit), prices * rng.choice([0.1, 1.0, 4.0])


@pytest.mark.parametrize("pausable", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_the_cheapest_profile_is_that_of_enumeration(seed: int, pausable: bool) -> None:
    data, prices = case(seed, pausable=pausable)
    for num_states in (7, 40, 500):
        pricing = Pricing(data, num_states)
        found = cheapest_profiles(pricing, pricing.solve(prices, "lower"), prices)
        for j, profile in enumerate(found.profiles):
            truth = least_cost(data, j, prices)
            assert found.least[j] <= truth + 1e-9
            if profile is None:
                # It would rather end after the slots, free of charge.
                assert found.least[j] < truth or math.isinf(truth)
                continue
            assert found.costs[j] == pytest.approx(truth)
            use = data.table(j).use
            paid = sum(
                float(prices[profile.start + k] @ use[c])
                for k, c in enumerate(profile.choice)
                if c != IDLE
            )
            assert paid + data.target.costs.of(j, profile.completion) == pytest.approx(truth)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_holds_however_few_labels_are_followed(seed: int) -> None:
    data, prices = case(seed, pausable=True)
    pricing = Pricing(data, 20)
    solved = pricing.solve(prices, "lower")
    whole = cheapest_profiles(pricing, solved, prices)
    for width in (1, 2, 3):
        few = cheapest_profiles(pricing, solved, prices, width)
        for j in range(data.num_jobs):
            truth = least_cost(data, j, prices)
            assert few.least[j] <= truth + 1e-9
            assert few.least[j] <= whole.least[j] + 1e-9
            assert few.costs[j] >= min(truth, math.inf) - 1e-9
