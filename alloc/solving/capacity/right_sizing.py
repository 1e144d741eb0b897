"""Right-sizing: the cheapest plan for a forecast, with a proof; the door to its methods."""

from __future__ import annotations

import math
import time
from typing import Literal, get_args

from alloc.backends import highs
from alloc.capacity.accounting import account
from alloc.capacity.headroom import require_goals_can_be_kept
from alloc.capacity.plan import Plan, PlanResult, Relief
from alloc.capacity.problem import PlanningProblem
from alloc.certificate import OPTIMALITY_GAP, Certificate, Status, beats, is_within
from alloc.errors import CertificateError, InstanceError, SolverError, nearest
from alloc.models.right_sizing.data import SizingData
from alloc.solving.capacity.right_sizing_decomposition import solve_by_decomposition
from alloc.solving.capacity.right_sizing_extensive import solve_extensive
from alloc.solving.capacity.right_sizing_marginals import is_small, marginal_values
from alloc.solving.capacity.right_sizing_reliefs import find_reliefs
from alloc.solving.capacity.right_sizing_state import Found, Watch
from alloc.solving.capacity.right_sizing_words import assumptions
from alloc.solving.outcome import Settings
from alloc.units import require_non_negative, require_positive
from alloc.verification.plan import check_plan_claims, verify_plan

FORMULATION = "right_sizing"
Method = Literal["auto", "extensive", "decomposition"]
"""``extensive``: one program; ``decomposition``: Benders; ``auto``: by size."""

_BOUND_TOLERANCE = 1e-5
"""How far, relatively, rounding may push a bound past a cost: HiGHS keeps rows to 1e-6 only, and a
plan's cost is made of many of them."""
_MOST_COLUMNS = 30_000
"""Columns of the extensive form up to which it is solved as one program."""
_LEAST_SECONDS = 1.0
"""For marginal values, even where the plan took all the time."""
_ANY_PLAN = 1e9
"""Gap at which the first plan found ends a search."""


def right_size(
    problem: PlanningProblem,
    *,
    time_limit_s: float = 60.0,
    gap: float = 1e-4,
    seed: int = 0,
    workers: int = 1,
    method: Method = "auto",
    start: Plan | None = None,
    progress: Watch | None = None,
) -> PlanResult:
    """Find the cheapest plan, and prove how cheap any plan can be.

    Parameters
    ----------
    problem
        The problem.
    time_limit_s
        Wall time, seconds. The best plan found by then is returned with the bound proved by then.
    gap
        Relative gap between cost and bound at which the search stops.
    seed
        Random seed of the solver.
    workers
        Threads or processes.
    method
        ``auto``, ``extensive`` or ``decomposition``.
    start
        A plan to start from, for example that of a similar problem; it need not be feasible.
    progress
        Takes a line of progress.

    Returns
    -------
    PlanResult
        The plan, judged; or, if there is none, what is missing.

    Raises
    ------
    InstanceError
        If an option makes no sense, or no pool can keep a goal.
    CertificateError
        If the judge contradicts the solver.
    """
    require_positive(time_limit_s, "right_size", "time_limit_s")
    require_non_negative(gap, "right_size", "gap")
    if method not in get_args(Method):
        raise InstanceError(
            f'unknown method "{method}"{nearest(str(method), get_args(Method)) or ";"} known: '
            f"{', '.join(get_args(Method))}."
        )
    require_goals_can_be_kept(problem)
    began = time.perf_counter()
    settings = Settings(time_limit_s, seed, workers)
    data = SizingData(problem)
    found = _solve(data, settings, gap, method, start, progress)
    conflict: str | None = None
    reliefs: tuple[Relief, ...] = ()
    try:
        if found.infeasible:
            conflict, reliefs = find_reliefs(problem, settings, _has_plan)
        elif found.plan is not None and found.limit != "interrupt" and is_small(data):
            found.marginals = marginal_values(data, max(settings.seconds_left(), _LEAST_SECONDS))
    except KeyboardInterrupt:
        # The plan, or the proof that there is none, is kept.
        found.limit = "interrupt"
    result = _result(problem, data, found, settings, began)
    return result.replace(conflict=conflict, reliefs=reliefs)


def _has_plan(problem: PlanningProblem, settings: Settings) -> bool | None:
    """Return whether a problem has a plan, checked; None if that was not found out in time."""
    found = _solve(SizingData(problem), settings, _ANY_PLAN, "auto", None, None)
    if found.limit == "interrupt":
        raise KeyboardInterrupt
    if found.plan is not None:
        return not verify_plan(problem, found.plan)
    return False if found.infeasible else None


def _solve(
    data: SizingData,
    settings: Settings,
    gap: float,
    method: Method,
    start: Plan | None,
    progress: Watch | None,
) -> Found:
    columns = len(data.ways) * data.bands.count * data.probability.size * data.num_quarters
    if method == "extensive" or (method == "auto" and columns <= _MOST_COLUMNS):
        return solve_extensive(data, settings, gap, start)
    return solve_by_decomposition(data, settings, gap, start, progress)


def _result(
    problem: PlanningProblem, data: SizingData, found: Found, settings: Settings, began: float
) -> PlanResult:
    costs = None
    if found.plan is not None:
        costs = account(problem, found.plan, data.bands).costs
        violations = verify_plan(problem, found.plan)
        if violations:
            raise SolverError(
                f"the plan breaks {len(violations)} limits, first: {violations[0].sentence} This "
                "is a bug of the method."
            )
    cost = None if costs is None else costs.total
    # Sums in another order differ in their last digits; a bound above them would be a lie.
    bound = found.bound if cost is None else min(found.bound, cost)
    certificate = Certificate(
        status=_status(cost, bound, found),
        objective=cost,
        bound=math.inf if found.infeasible else bound,
        sense="min",
        objective_name="cost",
        formulation=FORMULATION,
        backend="alloc right-sizing + HiGHS",
        backend_version=highs.version(),
        seed=settings.seed,
        workers=settings.workers,
        seconds=time.perf_counter() - began,
        fingerprint=problem.fingerprint,
        limit=found.limit,
        verified=cost is not None,
        bound_proof=found.proof,
    )
    result = PlanResult(
        found.plan,
        certificate,
        costs,
        assumptions(data),
        found.marginals,
        log=tuple(found.log),
    )
    if cost is not None and beats(cost, found.bound, "min", tolerance=_BOUND_TOLERANCE):
        raise CertificateError(
            f"the bound {found.bound:g} on the cost is above the cost of a plan, {cost:g}; it is "
            "false."
        )
    claims = check_plan_claims(problem, result)
    if claims:
        raise CertificateError(claims[0].sentence)
    return result


def _status(cost: float | None, bound: float, found: Found) -> Status:
    if found.infeasible:
        return "infeasible"
    if cost is None:
        return "no_solution"
    return "optimal" if is_within(cost, bound, OPTIMALITY_GAP) else "feasible"
