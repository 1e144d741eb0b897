"""Bounds of host patterns behave as bounds should."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pattern_worlds import BALANCE, bound_of, crowded, patterns_of
from placement_oracle import Oracle, random_instance

from alloc.errors import OutOfTime
from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import parse_goal
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.placement import relaxation as relaxation_module
from alloc.solving.placement import sampling
from alloc.solving.placement.bounds import (
    pattern_prices,
    placement_bound,
    round_up_to_grain,
    trivial_bound,
)
from alloc.solving.placement.branching import branch_on_gangs
from alloc.solving.placement.clock import endless, timer
from alloc.solving.placement.pattern_master import Master, generate
from alloc.solving.placement.patterns import Patterns
from alloc.solving.placement.pricing import Pricing
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup


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
    monkeypatch.setattr(relaxation_module, "_MAX_CELLS", 1500)
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
    again = Master(p)
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


def test_a_gang_that_leaves_stands_in_one_domain() -> None:
    """Two racks have room for a task each, neither for both: the gang stays, on a host of its own.

    Anywhere but at home the tasks would fit: 2 hosts and two moves.
    """
    hosts = tuple(Host(f"h{h}", "box", f"r{h}") for h in range(3))
    racks = tuple(Domain(f"r{h}", "rack") for h in range(3))
    topology = Topology("t", (HostType("box", 4, "a", 8000, 64),), hosts, ("rack",), racks)
    way = (Configuration((TaskGroup("w", 2, 2000),), 1.0),)
    large = (Configuration((TaskGroup("w", 1, 2000),), 1.0),)
    jobs = (
        Job("gang", 0.0, 1.0, way, placement=PlacementRules(required="rack")),
        *(Job(f"pinned{h}", 0.0, 1.0, large, preemptible=False) for h in (1, 2)),
    )
    running = (
        Assignment("gang", 0, (TaskPlacement("h0", "w", 2),)),
        *(Assignment(f"pinned{h}", 0, (TaskPlacement(f"h{h}", "w", 1),)) for h in (1, 2)),
    )
    instance = Instance("gangs", topology, jobs, running=running, moves=Moves())
    goal = "gpu_hosts_used + 0.05 moves"
    p = patterns_of(instance, goal)
    told: list[frozenset[int]] = []

    def bound(p: Patterns) -> float:
        found = pattern_prices(p, endless, lambda _: None)
        assert found is not None
        tree = branch_on_gangs(p, found, endless, lambda _: None, on_leaving=told.append)
        return max([found.bound, *tree])

    assert Oracle(instance).best(parse_goal(goal).levels[0]) == pytest.approx(3.0)
    assert bound(replace(p, elsewhere={})) == pytest.approx(2.1, rel=2e-3)
    assert told[-1] == {0}
    assert bound(p) == pytest.approx(3.0, rel=2e-3)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_the_tree_stays_below_every_placement(first: int) -> None:
    """Gangs in racks of tiny clusters, each domain and none: no bound is above the optimum."""
    level = parse_goal(BALANCE).levels[0]
    for seed in range(first, first + 20):
        instance = random_instance(np.random.default_rng(seed), (Moves(),))
        best = Oracle(instance).best(level)
        p = patterns_of(instance)
        found = pattern_prices(p, endless, lambda _: None)
        if best is None or found is None:
            continue
        for bound in branch_on_gangs(p, found, endless, lambda _: None):
            assert bound <= best + 1e-9 * (1 + abs(best)), seed


def test_bounds_are_rounded_to_values_that_there_are() -> None:
    """With whole hosts and moves at 0.05 each, 40.41 means 40.45; a balance can be anything."""
    data = PlacementData.of(crowded())
    counted = parse_goal("gpu_hosts_used + 0.05 moves").levels[0]
    assert round_up_to_grain(40.41, counted, data) == pytest.approx(40.45)
    assert round_up_to_grain(40.45 + 1e-9, counted, data) == pytest.approx(40.45)
    assert round_up_to_grain(40.41, parse_goal(BALANCE).levels[0], data) == 40.41
    assert round_up_to_grain(-79.3, parse_goal("gpus_placed").levels[0], data) == -79.0


def test_without_time_the_bound_is_trivial_and_still_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A huge cluster and a second of time must not end in nothing, nor in a false claim."""
    lines: list[str] = []
    instance = crowded()
    with pytest.raises(OutOfTime):
        pattern_prices(patterns_of(instance), timer(1e-9), lines.append)
    with monkeypatch.context() as patched:
        patched.setattr("alloc.solving.placement.bounds.MAX_WORK", 0.0)
        assert pattern_prices(patterns_of(instance), endless, lines.append) is None
        assert "too many or too different" in lines[-1]
    assert trivial_bound(patterns_of(instance)) <= bound_of(instance)
    assert bound_of(instance, seconds=1e-9) == 0.0


def test_rounds_of_pricing_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer rounds the bound is lower, and there are no more evaluations than that."""
    data, level = PlacementData.of(crowded()), parse_goal(BALANCE).levels[0]
    evaluations: list[int] = []
    solve = Pricing.solve

    def counted(self: Pricing, *prices: Any) -> Any:
        evaluations.append(self.patterns.num_hosts)
        return solve(self, *prices)

    monkeypatch.setattr(Pricing, "solve", counted)
    bounds = []
    for max_rounds in (0, 2, 6):
        evaluations.clear()
        found, _ = placement_bound(data, level, 10.0, lambda _: None, max_rounds=max_rounds)
        assert len(evaluations) == 1 + max_rounds
        bounds.append(found)
    assert bounds[0] < bounds[1] < bounds[2] < bound_of(crowded())


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
