"""The data of quota planning: outcomes of demand, the quotas that make sense, who shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.problems.quota_planning.problem import QuotaProblem
from alloc.units import MILLI

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class QuotaData:
    """Everything that the models need.

    Parameters
    ----------
    problem
        The problem.
    demand
        Demand of each outcome, GPUs, shape (outcomes, tenants, types); scenarios and periods of
        equal demand are one outcome.
    weight_h
        Expected hours of each outcome, shape (outcomes,).
    outcome_of
        Outcome of each scenario and period, shape (scenarios, periods).
    least, most
        Steps of quota that each tenant must and can usefully get, shape (tenants, types).
    step
        GPUs in a step.
    cohort
        Number of each tenant's cohort, -1 for none, shape (tenants,).
    guarded
        Tenants whose guarantee needs rows: elsewhere nothing is gained by breaking it.
    """

    problem: QuotaProblem
    demand: Array
    weight_h: Array
    outcome_of: Whole
    least: Whole
    most: Whole
    step: float
    cohort: Whole
    guarded: npt.NDArray[np.bool_]

    @property
    def capacity(self) -> Array:
        """GPUs of each type, shape (types,)."""
        return np.array([c.gpu_milli / MILLI for c in self.problem.capacity])

    @property
    def borrowing(self) -> Array:
        """Most GPUs that each tenant may borrow, shape (tenants,); 0 outside cohorts."""
        return np.array([t.borrowing_milli / MILLI for t in self.problem.tenants])

    @property
    def wants(self) -> list[tuple[int, int, int]]:
        """Outcome, tenant and type of each demand above 0."""
        return [tuple(key) for key in np.argwhere(self.demand > 0).tolist()]  # type: ignore[misc]


def quota_data(problem: QuotaProblem) -> QuotaData:
    """Gather the data of a problem."""
    scenarios, periods, tenants, types = problem.demand_milli.shape
    rows = problem.demand_milli.reshape(scenarios * periods, tenants * types)
    distinct, outcome = np.unique(rows, axis=0, return_inverse=True)
    outcome = outcome.reshape(-1)
    weight = np.zeros(len(distinct))
    np.add.at(weight, outcome, problem.weights_h.ravel())
    demand = distinct.reshape(-1, tenants, types) / MILLI
    step = problem.step_milli / MILLI
    least = np.zeros((tenants, types), dtype=np.int64)
    for i, tenant in enumerate(problem.tenants):
        for amount in tenant.least_quota:
            g = problem.types.index(amount.gpu_type)
            least[i, g] = -(-amount.gpu_milli // problem.step_milli)
    # More than a tenant ever asks for serves nobody but its cohort: quotas come in steps, and a
    # step that nobody uses up by himself can be lent in parts.
    useful = np.ceil(demand.max(axis=0) / step - 1e-9).astype(np.int64)
    names = list(dict.fromkeys(t.cohort for t in problem.tenants if t.cohort is not None))
    cohort = np.array([-1 if t.cohort is None else names.index(t.cohort) for t in problem.tenants])
    for c in set(cohort.tolist()) - {-1}:
        useful[cohort == c] = useful[cohort == c].sum(axis=0)
    return QuotaData(
        problem,
        demand,
        weight,
        outcome.reshape(scenarios, periods).astype(np.int64),
        least,
        np.maximum(useful, least),
        step,
        cohort,
        _guarded(problem, cohort),
    )


def _guarded(problem: QuotaProblem, cohort: Whole) -> npt.NDArray[np.bool_]:
    """Return the tenants of cohorts where taking a guaranteed GPU from one could help a goal.

    Not where every missing GPU-hour of a cohort counts the same: then a GPU lent to another may as
    well go to the tenant that it is guaranteed to.
    """
    found = np.zeros(len(cohort), dtype=bool)
    for c in set(cohort.tolist()) - {-1}:
        members = np.flatnonzero(cohort == c)
        weights = {problem.tenants[i].weight for i in members.tolist()}
        alike = problem.goal == "expected_shortfall" and len(weights) == 1
        found[members] = len(members) > 1 and not alike
    return found
