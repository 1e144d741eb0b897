"""The front of makespan and a resource that is used up: exactly, and by evolution.

Exactly by the epsilon-constraint method: the least makespan, the least amount with which it is
reached, then the same with a unit less, until nothing is left. Every least makespan has a
certificate, and no amount is skipped, so that the front is whole.

By evolution: each answer is a mode and a priority for every activity, which are put in one after
the other. So Hao et al. assign the tasks of graphs to machines, for makespan, energy cost and
revenue; there a graph network picks the next task, where here priorities evolve too and the first
ones are those of rules, and revenue is left out. Nothing is proved.

References
----------
Y. Y. Haimes, L. S. Lasdon, D. A. Wismer, "On a bicriterion formulation of the problems of
integrated system identification and system optimization", IEEE Transactions on Systems, Man, and
Cybernetics 1, 1971. Y. Hao, C. Zhao, Z. Li, B. Si, H. Unger, "A learning and evolution-based
intelligence algorithm for multi-objective heterogeneous cloud scheduling optimization",
Knowledge-Based Systems, 2024, doi:10.1016/j.knosys.2024.111366, known here by its abstract. The
evolution itself: `alloc.algorithms.nsga2`.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from alloc.algorithms.nsga2 import Array, evolve
from alloc.backends import SolverOptions, cpsat
from alloc.clock import time_limit
from alloc.errors import OutOfTime
from alloc.formulation import CpSatModel
from alloc.models.project.cpsat_model import build_cpsat
from alloc.models.project.data import ProjectData
from alloc.problems.project import ProjectPlan, ProjectProblem
from alloc.problems.project_front import (
    FrontPoint,
    ProjectFront,
    amount_used,
    not_beaten,
    require_used_up,
)
from alloc.result import Limits
from alloc.solving.outcome import Settings
from alloc.solving.project.rules import RULES, quick_modes
from alloc.solving.solver import solve_within
from alloc.units import require_count

_SHARE = 0.3
"""Of the time left, for one makespan: a hard one leaves time for those after it."""
_THRIFT = 0.1
"""Of the time left, for the least amount with a makespan: it saves later steps and proves none."""
_ON_TIME = 1e-9
"""Relative lateness that is rounding."""


def exact_front(problem: ProjectProblem, resource: str, limits: Limits = Limits()) -> ProjectFront:
    """Return all plans that no other beats in makespan and in what they use up of a resource.

    Parameters
    ----------
    problem
        The project.
    resource
        Name of a resource that is used up. Its capacity is the largest amount.
    limits
        Time, seed and threads, all steps together. At a limit, and at Ctrl-C, the points found are
        returned, and the front is not called exact.

    Raises
    ------
    InstanceError
        If the resource is not used up.
    """
    require_used_up(problem, resource)
    settings = Settings.of(limits)
    found: list[FrontPoint] = []
    budget = next(r.capacity for r in problem.resources if r.name == resource)
    while True:
        if settings.time_is_up():
            return _cut_short(resource, found)
        within = _with_budget(problem, resource, budget)
        if within is None:  # an activity has no mode for so little
            break
        result = solve_within(
            within,
            settings.within(_SHARE * settings.seconds_left()),
            family="project",
            objective="makespan",
            warm_start=None,
        )
        certificate = result.certificate
        if certificate.status == "infeasible":
            break
        interrupted = certificate.limit == "interrupt"
        if result.solution is None:
            return _cut_short(resource, found)
        plan: ProjectPlan = result.solution
        value = plan.value(problem, "makespan")
        if not interrupted:
            plan, interrupted = _thriftier(within, resource, plan, value, settings)
        amount = amount_used(problem, plan, resource)
        proved = certificate.status == "optimal"
        found.append(FrontPoint(value, amount, plan, certificate.bound, proved))
        if interrupted:
            return _cut_short(resource, found)
        budget = amount - 1
        if budget < 0:
            break
    if not all(point.is_proved for point in found):
        return _cut_short(resource, found, is_over=True)
    return ProjectFront(resource, not_beaten(found), True)


def _cut_short(resource: str, found: list[FrontPoint], *, is_over: bool = False) -> ProjectFront:
    """Return the points of a front that is not proved as a whole.

    A least makespan proves that no plan of no larger amount is shorter; that none as short has a
    smaller amount, only the bound of the next point says, or that there is none.
    """
    after = [point.bound_s for point in found[1:]] + [math.inf if is_over else 0.0]
    points = [
        replace(point, is_proved=point.is_proved and bound_s > point.makespan_s * (1 + _ON_TIME))
        for point, bound_s in zip(found, after, strict=True)
    ]
    return ProjectFront(resource, not_beaten(points))


def _with_budget(problem: ProjectProblem, resource: str, budget: int) -> ProjectProblem | None:
    """Return the project with so much of a resource; None where an activity needs more."""
    if any(min(m.uses.get(resource, 0) for m in a.modes) > budget for a in problem.activities):
        return None
    resources = tuple(
        replace(r, capacity=budget) if r.name == resource else r for r in problem.resources
    )
    if any(
        all(m.uses.get(resource, 0) > budget or not problem.fits(m) for m in a.modes)
        for a in problem.activities
    ):
        return None
    return problem.replace(resources=resources)


def _thriftier(
    problem: ProjectProblem,
    resource: str,
    plan: ProjectPlan,
    makespan_s: float,
    settings: Settings,
) -> tuple[ProjectPlan, bool]:
    """Return a plan that is done by a time and uses up little, and whether Ctrl-C was pressed."""
    data = ProjectData(problem)
    seconds = max(_THRIFT * settings.seconds_left(), 0.01)
    at = [r.name for r in data.used_up].index(resource)
    try:
        with time_limit(seconds):
            built = build_cpsat(problem)
    except OutOfTime:
        return plan, False
    model = built.model
    assert isinstance(model, CpSatModel)
    starts, taken = model.variables[: data.num_activities], iter(model.variables[len(data.modes) :])
    amount = 0
    for start, times, rows in zip(starts, data.durations, data.amounts, strict=True):
        ways = [next(taken) for _ in times]
        end = start + sum(_units(t, model.scale) * x for t, x in zip(times, ways, strict=True))
        model.model.add(end <= _units(makespan_s, model.scale))
        amount += sum(row[at] * x for row, x in zip(rows, ways, strict=True))
    model.model.minimize(amount)
    raw = cpsat.solve(
        replace(model, scale=1.0, offset=0.0, trivial_bound=None),
        SolverOptions(
            seconds,
            settings.seed,
            settings.workers,
            start=None if built.start is None else built.start(plan),
            stoppable=True,
        ),
    )
    if raw.values is not None:
        other = built.extract(raw.values)
        if (
            other is not None
            and other.value(problem, "makespan") <= makespan_s * (1 + _ON_TIME)
            and amount_used(problem, other, resource) < amount_used(problem, plan, resource)
        ):
            plan = other
    return plan, raw.limit == "interrupt"


def _units(seconds: float, scale: float) -> int:
    """Return a time in units of a model, rounded down; what is late for that is found later."""
    return math.floor(seconds * scale * (1 + _ON_TIME))


def evolved_front(
    problem: ProjectProblem,
    resource: str,
    limits: Limits = Limits(),
    *,
    answers: int = 60,
    generations: int = 200,
) -> ProjectFront:
    """Return plans that an evolution finds for both goals; nothing is proved of them.

    Parameters
    ----------
    problem
        The project.
    resource
        Name of a resource that is used up.
    limits
        Time and seed. At Ctrl-C the plans found so far are returned.
    answers
        Answers of a generation, 4 or more. The first ones are those of priority rules.
    generations
        How many follow the first, 0 or more.

    Raises
    ------
    InstanceError
        If the resource is not used up, or a number is out of range.
    """
    require_used_up(problem, resource)
    require_count(answers, "evolution", "answers", least=4)
    require_count(generations, "evolution", "generations")
    settings, data = Settings.of(limits), ProjectData(problem)
    rng = np.random.default_rng(settings.seed)
    capacity = np.array([r.capacity for r in data.used_up])
    at = [r.name for r in data.used_up].index(resource)
    size = data.num_activities
    known: list[FrontPoint] = []

    def costs(genes: Array) -> tuple[float, float]:
        modes = [int(g * len(ways)) for g, ways in zip(genes[size:], data.modes, strict=True)]
        used = np.sum([rows[m] for rows, m in zip(data.amounts, modes, strict=True)], axis=0)
        if (used > capacity).any():
            return math.inf, math.inf
        starts = data.schedule(modes, data.by_priority(genes[:size].tolist()))
        plan = data.plan(modes, starts)
        point = FrontPoint(plan.value(problem, "makespan"), int(used[at]), plan)
        known[:] = not_beaten([*known, point])
        return point.makespan_s, float(point.amount)

    first = rng.random((answers, 2 * size))
    ruled = _ruled(data, at)[:answers]
    first[: len(ruled)] = ruled
    with suppress(KeyboardInterrupt):  # what is known is the answer
        evolve(costs, first, generations, rng, settings.time_is_up)
    return ProjectFront(resource, tuple(known))


def _ruled(data: ProjectData, at: int) -> Array:
    """Return the genes of the plans of priority rules, in quick modes and in the thriftiest."""
    thrifty = [int(np.argmin([row[at] for row in rows])) for rows in data.amounts]
    found = []
    for modes in [thrifty, *quick_modes(data)]:
        for rule in RULES.values():
            order = data.by_priority(rule(data, modes))
            keys = np.empty(len(order))
            keys[order] = np.arange(len(order)) / len(order)
            middle = [(m + 0.5) / len(ways) for m, ways in zip(modes, data.modes, strict=True)]
            found.append(np.concatenate([keys, middle]))
    return np.array(found)
