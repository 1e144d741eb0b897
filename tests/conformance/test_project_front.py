"""Fronts of makespan and cost: the exact one held against every choice of modes and every order."""

from __future__ import annotations

import dataclasses
import itertools
from random import Random

import numpy as np
import pytest

import alloc
from alloc.algorithms.nsga2 import evolve
from alloc.errors import InstanceError
from alloc.instances.projects import generate_priced
from alloc.models.project.data import ProjectData
from alloc.problems.project import Activity, Mode, ProjectProblem, Resource
from alloc.problems.project_front import amount_used, priced
from alloc.solving import solver
from alloc.solving.project import front as fronts
from alloc.solving.project.front import evolved_front, exact_front
from alloc.solving.solver import solve_within


def drawn(seed: int) -> ProjectProblem:
    """Four activities on two resources with money, and on odd seeds a scarce licence besides."""
    rng = Random(seed)
    names = ("slow", "fast")
    activities = tuple(
        Activity(
            f"a{k}",
            tuple(
                Mode(
                    float(rng.randint(2, 9)) / (1 + m),
                    {name: 1, "money": rng.randint(0, 2) + 2 * m, "licence": m},
                )
                for m, name in enumerate(names)
            ),
            tuple(f"a{p}" for p in range(k) if rng.random() < 0.2),
        )
        for k in range(4)
    )
    resources = (
        Resource("slow", 1 + seed % 2),
        Resource("fast", 1),
        Resource("money", 20, is_renewable=False),
        Resource("licence", 3 - seed % 2, is_renewable=False),
    )
    return ProjectProblem(f"drawn {seed}", activities, resources)


def enumerated(problem: ProjectProblem) -> list[tuple[float, int]]:
    """Return the front by all modes and all orders: some order is best for its modes."""
    data = ProjectData(problem, whole=True)
    best: dict[int, float] = {}
    for modes in itertools.product(*(range(len(ways)) for ways in data.modes)):
        used = np.sum([rows[m] for rows, m in zip(data.amounts, modes, strict=True)], axis=0)
        if any(u > r.capacity for u, r in zip(used, data.used_up, strict=True)):
            continue
        for order in itertools.permutations(range(data.num_activities)):
            plan = data.plan(
                modes, data.schedule(modes, data.by_priority([float(k) for k in order]))
            )
            amount = amount_used(problem, plan, "money")
            best[amount] = min(best.get(amount, np.inf), plan.value(problem, "makespan"))
    found: list[tuple[float, int]] = []
    for amount in sorted(best):
        if not found or best[amount] < found[-1][0] - 1e-9:
            found.append((best[amount], amount))
    return found[::-1]


@pytest.mark.parametrize("seed", range(12))
def test_the_exact_front_is_the_one_of_all_modes_and_orders(seed):
    problem = drawn(seed)
    front = exact_front(problem, "money", alloc.Limits(30))
    assert front.is_exact
    assert [point.amount for point in front.points] == [a for _, a in enumerated(problem)]
    assert [point.makespan_s for point in front.points] == pytest.approx(
        [m for m, _ in enumerated(problem)]
    )
    for point in front.points:
        assert alloc.verify(problem, point.plan) == []
        assert point.amount == amount_used(problem, point.plan, "money")
        assert point.makespan_s == point.plan.value(problem, "makespan")
        assert point.bound_s == pytest.approx(point.makespan_s)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_proved_of_a_front_that_is_cut_short_is_true(monkeypatch, seed):
    """A least makespan does not prove that there is no plan as short that uses up less."""
    problem, ask = drawn(seed), solve_within
    monkeypatch.setattr(
        fronts, "_thriftier", lambda within, resource, plan, value, settings: (plan, False)
    )
    whole, proved = {a for _, a in enumerated(problem)}, 0
    for steps in range(1, 9):
        left = [steps]

        def some(*args, left=left, **named):
            left[0] -= 1
            result = ask(*args, **named)
            return result if left[0] >= 0 else dataclasses.replace(result, solution=None)

        monkeypatch.setattr(fronts, "solve_within", some)
        front = exact_front(problem, "money", alloc.Limits(30))
        assert {point.amount for point in front.points if point.is_proved} <= whole
        proved += sum(point.is_proved for point in front.points)
        if front.is_exact:
            assert {point.amount for point in front.points} == whole
            assert all(point.is_proved for point in front.points)
    assert proved


@pytest.mark.parametrize("seed", range(6))
def test_an_evolution_keeps_every_rule_and_beats_no_proof(seed):
    problem = drawn(seed)
    exact, found = exact_front(problem, "money"), evolved_front(problem, "money", generations=20)
    assert found.points
    for point in found.points:
        assert alloc.verify(problem, point.plan) == []
        assert not point.is_proved
        least = min(p.makespan_s for p in exact.points if p.amount <= point.amount)
        assert point.makespan_s >= least - 1e-9
    corner = (100.0, 100.0)
    assert found.hypervolume(*corner) <= exact.hypervolume(*corner) + 1e-9


