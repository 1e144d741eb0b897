"""Quota planning: tenants whose demand is uncertain, GPUs to divide, and how the plan is used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.problems import Problem
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.inference_sizing.served import require_unique
from alloc.tabular import Tabular
from alloc.units import (
    MILLI,
    require_non_negative,
    require_positive,
    require_share,
)

Array = npt.NDArray[np.float64]
QuotaGoal = Literal["expected_shortfall", "fair_service", "fair_coverage", "least_quota"]
GOALS: tuple[QuotaGoal, ...] = (
    "expected_shortfall",
    "fair_service",
    "fair_coverage",
    "least_quota",
)
_PROBABILITIES_SUM = 1e-6
"""How far from 1 probabilities may sum: with seven digits they pass, with two they do not."""
_MAX_RATIO = 1e9
"""Largest ratio of two weights or prices: double precision proves sums to a share of 1e-12, and of
what counts least a thousandth still has to be seen beside what counts most."""
_LEAST_PEAK_MILLI = 10
"""Largest demand of a problem, milli-GPU, below which GPUs were meant: 1 % of one."""


@dataclass(frozen=True)
class GpuAmount:
    """GPUs of a type.

    Parameters
    ----------
    gpu_type
        GPU type.
    gpu_milli
        Amount, milli-GPU, 0 or more.
    """

    gpu_type: str
    gpu_milli: int

    def __post_init__(self) -> None:
        require_share(self.gpu_milli, f'GPUs of type "{self.gpu_type}"', "gpu_milli")


@dataclass(frozen=True)
class QuotaTenant:
    """A tenant to whom a quota is to be given.

    Parameters
    ----------
    name
        Unique name.
    cohort
        Tenants of one cohort lend each other what they leave idle. None: neither lends nor borrows.
    borrowing_milli
        Most that the tenant may borrow at any time, over all GPU types, milli-GPU.
    weight
        How much a missing GPU-hour of the tenant counts, more than 0.
    least_quota
        Quota that it must get at least, by GPU type.
    exceeding
        For the goal ``least_quota``: share of the time in which its demand may be more than it
        gets, 0 or more and below 1.
    """

    name: str
    cohort: str | None = None
    borrowing_milli: int = 0
    weight: float = 1.0
    least_quota: tuple[GpuAmount, ...] = ()
    exceeding: float = 0.05

    def __post_init__(self) -> None:
        if not self.name:
            raise InstanceError("a tenant has an empty name; name it.")
        # The tenant of an instance knows what is wrong with a name or a borrowing limit.
        Tenant(self.name, 0, self.cohort, self.borrowing_milli)
        where = f'tenant "{self.name}"'
        require_positive(self.weight, where, "weight")
        require_unique((a.gpu_type for a in self.least_quota), where, "least_quota of")
        if not 0 <= self.exceeding < 1:
            raise InstanceError(
                f"{where}: exceeding is {self.exceeding:g}; give a share of the time, 0 or more "
                "and below 1."
            )


@dataclass(frozen=True)
class GpuCapacity:
    """GPUs of a type to divide among the tenants.

    Parameters
    ----------
    gpu_type
        GPU type.
    gpu_milli
        How much there is, milli-GPU.
    price_per_gpu_hour
        What an hour of one costs, for the goal ``least_quota``; equal prices count GPUs.
    """

    gpu_type: str
    gpu_milli: int
    price_per_gpu_hour: float = 1.0

    def __post_init__(self) -> None:
        where = f'capacity of "{self.gpu_type}"'
        require_share(self.gpu_milli, where, "gpu_milli")
        if 0 < self.gpu_milli < MILLI:
            raise InstanceError(
                f"{where}: gpu_milli is {self.gpu_milli}, less than one GPU; the unit is "
                "milli-GPU, so multiply GPUs by 1,000."
            )
        require_non_negative(self.price_per_gpu_hour, where, "price_per_gpu_hour")


@dataclass(frozen=True)
class TenantDemand:
    """What a tenant asks for in a scenario.

    Parameters
    ----------
    tenant, gpu_type
        Who, and of what.
    gpu_milli
        Demand in each period, milli-GPU, 0 or more.
    """

    tenant: str
    gpu_type: str
    gpu_milli: tuple[int, ...]

    def __post_init__(self) -> None:
        where = f'demand of tenant "{self.tenant}" for "{self.gpu_type}"'
        for amount in self.gpu_milli:
            require_non_negative(amount, where, "gpu_milli")


@dataclass(frozen=True)
class DemandScenario:
    """One way in which the demand may come out.

    Parameters
    ----------
    name
        Unique name.
    probability
        Its probability, more than 0; those of all scenarios sum to 1.
    demands
        What the tenants ask for; a tenant and type that are not listed ask for nothing.
    """

    name: str
    probability: float
    demands: tuple[TenantDemand, ...]

    def __post_init__(self) -> None:
        where = f'scenario "{self.name}"'
        require_positive(self.probability, where, "probability")
        pairs = (f"{d.tenant} for {d.gpu_type}" for d in self.demands)
        require_unique(pairs, where, "demand of tenant")


@dataclass(frozen=True)
class QuotaProblem(Problem):
    """Quotas to be planned.

    Parameters
    ----------
    tenants
        The tenants, one or more.
    capacity
        The GPUs to divide, one type or more.
    scenarios
        How the demand may come out, one scenario or more.
    period_hours
        Hours of each period of a scenario.
    goal
        ``expected_shortfall``: least expected weighted GPU-hours that are asked for and not had;
        ``fair_service``: the share of its GPU-hours that each tenant gets, the worst first
        (lexicographic max-min); ``fair_coverage``: the share of the time in which a tenant gets all
        that it asks for, the worst first; ``least_quota``: the cheapest quotas with which no tenant
        asks for more than it gets in more than its `QuotaTenant.exceeding` of the time.
    step_milli
        Quotas are multiples of this, milli-GPU.
    name
        Name for people.
    """

    tenants: tuple[QuotaTenant, ...]
    capacity: tuple[GpuCapacity, ...]
    scenarios: tuple[DemandScenario, ...]
    period_hours: tuple[float, ...]
    goal: QuotaGoal = "expected_shortfall"
    step_milli: int = MILLI
    name: str = "quotas"

    def __post_init__(self) -> None:
        where = f'quota problem "{self.name}"'
        for field in ("tenants", "capacity", "scenarios", "period_hours"):
            if not getattr(self, field):
                raise InstanceError(f"{where}: {field} is empty; give at least one.")
        if self.goal not in GOALS:
            raise InstanceError(
                f'{where}: goal is "{self.goal}"{nearest(self.goal, GOALS, ";")} '
                f"known: {', '.join(GOALS)}."
            )
        require_positive(self.step_milli, where, "step_milli")
        require_share(self.step_milli, where, "step_milli")
        for hours in self.period_hours:
            require_positive(hours, where, "period_hours")
        require_unique((t.name for t in self.tenants), where, "tenant")
        require_unique((c.gpu_type for c in self.capacity), where, "GPU type")
        require_unique((s.name for s in self.scenarios), where, "scenario")
        total = sum(scenario.probability for scenario in self.scenarios)
        if abs(total - 1) > _PROBABILITIES_SUM:
            raise InstanceError(
                f"{where}: the probabilities of its scenarios sum to {total:g}; divide them so "
                "that they sum to 1."
            )
        _require_comparable([t.weight for t in self.tenants], f"{where}: weights of tenants")
        prices = [c.price_per_gpu_hour for c in self.capacity if c.price_per_gpu_hour > 0]
        _require_comparable(prices, f"{where}: prices of GPU types")
        self._check_demands()

    def _check_demands(self) -> None:
        types = [capacity.gpu_type for capacity in self.capacity]
        for tenant in self.tenants:
            for amount in tenant.least_quota:
                _require_type(amount.gpu_type, types, f'tenant "{tenant.name}": least_quota')
        known = [tenant.name for tenant in self.tenants]
        for scenario in self.scenarios:
            for demand in scenario.demands:
                here = f'scenario "{scenario.name}", tenant "{demand.tenant}"'
                if demand.tenant not in known:
                    others = f"; there are: {', '.join(known)}."
                    raise InstanceError(
                        f"{here}: there is no such tenant{nearest(demand.tenant, known, others)}"
                    )
                _require_type(demand.gpu_type, types, here)
                if len(demand.gpu_milli) != len(self.period_hours):
                    raise InstanceError(
                        f"{here}: gpu_milli has {len(demand.gpu_milli)} numbers for "
                        f"{len(self.period_hours)} periods; give one per period."
                    )

        amounts = [a for s in self.scenarios for demand in s.demands for a in demand.gpu_milli]
        if 0 < (most := max(amounts, default=0)) < _LEAST_PEAK_MILLI:
            raise InstanceError(
                f'quota problem "{self.name}": no tenant ever asks for more than {most} milli-GPU, '
                f"less than 1 % of a GPU; the unit is a thousandth, so write {most * MILLI} for "
                f"{most} GPU(s)."
            )

    @cached_property
    def types(self) -> tuple[str, ...]:
        """GPU types in order."""
        return tuple(capacity.gpu_type for capacity in self.capacity)

    @cached_property
    def demand_milli(self) -> Array:
        """Demand, milli-GPU, shape (scenarios, periods, tenants, types)."""
        tenant_at = {tenant.name: i for i, tenant in enumerate(self.tenants)}
        shape = (len(self.scenarios), len(self.period_hours), len(self.tenants), len(self.types))
        found = np.zeros(shape)
        for s, scenario in enumerate(self.scenarios):
            for demand in scenario.demands:
                g = self.types.index(demand.gpu_type)
                found[s, :, tenant_at[demand.tenant], g] = demand.gpu_milli
        return found

    @cached_property
    def weights_h(self) -> Array:
        """Expected hours of each scenario and period, shape (scenarios, periods)."""
        probability = np.array([scenario.probability for scenario in self.scenarios])
        return np.outer(probability, np.array(self.period_hours))

    @property
    def objective(self) -> str:
        """The goal."""
        return self.goal


def _require_comparable(values: list[float], what: str) -> None:
    if values and max(values) > _MAX_RATIO * min(values):
        raise InstanceError(
            f"{what} go from {min(values):g} to {max(values):g}; keep the largest within "
            f"{_MAX_RATIO:g} times the smallest, or the smallest counts as nothing."
        )


def _require_type(gpu_type: str, types: list[str], where: str) -> None:
    if gpu_type not in types:
        raise InstanceError(
            f'{where}: GPU type "{gpu_type}" is not in capacity'
            f"{nearest(gpu_type, types, '; it has: ' + ', '.join(types) + '.')}"
        )


@dataclass(frozen=True)
class Quota:
    """What a tenant is guaranteed of a GPU type.

    Parameters
    ----------
    tenant, gpu_type
        Who, and of what.
    gpu_milli
        The quota, milli-GPU.
    """

    tenant: str
    gpu_type: str
    gpu_milli: int


@dataclass(frozen=True)
class TenantUse:
    """What a tenant gets in a scenario, its own and what it borrows.

    Parameters
    ----------
    scenario, tenant, gpu_type
        When, who, and of what.
    gpu_milli
        In each period, milli-GPU.
    """

    scenario: str
    tenant: str
    gpu_type: str
    gpu_milli: tuple[float, ...]


@dataclass(frozen=True)
class QuotaPlan(Tabular):
    """Quotas, and how they would be used in every scenario.

    Parameters
    ----------
    quotas
        The quota of every tenant and GPU type.
    uses
        What the tenants get in the scenarios; what is not listed is 0.
    """

    quotas: tuple[Quota, ...]
    uses: tuple[TenantUse, ...] = ()

    def quota_milli(self, problem: QuotaProblem) -> Array:
        """Return the quotas, milli-GPU, shape (tenants, types)."""
        at = {tenant.name: i for i, tenant in enumerate(problem.tenants)}
        found = np.zeros((len(problem.tenants), len(problem.types)))
        for quota in self.quotas:
            if quota.tenant not in at or quota.gpu_type not in problem.types:
                raise InstanceError(
                    f'plan: gives tenant "{quota.tenant}" a quota of "{quota.gpu_type}", which are '
                    "not both in the problem; give the plan of this problem."
                )
            found[at[quota.tenant], problem.types.index(quota.gpu_type)] += quota.gpu_milli
        return found

    def served_milli(self, problem: QuotaProblem) -> Array:
        """Return what the tenants get, shape (scenarios, periods, tenants, types)."""
        found = np.zeros_like(problem.demand_milli)
        scenario_at = {scenario.name: s for s, scenario in enumerate(problem.scenarios)}
        tenant_at = {tenant.name: i for i, tenant in enumerate(problem.tenants)}
        for use in self.uses:
            try:
                s, i = scenario_at[use.scenario], tenant_at[use.tenant]
                g = problem.types.index(use.gpu_type)
            except (KeyError, ValueError):
                raise InstanceError(
                    f'plan: names scenario "{use.scenario}", tenant "{use.tenant}" and GPU type '
                    f'"{use.gpu_type}", which are not all in the problem; give the plan of this '
                    "problem."
                ) from None
            found[s, :, i, g] += use.gpu_milli
        return found

    def apply(self, problem: QuotaProblem, instance: Instance) -> Instance:
        """Return an instance with these quotas for its tenants.

        The quota of a tenant of an instance is over all GPU types: the sum of its quotas here.

        Parameters
        ----------
        problem
            The problem that it answers.
        instance
            What the quotas are for.

        Raises
        ------
        InstanceError
            If a job of the instance belongs to a tenant without a quota.
        """
        quotas = self.quota_milli(problem).sum(axis=1)
        tenants = tuple(
            Tenant(tenant.name, round(float(quotas[i])), tenant.cohort, tenant.borrowing_milli)
            for i, tenant in enumerate(problem.tenants)
        )
        known = {tenant.name for tenant in tenants}
        for job in instance.jobs:
            if job.tenant is not None and job.tenant not in known:
                cure = nearest(job.tenant, known, "; plan a quota for it too.")
                raise InstanceError(
                    f'job "{job.id}": belongs to tenant "{job.tenant}", which has no planned '
                    f"quota{cure}"
                )
        return instance.replace(tenants=tenants)
