"""Projects: priority rules for a schedule, longest paths for a bound, CP-SAT for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from alloc.backends import SolverOptions, cpsat
from alloc.certificate import is_within
from alloc.clock import time_limit
from alloc.errors import OutOfTime
from alloc.models.project.cpsat_model import build_cpsat
from alloc.models.project.data import ProjectData
from alloc.problems.project import ProjectPlan, ProjectProblem
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.project.rules import RULES, plans_by_rule, quick_modes

_NO_MODES = "the budgets do not let every activity run in some mode; raise one or add modes"


def _needs_relaxation(data: ProjectData, objective: str) -> bool:
    """Return whether CP-SAT proves more with linear relaxations than without.

    Of one mode each and the makespan it proves as much by propagation, five times as fast; choices
    of modes and sums of completions are what a relaxation sees.
    """
    return objective != "makespan" or any(len(modes) > 1 for modes in data.modes)


def schedule_project(
    problem: ProjectProblem,
    objective: str,
    settings: Settings,
    start: ProjectPlan | None,
    report: Callable[[str], None],
) -> Outcome[ProjectPlan]:
    """Find a schedule of a project and prove how good it is.

    Every rule puts the activities in, in the modes of `quick_modes`; the best of these schedules
    starts CP-SAT, unless longest paths and the work on the resources prove it best already.

    Parameters
    ----------
    problem
        The project.
    objective
        ``makespan``, ``weighted_jct`` or ``weighted_tardiness``.
    settings
        Limits.
    start
        A schedule to start from, or None; the answer is never worse.
    report
        Takes a line of progress.
    """
    data = ProjectData(problem)
    bound = data.bound(objective)
    plans = [] if start is None else [start]
    outcome = Outcome(start, bound, "recomputed", "alloc rules + CP-SAT", cpsat.version())
    try:
        choices = quick_modes(data)
        for rule in RULES:
            if settings.time_is_up():
                break
            plans += plans_by_rule(data, rule, choices)
        best = min(plans, key=lambda plan: plan.value(problem, objective), default=None)
        value = math.inf if best is None else best.value(problem, objective)
        outcome = replace(outcome, solution=best)
        report(f"rules: {value:g}, bound {bound:g}")
        if is_within(value, bound, settings.gap):
            return outcome
        with time_limit(settings.seconds_left()):
            built = build_cpsat(problem, objective)
        hint = None if best is None or built.start is None else built.start(best)
        raw = cpsat.solve(
            built.model,
            SolverOptions(
                settings.seconds_left(),
                settings.seed,
                settings.workers,
                settings.gap,
                hint,
                linear=_needs_relaxation(data, objective),
            ),
        )
    except OutOfTime:
        return replace(outcome, limit="time")
    except KeyboardInterrupt:
        return replace(outcome, limit="interrupt")
    if raw.status == "infeasible":
        return replace(
            outcome,
            solution=None,
            bound=math.inf,
            bound_proof="claimed",
            infeasible=True,
            conflict=_NO_MODES,
        )
    if raw.values is not None:
        found = built.extract(raw.values)
        best = min(
            (plan for plan in (best, found) if plan is not None),
            key=lambda plan: plan.value(problem, objective),
        )
    more = raw.bound > bound
    return replace(
        outcome,
        solution=best,
        bound=raw.bound if more else bound,
        bound_proof=raw.bound_proof if more else "recomputed",
        limit=raw.limit,
    )
