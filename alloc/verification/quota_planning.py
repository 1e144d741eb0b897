"""The checker of quota plans: capacity, steps, guarantees, cohorts, borrowing and chances."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from alloc.objectives import Measure, Value
from alloc.problems.quota_planning.measures import coverage, goal_value, level_of, plan_rounding
from alloc.problems.quota_planning.problem import QuotaPlan, QuotaProblem
from alloc.units import MILLI
from alloc.verification.violation import Violation

Array = npt.NDArray[np.float64]

TOLERANCE_MILLI = 0.01
"""Milli-GPU by which a solver's continuous amounts may be off."""


def objective(name: str) -> Measure:
    """Return a goal, or the level of a fair one: ``fair_service of the 2 worst``."""
    goal, _, level = name.partition(" of the ")
    fair = goal in ("fair_service", "fair_coverage")
    worst = int(level.removesuffix(" worst")) if level else 1

    def value(problem: QuotaProblem, plan: QuotaPlan) -> float:
        served = plan.served_milli(problem)
        if fair:
            return float(np.sort(level_of(problem, served))[:worst].sum())
        return goal_value(problem, plan.quota_milli(problem), served)

    return Value(name, "max" if fair else "min", value, plan_rounding)


def verify_quota_plan(problem: QuotaProblem, plan: QuotaPlan) -> list[Violation]:
    """Return what is wrong with a plan; empty when it keeps every rule.

    Parameters
    ----------
    problem
        The tenants, their demand by scenario, and the capacity.
    plan
        Quotas, and what they serve in each scenario.

    Raises
    ------
    InstanceError
        If it names tenants, types or scenarios that the problem does not have.
    """
    quota = plan.quota_milli(problem)
    served = plan.served_milli(problem)
    return [
        *_quotas(problem, quota),
        *_amounts(problem, quota, served),
        *_sharing(problem, quota, served),
        *_chances(problem, served),
    ]


def _quotas(problem: QuotaProblem, quota: Array) -> Iterator[Violation]:
    """Yield types divided beyond their capacity, and quotas that may not be given."""
    for g, capacity in enumerate(problem.capacity):
        excess = float(quota[:, g].sum()) - capacity.gpu_milli
        if excess > 0:
            yield Violation(
                "capacity",
                (capacity.gpu_type,),
                excess,
                "milli-GPU",
                f'the quotas of "{capacity.gpu_type}" sum to {quota[:, g].sum() / MILLI:g} GPUs of '
                f"{capacity.gpu_milli / MILLI:g}.",
            )
    for i, tenant in enumerate(problem.tenants):
        least = {amount.gpu_type: amount.gpu_milli for amount in tenant.least_quota}
        for g, gpu_type in enumerate(problem.types):
            where = f'tenant "{tenant.name}": its quota of "{gpu_type}"'
            given = float(quota[i, g])
            if given < least.get(gpu_type, 0) or given < 0:
                missing = max(least.get(gpu_type, 0), 0) - given
                sentence = f"{where} is {given:g} milli-GPU, {missing:g} less than it must be."
                yield Violation("least_quota", (tenant.name,), missing, "milli-GPU", sentence)
            if given % problem.step_milli:
                rest = given % problem.step_milli
                sentence = f"{where} is {given:g} milli-GPU, no multiple of {problem.step_milli}."
                yield Violation("step", (tenant.name,), rest, "milli-GPU", sentence)


def _amounts(problem: QuotaProblem, quota: Array, served: Array) -> Iterator[Violation]:
    """Yield tenants that get more than they ask for, or less than they are guaranteed."""
    over = served - problem.demand_milli
    under = np.minimum(problem.demand_milli, quota) - served
    for code, excess, words in (
        ("demand", over, "gets more than it asks for"),
        ("guarantee", under, "gets less than its quota guarantees"),
    ):
        for s, t, i, g in np.argwhere(excess > TOLERANCE_MILLI).tolist():
            amount = float(excess[s, t, i, g])
            yield Violation(
                code,
                (problem.tenants[i].name, problem.scenarios[s].name),
                amount,
                "milli-GPU",
                f'tenant "{problem.tenants[i].name}" {words} of "{problem.types[g]}" in period {t} '
                f'of scenario "{problem.scenarios[s].name}", by {amount:g} milli-GPU.',
            )


def _sharing(problem: QuotaProblem, quota: Array, served: Array) -> Iterator[Violation]:
    """Yield cohorts that use more than their quotas, and tenants that borrow too much."""
    cohorts: dict[str, list[int]] = {}
    for i, tenant in enumerate(problem.tenants):
        cohorts.setdefault(tenant.cohort or f"\0{tenant.name}", []).append(i)
    for name, members in cohorts.items():
        excess = (served[:, :, members, :] - quota[members]).sum(axis=2)
        for s, t, g in np.argwhere(excess > TOLERANCE_MILLI * len(members)).tolist():
            amount = float(excess[s, t, g])
            who = f'tenant "{name[1:]}"' if name.startswith("\0") else f'cohort "{name}"'
            yield Violation(
                "cohort",
                (name.strip("\0"), problem.scenarios[s].name),
                amount,
                "milli-GPU",
                f'{who} uses {amount:g} milli-GPU of "{problem.types[g]}" more than its quotas in '
                f'period {t} of scenario "{problem.scenarios[s].name}".',
            )
    borrowed = np.maximum(served - quota, 0.0).sum(axis=3)
    limits = np.array([tenant.borrowing_milli for tenant in problem.tenants])
    for s, t, i in np.argwhere(borrowed - limits > TOLERANCE_MILLI * len(problem.types)).tolist():
        amount = float(borrowed[s, t, i]) - float(limits[i])
        yield Violation(
            "borrowing",
            (problem.tenants[i].name, problem.scenarios[s].name),
            amount,
            "milli-GPU",
            f'tenant "{problem.tenants[i].name}" borrows {amount:g} milli-GPU more than it may in '
            f'period {t} of scenario "{problem.scenarios[s].name}".',
        )


def _chances(problem: QuotaProblem, served: Array) -> Iterator[Violation]:
    """Yield tenants that ask for more than they get too often, where that is promised."""
    if problem.goal != "least_quota":
        return
    exceeded = 1 - coverage(problem, served)
    for tenant, share in zip(problem.tenants, exceeded.tolist(), strict=True):
        if share > tenant.exceeding + 1e-6:
            yield Violation(
                "exceeding",
                (tenant.name,),
                share - tenant.exceeding,
                "share of the time",
                f'tenant "{tenant.name}" asks for more than it gets in {100 * share:.3g} % of the '
                f"time, and {100 * tenant.exceeding:.3g} % may be.",
            )
