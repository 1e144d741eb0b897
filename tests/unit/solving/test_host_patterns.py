"""Host patterns: pricing is exact, and the bound behaves as a bound should."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from placement_oracle import Oracle, random_instance

from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import parse_goal
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.placement import pricing as pricing_module
from alloc.solving.placement import relaxation as relaxation_module
from alloc.solving.placement import sampling
from alloc.solving.placement.bounds import (
    pattern_prices,
    placement_bound,
    rough_bounds,
    round_up,
    sharper_bounds,
    trivial_bound,
)
from alloc.solving.placement.branching import branch_on_gangs
from alloc.solving.placement.clock import timer
from alloc.solving.placement.pattern_master import Master, generate, undecided_holds
from alloc.solving.placement.patterns import Patterns, lagrangian
from alloc.solving.placement.pricing import Pricing
from alloc.solving.placement.relaxation import Weights, relax
from alloc.solving.placement.tables import fill_table, pieces, trace_back
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

BALANCE = "balance + 0.05 moves"


def patterns_of(instance: Instance, goal: str = BALANCE) -> Patterns:
    """Return the patterns of an instance."""
    level = parse_goal(goal).levels[0]
    return relax(PlacementData.of(instance), Weights.read(level, instance)).patterns


def bound_of(instance: Instance, goal: str = BALANCE, seconds: float = 10.0) -> float:
    """Return the bound of the first level of a goal."""
    level = parse_goal(goal).levels[0]
    return placement_bound(PlacementData.of(instance), level, seconds, lambda _: None)[0]


def crowded(num_hosts: int = 6, seed: int = 0, name: str = "h") -> Instance:
    """Return hosts of 8 GPUs in racks of two with jobs that are unevenly spread on them."""
    rng = np.random.default_rng(seed)
    hosts, jobs, running = [], [], []
    for h in range(num_hosts):
        hosts.append(Host(f"{name}{h}", "box", f"{name}-r{h // 2}"))
        free = np.array([8, 32, 64]) - np.array([2, 2, 2]) * (h == num_hosts - 1)
        for k in range(8):
            gpus = int(rng.choice([0, 1, 1, 2, 4]))
            need = np.array([gpus, 1 + 3 * gpus, 2 + 4 * gpus])
            if (need > free).any() or rng.random() < h / (1.5 * num_hosts):
                continue
            free -= need
            job = f"{name}{h}-{k}"
            group = TaskGroup("w", 1, 1000 * gpus, 1000 * int(need[1]), int(need[2]))
            jobs.append(Job(job, 0.0, 1.0, (Configuration((group,), 1.0),)))
            running.append(Assignment(job, 0, (TaskPlacement(f"{name}{h}", "w", 1),)))
    gang = TaskGroup("w", 2, 1000, 1000, 1)
    jobs.append(
        Job(
            f"{name}-gang",
            0.0,
            1.0,
            (Configuration((gang,), 1.0),),
            placement=PlacementRules(required="rack"),
        )
    )
    last = hosts[-1].id
    running.append(Assignment(f"{name}-gang", 0, (TaskPlacement(last, "w", 2),)))
    racks = tuple(Domain(r, "rack") for r in dict.fromkeys(h.domain for h in hosts) if r)
    topology = Topology("t", (HostType("box", 8, "a", 32000, 64),), tuple(hosts), ("rack",), racks)
    return Instance("crowded", topology, tuple(jobs), running=tuple(running), moves=Moves())


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


@pytest.mark.parametrize("most_subsets", [17, 0])
def test_pricing_finds_the_cheapest_pattern_of_every_host(
    monkeypatch: pytest.MonkeyPatch, most_subsets: int
) -> None:
    """A pattern missed would raise the bound above the truth; both ways to keep tasks are tried."""
    monkeypatch.setattr(pricing_module, "MAX_SUBSETS", most_subsets)
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


def test_pricing_charges_a_host_for_the_gangs_that_it_keeps() -> None:
    """Never more than is due, which would make bounds false, and hardly ever less."""
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
    assert checked >= 20
    assert exact >= 0.9 * checked


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
    assert not list(rough_bounds(patterns_of(crowded()), timer(1e-9)))


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


def test_bound_is_far_above_what_loads_alone_say() -> None:
    """Tasks are whole: the point of patterns. The start is 20 % above the bound at most twice."""
    instance = crowded()
    bound = bound_of(instance)
    level = parse_goal("balance").levels[0]
    start = level.evaluate(instance, PlacementData.of(instance).allocation(_initial(instance)))
    assert 0.2 * start < bound < start


def _initial(instance: Instance) -> np.ndarray:
    return np.asarray(PlacementData.of(instance).initial.toarray(), dtype=np.int64)


def test_bound_scales_with_the_weights() -> None:
    """Units are the user's choice."""
    assert bound_of(crowded(), "300 balance + 15 moves") == pytest.approx(
        300 * bound_of(crowded()), rel=1e-3
    )


