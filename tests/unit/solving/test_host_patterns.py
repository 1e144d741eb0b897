"""Host patterns: tables and pricing are exact, and every price gives a bound."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from pattern_worlds import BALANCE, crowded, patterns_of
from placement_oracle import Oracle, random_instance

from alloc.errors import OutOfTime
from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import parse_goal
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.placement import pricing as pricing_module
from alloc.solving.placement.bounds import (
    pattern_prices,
    rough_bounds,
    sharper_bounds,
)
from alloc.solving.placement.clock import endless, timer
from alloc.solving.placement.compiling import Problem, compile_state
from alloc.solving.placement.guided import Guide
from alloc.solving.placement.pattern_master import generate, undecided_holds
from alloc.solving.placement.patterns import Patterns, lagrangian
from alloc.solving.placement.pricing import Pricing
from alloc.solving.placement.relaxation import Weights, relax
from alloc.solving.placement.tables import fill_table, pieces, trace_back
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup


def cheapest_pattern(
    p: Patterns,
    h: int,
    prices: np.ndarray,
    move_price: float,
    hold_prices: np.ndarray | None = None,
) -> float:
    """Return the least reduced cost of a host by trying every pattern.

    Besides the tasks that it keeps, a host may take in as many of an item as there are.
    """
    holds = [(n, p.held()[n][1]) for n, (own, _) in enumerate(p.holds) if own == h]
    kind = p.kinds[int(p.kind_of[h])]
    items = [*np.flatnonzero(kind.classes), *p.local[h]]
    had = np.bincount(p.now[h], minlength=p.num_items)
    best = math.inf
    for counts in itertools.product(*(range(int(p.copies[i] + had[i]) + 1) for i in items)):
        x = np.zeros(p.num_items, dtype=int)
        x[items] = counts
        load = p.base[h] + x @ p.demand
        if (load < kind.cost.shape).all():
            left = np.maximum(had - x, 0)
            cost = kind.cost[tuple(load)] + x @ (p.charge - prices)
            if hold_prices is not None:
                cost += sum(hold_prices[n] for n, own in holds if x[own].any())
            best = min(best, float(cost + left @ (p.move_weight + move_price)))
    return best


@pytest.mark.parametrize("max_subsets", [17, 0])
def test_pricing_finds_the_cheapest_pattern_of_every_host(
    monkeypatch: pytest.MonkeyPatch, max_subsets: int
) -> None:
    """A pattern missed would raise the bound above the truth; both ways to keep tasks are tried."""
    monkeypatch.setattr(pricing_module, "MAX_SUBSETS", max_subsets)
    checked = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        goal = ("balance + 0.3 moves", "gpus_placed + 0.2 moves", "hosts_used + 0.1 moves")[
            seed % 3
        ]
        p = patterns_of(random_instance(rng), goal)
        if np.prod(p.copies + 2.0) > 1e5:
            continue  # more than the enumeration above tries in time
        prices = rng.normal(0.0, 0.5, p.num_items)
        priced = Pricing(p).solve(prices, 0.1)
        for h in range(p.num_hosts):
            assert priced.value[h] == pytest.approx(cheapest_pattern(p, h, prices, 0.1)), seed
            checked += 1
        reduced = priced.cost - priced.counts @ prices + 0.1 * priced.moved
        assert reduced == pytest.approx(priced.value), seed
    assert checked >= 15


def test_every_price_gives_a_bound() -> None:
    """Weak duality: also prices that nobody optimised stay below the best placement."""
    level = parse_goal(BALANCE).levels[0]
    done = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        instance = random_instance(rng, (Moves(), Moves(budget=1)))
        best = Oracle(instance).best(level)
        if best is None:
            continue
        p = patterns_of(instance)
        for _ in range(3):
            prices, move_price = rng.normal(0.0, 0.3, p.num_items), 0.0
            if np.isfinite(p.budget):
                move_price = float(rng.random())
            value = Pricing(p).solve(prices, move_price).value
            assert lagrangian(p, prices, move_price, value) <= best + 1e-9, seed
            done += 1
    assert done >= 30


def gangs_in_racks(seed: int) -> Instance:
    """Return two racks of two hosts with gangs across their hosts and a few single tasks."""
    rng = np.random.default_rng(seed)
    hosts = tuple(Host(f"h{h}", "box", f"r{h // 2}") for h in range(4))
    racks = (Domain("r0", "rack"), Domain("r1", "rack"))
    topology = Topology("t", (HostType("box", 4, "a", 8000, 64),), hosts, ("rack",), racks)
    free = topology.capacity.copy()
    jobs, running = [], []
    for j in range(6):
        tasks = int(rng.choice([1, 2, 3]))
        group = TaskGroup("w", tasks, 1000 * int(rng.choice([1, 2])), 1000)
        rack = int(rng.choice(2, p=[0.7, 0.3]))
        on = np.zeros(4, dtype=int)
        for h in rng.permutation(np.repeat([2 * rack, 2 * rack + 1], tasks)).tolist():
            if on.sum() < tasks and (free[h] >= group.demand).all():
                free[h] -= group.demand
                on[h] += 1
        if on.sum() < tasks:
            free += on[:, None] * np.array(group.demand)
            continue
        rules = PlacementRules(required="rack") if tasks > 1 else PlacementRules()
        jobs.append(Job(f"j{j}", 0.0, 1.0, (Configuration((group,), 1.0),), placement=rules))
        at = tuple(TaskPlacement(f"h{h}", "w", int(on[h])) for h in np.flatnonzero(on))
        running.append(Assignment(f"j{j}", 0, at))
    return Instance("gangs", topology, tuple(jobs), running=tuple(running), moves=Moves())


def with_holds(p: Patterns) -> Patterns:
    """Return a program with (P6) for every host and gang on it."""
    gang_of = {int(i): stay.gang for stay in p.stays for i in stay.items}
    pairs = {(h, gang_of[i]) for h, now in enumerate(p.now) for i in now.tolist() if i in gang_of}
    return replace(p, holds=tuple(sorted(pairs)))


@pytest.mark.long
def test_pricing_charges_a_host_for_the_gangs_that_it_keeps() -> None:
    """Never more than is due, which would make bounds false; less for several gangs at most."""
    checked = exact = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = with_holds(patterns_of(gangs_in_racks(seed)))
        if not p.holds or np.prod(p.copies + 2.0) > 2e4:
            continue
        prices = rng.normal(0.2, 0.3, p.num_items)
        hold_prices = rng.exponential(0.2, len(p.holds))
        priced = Pricing(p).solve(prices, 0.0, hold_prices)
        for h in range(p.num_hosts):
            least = cheapest_pattern(p, h, prices, 0.0, hold_prices)
            assert priced.value[h] <= least + 1e-9, seed
            checked += 1
            exact += bool(priced.value[h] >= least - 1e-9)
            if sum(held == h for held, _ in p.holds) <= 1:
                assert priced.value[h] >= least - 1e-9, seed
    assert checked >= 20
    assert exact >= 0.9 * checked


@pytest.mark.long
def test_gangs_held_together_host_by_host_bound_no_placement_away() -> None:
    """(P6) at any prices stays below the optimum, and raises what column generation reaches."""
    level = parse_goal(BALANCE).levels[0]
    raised = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        instance = gangs_in_racks(seed)
        best = Oracle(instance).best(level)
        assert best is not None
        plain = patterns_of(instance)
        p = with_holds(plain)
        prices, dues = rng.normal(0.2, 0.2, p.num_items), rng.exponential(0.1, len(p.holds))
        value = Pricing(p).solve(prices, 0.0, dues).value
        assert lagrangian(p, prices, 0.0, value, dues) <= best + 1e-9, seed
        found = generate(plain, np.zeros(p.num_items), timer(20.0), lambda _: None)
        assert set(undecided_holds(plain, found)) <= set(p.holds)
        weights = Weights.read(level, instance)
        for bound in sharper_bounds(plain, found, weights, timer(20.0), lambda _: None):
            assert bound <= best + 1e-9, seed
        linked = generate(p, found.prices, timer(20.0), lambda _: None, known=found.columns)
        assert found.bound - 1e-4 <= linked.bound <= best + 1e-9, seed
        raised += bool(linked.bound > found.bound + 1e-3)
    assert raised >= 3


@pytest.mark.long
def test_rough_bounds_are_bounds() -> None:
    """Three rates instead of a price for each item: weak duality asks for no more."""
    level = parse_goal(BALANCE).levels[0]
    checked = useful = 0
    for seed in range(40):
        instance = random_instance(np.random.default_rng(seed), (Moves(), Moves(budget=1)))
        best = Oracle(instance).best(level)
        if best is None:
            continue
        for bound in rough_bounds(patterns_of(instance), timer(20.0)):
            assert bound <= best + 1e-9, seed
            checked += 1
            useful += bound > 1e-6
    assert checked >= 20
    assert useful >= 5
    assert not list(rough_bounds(patterns_of(crowded()), endless, max_work=1.0))
    with pytest.raises(OutOfTime):
        list(rough_bounds(patterns_of(crowded()), timer(1e-9)))


def test_a_sample_finds_the_rates_of_a_large_cluster() -> None:
    """Sixty hosts are rated by forty of them; the bound holds for all."""
    p = patterns_of(crowded(60))
    (bound,) = rough_bounds(p, timer(20.0))
    found = generate(p, np.zeros(p.num_items), timer(20.0), lambda _: None, tolerance=1e-3)
    assert 0.3 * found.bound < bound <= found.bound * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_tables_take_every_number_of_pieces(seed: int) -> None:
    """Any number of ample items in one pass, scarce ones by pieces: as trying all counts does."""
    rng = np.random.default_rng(seed)
    room = rng.integers(2, 6, size=3)
    cost = rng.random(room + 1)
    for axis in range(3):
        cost = np.maximum.accumulate(cost, axis=axis)
    demand = rng.integers(0, 3, size=(3, 3))
    demand[demand.sum(axis=1) == 0] = 1
    copies, worth = rng.integers(1, 8, size=3), rng.normal(0.3, 0.3, size=3)
    offered = [n for i in range(3) for n in pieces(i, int(copies[i]), demand[i], room)]
    table = cost.copy()
    took = fill_table(table, offered, worth)
    load, counts = np.zeros((1, 3), dtype=np.int64), np.zeros((1, 3), dtype=np.int64)
    trace_back(took, load, counts)
    best = min(
        float(cost[tuple(np.array(x) @ demand)] - np.array(x) @ worth)
        for x in itertools.product(*(range(n + 1) for n in copies))
        if (np.array(x) @ demand <= room).all()
    )
    assert table[0, 0, 0] == pytest.approx(best)
    assert (counts[0] <= copies).all()
    assert np.array_equal(load[0], counts[0] @ demand)
    assert float(cost[tuple(load[0])] - counts[0] @ worth) == pytest.approx(best)


def test_each_variation_keeps_the_limit_that_it_is_given() -> None:
    """Tables are kept from one to the next, the clock is not."""
    instance = crowded()
    data, level = PlacementData.of(instance), parse_goal(BALANCE).levels[0]
    problem = Problem(data)
    relaxation = relax(data, Weights.read(level, instance))
    generated = pattern_prices(relaxation.patterns, endless, lambda _: None)
    assert generated is not None
    state = compile_state(problem, data.initial, [level])
    guide = Guide(problem, state, relaxation, generated, np.random.default_rng(0))
    before = len(guide.pool.host)
    guide.vary(0.1, endless)
    assert len(guide.pool.host) > before
    with pytest.raises(OutOfTime):
        guide.vary(0.1, timer(0.0))
