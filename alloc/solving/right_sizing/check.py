"""Out-of-sample: what the orders of a plan come to in scenarios that it was not made for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, SizingData
from alloc.problems.right_sizing.accounting import PlanAccount, account
from alloc.problems.right_sizing.demand import Scenario
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.solving.right_sizing.block_values import BlockValues
from alloc.solving.right_sizing.blocks import SHORT, block_data
from alloc.solving.right_sizing.first_stage_completion import sent_to
from alloc.solving.right_sizing.state import money_unit


@dataclass(frozen=True)
class ScenarioCheck:
    """How the orders of a plan do in one scenario.

    Parameters
    ----------
    scenario
        Name.
    holds
        Whether all work is served within its goals, and carbon within its caps.
    unserved
        Share of the work (GPU-hours) that cannot be served, 0 to 1.
    cost
        Discounted money with the orders; infinite where the scenario does not hold.
    """

    scenario: str
    holds: bool
    unserved: float
    cost: float


@dataclass(frozen=True)
class OutOfSample:
    """How the orders of a plan do in other scenarios.

    Parameters
    ----------
    scenarios
        One by one.
    share
        Probability of the scenarios that hold.
    mean_cost
        Expected discounted money given that they hold; None if none does.
    """

    scenarios: tuple[ScenarioCheck, ...]
    share: float
    mean_cost: float | None


def check_out_of_sample(
    problem: PlanningProblem,
    plan: Plan,
    scenarios: tuple[Scenario, ...],
    *,
    workers: int = 1,
) -> OutOfSample:
    """Serve other scenarios with the orders of a plan, each as cheaply as can be.

    Parameters
    ----------
    problem
        The problem that the plan is for.
    plan
        The plan; only its orders count, and where jobs are sent that need a margin.
    scenarios
        Scenarios for the same classes and quarters; their probabilities are taken in relation to
        each other.
    workers
        Processes.

    Raises
    ------
    InstanceError
        If there are no scenarios, or they are for other classes or quarters.
    """
    if not scenarios:
        raise InstanceError("check_out_of_sample: no scenarios; give at least one.")
    total = math.fsum(scenario.probability for scenario in scenarios)
    others = problem.replace(
        scenarios=tuple(
            Scenario(s.name, s.probability / total, s.arrivals, s.spot_availability)
            for s in scenarios
        ),
        epsilon=0.0,
    )
    known = SizingData(problem)
    data = SizingData(others, like=known)
    unit = money_unit(data)
    blocks = block_data(data, Blocks(data, [False] * len(problem.classes)), unit, False)
    orders = account(others, Plan(plan.orders), known.bands)
    linked = _linked(data, orders, plan)
    tasks = [(w, t) for t in range(data.num_quarters) for w in range(len(scenarios))]
    with BlockValues(blocks, workers) as values:
        found = values.solve(tasks, linked, np.zeros(len(scenarios)))
    checks = []
    for w, scenario in enumerate(scenarios):
        mine = [found[w, t] for t in range(data.num_quarters)]
        demand = float(data.demand[w].sum())
        holds = max(value.short for value in mine) <= SHORT
        unserved = sum(value.unserved for value in mine) / max(demand, 1e-12)
        running = sum(data.discount[t] * value.value * unit for t, value in enumerate(mine))
        checks.append(
            ScenarioCheck(
                scenario.name,
                holds,
                0.0 if holds else min(unserved, 1.0),
                float(orders.costs.total + running) if holds else math.inf,
            )
        )
    return _together(tuple(checks), data.probability.tolist())


def _linked(data: SizingData, orders: PlanAccount, plan: Plan) -> Array:
    """Return usable GPUs, hosts in service, and margins kept, as the blocks want them."""
    sites = data.problem.sites
    none = np.zeros(data.num_quarters)
    usable = [
        orders.usable.get((p.gpu_type, sites[p.site].name), none) / data.gpu_unit
        for p in data.pools
    ]
    hosts = [
        orders.hosts.get((data.offer(s).name, sites[s.site].name), none) / data.host_unit
        for s in data.host_groups
    ]
    sent = sent_to(data, plan)
    linked = [*usable, *hosts, *data.margins_kept(sent), *sent]
    return np.array(linked).reshape(-1, data.num_quarters).T


def _together(checks: tuple[ScenarioCheck, ...], probability: list[float]) -> OutOfSample:
    held = [(check, p) for check, p in zip(checks, probability, strict=True) if check.holds]
    share = math.fsum(p for _, p in held)
    mean = math.fsum(check.cost * p for check, p in held) / share if held else None
    return OutOfSample(checks, min(share, 1.0), mean)