def test_more_generations_find_the_whole_front_of_a_small_problem():
    problem = drawn(3)
    exact, found = exact_front(problem, "money"), evolved_front(problem, "money", generations=60)
    assert [p.amount for p in found.points] == [p.amount for p in exact.points]
    assert [p.makespan_s for p in found.points] == pytest.approx(
        [p.makespan_s for p in exact.points]
    )


def test_an_evolution_is_the_same_for_the_same_seed():
    problem = generate_priced(num_tasks=6)
    one, other, third = (
        evolved_front(problem, "cost", alloc.Limits(60, seed=seed), generations=5)
        for seed in (1, 1, 2)
    )
    assert one == other
    assert one != third


def test_prices_are_rounded_up_to_steps_and_leave_room_for_every_choice():
    fast, slow = Mode(1800.0, {"big": 1}), Mode(3600.0, {"small": 2})
    base = ProjectProblem(
        "two", (Activity("a", (fast, slow)),), (Resource("big", 1), Resource("small", 2))
    )
    found = priced(base, {"big": 5.0, "small": 0.333}, step=0.5)
    assert [mode.uses["cost"] for mode in found.activities[0].modes] == [5, 2]
    assert found.resources[-1] == Resource("cost", 5, is_renewable=False)
    front = exact_front(found, "cost")
    assert [(p.makespan_s, p.amount) for p in front.points] == [(1800.0, 5), (3600.0, 2)]


def test_the_area_of_a_front_is_that_of_its_steps():
    problem = priced(
        ProjectProblem(
            "two",
            (Activity("a", (Mode(1.0, {"big": 1}), Mode(3.0, {"small": 1}))),),
            (Resource("big", 1), Resource("small", 1)),
        ),
        {"big": 3 * 3600.0},
        step=1.0,
    )
    front = exact_front(problem, "cost")
    assert [(p.makespan_s, p.amount) for p in front.points] == [(1.0, 3), (3.0, 0)]
    # (4 - 1) (5 - 3) of the first, (4 - 3) (3 - 0) of the second.
    assert front.hypervolume(4.0, 5.0) == 9.0
    assert front.hypervolume(2.0, 5.0) == 2.0


@pytest.mark.parametrize(
    ("resource", "says"), [("mony", 'did you mean "money"'), ("fast", "is no resource that is")]
)
def test_a_resource_that_is_not_used_up_has_no_front(resource, says):
    for front in (exact_front, evolved_front):
        with pytest.raises(InstanceError, match=says):
            front(drawn(0), resource)


def test_a_price_of_something_unknown_is_refused():
    with pytest.raises(InstanceError, match='did you mean "fast"'):
        priced(drawn(0), {"fsat": 1.0})


def test_ctrl_c_keeps_the_points_that_were_found(monkeypatch):
    problem, whole = drawn(3), exact_front(drawn(3), "money")
    assert len(whole.points) > 1
    solve, calls = solver.solve_within, []

    def pressed(*given, **more):
        result = solve(*given, **more)
        calls.append(result)
        if len(calls) < 2:
            return result
        return result.replace(certificate=result.certificate.replace(limit="interrupt"))

    monkeypatch.setattr(fronts, "solve_within", pressed)
    front = exact_front(problem, "money")
    assert len(calls) == 2
    assert front.points[0] == whole.points[0]
    assert not front.is_exact


def test_ctrl_c_ends_an_evolution_with_what_it_found(monkeypatch):
    problem, schedule, calls = drawn(3), ProjectData.schedule, []

    def pressed(self, *given, **more):
        calls.append(given)
        if len(calls) > 30:
            raise KeyboardInterrupt
        return schedule(self, *given, **more)

    monkeypatch.setattr(ProjectData, "schedule", pressed)
    assert evolved_front(problem, "money").points


def test_evolution_of_numbers_finds_both_ends_and_the_middle():
    """Two goals that pull a gene to 0 and to 1, and all others to 0."""
    rng = np.random.default_rng(0)

    def costs(genes):
        rest = float(genes[1:].sum())
        return float(genes[0]) + rest, 1.0 - float(genes[0]) + rest

    genes, paid = evolve(costs, rng.random((40, 4)), 150, rng, lambda: False)
    assert paid.shape == (len(genes), 2)
    assert paid.sum(axis=1).max() < 1.5
    assert paid[:, 0].min() < 0.1
    assert paid[:, 1].min() < 0.1
