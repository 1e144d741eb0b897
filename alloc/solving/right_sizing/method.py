"""Right-sizing: the cheapest plan for a forecast, with a proof; the door to its methods."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, get_args

from alloc.errors import InstanceError, nearest
from alloc.models.right_sizing.data import SizingData
from alloc.problems.right_sizing.headroom import require_goals_can_be_kept
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.problems.right_sizing.ranges import require_budgets_that_count
from alloc.result import Deferred, Limits, Result
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.right_sizing.assumptions import assumptions
from alloc.solving.right_sizing.decomposition import solve_by_decomposition
from alloc.solving.right_sizing.extensive import solve_extensive
from alloc.solving.right_sizing.marginals import is_small, marginal_values
from alloc.solving.right_sizing.repairs import find_repairs
from alloc.solving.right_sizing.state import Watch
from alloc.solving.solver import solve
from alloc.verification.right_sizing import verify_plan

Method = Literal["auto", "extensive", "decomposition"]
"""``extensive``: one program; ``decomposition``: Benders; ``auto``: by size."""

_FEW_COLUMNS = 3_000
"""Columns of the extensive form up to which it is solved as one program: for so few the masters are
a detour, and most often a search that proves its own bounds ends before HiGHS is asked."""
_MAX_COLUMNS = 30_000
"""Columns up to which it is where decomposition finds neither a plan nor a proof: HiGHS holds all
its blocks at once."""
_LEAST_SECONDS = 1.0
"""For marginal values, even where the plan took all the time."""
_ANY_PLAN = 1e9
"""Gap at which the first plan found ends a search: larger than that of any plan."""


def solve_right_sizing(
    problem: PlanningProblem,
    objective: str,
    settings: Settings,
    start: Plan | None,
    report: Watch,
    *,
    method: Method = "auto",
) -> Outcome[Plan]:
    """Find the cheapest plan, and what one unit more of each resource would save.

    Parameters
    ----------
    problem
        The problem.
    objective
        ``cost``.
    settings
        Limits, and the gap at which to stop.
    start
        A plan to start from, for example that of a similar problem; it need not be feasible.
    report
        Takes a line of progress.
    method
        ``auto``, ``extensive`` or ``decomposition``.

    Raises
    ------
    InstanceError
        If no pool can keep a goal, or a budget is next to nothing beside the price of a host.
    """
    require_goals_can_be_kept(problem)
    require_budgets_that_count(problem)
    data = SizingData(problem)
    outcome = replace(
        _solve(data, settings, settings.gap, method, start, report), assumptions=assumptions(data)
    )
    try:
        if outcome.infeasible:
            conflict, repairs = find_repairs(problem, settings, _has_plan)
            return replace(outcome, conflict=conflict, repairs=repairs)
    except KeyboardInterrupt:
        return replace(outcome, limit="interrupt")  # the proof that there is no plan is kept
    if outcome.solution is not None and outcome.limit != "interrupt" and is_small(data):
        # A few more solves, which a loop over many plans does without.
        seconds = max(settings.seconds_left(), _LEAST_SECONDS)
        values = Deferred(lambda: marginal_values(data, seconds))
        return replace(outcome, sensitivities=values)
    return outcome


by_extensive_form = partial(solve_right_sizing, method="extensive")
by_decomposition = partial(solve_right_sizing, method="decomposition")


def right_size(
    problem: PlanningProblem,
    *,
    limits: Limits = Limits(gap=1e-4),
    method: Method = "auto",
    start: Plan | None = None,
    progress: Watch | None = None,
) -> Result[Plan]:
    """Find the cheapest plan, and prove how cheap any plan can be.

    Parameters
    ----------
    problem
        The problem.
    limits
        Time, gap, seed, and threads or processes.
    method
        ``auto``, ``extensive`` or ``decomposition``.
    start
        A plan to start from, for example that of a similar problem; it need not be feasible.
    progress
        Takes a line of progress.

    Returns
    -------
    Result
        The plan, checked; or, if there is none, what is missing.

    Raises
    ------
    InstanceError
        If an option makes no sense, or no pool can keep a goal.
    CertificateError
        If the checker contradicts the solver.
    """
    if method not in get_args(Method):
        raise InstanceError(
            f'unknown method "{method}"{nearest(str(method), get_args(Method)) or ";"} known: '
            f"{', '.join(get_args(Method))}."
        )
    return solve(
        problem,
        "right_sizing",
        method,
        limits=limits,
        warm_start=start,
        progress=progress,
    )


def _has_plan(problem: PlanningProblem, settings: Settings) -> bool | None:
    """Return whether a problem has a plan, checked; None if that was not found out in time."""
    found = _solve(SizingData(problem), settings, _ANY_PLAN, "auto", None, None)
    if found.limit == "interrupt":
        raise KeyboardInterrupt
    if found.solution is not None:
        return not verify_plan(problem, found.solution)
    return False if found.infeasible else None


def _solve(
    data: SizingData,
    settings: Settings,
    gap: float,
    method: Method,
    start: Plan | None,
    progress: Watch | None,
) -> Outcome[Plan]:
    found = _search(data, settings, gap, method, start, progress)
    if found.limit == "interrupt" or _is_plan(data, found):
        return found
    # The bound holds, and so many hosts cannot be rounded within the limits.
    spared = SizingData(data.problem, spared=True)
    again = _search(spared, settings, gap, method, start, progress)
    plan = again.solution if _is_plan(spared, again) else None
    return replace(found, solution=plan, limit=again.limit)


def _is_plan(data: SizingData, found: Outcome[Plan]) -> bool:
    """Return whether rounding has left a plan as it must be, where hosts are rounded."""
    plan = found.solution
    return plan is None or not data.rounded_up or not verify_plan(data.problem, plan)


def _search(
    data: SizingData,
    settings: Settings,
    gap: float,
    method: Method,
    start: Plan | None,
    progress: Watch | None,
) -> Outcome[Plan]:
    columns = len(data.modes) * data.bands.count * data.probability.size * data.num_quarters
    if method == "extensive" or (method == "auto" and columns <= _FEW_COLUMNS):
        return solve_extensive(data, settings, gap, start)
    found = solve_by_decomposition(data, settings, gap, start, progress)
    is_open = found.solution is None and found.limit is None and not found.infeasible
    if not is_open or columns > _MAX_COLUMNS:
        return found
    # A quarter that is next to nothing beside others is within the tolerances of the masters, which
    # count the money of all in one unit: their cuts know no plan, and no proof that there is none.
    other = solve_extensive(data, settings, gap, start)
    return (
        other
        if other.bound >= found.bound
        else replace(other, bound=found.bound, bound_proof=found.bound_proof)
    )
