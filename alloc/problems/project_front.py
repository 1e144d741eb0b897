"""Two goals of a project: how long it takes, and how much of a resource it uses up for that.

Money is such a resource (`priced` sets it up from prices by the hour), and so are energy and GPU
hours. No plan is best in both goals; a front holds the plans that none beats in both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from alloc.errors import InstanceError, nearest
from alloc.problems.project import Mode, ProjectPlan, ProjectProblem, Resource
from alloc.tabular import Tabular
from alloc.units import HOUR_S, require_non_negative, require_positive

_ROUNDING = 1e-9
"""Steps of cost by which a product of floats may lie above a whole number."""


def priced(
    problem: ProjectProblem,
    prices: Mapping[str, float],
    *,
    step: float = 0.01,
    name: str = "cost",
) -> ProjectProblem:
    """Return a project that also uses up money: a price an hour for each unit of a resource.

    Parameters
    ----------
    problem
        The project.
    prices
        Money for a unit of a renewable resource in an hour, 0 or more, by its name; the others are
        free.
    step
        Least amount of money that counts, above 0: the cost of an activity in a mode is rounded up
        to whole steps.
    name
        Name of the new resource. There is enough of it for every choice of modes.

    Raises
    ------
    InstanceError
        If a price is of no renewable resource, a number is out of range, or the name is taken.
    """
    renewable = {r.name for r in problem.resources if r.is_renewable}
    require_positive(step, f"{problem.name}: prices", "step")
    for of, price in prices.items():
        if of not in renewable:
            raise InstanceError(
                f'{problem.name}: a price is of "{of}", which is no renewable resource'
                f"{nearest(of, renewable, '.')} Name one of the problem's."
            )
        require_non_negative(price, f"{problem.name}: prices", of)

    def steps(mode: Mode) -> int:
        hourly = math.fsum(amount * prices.get(of, 0.0) for of, amount in mode.uses.items())
        return math.ceil(mode.duration_s / HOUR_S * hourly / step - _ROUNDING)

    activities = tuple(
        dataclasses.replace(
            a,
            modes=tuple(Mode(m.duration_s, {**m.uses, name: steps(m)}) for m in a.modes),
        )
        for a in problem.activities
    )
    enough = sum(max(m.uses[name] for m in a.modes) for a in activities)
    money = Resource(name, enough, is_renewable=False)
    return problem.replace(activities=activities, resources=(*problem.resources, money))


def amount_used(problem: ProjectProblem, plan: ProjectPlan, resource: str) -> int:
    """Return how much of a resource that is used up a plan uses.

    Parameters
    ----------
    problem
        The project.
    plan
        A plan of it.
    resource
        Name of the resource.
    """
    modes = {activity.id: activity.modes for activity in problem.activities}
    return sum(modes[run.activity][run.mode].uses.get(resource, 0) for run in plan.runs)


@dataclass(frozen=True)
class FrontPoint(Tabular):
    """A plan of a front.

    Parameters
    ----------
    makespan_s
        When it is done, seconds.
    amount
        How much of the resource it uses up.
    plan
        The plan.
    bound_s
        A proved bound: no plan that uses up this amount or less is done before it, seconds; 0 where
        nothing is proved.
    is_proved
        Whether no plan is better in one goal and as good in the other.
    """

    makespan_s: float
    amount: int
    plan: ProjectPlan
    bound_s: float = 0.0
    is_proved: bool = False


@dataclass(frozen=True)
class ProjectFront(Tabular):
    """Plans of a project of which none beats another in both goals.

    Parameters
    ----------
    resource
        What is used up.
    points
        The plans, the shortest first.
    is_exact
        Whether all points are proved and there are no others.
    """

    resource: str
    points: tuple[FrontPoint, ...]
    is_exact: bool = False

    def hypervolume(self, makespan_s: float, amount: float) -> float:
        """Return the area that the plans dominate, up to a corner that is worse than all of them.

        Parameters
        ----------
        makespan_s, amount
            The corner; plans beyond it add nothing.
        """
        area, least = 0.0, amount
        for point in self.points:
            if point.makespan_s < makespan_s and point.amount < least:
                area += (makespan_s - point.makespan_s) * (least - point.amount)
                least = point.amount
        return area


def not_beaten(points: Iterable[FrontPoint]) -> tuple[FrontPoint, ...]:
    """Return the points that no other beats, the shortest first, of equal ones the first."""
    kept: list[FrontPoint] = []
    for point in sorted(points, key=lambda point: (point.makespan_s, point.amount)):
        if not kept or point.amount < kept[-1].amount:
            kept.append(point)
    return tuple(kept)


def require_used_up(problem: ProjectProblem, resource: str) -> None:
    """Refuse a resource that a project does not use up.

    Parameters
    ----------
    problem
        The project.
    resource
        Name of the resource.

    Raises
    ------
    InstanceError
        With the names of those that it does.
    """
    names = [r.name for r in problem.resources if not r.is_renewable]
    if resource not in names:
        raise InstanceError(
            f'{problem.name}: "{resource}" is no resource that is used up'
            f"{nearest(resource, names, '.')} A front needs one"
            f"{': ' + ', '.join(names) if names else '; `priced` adds one'}."
        )
