"""Repairs applied: the problem in which limits give way by what repairs say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from alloc.errors import InstanceError
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.problems.right_sizing.series import Series
from alloc.result import Repair

SITE_LIMITS = ("rack_units", "ports", "power_kw")
KINDS = ("demand", "goal", "budget", *SITE_LIMITS, "carbon")
"""What can give way."""


def apply_repairs(problem: PlanningProblem, repairs: Iterable[Repair]) -> PlanningProblem:
    """Return the problem with repairs applied, for example all those of one option.

    Parameters
    ----------
    problem
        The problem that the repairs are for.
    repairs
        The repairs. Demand falls by the amount, not below 0; a limit rises by it; a goal is given
        up, whatever the amount.

    Raises
    ------
    InstanceError
        If a repair is of an unknown kind, or is about something that the problem does not limit.
    """
    for repair in repairs:
        problem = _apply(problem, repair)
    return problem


def _apply(problem: PlanningProblem, repair: Repair) -> PlanningProblem:
    name, quarter, amount = repair.name, repair.quarter, repair.amount
    if repair.kind == "demand" and quarter is not None:
        return problem.replace(
            scenarios=tuple(
                dataclasses.replace(
                    scenario,
                    arrivals={
                        **scenario.arrivals,
                        name: _changed(scenario.arrivals[name], quarter, -amount),
                    },
                )
                if repair.scenario in (None, scenario.name)
                else scenario
                for scenario in problem.scenarios
            )
        )
    if repair.kind == "goal":
        return problem.replace(
            classes=tuple(
                dataclasses.replace(job_class, goal=None) if job_class.name == name else job_class
                for job_class in problem.classes
            )
        )
    if repair.kind == "budget" and quarter is None and problem.budget is not None:
        return problem.replace(budget=problem.budget + amount)
    if repair.kind == "budget" and quarter is not None and problem.quarter_budgets:
        return problem.replace(quarter_budgets=_changed(problem.quarter_budgets, quarter, amount))
    if repair.kind == "carbon" and quarter is not None and problem.carbon_caps_kg:
        return problem.replace(carbon_caps_kg=_changed(problem.carbon_caps_kg, quarter, amount))
    if repair.kind in SITE_LIMITS:
        site = problem.sites[problem.site_index[name]]
        limit = getattr(site, repair.kind)
        if limit is not None:
            more = dataclasses.replace(site, **{repair.kind: limit + amount})
            return problem.replace(
                sites=tuple(more if one is site else one for one in problem.sites)
            )
    raise InstanceError(
        f'repair of kind "{repair.kind}" for "{name}", quarter {quarter}: the problem '
        f'"{problem.name}" has no such limit; apply repairs to the problem that they were found '
        "for."
    )


def _changed(series: Series, quarter: int, amount: float) -> Series:
    return tuple(
        max(value + amount, 0.0) if t == quarter else value for t, value in enumerate(series)
    )
