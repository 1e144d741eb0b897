"""Small quota problems of one GPU type, and their best value by trying every division."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.optimize import linprog

from alloc.problems.quota_planning.problem import (
    DemandScenario,
    GpuCapacity,
    QuotaGoal,
    QuotaProblem,
    QuotaTenant,
    TenantDemand,
)

GPU = 1000


def a_quota_problem(
    tenants: list[QuotaTenant],
    demands: list[list[int]],
    capacity: int,
    goal: QuotaGoal = "expected_shortfall",
    probabilities: list[float] | None = None,
    **changes: Any,
) -> QuotaProblem:
    """Return a problem of one type, one period; demands by scenario and tenant, GPUs."""
    number = len(demands)
    scenarios = tuple(
        DemandScenario(
            f"s{s}",
            1 / number if probabilities is None else probabilities[s],
            tuple(
                TenantDemand(tenant.name, "a100", (round(amount * GPU),))
                for tenant, amount in zip(tenants, row, strict=True)
            ),
        )
        for s, row in enumerate(demands)
    )
    return QuotaProblem(
        tuple(tenants), (GpuCapacity("a100", capacity * GPU),), scenarios, (1.0,), goal, **changes
    )


def hard_quotas(goal: QuotaGoal) -> QuotaProblem:
    """Return a problem far from proved in seconds; it has quotas that keep every promise."""
    rng = np.random.default_rng(2)
    tenants = [QuotaTenant(f"t{i}", "cd"[i % 2], 4 * GPU, exceeding=0.2) for i in range(9)]
    rows = rng.integers(0, 12, (90, 9)).tolist()
    return a_quota_problem(tenants, rows, 54 if "fair" in goal else 81, goal)


def best_value(problem: QuotaProblem) -> float | tuple[float, ...] | None:
    """Return the best value of the goal; of coverage all levels from the worst; None if none."""
    demand = problem.demand_milli[:, 0, :, 0] / GPU
    values: list[Any] = []
    for quota in _divisions(problem):
        if problem.goal == "expected_shortfall":
            values.append(-_shortfall(problem, demand, quota))
        elif problem.goal == "fair_service":
            values.append(_worst_service(problem, demand, quota))
        else:
            sets = [_most_met(problem, row, quota) for row in demand]
            for chosen in itertools.product(*sets):
                met = np.array(chosen).mean(axis=0)
                if problem.goal == "fair_coverage":
                    values.append(tuple(sorted(met.tolist())))
                elif all(1 - m <= t.exceeding + 1e-9 for m, t in zip(met, problem.tenants)):  # noqa: B905
                    values.append(-float(sum(quota)))
    if not values:
        return None
    best = max(values)
    return -best if problem.goal in ("expected_shortfall", "least_quota") else best


def _divisions(problem: QuotaProblem):
    capacity = problem.capacity[0].gpu_milli // GPU
    floors = [sum(a.gpu_milli for a in t.least_quota) // GPU for t in problem.tenants]
    for quota in itertools.product(*(range(f, capacity + 1) for f in floors)):
        if sum(quota) <= capacity:
            yield np.array(quota, dtype=float)


def _groups(problem: QuotaProblem) -> list[list[int]]:
    found: dict[object, list[int]] = {}
    for i, tenant in enumerate(problem.tenants):
        found.setdefault(tenant.cohort or i, []).append(i)
    return list(found.values())


def _shortfall(problem: QuotaProblem, demand: np.ndarray, quota: np.ndarray) -> float:
    """Lend what is idle to the heaviest tenants first: a fractional knapsack."""
    total = 0.0
    for row in demand:
        own = np.minimum(row, quota)
        missing = row - own
        for members in _groups(problem):
            idle = float((quota - own)[members].sum())
            for i in sorted(members, key=lambda i: -problem.tenants[i].weight):
                lent = min(idle, missing[i], problem.tenants[i].borrowing_milli / GPU)
                idle -= lent
                missing[i] -= lent
        total += float(missing @ np.array([t.weight for t in problem.tenants]))
    return total / len(demand)


def _worst_service(problem: QuotaProblem, demand: np.ndarray, quota: np.ndarray) -> float:
    """Maximise the worst tenant's share over what is lent: a linear program for these quotas."""
    scenarios, tenants = demand.shape
    own = np.minimum(demand, quota)
    asked = demand.sum(axis=0)
    width = scenarios * tenants + 1
    upper_rows, upper = [], []
    for i in range(tenants):
        if asked[i] > 0:
            row = np.zeros(width)
            row[[s * tenants + i for s in range(scenarios)]] = -1 / asked[i]
            row[-1] = 1.0
            upper_rows.append(row)
            upper.append(own[:, i].sum() / asked[i])
    for s in range(scenarios):
        for members in _groups(problem):
            row = np.zeros(width)
            row[[s * tenants + i for i in members]] = 1.0
            upper_rows.append(row)
            upper.append(float((quota - own[s])[members].sum()))
    limits = [
        (0.0, min(float(demand[s, i] - own[s, i]), problem.tenants[i].borrowing_milli / GPU))
        for s in range(scenarios)
        for i in range(tenants)
    ]
    cost = np.zeros(width)
    cost[-1] = -1.0
    answer = linprog(cost, np.array(upper_rows), np.array(upper), bounds=[*limits, (0.0, 1.0)])
    return float(-answer.fun)


def _most_met(problem: QuotaProblem, row: np.ndarray, quota: np.ndarray) -> list[tuple[bool, ...]]:
    """Return the largest sets of tenants whose demand can be met at once."""
    own = np.minimum(row, quota)
    found = []
    for met in itertools.product([False, True], repeat=len(row)):
        wanted = np.where(met, row - own, 0.0)
        fits = all(
            wanted[i] <= t.borrowing_milli / GPU + 1e-9 for i, t in enumerate(problem.tenants)
        )
        for members in _groups(problem):
            fits = fits and wanted[members].sum() <= (quota - own)[members].sum() + 1e-9
        # What is met by the quota alone is met whatever is chosen.
        if fits and all(m or row[i] > quota[i] for i, m in enumerate(met)):
            found.append(met)
    return [
        met
        for met in found
        if not any(o != met and all(a >= b for a, b in zip(o, met, strict=True)) for o in found)
    ]