def test_two_clusters_side_by_side_have_twice_the_bound() -> None:
    """Nothing is gained by moving tasks between equal clusters, and nothing is lost."""
    one, other = crowded(), crowded(name="g")
    both = Topology(
        "both",
        one.topology.host_types,
        (*one.topology.hosts, *other.topology.hosts),
        ("rack",),
        (*one.topology.domains, *other.topology.domains),
    )
    twice = Instance(
        "twice",
        both,
        (*one.jobs, *other.jobs),
        running=(*one.running, *other.running),
        moves=Moves(),
    )
    assert bound_of(twice) == pytest.approx(2 * bound_of(one), rel=2e-3)


def test_order_of_hosts_and_jobs_does_not_matter() -> None:
    """A bound that depends on names would be a bug of indices."""
    one = crowded()
    topology = one.topology
    turned = one.replace(
        topology=Topology(
            "t", topology.host_types, topology.hosts[::-1], ("rack",), topology.domains[::-1]
        ),
        jobs=one.jobs[::-1],
        running=one.running[::-1],
    )
    assert bound_of(turned) == pytest.approx(bound_of(one), rel=1e-3)


def test_a_smaller_budget_of_moves_does_not_lower_the_bound() -> None:
    """Fewer placements cost no less; with no moves at all the start is the only one."""
    bounds = [bound_of(crowded().replace(moves=Moves(budget=b))) for b in (20, 3, 1, 0)]
    assert all(b >= a - 1e-3 for a, b in itertools.pairwise(bounds))
    level = parse_goal(BALANCE).levels[0]
    start = PlacementData.of(crowded()).allocation(_initial(crowded()))
    assert bounds[-1] == pytest.approx(level.evaluate(crowded(), start))


def test_hosts_that_start_over_full_are_bounded_within_a_budget() -> None:
    """No pattern of the start fits there, so the first master has nothing within the budget."""
    hosts = (Host("h0", "box"), Host("h1", "box"))
    topology = Topology("t", (HostType("box", 2, "a", 8000, 8),), hosts)
    group = TaskGroup("w", 3, 1000, 1000, 1)
    job = Job("j", 0.0, 1.0, (Configuration((group,), 1.0),))
    running = (Assignment("j", 0, (TaskPlacement("h0", "w", 3),)),)
    instance = Instance("over", topology, (job,), running=running, moves=Moves(budget=1))
    assert bound_of(instance, "moves + 0.1 gpu_hosts_used") == pytest.approx(1.2)


def test_a_coarse_grid_only_weakens_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the grid is too fine, demands are rounded down; a bound above the fine one is false."""
    fine = bound_of(crowded())
    monkeypatch.setattr(relaxation_module, "_MOST_CELLS", 1500)
    assert not patterns_of(crowded()).exact
    assert 0.0 < bound_of(crowded()) <= fine * (1 + 1e-4)


def test_prices_of_a_sample_lead_to_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples only save time; whole racks are drawn, so that gangs keep their rules."""
    instance = crowded(16, seed=3)
    exact = bound_of(instance)
    monkeypatch.setattr(sampling, "_SAMPLES", (4,))
    lines: list[str] = []
    found = pattern_prices(patterns_of(instance), timer(20.0), lines.append)
    assert found is not None
    assert any("sample of" in line for line in lines)
    assert found.bound == pytest.approx(exact, rel=1e-3)
    hosts = sampling.choose_sample(patterns_of(instance), 4)
    sample = sampling.restrict(patterns_of(instance), hosts)
    assert sample.num_hosts == len(hosts) >= 4
    assert sample.least.sum() == pytest.approx(len(instance.jobs) * len(hosts) / 16, rel=0.2)


def test_a_pattern_is_a_column_once() -> None:
    """Columns that are there twice only make the linear program larger."""
    p = patterns_of(crowded())
    found = generate(p, np.zeros(p.num_items), timer(20.0), lambda _: None)
    columns = found.columns
    rows = {(int(h), x.tobytes()) for h, x in zip(columns.host, columns.counts, strict=True)}
    assert len(rows) == len(columns.host)
    again = Master(p, 1.0)
    assert again.add(columns) == len(rows)
    assert again.add(columns) == 0
    assert np.array_equal(again.columns().counts, columns.counts)


def test_known_patterns_change_the_way_but_not_the_bound() -> None:
    """A master that begins with patterns converges to the same value, in fewer evaluations."""
    p = patterns_of(crowded())
    rounds: list[float] = []
    alone = generate(p, np.zeros(p.num_items), timer(20.0), lambda _: None, on_round=rounds.append)
    again: list[float] = []
    known = generate(
        p,
        alone.prices,
        timer(20.0),
        lambda _: None,
        known=alone.columns,
        on_round=again.append,
    )
    assert rounds == sorted(rounds)
    assert known.converged
    assert known.bound == pytest.approx(alone.bound, rel=1e-3)
    assert len(known.share) == len(known.columns.host)
    assert len(again) < len(rounds)


