"""The specialised exact method of F2.

1. A first schedule by rules that decide slot by slot, by insertion, or the warm start.
2. Column generation over job profiles: prices, and a bound re-evaluated in plain numpy.
3. Incumbents: price-guided insertion beside the profiles that the linear master takes whole, the
   integer master, large-neighbourhood search.
4. Proof, before that search and between its turns: the integer master over the profiles that can be
   in a better schedule, those nearest to the bound first.
5. Tasks on hosts, slot by slot.
6. In continuous time, list scheduling from the schedule on the grid, and a local search.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.scaling import power_of_two
from alloc.backends.second_proof import solve_and_prove
from alloc.certificate import OPTIMALITY_GAP, Limit
from alloc.families import FAMILIES
from alloc.formulation import ArrayModel, BuiltModel, RawResult
from alloc.models.malleable.arrays import build_grid
from alloc.models.malleable.data import SlotData, slot_data
from alloc.models.malleable.grid import grid_of
from alloc.objectives import is_kept
from alloc.objectives import objective as objective_of
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.solving.malleable.list_search import Incumbent, best_of
from alloc.solving.malleable.search import Search
from alloc.solving.outcome import Outcome, Progress, Settings
from alloc.solving.refinement import Question, solve_refined
from alloc.units import SHORTEST_SLOT_S

_GRID_SLOTS = 300
"""Slots of the grid in continuous time, about: the masters and the dynamic programs grow with them,
and the schedule is improved off the grid later."""
_SEARCH_SHARE = 0.96
"""Part of the time limit for the search: the rest is for tasks on hosts and the check of the
answer."""
_GRID_SHARE, _PRICES_SHARE = 0.2, 0.2
"""Parts of the time for the grid, and for prices, in continuous time; the rest is for schedules."""
_FAR = 100.0
"""Multiple of the bound of each job alone that no ascent reaches: the value to aim at where there
is no schedule."""
_MAX_SLOTS = 4 * _GRID_SLOTS
"""Slots up to which prices are raised where the grid has none; what is later is free."""
_MAX_COLUMNS = 50_000
"""Variables of the time-indexed program up to which it is asked where hosts do not hold the
schedule: it comes last, and is to end within what time is left."""
_BACKEND = "alloc column generation + HiGHS"

_TOGETHER = (
    "each job alone meets its deadline and the horizon, but capacity does not let all of them "
    "together; add hosts, drop jobs, or move the limits"
)


def solve_malleable(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Progress,
) -> Outcome[Solution]:
    """Solve an instance of F2: the method behind ``solve(..., "malleable")``.

    In continuous time a schedule on a grid of slots is improved off the grid, and the bound is the
    fluid one, which holds for schedules on any grid and none. The answer is never worse than a warm
    start that keeps every rule.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    settings
        Limits, and earlier levels of the goal.
    warm_start
        A schedule to start from, or None.
    report
        Takes a line of progress.
    """
    asked, continuous = instance, instance.slot_s is None
    if continuous:
        instance = instance.replace(slot_s=_grid_slot_s(instance))
    data = slot_data(instance, objective, settings.held)
    # The search and the solver of its masters compare with fixed tolerances, so the largest cost of
    # every level is about 1 to them.
    unit = power_of_two(data.target.level.size)
    if unit != 1.0:
        report(f"costs are counted in units of {1 / unit:g}")
    units = [power_of_two(level.size) for level, _ in data.target.held]
    data = replace(data, target=data.target.scaled(unit, units))
    version = highs.version()
    # Checking the answer takes its part of the time limit.
    settings = replace(settings, time_limit_s=_SEARCH_SHARE * settings.time_limit_s)
    whole = settings
    if continuous:
        settings = replace(settings, time_limit_s=_GRID_SHARE * settings.time_limit_s)
    if (conflict := too_late(data, continuous)) is not None:
        return Outcome(
            None, math.inf, "recomputed", _BACKEND, version, infeasible=True, conflict=conflict
        )
    search = Search(data, objective, settings, warm_start, report, unit)
    limit: Limit | None = None
    try:
        with search.companions.team:
            search.run()
        # Placing the answer takes as long again as placing the first one did.
        settings = search.settings
        if search.gap > OPTIMALITY_GAP and settings.time_is_up():
            limit = "time"
    except KeyboardInterrupt:
        # What was found until here is kept and certified.
        limit = "interrupt"
    if search.infeasible and not continuous:
        return Outcome(
            None, math.inf, "claimed", _BACKEND, version, infeasible=True, conflict=_TOGETHER
        )
    bound, bound_proof = search.bound * data.slot_s / unit, search.bound_proof
    schedule = search.schedule()
    if schedule is not None and not is_kept(instance, schedule, settings.held):
        schedule = warm_start if isinstance(warm_start, Schedule) else None
    question = Question(instance, FAMILIES["malleable"], objective)
    unproved = search.gap > OPTIMALITY_GAP or _pays_restarts(instance)
    # The totals may hold what the hosts do not hold together.
    if not unproved and schedule is not None:
        unproved = not question.reaches(schedule, bound, OPTIMALITY_GAP)
    if schedule is not None and unproved and not continuous and limit is None:
        raw, schedule = _time_indexed(question, schedule, settings, report)
        if schedule is None:
            return Outcome(
                None, math.inf, "claimed", _BACKEND, version, infeasible=True, conflict=_TOGETHER
            )
        if raw.bound > bound:
            bound, bound_proof = raw.bound, raw.bound_proof
        limit = raw.limit or ("time" if settings.time_is_up() else None)
    if continuous:
        given = [schedule, warm_start if isinstance(warm_start, Schedule) else None]
        bound, schedule, limit = _in_continuous_time(
            asked, data, search, objective, given, whole, limit, unit, report
        )
        bound_proof = "recomputed"
    elif isinstance(warm_start, Schedule):
        # Hosts found slot by slot may lose what the plan gained.
        best = best_of(asked, [schedule, warm_start], objective, settings.held)
        schedule = None if best is None else best.schedule
    return Outcome(
        solution=schedule,
        bound=bound,
        bound_proof=bound_proof,
        backend=_BACKEND,
        backend_version=version,
        limit=limit,
    )


def _in_continuous_time(
    instance: Instance,
    data: SlotData,
    search: Search,
    objective: str,
    given: list[Schedule | None],
    settings: Settings,
    limit: Limit | None,
    unit: float,
    report: Progress,
) -> tuple[float, Schedule | None, Limit | None]:
    """Return the bound and the best schedule in continuous time, and what ended the search."""
    # Instances with slots have no use for it.
    from alloc.solving.malleable.timed_search import TimedSearch, raise_prices

    data = replace(data, target=replace(data.target, floors=data.floors(data.arrival)))
    best = best_of(instance, given, objective, settings.held)
    alone = _alone(data)
    # Without a schedule, a value that the ascent does not reach.
    upper = (_FAR * alone if best is None else best.value * unit) / data.slot_s
    start, multipliers = search.prices, search.multipliers
    if start is None:  # no time was left for prices on the grid
        start, multipliers = np.zeros((_num_slots(data, best), len(data.rows.names))), None
    stopped = limit == "interrupt"
    brief = settings.within(_PRICES_SHARE * settings.seconds_left())
    bound, schedule = alone / unit, None if best is None else best.schedule
    try:
        for prices in raise_prices(
            data, start, multipliers, upper, lambda: stopped or brief.time_is_up(), report
        ):
            bound = max(bound, prices.bound / unit)
        report(f"in continuous time the prices prove {bound:g}")
        timed = TimedSearch(instance, data, prices, given, settings, objective)
        if not stopped:
            rounding = objective_of(objective).rounding(instance, Schedule(()))
            try:
                timed.run(bound * (1 + OPTIMALITY_GAP) + rounding, report)
            finally:
                schedule = None if timed.best is None else timed.best.schedule
            limit = "time" if settings.seconds_left() <= 0 else None
    except KeyboardInterrupt:
        limit = "interrupt"
    return bound, schedule, limit


def _pays_restarts(instance: Instance) -> bool:
    return any(job.restart_cost_s > 0 for job in instance.jobs)


def _time_indexed(
    question: Question, schedule: Schedule, settings: Settings, report: Progress
) -> tuple[RawResult, Schedule | None]:
    """Return what the time-indexed program proves, and the better of a schedule and its own.

    The last resort, where the program is small enough: it branches where too many profiles are left
    to list, it sees what restarts cost, which profiles do not, and it is told what the hosts do not
    hold. Where it has no solution and the schedule breaks a rule, there is no schedule.
    """
    instance = question.problem
    nothing = RawResult("no_solution", None, None, -math.inf, None, "Not asked", "none")
    if settings.time_is_up():
        return nothing, schedule
    grid = grid_of(instance, objective=question.objective, held=settings.held)
    if grid.num_choices > _MAX_COLUMNS:
        return nothing, schedule
    built = build_grid(grid)
    if len(cast(ArrayModel, built.model).cost) > _MAX_COLUMNS:
        return nothing, schedule

    def run(tried: BuiltModel) -> RawResult:
        start = tried.start(schedule) if tried.start is not None else None
        raw = solve_and_prove(
            cast(ArrayModel, tried.model),
            SolverOptions(
                settings.seconds_left(),
                settings.seed,
                settings.workers,
                gap=OPTIMALITY_GAP / 2,
                start=start,
                stoppable=True,
            ),
        )
        report(f"time-indexed program: {raw.native_status}, bound {raw.bound:g}")
        return raw

    return solve_refined(question, built, run, settings, report, schedule)


def _grid_slot_s(instance: Instance) -> float:
    """Return the slot of the grid for an instance without slots, seconds.

    Fine enough for the shortest jobs to lose little, coarse enough for a few hundred slots and for
    every restart to take one slot at most; no shorter than a slot may be.
    """
    restart = max(job.restart_cost_s for job in instance.jobs)
    runs = np.array([job.min_run_s for job in instance.jobs])
    span = max(job.arrival_s for job in instance.jobs) + float(runs.max())
    return float(max(np.median(runs) / 8, span / _GRID_SLOTS, restart, SHORTEST_SLOT_S))


def _num_slots(data: SlotData, best: Incumbent | None) -> int:
    """Return up to which slot prices are raised where the grid has none: the last completion."""
    last = float((data.arrival + data.shortest).max())
    if best is not None:
        last = max(run.end_s for run in best.schedule.runs) / data.slot_s
    return int(np.clip(math.ceil(last), 1, _MAX_SLOTS))


def _alone(data: SlotData) -> float:
    """Return the bound in continuous time if every job ran alone, peaks by the load."""
    level, floors = data.target.level, data.target.floors
    alone = float(level.jobs.at(data.arrival + data.shortest).sum())
    return (alone + sum(floors[: len(level.peaks)])) * data.slot_s


def too_late(data: SlotData, continuous: bool = False) -> str | None:
    """Return the sentence for a job that misses its limit even alone, or None.

    Parameters
    ----------
    data
        The instance on its slots.
    continuous
        Whether slots are only a unit of time: then jobs start when they arrive, not with a slot.
    """
    start = data.release - data.lag if continuous else data.release
    earliest = start + data.shortest
    late = np.flatnonzero(earliest > data.limit + 1e-9)
    if not len(late):
        return None
    job = data.instance.jobs[int(late[0])]
    others = f" (and {len(late) - 1} more jobs)" if len(late) > 1 else ""
    return (
        f'job "{job.id}" completes at {earliest[late[0]] * data.slot_s:g} s at the earliest, alone '
        f"on the cluster, but must by {data.limit[late[0]] * data.slot_s:g} s{others}; move its "
        "deadline or the horizon"
    )
