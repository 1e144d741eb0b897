"""Quota planning: tenants in cohorts whose demand is uncertain divide a cluster."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.draws import between
from alloc.problems.quota_planning.problem import (
    DemandScenario,
    GpuCapacity,
    QuotaGoal,
    QuotaProblem,
    QuotaTenant,
    TenantDemand,
)
from alloc.units import MILLI

PHILLY_NODES = (64, 64, 64, 32, 32, 32, 16, 16, 16, 8, 8)
"""Hosts of eleven of Philly's virtual clusters; that each has eight GPUs is ours."""
_SHARE_H100 = 0.4
"""Of a tenant's demand, what it wants of the second GPU type beside the first."""


def virtual_clusters(
    name: str,
    *,
    num_tenants: int,
    num_scenarios: int,
    num_periods: int = 4,
    goal: QuotaGoal = "expected_shortfall",
    hosts: float = 0.25,
    ample: float = 1.0,
    seed: int = 0,
) -> QuotaProblem:
    """Return tenants as large as Philly's virtual clusters, with daily waves and noise.

    Parameters
    ----------
    name
        Name of the problem.
    num_tenants, num_scenarios, num_periods
        Size.
    goal
        What is best, see `QuotaProblem`.
    hosts
        Size of a tenant over that of its virtual cluster in Philly.
    ample
        GPUs to divide over the mean demand.
    seed
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    base = [8 * hosts * PHILLY_NODES[k % len(PHILLY_NODES)] for k in range(num_tenants)]
    shift = [between(rng, 0.0, 1.0) for _ in base]
    types = (("a100", 1.0), ("h100", _SHARE_H100))
    scenarios = []
    for s in range(num_scenarios):
        demands = []
        for k, mean in enumerate(base):
            day = between(rng, 0.6, 1.4)  # a busy day is busy in all of its periods
            for gpu_type, share in types:
                amounts = []
                for t in range(num_periods):
                    wave = 1 + 0.5 * math.sin(2 * math.pi * (t / num_periods - shift[k]))
                    noise = between(rng, 0.7, 1.3)
                    amounts.append(MILLI * round(mean * share * day * wave * noise))
                demands.append(TenantDemand(f"tenant-{k:02d}", gpu_type, tuple(amounts)))
        scenarios.append(DemandScenario(f"day-{s:03d}", 1 / num_scenarios, tuple(demands)))
    tenants = tuple(
        QuotaTenant(
            f"tenant-{k:02d}",
            f"cohort-{k % 3}",
            MILLI * round(mean / 2),
            weight=(1.0, 2.0, 4.0)[k % 3],
            exceeding=0.1,
        )
        for k, mean in enumerate(base)
    )
    capacity = tuple(
        GpuCapacity(gpu_type, MILLI * round(ample * share * sum(base)), price)
        for (gpu_type, share), price in zip(types, (1.0, 2.0), strict=True)
    )
    periods = (24 / num_periods,) * num_periods
    return QuotaProblem(tenants, capacity, tuple(scenarios), periods, goal, name=name)


def size(problem: QuotaProblem) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {
        "tenants": len(problem.tenants),
        "gpu_types": len(problem.capacity),
        "scenarios": len(problem.scenarios),
        "periods": len(problem.period_hours),
    }


_VARIANTS: tuple[dict[str, Any], ...] = ({}, {"ample": 0.8}, {"ample": 1.3}, {}, {"ample": 0.9})


def _family(
    name: str, about: str, goal: QuotaGoal, first_seed: int, ample: float = 0.0, **common: Any
) -> RecipeFamily:
    extra = {"ample": ample} if ample else {}
    return RecipeFamily(
        name,
        about,
        "quota_planning",
        goal,
        virtual_clusters,
        size,
        [{**variant, **extra, "seed": first_seed + k} for k, variant in enumerate(_VARIANTS)],
        {"goal": goal, **common},
        (
            "sizes of tenants: hosts of Philly's virtual clusters as Hu et al. list them with "
            "Helios, SC 2021 (CC-BY-4.0)",
            "GPUs of a host, waves, noise, cohorts and prices: ours",
        ),
    )


FAMILIES = (
    _family(
        "quotas-tiny",
        "3 tenants, 4 days: least missing GPU-hours",
        "expected_shortfall",
        1,
        num_tenants=3,
        num_scenarios=4,
        num_periods=2,
        hosts=0.02,
    ),
    _family(
        "quotas-small",
        "6 tenants, 20 days: least missing GPU-hours",
        "expected_shortfall",
        11,
        num_tenants=6,
        num_scenarios=20,
    ),
    _family(
        "quotas-medium",
        "11 tenants, 100 days: least missing GPU-hours",
        "expected_shortfall",
        21,
        num_tenants=11,
        num_scenarios=100,
    ),
    _family(
        "quotas-chance",
        "6 tenants, 30 days: cheapest quotas that nine days in ten keep",
        "least_quota",
        31,
        # Promises for nine days in ten need more than the mean.
        ample=2.5,
        num_tenants=6,
        num_scenarios=30,
        hosts=0.1,
    ),
)