def test_whole_hosts_are_counted() -> None:
    """Three hosts with 5 GPUs of 8 used each, single tasks: two hosts suffice, and 15/8 do not.

    The tasks of one host, five of them, must move: 2 + 0.01 x 5, and the bound knows it.
    """
    hosts = tuple(Host(f"h{h}", "box") for h in range(3))
    topology = Topology("t", (HostType("box", 8, "a", 8000, 8),), hosts)
    group = TaskGroup("w", 5, 1000, 1000, 1)
    jobs = tuple(Job(f"j{h}", 0.0, 1.0, (Configuration((group,), 1.0),)) for h in range(3))
    running = tuple(Assignment(f"j{h}", 0, (TaskPlacement(f"h{h}", "w", 5),)) for h in range(3))
    instance = Instance("b", topology, jobs, running=running, moves=Moves())
    assert bound_of(instance, "gpu_hosts_used + 0.01 moves") == pytest.approx(2.05, abs=1e-6)


def test_a_gang_leaves_whole_or_stays_whole() -> None:
    """One task of a gang stands beside a pinned job and would better leave for the empty rack.

    Half the gang leaves in the linear relaxation: loads 2, 2, 2, 0 of 4 GPUs and one move, 0.425.
    In truth both tasks leave, which costs another move.
    """
    hosts = tuple(Host(f"h{h}", "box", f"r{h // 2}") for h in range(4))
    topology = Topology(
        "t",
        (HostType("box", 4, "a", 8000, 64),),
        hosts,
        ("rack",),
        (Domain("r0", "rack"), Domain("r1", "rack")),
    )
    way = (Configuration((TaskGroup("w", 2, 2000),), 1.0),)
    alone = (Configuration((TaskGroup("w", 1, 2000),), 1.0),)
    jobs = (
        Job("gang", 0.0, 1.0, way, placement=PlacementRules(required="rack")),
        Job("pinned", 0.0, 1.0, alone, preemptible=False),
    )
    running = (
        Assignment("gang", 0, (TaskPlacement("h0", "w", 1), TaskPlacement("h1", "w", 1))),
        Assignment("pinned", 0, (TaskPlacement("h0", "w", 1),)),
    )
    instance = Instance("gangs", topology, jobs, running=running, moves=Moves())
    best = Oracle(instance).best(parse_goal(BALANCE).levels[0])
    p = patterns_of(instance)
    found = pattern_prices(p, timer(10.0), lambda _: None)
    assert found is not None
    lines: list[str] = []
    bound = max(branch_on_gangs(p, found, timer(10.0), lines.append))
    assert found.bound == pytest.approx(0.425)
    assert best == pytest.approx(0.475)
    assert bound == pytest.approx(0.475)
    assert "programs" in lines[-1]
    # With a placement that is as good as the relaxation there is nothing to branch for.
    assert not list(branch_on_gangs(p, found, timer(10.0), lines.append, target=lambda: 0.0))


def test_bounds_are_rounded_to_values_that_there_are() -> None:
    """With whole hosts and moves at 0.05 each, 40.41 means 40.45; a balance can be anything."""
    data = PlacementData.of(crowded())
    counted = parse_goal("gpu_hosts_used + 0.05 moves").levels[0]
    assert round_up(40.41, counted, data) == pytest.approx(40.45)
    assert round_up(40.45 + 1e-9, counted, data) == pytest.approx(40.45)
    assert round_up(40.41, parse_goal(BALANCE).levels[0], data) == 40.41
    assert round_up(-79.3, parse_goal("gpus_placed").levels[0], data) == -79.0


def test_without_time_the_bound_is_trivial_and_still_valid() -> None:
    """A huge cluster and a second of time must not end in nothing, nor in a false claim."""
    lines: list[str] = []
    instance = crowded()
    assert pattern_prices(patterns_of(instance), timer(1e-9), lines.append) is None
    assert "too many or too different" in lines[0]
    assert trivial_bound(patterns_of(instance)) <= bound_of(instance)
    assert bound_of(instance, seconds=1e-9) == 0.0


def test_objectives_that_patterns_do_not_know_are_bounded_apart() -> None:
    """Domains and fragments are 0 or more, the largest gang is at most everything."""
    instance = crowded()
    assert bound_of(instance, f"{BALANCE} + 0.1 domains_spanned") == pytest.approx(
        bound_of(instance), rel=1e-3
    )
    assert bound_of(instance, "largest_gang") == pytest.approx(48.0)
    level = parse_goal("mean_bandwidth + 0.1 gpus_placed").levels[0]
    assert placement_bound(PlacementData.of(instance), level, 1.0, lambda _: None) == (
        math.inf,
        "none",
    )
