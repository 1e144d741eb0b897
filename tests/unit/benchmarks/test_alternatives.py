"""The alternatives answer the same question: on small problems both have one optimum."""

import math
import sys

import pytest

import alloc
from alloc.instances import load
from alloc.instances.projects import generate_priced
from alloc.instances.stored_planning import load_stored_planning
from alloc.problems.project import Resource
from benchmarks import rule_decisions
from benchmarks.alternatives import (
    event_loop,
    gang_placement,
    malleable_milp,
    mig_patterns,
    plain_planning,
    plain_projects,
    ratios,
    round_milp,
    table,
)


@pytest.mark.parametrize("seed", range(3))
def test_a_round_has_one_optimum(seed):
    instance = round_milp.made(20, seed)
    assert round_milp.by_alloc(instance) == pytest.approx(
        round_milp.by_milp(instance), rel=2 * round_milp.GAP
    )


@pytest.mark.long
@pytest.mark.parametrize("own", [False, True])
def test_mig_patterns_and_alloc_place_the_same_weight(own):
    row = mig_patterns.compare(320, [5], own=own)
    assert row.size == 320
    assert row.ratio > 0


@pytest.mark.long
@pytest.mark.parametrize("hosts", [False, True])
def test_a_heap_and_the_simulator_wait_alike(hosts):
    assert event_loop.compare(300, [3], hosts=hosts).ratio > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_project_has_one_makespan(seed):
    problem = generate_priced(num_tasks=7, seed=seed)
    tight = problem.resources[-1].capacity // 2
    resources = (*problem.resources[:-1], Resource("cost", tight, is_renewable=False))
    problem = problem.replace(resources=resources)
    plain = plain_projects.solve_project_plainly(problem, 30.0, 1)
    assert plain.gap == 0
    assert alloc.solve(problem).objective == plain.objective


@pytest.mark.long
@pytest.mark.parametrize("name", ["tiny/01", "tiny/02", "tiny/03", "small/02", "small/03"])
def test_a_plan_has_one_cost(name):
    """Also with spare hosts, waived scenarios and a budget."""
    problem = load_stored_planning(f"planning-{name}")
    plain = plain_planning.by_pyomo(problem, 60.0, 1e-6)
    own = plain_planning.by_alloc(problem, 60.0, 1e-6)
    assert own.objective == pytest.approx(plain.objective, rel=plain_planning.SAME)
    assert max(own.bound, plain.bound) <= own.objective * (1 + plain_planning.SAME)


def test_a_plain_model_that_has_no_plan_in_time_has_an_infinite_gap():
    answer = plain_planning.by_pyomo(load_stored_planning("planning-small/02"), 0.0, 1e-6)
    assert answer.gap == math.inf


def test_drawn_plans_are_the_same_for_a_seed_and_compared_one_by_one(capsys):
    assert plain_planning.drawn(7) == plain_planning.drawn(7)
    verdict = plain_planning.compare_drawn(3, 702063)
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[-1] for row in rows] == [f"drawn-{n}" for n in range(702063, 702066)]
    assert "median ratio" in verdict.measured


def test_growth_is_read_off_three_sizes():
    assert ratios.exponent([10, 20, 40], [0.1, 0.4, 1.6]) == pytest.approx(2.0)


@pytest.mark.long
def test_the_first_placement_is_timed_and_kept():
    instance = gang_placement.made(16, 1)
    assert gang_placement.first_placement_s(instance) > 0
    assert all(verdict.holds for verdict in gang_placement.compare(16, 5.0, 1))


@pytest.mark.long
def test_every_decision_of_a_rule_is_timed():
    spent = rule_decisions.measure(rule_decisions.made(20), "srtf")
    assert len(spent) > 1
    assert min(spent) >= 0


@pytest.mark.parametrize("number", ["01", "04"])
def test_a_malleable_instance_has_one_optimum(number):
    instance = load(f"elastic-tiny/{number}")
    value, num_slots = malleable_milp.by_alloc(instance)
    assert malleable_milp.by_milp(instance, num_slots) == pytest.approx(
        value, rel=2 * malleable_milp.GAP
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux forgets a peak")
def test_memory_is_what_a_turn_grew_by():
    mib = 64

    def grown(seed: int) -> float:
        bytearray(mib * 2**20)[seed] = 1
        return 1.0

    row = ratios.in_turns(1, (0, 1), grown, lambda seed: 1.0)
    assert row.our_mib == pytest.approx(mib, rel=0.1)
    assert row.their_mib < mib / 10


@pytest.mark.long
def test_the_table_prints_times_and_memory_of_every_question(monkeypatch, capsys):
    for name, sizes in (
        ("ROUNDS", (5, 8)), ("MIG", (80, 160)), ("JOBS", (20, 40)), ("HOSTS", (4, 8)),
        ("MALLEABLE", (2,)), ("CLASSES", (2,)),
    ):  # fmt: skip
        monkeypatch.setattr(table, name, sizes)
    assert table.main(["--repeats", "1", "--seed", "2"]) == 0
    printed = capsys.readouterr().out
    for question in ("Rounds", "MIG", "gangs", "FIFO", "Malleable", "Capacity plans"):
        assert question in printed
    assert printed.count("plain MiB") == 8


@pytest.mark.long
def test_the_plain_plan_at_equal_time_ends_with_its_first_plan():
    """Nothing is looked at after it; with enough time it is the optimum that alloc proves."""
    name = "planning-tiny/01"
    bound = alloc.solve(load_stored_planning(name)).bound
    (plan,) = plain_planning.plain_after(name, 1e-4, [60.0, 120.0])
    assert plan.objective == pytest.approx(bound, rel=1e-4)
    assert plan.bound <= bound * (1 + 1e-6)
