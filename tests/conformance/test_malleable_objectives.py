"""F2 under every goal: sums, the worst job, and levels, held against all best completions.

The enumeration of `benchmarks.tiny.malleable` knows nothing of objectives: it returns the
completions that no others beat, and a goal is read off them by plain arithmetic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from alloc.backends import SolverOptions
from alloc.errors import InstanceError
from alloc.instances import load
from alloc.models.malleable import lagrangian_bound, slot_data
from alloc.models.malleable.costs import Multipliers, level_costs
from alloc.models.malleable.fluid import fluid_bound
from alloc.objectives import Held, objective, parse_level
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.malleable.enumeration import enumerate_profiles
from alloc.solving.malleable.master import make_column, solve_integer_master
from alloc.verification import verify
from benchmarks.tiny.families import FAMILIES
from benchmarks.tiny.family import disagreement
from benchmarks.tiny.malleable import GOALS, best_ends, make_instance

WAYS = ("auto", "highs", "pyomo", "cpsat")
EACH = sorted(set(GOALS) - {"weighted_jct"})
SINGLE = ("weighted_jct", "mean_jct", "makespan", "tardiness", "max_slowdown")


def problems(first: int, count: int, *, scaled: bool = False) -> Iterator[Instance]:
    """Yield instances in which every job has a due date and some schedule completes all jobs."""
    for seed in itertools.count(first):
        rng = Random(seed)
        instance = make_instance(rng, scaled, False)
        slot_s = instance.slot_s
        jobs = tuple(
            job.replace(due_date_s=job.arrival_s + slot_s * rng.randint(0, 12) / 4)
            for job in instance.jobs
        )
        instance = instance.replace(jobs=jobs)
        if len(jobs) > 1 and best_ends(instance):
            yield instance
            count -= 1
        if not count:
            return


@pytest.mark.long
@pytest.mark.parametrize("goal", EACH)
@pytest.mark.parametrize("way", WAYS)
def test_every_goal_is_proved_by_every_way(goal: str, way: str) -> None:
    """Objectives by themselves, in sums, and on up to three levels."""
    family = FAMILIES["malleable"]
    for instance in problems(1000 * EACH.index(goal), 3):
        problem = (instance, goal)
        answer = family.solve(problem, way, 20.0)
        assert disagreement(family.truth(problem), answer) is None, instance


@pytest.mark.long
@pytest.mark.parametrize("goal", EACH)
@pytest.mark.parametrize("way", WAYS)
def test_every_goal_is_proved_in_every_unit(goal: str, way: str) -> None:
    """Weights and rates from 1e-9 to 1e12, and slots from a tenth of a second to an hour."""
    family = FAMILIES["malleable-scaled"]
    for instance in problems(1000 * EACH.index(goal), 4, scaled=True):
        problem = (instance, goal)
        answer = family.solve(problem, way, 20.0)
        assert disagreement(family.truth(problem), answer) is None, instance


@pytest.mark.parametrize("goal", EACH)
def test_any_prices_and_multipliers_prove_a_bound(goal: str) -> None:
    """Weak duality, on slots and off them, however the multipliers are chosen.

    Also where they are below 0 or exceed what there is of a peak: that is mended, not believed.
    """
    rng = np.random.default_rng(EACH.index(goal))
    family = FAMILIES["malleable"]
    *before, last = goal.split(" then ")
    for instance in problems(500, 8):
        truth = family.truth((instance, goal)).values
        assert truth is not None
        held = [
            Held(level := parse_level(name), value, level.size(instance))
            for name, value in zip(before, truth, strict=False)
        ]
        data = slot_data(instance, last, held)
        assert data.no_contention <= truth[-1] * (1 + 1e-9)
        for states in (7, 200):
            prices = rng.random((8, len(data.rows.names))) * rng.choice([0.0, 1e-4, 1e-2, 1.0])
            size = data.target.level.size
            given = Multipliers(
                tuple(rng.uniform(-0.2, 1.0, data.num_jobs) for _ in data.target.peaks),
                rng.uniform(-0.2, 1.0, len(data.target.held)),
            )
            bound = lagrangian_bound(data, size * prices, states, multipliers=given)
            assert bound <= truth[-1] * (1 + 1e-6) + 1e-9
            if not before:
                loose = slot_data(instance, last)
                assert fluid_bound(loose, size * prices, given) <= truth[-1] * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("weight", [1e-9, 1e13])
def test_a_held_level_of_any_weight_is_one_to_the_master(weight: float) -> None:
    """Its rows had the weights' own size, and HiGHS called the master unbounded."""
    for instance in problems(40, 5):
        jobs = tuple(job.replace(weight=weight * job.weight) for job in instance.jobs)
        result = solve(
            instance.replace(jobs=jobs), "malleable", objective="tardiness then max_slowdown"
        )
        same = solve(instance, "malleable", objective="tardiness then max_slowdown")
        assert [stage.status for stage in result.stages] == ["optimal", "optimal"]
        values = [stage.objective for stage in result.stages]
        expected = [same.stages[0].objective * weight, same.stages[1].objective]
        assert values == pytest.approx(expected, rel=1e-6, abs=1e-9 * weight)


