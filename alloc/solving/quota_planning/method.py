"""Solving quota planning: quotas under uncertain demand, with a proof of how good they are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from alloc.backends import SolverOptions, backend
from alloc.backends.second_proof import solve_and_prove
from alloc.certificate import OPTIMALITY_GAP, Limit, is_within
from alloc.errors import InstanceError
from alloc.formulation import RawResult, RawStatus
from alloc.models.quota_planning import (
    Extra,
    QuotaData,
    QuotaLayout,
    array_model,
    quota_data,
    start_values,
)
from alloc.problems.quota_planning.measures import goal_value, level_of, plan_rounding
from alloc.problems.quota_planning.problem import GpuCapacity, QuotaPlan, QuotaProblem
from alloc.result import Repair
from alloc.solving.outcome import Outcome, Settings, Stage
from alloc.solving.progress_line import standing
from alloc.solving.quota_planning.starts import quick_plan
from alloc.units import MILLI, format_number

FAIR = ("fair_service", "fair_coverage")
_SEARCHED = 0.1
"""Share of the time for a start by local search: HiGHS, which proves, begins with what it finds."""
_LEVEL_SHARE = 0.5
"""Share of the time left for a level of a fair goal: the first, which is certified, has most."""

_AFTER_INTERRUPT_S = 1.0
"""Wall time to make a plan of what was found at an interrupt, seconds: who pressed Ctrl-C waits."""

Report = Callable[[str], None]
Method = Literal["highs", "pyomo"]


def _solve_goal(
    problem: QuotaProblem,
    objective: str,
    settings: Settings,
    start: QuotaPlan | None,
    report: Report,
    *,
    method: Method,
) -> Outcome[QuotaPlan]:
    """Find the quotas that reach the problem's goal best; of a fair one level by level.

    Parameters
    ----------
    problem
        The problem; its goal decides, `objective` is its name.
    objective
        Name of the goal.
    settings
        Limits.
    start
        Quotas to start from, or None.
    report
        Takes a line of progress.
    method
        ``highs`` or ``pyomo``.

    Raises
    ------
    InstanceError
        If `objective` is another goal than the problem's.
    """
    if objective != problem.goal:
        raise InstanceError(
            f'the goal of these quotas is "{problem.goal}", not "{objective}"; change the goal of '
            "the problem."
        )
    data = quota_data(problem)
    report(f"{len(data.demand)} outcomes, {len(data.wants)} demands")
    solve = _solve_levels if problem.goal in FAIR else _solve_once
    outcome = solve(data, settings, method, start, report)
    if not outcome.infeasible or outcome.limit == "interrupt":
        return outcome
    try:
        conflict, repairs = _diagnosed(data, settings)
    except KeyboardInterrupt:
        return replace(outcome, limit="interrupt")
    return replace(outcome, conflict=conflict, repairs=repairs)


by_arrays = partial(_solve_goal, method="highs")
by_pyomo = partial(_solve_goal, method="pyomo")


def _solve_once(
    data: QuotaData, settings: Settings, method: Method, plan: QuotaPlan | None, say: Report
) -> Outcome[QuotaPlan]:
    """Solve a goal of one level."""
    extra = Extra()
    raw = _nothing(extra)
    try:
        plan, interrupted = _start(data, settings, method, plan)
        if not interrupted:
            raw, layout = _best(data, extra, settings.seconds_left(), settings, method, plan)
            plan = _better(data, extra, raw, layout, plan)
            say(standing(_value(data, plan, extra), raw.bound, data.problem.goal))
    except KeyboardInterrupt:
        raw = replace(raw, limit="interrupt")
    return _outcome(plan, raw, method)


def _solve_levels(
    data: QuotaData, settings: Settings, method: Method, plan: QuotaPlan | None, say: Report
) -> Outcome[QuotaPlan]:
    """Solve a fair goal: the worst tenant, then the two worst together, and so on."""
    interrupted, proved, infeasible = False, True, False
    stages: list[Stage] = []
    kept: tuple[float, ...] = ()
    number = len(data.problem.tenants)
    try:
        plan, interrupted = _start(data, settings, method, plan)
        for level in range(1, number + 1):
            seconds = settings.seconds_left() * (1 if level == number else _LEVEL_SHARE)
            if interrupted or (level > 1 and seconds <= 0):
                break
            extra = Extra(level, kept)
            raw, layout = _best(data, extra, seconds, settings, method, plan)
            interrupted = raw.limit == "interrupt"
            if raw.values is None and level > 1:
                break
            infeasible = raw.status == "infeasible"
            plan = _better(data, extra, raw, layout, plan)
            stages.append(_stage(data, extra, raw))
            value = _value(data, plan, extra)
            off = 0.0 if plan is None else plan_rounding(data.problem, plan)
            proved = value is not None and (
                is_within(value, raw.bound, OPTIMALITY_GAP) or abs(value - raw.bound) <= off
            )
            reached = "no quotas yet" if value is None else f"{value:.6g}"
            say(f"level {level} of {number}: {'proved' if proved else 'open'}, {reached}")
            if not proved or interrupted or value is None:
                break
            kept = (*kept, value)
    except KeyboardInterrupt:
        interrupted = True
    if not stages:
        stages = [_stage(data, Extra(1), _nothing(Extra(1)))]
    elif len(stages) < number and proved:
        # Time was up between two levels: of the next one nothing is known.
        nothing = replace(_nothing(Extra(1)), limit="interrupt" if interrupted else "time")
        stages.append(_stage(data, Extra(len(stages) + 1), nothing))
    first = stages[0]
    limit: Limit | None = "interrupt" if interrupted else stages[-1].limit
    return Outcome(
        plan,
        first.bound,
        first.bound_proof,
        method,
        backend(method).version(),
        limit,
        infeasible,
        stages=tuple(stages),
    )


def _stage(data: QuotaData, extra: Extra, raw: RawResult) -> Stage:
    """Return what is proved of a level."""
    name = f"{data.problem.goal} of the {extra.level} worst"
    return Stage(name, raw.bound, raw.bound_proof, raw.limit)


def _outcome(plan: QuotaPlan | None, raw: RawResult, method: Method) -> Outcome[QuotaPlan]:
    return Outcome(
        plan,
        raw.bound,
        raw.bound_proof,
        method,
        backend(method).version(),
        raw.limit,
        raw.status == "infeasible",
    )


def _better(
    data: QuotaData, extra: Extra, raw: RawResult, layout: QuotaLayout, start: QuotaPlan | None
) -> QuotaPlan | None:
    """Return the better of what was found and what it started from: a limit may come between."""
    if raw.status == "infeasible":
        return None
    found = None if raw.values is None else layout.plan(raw.values)
    new, old = _value(data, found, extra), _value(data, start, extra)
    if new is None or old is None:
        return found or start
    return start if (old > new if extra.level else old < new) else found


def _start(
    data: QuotaData, settings: Settings, method: Method, given: QuotaPlan | None
) -> tuple[QuotaPlan | None, bool]:
    """Return quotas to start from, where the search pays, and whether it was interrupted."""
    if given is not None or method == "pyomo" or data.problem.goal == "expected_shortfall":
        return given, False
    if (data.least.sum(axis=0) * data.step > data.capacity + 1e-9).any():
        return None, False
    return quick_plan(data, _SEARCHED * settings.seconds_left())


def _solve(
    data: QuotaData,
    extra: Extra,
    seconds: float,
    settings: Settings,
    method: Method,
    start: QuotaPlan | None = None,
) -> tuple[RawResult, QuotaLayout]:
    layout = QuotaLayout(data, extra)
    if method == "pyomo":
        from alloc.models.quota_planning.pyomo_model import pyomo_model

        options = SolverOptions(seconds, settings.seed, settings.workers, OPTIMALITY_GAP / 4)
        return backend("pyomo").solve(pyomo_model(layout), options), layout
    values = None if start is None else start_values(layout, start)
    # Room for rounding on both sides of the gap.
    options = SolverOptions(
        seconds, settings.seed, settings.workers, OPTIMALITY_GAP / 4, values, stoppable=True
    )
    return solve_and_prove(array_model(layout), options), layout


def _nothing(extra: Extra) -> RawResult:
    """Return what is known of a level at an interrupt before anything else."""
    worst = math.inf if extra.level else -math.inf
    return RawResult("no_solution", None, None, worst, "interrupt", "Interrupted")


def _best(
    data: QuotaData,
    extra: Extra,
    seconds: float,
    settings: Settings,
    method: Method,
    start: QuotaPlan | None,
) -> tuple[RawResult, QuotaLayout]:
    """Solve, where it pays first without the guarantees: they seldom bind.

    Without (C5) the optimum is a bound; with the quotas it finds, (C5) needs no binaries. Where the
    two meet, both are optimal.
    """
    until = time.perf_counter() + seconds
    full = QuotaLayout(data, extra)
    if method == "pyomo" or not full.y:
        return _solve(data, extra, seconds, settings, method, start)
    free, layout = _solve(data, replace(extra, guarded=False), seconds / 2, settings, method, start)
    if free.status == "infeasible":
        return free, layout
    interrupted = free.limit == "interrupt"
    if interrupted:
        # What was found keeps no guarantees yet.
        until = time.perf_counter() + _AFTER_INTERRUPT_S
    incumbent: tuple[RawResult, QuotaLayout] | None = None
    if free.values is not None:
        steps = tuple(round(value) for value in free.values[: len(layout.q)])
        left = max(until - time.perf_counter(), 0.1)
        kept, layout = _solve(data, replace(extra, fixed=steps), left / 2, settings, method)
        interrupted = interrupted or kept.limit == "interrupt"
        if kept.objective is not None:
            near = is_within(kept.objective, free.bound, OPTIMALITY_GAP)
            if near or interrupted or time.perf_counter() >= until:
                status: RawStatus = "optimal" if near else "feasible"
                limit = "interrupt" if interrupted else free.limit
                bounded = replace(free, values=kept.values, objective=kept.objective)
                bounded = replace(bounded, status=status, limit=limit)
                return bounded, layout
            incumbent = replace(kept, bound=free.bound, status="feasible", limit="time"), layout
            start = layout.plan(kept.values) if kept.values is not None else start
    if interrupted:
        return replace(_nothing(extra), bound=free.bound), layout
    left = max(until - time.perf_counter(), 0.1)
    last, layout = _solve(data, extra, left, settings, method, start)
    tighter = min if extra.level else max
    if last.status == "infeasible":
        return last, layout
    if last.values is None and incumbent is not None:
        # A limit must not lose what was found before it.
        return replace(incumbent[0], limit=last.limit), incumbent[1]
    if tighter(last.bound, free.bound) == last.bound:
        return last, layout
    return replace(last, bound=free.bound, bound_proof=free.bound_proof), layout


def _value(data: QuotaData, plan: QuotaPlan | None, extra: Extra) -> float | None:
    """Return what a plan reaches of a goal, or of a level of it; None without a plan."""
    if plan is None:
        return None
    problem = data.problem
    served = plan.served_milli(problem)
    if extra.level:
        return float(np.sort(level_of(problem, served))[: extra.level].sum())
    return goal_value(problem, plan.quota_milli(problem), served)


def _relaxed(
    data: QuotaData, what: Literal["capacity", "exceeding"], seconds: float, settings: Settings
) -> tuple[RawResult, QuotaLayout]:
    raw, layout = _solve(data, Extra(relaxed=what), seconds, settings, "highs")
    if raw.limit == "interrupt":
        raise KeyboardInterrupt
    return raw, layout


def _diagnosed(data: QuotaData, settings: Settings) -> tuple[str, tuple[Repair, ...]]:
    """Say of an infeasible problem what is missing, and what would be enough."""
    problem = data.problem
    limit = max(settings.seconds_left() / 2, 1.0)
    found: list[tuple[float, Repair]] = []
    more, layout = _relaxed(data, "capacity", limit, settings)
    parts = []
    if more.values is not None:
        at = layout.starts["relaxed"]
        for g, capacity in enumerate(problem.capacity):
            extra = math.ceil(float(more.values[at + g]) * MILLI - TINY_MILLI)
            if extra > 0:
                parts.append((capacity, extra))
    if parts:
        total = sum(capacity.gpu_milli for capacity, _ in parts)
        added = sum(extra for _, extra in parts)
        names = " and ".join(
            f'{format_number(extra / MILLI)} of "{c.gpu_type}"' for c, extra in parts
        )
        capacity_repair = Repair(
            "capacity",
            " and ".join(capacity.gpu_type for capacity, _ in parts),
            added / MILLI,
            "GPUs",
            f"add {names} to the GPUs" + _unless(more),
            before=total / MILLI,
            after=(total + added) / MILLI,
            least=more.status == "optimal",
        )
        found.append((added / max(total, MILLI), capacity_repair))
    if problem.goal == "least_quota":
        looser, layout = _relaxed(data, "exceeding", limit, settings)
        most = max(tenant.exceeding for tenant in problem.tenants)
        share = math.inf
        if looser.values is not None:
            share = float(looser.values[layout.starts["relaxed"]])
        # A share of all the time is no promise, and a problem with it is refused.
        if most + share < 1 - _ROUNDED_UP:
            exceeding_repair = Repair(
                "exceeding",
                "all tenants",
                share,
                "share of the time",
                "let the demand of every tenant be more than it gets for another "
                f"{format_number(100 * share, 3, up=True)} % of the time" + _unless(looser),
                before=most,
                after=most + share,
                least=looser.status == "optimal",
            )
            found.append((share / max(1 - most, 1e-9), exceeding_repair))
    found.sort(key=lambda one: one[0])  # the least in relation to what was there first
    repairs = tuple(replace(repair, option=number) for number, (_, repair) in enumerate(found))
    return _conflict(data, parts), repairs


def _unless(raw: RawResult) -> str:
    return "" if raw.status == "optimal" else " (enough; less may do)"


_ROUNDED_UP = 1e-3
"""Most that a share of the time grows when it is written with three digits, rounded up."""

TINY_MILLI = 1e-3
"""Milli-GPU below which a solver's continuous amount is rounding."""


def _conflict(data: QuotaData, parts: Sequence[tuple[GpuCapacity, int]]) -> str:
    problem = data.problem
    floors = (data.least * data.step).sum(axis=0)
    for g, capacity in enumerate(problem.capacity):
        if floors[g] * MILLI > capacity.gpu_milli:
            return (
                f'the least quotas of "{capacity.gpu_type}" sum to '
                f"{format_number(floors[g])} GPUs of {format_number(capacity.gpu_milli / MILLI)}"
            )
    need = ", ".join(f'tenant "{t.name}" {100 * t.exceeding:g} %' for t in problem.tenants)
    short = sum(extra for _, extra in parts)
    amount = f"; {format_number(short / MILLI)} GPUs are missing" if short else ""
    return (
        "no quotas within the capacity keep every tenant's demand from exceeding what it gets in "
        f"more than its share of the time ({need}){amount}"
    )
