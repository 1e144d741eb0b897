"""Pareto fronts: what better goals, less energy or less carbon would cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.planning.report import PLAN_LIMITS, solve_plan
from alloc.problems.right_sizing.accounting import account
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.demand import JobClass
from alloc.problems.right_sizing.headroom import require_goals_can_be_kept, with_margins_by_hour
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Limits, Result
from alloc.solving.outcome import Progress
from alloc.units import require_count

Axis = Literal["goals", "energy", "carbon"]
GOAL_FACTORS = (0.5, 0.7, 1.0, 1.5, 2.0, 4.0)
"""By what all goals are multiplied, by default."""


@dataclass(frozen=True)
class Point:
    """One point of a front.

    Parameters
    ----------
    limit
        What was asked: the factor of all goals, or the most energy (kWh) or carbon dioxide (kg),
        the caps of all quarters together; each quarter's holds in every scenario.
    result
        The cheapest plan found, certified.
    value
        What the plan comes to: the factor, or the energy or carbon of its worst scenario.
    efficient
        Whether no other plan of the front is at least as good in both and better in one.
    """

    limit: float
    result: Result[Plan]
    value: float
    efficient: bool = True

    @property
    def cost(self) -> float:
        """Cost of the plan, infinite if there is none."""
        found = self.result.certificate.objective
        return math.inf if found is None else found


@dataclass(frozen=True)
class Front:
    """A Pareto front of cost against something else.

    Parameters
    ----------
    axis
        ``goals``, ``energy`` or ``carbon``.
    unit
        Unit of the limits.
    points
        The points, in order of their limits. Those without a plan are proved infeasible, or their
        certificate says which limit stopped the search.
    """

    axis: Axis
    unit: str
    points: tuple[Point, ...]


def pareto(
    problem: PlanningProblem,
    axis: Axis = "goals",
    *,
    points: int = 6,
    factors: Sequence[float] = GOAL_FACTORS,
    limits: Limits = PLAN_LIMITS,
    progress: Progress | None = None,
) -> Front:
    """Return the front of cost against goals, energy or carbon, by the epsilon-constraint method.

    Each point is the cheapest plan within a limit, with its own certificate [1]_.

    Parameters
    ----------
    problem
        The problem.
    axis
        ``goals``: all hours of goals are multiplied by a factor; ``energy`` and ``carbon``: a cap
        on the whole plan's energy or carbon dioxide, shared out over the quarters as in the
        cheapest plan, from what that plan needs down.
    points
        Points of a front of energy or carbon, 2 or more.
    factors
        Factors of a front of goals, above 0.
    limits
        How far each plan is sought.
    progress
        Takes a sentence on what each step does.

    Raises
    ------
    InstanceError
        If the axis is unknown or a number out of range, no class has a goal, or the axis is energy
        and the problem caps carbon.

    References
    ----------
    .. [1] Y. Y. Haimes, L. S. Lasdon, D. A. Wismer, "On a bicriterion formulation of the problems
       of integrated system identification and system optimization", IEEE Transactions on Systems,
       Man, and Cybernetics 1, 1971.
    """
    if axis not in get_args(Axis):
        raise InstanceError(
            f'pareto: unknown axis "{axis}"{nearest(str(axis), get_args(Axis)) or ";"} known: '
            f"{', '.join(get_args(Axis))}."
        )
    if axis == "goals":
        found = _goal_points(problem, factors, limits, progress)
        return Front(axis, "factor of all goals", _marked(found))
    require_count(points, "pareto", "points", least=2)
    if axis == "energy" and problem.carbon_caps_kg:
        raise InstanceError(
            "pareto: the problem caps carbon, which a front of energy would leave out; choose the "
            "axis carbon, or take the caps out."
        )
    counted = in_energy(problem) if axis == "energy" else problem
    unit = "kWh" if axis == "energy" else "kg CO2"
    return Front(axis, unit, _marked(_capped_points(counted, points, limits, progress)))


def in_energy(problem: PlanningProblem) -> PlanningProblem:
    """Return the same problem in which a "kg of carbon" is a kWh, so that caps limit energy.

    The price of carbon joins that of energy, and every hour has the mean of its band: other prices
    would put the hours into other bands. So costs stay what they were.
    """
    bands = bands_of(problem)
    prices = bands.energy_price + problem.carbon_price_per_kg * bands.carbon
    counted = problem.replace(
        carbon_price_per_kg=0.0,
        carbon_caps_kg=(),
        sites=tuple(
            dataclasses.replace(
                site,
                carbon_kg_per_kwh=(1.0,),
                energy_price_per_kwh=tuple(row[bands.of_hour].tolist()),
            )
            for site, row in zip(problem.sites, prices, strict=True)
        ),
        classes=tuple(
            dataclasses.replace(job_class, hourly_profile=tuple(row[bands.of_hour].tolist()))
            for job_class, row in zip(problem.classes, bands.arrivals, strict=True)
        ),
    )
    return with_margins_by_hour(counted, problem)


def _goal_points(
    problem: PlanningProblem,
    factors: Sequence[float],
    limits: Limits,
    progress: Progress | None,
) -> list[Point]:
    if all(job_class.goal is None for job_class in problem.classes):
        raise InstanceError("pareto: no class has a goal; give goals, or choose the axis energy.")
    found: list[Point] = []
    before = None
    # From easy to hard: what keeps strict goals keeps the easier ones, seldom the other way round.
    for factor in sorted(factors, reverse=True):
        if progress is not None:
            progress(f"all goals times {factor:g}")
        try:
            changed = problem.replace(
                classes=tuple(_with_factor(job_class, factor) for job_class in problem.classes)
            )
            require_goals_can_be_kept(changed)
        except InstanceError:
            # A goal that no cluster can keep, for example one below the fastest run time.
            continue
        result = solve_plan(changed, limits, before, progress)
        before = result if result.solution is not None else before
        found.append(Point(factor, result, factor))
    return found[::-1]


def _with_factor(job_class: JobClass, factor: float) -> JobClass:
    if job_class.goal is None:
        return job_class
    goal = dataclasses.replace(job_class.goal, hours=job_class.goal.hours * factor)
    return dataclasses.replace(job_class, goal=goal)


def _capped_points(
    problem: PlanningProblem, points: int, limits: Limits, progress: Progress | None
) -> list[Point]:
    """Return the cheapest plans within caps, from what the cheapest of all needs downwards."""
    if progress is not None:
        progress("the cheapest plan, without a cap")
    cheapest = solve_plan(problem, limits, None, progress)
    if cheapest.solution is None:
        return [Point(math.inf, cheapest, math.nan)]
    by_quarter = account(problem, cheapest.solution).carbon_kg.max(axis=0)
    # Its limit is that of its own caps, like the others': more than its worst scenario needs where
    # quarters are at their worst in different scenarios.
    found = [Point(float(by_quarter.sum()), cheapest, _worst(problem, cheapest))]
    # Plans that need less are found by halving between what works and what does not.
    feasible, infeasible = 1.0, 0.0
    before = cheapest
    for share in np.linspace(1.0, 0.0, points + 1)[1:-1]:
        if share <= infeasible:
            share = (feasible + infeasible) / 2
        if progress is not None:
            progress(f"at most {100 * share:.0f} % of what the cheapest plan needs")
        caps = tuple(float(cap) for cap in by_quarter * share)
        result = solve_plan(problem.replace(carbon_caps_kg=caps), limits, before, progress)
        if result.solution is None:
            infeasible = max(infeasible, float(share))
            found.append(Point(float(sum(caps)), result, math.nan))
        else:
            feasible = min(feasible, float(share))
            before = result
            found.append(Point(float(sum(caps)), result, _worst(problem, result)))
    return sorted(found, key=lambda point: point.limit)


def _worst(problem: PlanningProblem, result: Result[Plan]) -> float:
    """Return the energy or carbon of a plan in its worst scenario, over all quarters."""
    return float(account(problem, result.require_solution()).carbon_kg.sum(axis=1).max())


def _marked(points: Sequence[Point]) -> tuple[Point, ...]:
    """Mark the points that no other dominates."""

    def dominated(point: Point) -> bool:
        if not math.isfinite(point.cost):
            return True
        return any(
            other.cost <= point.cost
            and other.value <= point.value
            and (other.cost < point.cost or other.value < point.value)
            for other in points
        )

    return tuple(dataclasses.replace(point, efficient=not dominated(point)) for point in points)