@pytest.mark.long
@pytest.mark.parametrize("goal", ["mean_jct", "tardiness", "makespan + mean_jct"])
def test_the_profiles_listed_for_a_proof_hold_the_optimum_on_any_grid(goal: str) -> None:
    """Also on a grid of work that proves less than another did: what it cuts off is its own."""
    rng = np.random.default_rng(11)
    listed = 0
    for instance in problems(900, 40):
        if any(job.restart_cost_s for job in instance.jobs):
            continue
        truth = FAMILIES["malleable"].truth((instance, goal)).values
        assert truth is not None
        data = slot_data(instance, goal)
        prices = rng.random((14, len(data.rows.names))) * rng.choice([0.0, 1e-3, 0.1])
        shares = tuple(np.full(data.num_jobs, 0.1) for _ in data.target.peaks)
        costs, constant = data.target.relaxed(Multipliers(shares, np.zeros(0)))
        best = truth[0] / data.slot_s
        profiles = enumerate_profiles(
            data,
            prices,
            best - constant + float((prices @ data.rows.capacity).sum()),
            num_states=int(rng.integers(5, 40)),
            most=20_000,
            job_costs=costs,
        )
        if profiles is None:
            continue
        listed += 1
        columns = [make_column(data, j, p) for j, own in enumerate(profiles) for p in own]
        room = np.tile(data.rows.capacity, (14, 1))
        chosen, raw = solve_integer_master(
            data, columns, room, list(range(data.num_jobs)), SolverOptions(10.0)
        )
        assert chosen is not None
        assert raw.objective is not None
        assert raw.objective <= best * (1 + 1e-6) + 1e-9
    assert listed > 5


@pytest.mark.parametrize("goal", [goal for goal in EACH if "then" not in goal])
def test_the_costs_of_a_level_are_its_objective(goal: str) -> None:
    """The models minimise what the checker measures, whatever the completions."""
    rng = np.random.default_rng(3)
    for instance in problems(60, 10, scaled=True):
        slot_s = instance.slot_s
        level = parse_level(goal)
        costs = level_costs(instance.jobs, level, slot_s)
        ends = np.array([job.arrival_s for job in instance.jobs])
        ends = ends + slot_s * rng.uniform(0.1, 9.0, len(ends))
        terms: Any = level.terms
        expected = sum(w * term.of_completions(instance.jobs, ends) for w, term in terms)
        assert slot_s * costs.value(ends / slot_s) == pytest.approx(expected, rel=1e-9)
        for j, end in enumerate(ends / slot_s):
            assert costs.jobs.of(j, end) == pytest.approx(costs.jobs.at(ends / slot_s)[j])
            assert costs.jobs.ends(j, end % 1, 12)[int(end)] == pytest.approx(costs.jobs.of(j, end))


@pytest.mark.parametrize("way", WAYS)
def test_tardiness_without_due_dates_is_refused_in_a_sentence(way: str) -> None:
    """On whatever level: before anything is solved."""
    instance = next(problems(1, 1))
    undated = instance.replace(jobs=tuple(job.replace(due_date_s=None) for job in instance.jobs))
    with pytest.raises(InstanceError, match="has a due date; set due_date_s on those that may"):
        solve(undated, "malleable", way, objective="tardiness + makespan")
    told: list[str] = []
    with pytest.raises(InstanceError, match="has a due date"):
        solve(undated, "malleable", way, objective="makespan then tardiness", progress=told.append)
    assert told == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("weight", ["5e-324", "1e-320", "1e308"])
