"""What quotas achieve: measures of what tenants get, and the rule by which cohorts share.

Parameters
----------
problem
    The tenants, their demand by scenario and period, the capacity and the goal.
served_milli
    What the tenants get, milli-GPU, shape (scenarios, periods, tenants, types).
quota_milli
    Their quotas, milli-GPU, shape (tenants, types).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alloc.problems.quota_planning.problem import QuotaPlan, QuotaProblem
from alloc.units import MILLI

Array = npt.NDArray[np.float64]

MET_TOLERANCE_MILLI = 1e-3
"""A demand met to this, milli-GPU, is met: solvers work in floating point."""

AMOUNT_DIGITS = 6
"""Digits after the point to which amounts of a plan are rounded, milli-GPU."""

_SUMS = 1e-12
"""What double precision and the proof of a bound may lose, relative to the size of the terms."""


def shortfall_gpu_h(problem: QuotaProblem, served_milli: Array) -> float:
    """Return the expected weighted GPU-hours that are asked for and not had.

    Parameters
    ----------
    problem
        The problem.
    served_milli
        What the tenants get, shape (scenarios, periods, tenants, types).
    """
    weight = np.array([tenant.weight for tenant in problem.tenants])
    missing = (problem.demand_milli - served_milli).sum(axis=3) @ weight
    return float((problem.weights_h * missing).sum()) / MILLI


def service(problem: QuotaProblem, served_milli: Array) -> Array:
    """Return the share of its expected GPU-hours that each tenant gets; 1 if it asks for none."""
    asked = np.einsum("sp,spig->i", problem.weights_h, problem.demand_milli)
    got = np.einsum("sp,spig->i", problem.weights_h, served_milli)
    return np.where(asked > 0, got / np.where(asked > 0, asked, 1.0), 1.0)


def coverage(problem: QuotaProblem, served_milli: Array) -> Array:
    """Return the share of the time in which each tenant gets all that it asks for."""
    met = (problem.demand_milli - served_milli <= MET_TOLERANCE_MILLI).all(axis=3)
    found: Array = np.einsum("sp,spi->i", problem.weights_h, met) / problem.weights_h.sum()
    return found


def _quota_cost(problem: QuotaProblem, quota_milli: Array) -> float:
    """Return the price of an hour of all quotas."""
    prices = np.array([capacity.price_per_gpu_hour for capacity in problem.capacity])
    return float(quota_milli.sum(axis=0) @ prices) / MILLI


def level_of(problem: QuotaProblem, served_milli: Array) -> Array:
    """Return the level of each tenant that a fair goal raises."""
    measure = service if problem.goal == "fair_service" else coverage
    return measure(problem, served_milli)


def goal_value(problem: QuotaProblem, quota_milli: Array, served_milli: Array) -> float:
    """Return the value of the goal; of a fair one the worst level of a tenant."""
    if problem.goal == "expected_shortfall":
        return shortfall_gpu_h(problem, served_milli)
    if problem.goal == "least_quota":
        return _quota_cost(problem, quota_milli)
    return float(level_of(problem, served_milli).min())


def rounding(problem: QuotaProblem, quota_milli: Array, served_milli: Array) -> float:
    """Return by how much rounding may move the value of the goal, in its unit.

    An amount that is not whole is rounded to `AMOUNT_DIGITS` digits, and sums are in double
    precision. It is the terms at hand that are rounded, not the largest there could be: beside a
    weight of a million, a GPU of a tenant with weight 1 is no rounding.

    Parameters
    ----------
    problem
        The problem.
    quota_milli
        Shape (tenants, types).
    served_milli
        What the tenants get, shape (scenarios, periods, tenants, types).
    """
    if problem.goal == "least_quota":
        return _SUMS * _quota_cost(problem, quota_milli)
    asked = np.einsum("sp,spig->i", problem.weights_h, problem.demand_milli)
    if problem.goal == "expected_shortfall":
        worth = np.array([tenant.weight for tenant in problem.tenants]) / MILLI
    else:
        worth = np.where(asked > 0, 1.0 / np.where(asked > 0, asked, 1.0), 0.0)
    off = np.where(served_milli == np.rint(served_milli), 0.0, 0.5 * 10.0**-AMOUNT_DIGITS)
    amounts = np.einsum("sp,spig,i->", problem.weights_h, off, worth)
    return float(amounts + _SUMS * (asked @ worth))


def plan_rounding(problem: QuotaProblem, plan: QuotaPlan) -> float:
    """Return by how much rounding may move the value of a plan.

    Parameters
    ----------
    plan
        Quotas, and what they serve in each scenario.
    """
    return rounding(problem, plan.quota_milli(problem), plan.served_milli(problem))


def share_out(problem: QuotaProblem, quota_milli: Array, demand_milli: Array) -> Array:
    """Return what tenants get by a rule that knows nothing of plans: equal borrowing.

    Every tenant first gets what it asks for up to its quota. What a cohort then leaves idle is lent
    in equal amounts to those that ask for more, until they have enough or may borrow no more
    (water filling).

    Parameters
    ----------
    problem
        The tenants and their cohorts.
    quota_milli
        Shape (tenants, types).
    demand_milli
        Demand at a moment, shape (..., tenants, types).
    """
    flat = demand_milli.reshape(-1, *quota_milli.shape)
    served = np.minimum(flat, quota_milli)
    cohorts: dict[str, list[int]] = {}
    for i, tenant in enumerate(problem.tenants):
        if tenant.cohort is not None:
            cohorts.setdefault(tenant.cohort, []).append(i)
    for members in cohorts.values():
        limits = np.array([float(problem.tenants[i].borrowing_milli) for i in members])
        here = np.array(members)
        for k in range(len(flat)):
            idle = (quota_milli[here] - served[k, here]).sum(axis=0)
            wanted = flat[k, here] - served[k, here]
            served[k, here] += _lend(idle, wanted, limits)
    return served.reshape(demand_milli.shape)


def _lend(idle: Array, wanted: Array, limits: Array) -> Array:
    """Lend equal amounts, per tenant and type, as long as somebody wants and may have more.

    Parameters
    ----------
    idle
        What there is to lend of each type, shape (types,).
    wanted
        Shape (tenants, types).
    limits
        Most that each tenant may borrow over all types, shape (tenants,).
    """
    lent = np.zeros_like(wanted)
    idle, left = idle.copy(), limits.copy()
    tiny = 1e-9
    while True:
        open_ = (wanted - lent > tiny) & (idle > tiny)[None, :] & (left > tiny)[:, None]
        if not open_.any():
            return lent
        per_type, per_tenant = open_.sum(axis=0), open_.sum(axis=1)
        # The largest equal step until a want, a type's idle GPUs or a tenant's limit is used up.
        step = min(
            float((wanted - lent)[open_].min()),
            float((idle[per_type > 0] / per_type[per_type > 0]).min()),
            float((left[per_tenant > 0] / per_tenant[per_tenant > 0]).min()),
        )
        lent += step * open_
        idle -= step * per_type
        left -= step * per_tenant