def test_weights_out_of_all_range_are_refused_in_a_sentence(way: str, weight: str) -> None:
    """They overflowed in one solver and were nothing in another."""
    instance = next(problems(1, 1))
    with pytest.raises(InstanceError, match=r"weight of makespan is .*; give one from 1e-100"):
        solve(instance, "malleable", way, objective=f"mean_jct then {weight} makespan")


def test_a_goal_may_be_written_with_a_sign_and_names_are_looked_up() -> None:
    """``>`` is ``then``; objectives of placements are none of schedules."""
    instance = next(problems(1, 1))
    by_sign = solve(instance, "malleable", objective="makespan > mean_jct")
    by_word = solve(instance, "malleable", objective="makespan then mean_jct")
    assert [s.objective for s in by_sign.stages] == [s.objective for s in by_word.stages]
    with pytest.raises(InstanceError, match=r'unknown objective "balance".* known: weighted_jct'):
        solve(instance, "malleable", objective="makespan + balance")


@pytest.mark.parametrize("way", WAYS)
def test_no_way_loses_the_start_of_a_goal(way: str) -> None:
    """Whatever finds nothing in no time."""
    instance = load("elastic-tiny/04")
    goal = "makespan then mean_jct"
    start = solve(instance, "malleable", objective=goal)
    again = solve(
        instance, "malleable", way, objective=goal, warm_start=start, limits=Limits(seconds=1e-3)
    )
    for before, after in zip(start.stages, again.stages, strict=True):
        assert before.objective is not None
        assert after.objective is not None
        assert after.objective <= before.objective * (1 + 1e-6)


@pytest.mark.parametrize("name", SINGLE)
def test_a_start_is_never_made_worse_and_a_second_level_keeps_the_first(name: str) -> None:
    """By any of the objectives, from the optimum of another."""
    for instance in problems(7, 3):
        for other in SINGLE:
            start = solve(instance, "malleable", objective=other)
            again = solve(
                instance, "malleable", objective=name, warm_start=start, limits=Limits(seconds=1e-3)
            )
            value = objective(name).evaluate
            assert again.solution is not None
            assert start.solution is not None
            kept = value(instance, start.solution) * (1 + 1e-9)
            assert value(instance, again.solution) <= kept
            both = solve(instance, "malleable", objective=f"{other} then {name}")
            first = objective(other).evaluate(instance, both.require_solution())
            assert first == pytest.approx(start.certificate.objective, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("goal", ["makespan", "tardiness then makespan", "max_slowdown + mean_jct"])
def test_in_continuous_time_the_bound_holds_and_the_schedule_keeps_every_rule(goal: str) -> None:
    """A schedule in slots is one in continuous time, so its optimum is above the bound."""
    for instance in problems(20, 3):
        if any(job.restart_cost_s for job in instance.jobs):
            continue
        slotted = solve(instance, "malleable", objective=goal)
        free = instance.replace(slot_s=None)
        result = solve(free, "malleable", objective=goal, limits=Limits(seconds=0.3))
        assert isinstance(result.solution, Schedule)
        assert verify(free, result.solution) == []
        first, best = result.stages[:1] or (result.certificate,), slotted.stages[:1]
        optimum = (best or (slotted.certificate,))[0].objective
        assert optimum is not None
        assert first[0].bound <= optimum * (1 + 1e-6) + 1e-9
        assert math.isfinite(first[0].bound)


@pytest.mark.parametrize("goal", ["makespan", "max_slowdown", "tardiness"])
def test_the_worst_job_is_proved_without_a_solvers_word(goal: str) -> None:
    """The incumbent is a deadline for every job; without it the bound stayed a fifth below."""
    for name in ("elastic-tiny/04", "elastic-tiny/06"):
        instance = load(name)
        jobs = tuple(
            job.replace(due_date_s=job.arrival_s + 1.3 * job.min_run_s) for job in instance.jobs
        )
        certificate = solve(instance.replace(jobs=jobs), "malleable", objective=goal).certificate
        assert certificate.status == "optimal"
        assert certificate.bound_proof in ("recomputed", "confirmed")
