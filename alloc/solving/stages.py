"""The method of stages: a project for the bound and the order, then hosts for each stage in turn.

1. The instance as a project, whose resources are counted for the whole cluster, is solved
   (`alloc.solving.project`). Its bound is one of the instance where each stage runs once.
2. Its plan, and the orders of its priority rules, become schedules: each stage starts on hosts as
   soon as those before it have ended and there is room.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from alloc.clock import check_time, time_limit
from alloc.errors import OutOfTime
from alloc.models.project.data import ProjectData
from alloc.objectives import objective as objective_of
from alloc.packing import HostPool
from alloc.problems.allocation.executors import Executors
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run, Schedule, Solution
from alloc.problems.allocation.stages import graph_of
from alloc.problems.project import ActivityRun, ProjectPlan, ProjectProblem
from alloc.problems.project_from_instance import (
    OBJECTIVES,
    project_from_instance,
    runs_once,
    usable,
)
from alloc.progress import WORK_TOLERANCE
from alloc.release import alloc_version
from alloc.solving.outcome import Outcome, Progress, Settings
from alloc.solving.project.method import schedule_project
from alloc.solving.project.rules import RULES
from alloc.verification import verify
from alloc.verification.project import verify_project
from alloc.verification.time import TIME_TOLERANCE_S
from alloc.workload import Job

_SHARE = 0.9
"""Of the time for the project; the rest is for hosts, and for the checker."""
_PAUSES = (
    "some stages may pause or change their configuration: the bound is of longest paths and of the "
    "work on the resources, which hold for such schedules too."
)
_MOVES = (
    "the bound leaves out the time for which GPUs move from job to job: it holds, and may be "
    "low by as much."
)


def solve_stages(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Progress,
) -> Outcome[Solution]:
    """Solve an instance whose jobs have stages: the method behind ``solve(..., "stages")``.

    Parameters
    ----------
    instance
        The instance.
    objective
        One of `alloc.problems.project_from_instance.OBJECTIVES`.
    settings
        Limits.
    warm_start
        A schedule to start from, or None; the answer is never worse.
    report
        Takes a line of progress.
    """
    for part, ways in zip(instance.unfolded.jobs, usable(instance), strict=True):
        if not ways:
            return _infeasible(_needs_too_much(part))
    for job in instance.jobs:
        if (conflict := _comes_too_late(instance, job)) is not None:
            return _infeasible(conflict)
    problem, offset = project_from_instance(instance, objective)
    start = warm_start if isinstance(warm_start, Schedule) else None
    outcome = schedule_project(
        problem,
        OBJECTIVES[objective],
        settings.within(_SHARE * settings.seconds_left()),
        None if start is None else _plan(instance, problem, start),
        report,
    )
    measure = objective_of(objective)
    best, value = start, math.inf if start is None else measure.evaluate(instance, start)
    if outcome.solution is not None:
        try:
            with time_limit(settings.seconds_left()):
                for schedule in _schedules(instance, problem, outcome.solution):
                    found = measure.evaluate(instance, schedule)
                    if found < value and not verify(instance, schedule):
                        best, value = schedule, found
        except OutOfTime:
            report("out of time for further schedules on hosts")
    report(f"on hosts: {value:g}, bound {outcome.bound + offset:g}")
    bound, proof = outcome.bound, outcome.bound_proof
    assumptions: tuple[str, ...] = (_MOVES,) if instance.move_s else ()
    if not runs_once(instance):
        bound, proof = ProjectData(problem).bound(OBJECTIVES[objective]), "recomputed"
        assumptions = (*assumptions, _PAUSES)
    return Outcome(
        best,
        bound + offset,
        proof,
        outcome.backend,
        outcome.backend_version,
        outcome.limit,
        assumptions=assumptions,
    )


def _needs_too_much(job: Job) -> str:
    return (
        f'job "{job.id}" needs more GPUs than the quota of tenant "{job.tenant}" in each of its '
        "configurations; raise the quota, or add a smaller configuration"
    )


def _comes_too_late(instance: Instance, job: Job) -> str | None:
    """Say that a job cannot end in time even alone on the cluster, or return None."""
    limit_s = min(
        limit for limit in (job.deadline_s, instance.horizon_s, math.inf) if limit is not None
    )
    end_s = job.arrival_s + job.min_run_s
    # The checker forgives as much.
    if end_s <= limit_s + TIME_TOLERANCE_S + WORK_TOLERANCE * end_s:
        return None
    return (
        f'job "{job.id}" completes at {end_s:g} s at the earliest, alone on the cluster, but must '
        f"by {limit_s:g} s; move its deadline or the horizon"
    )


def _infeasible(conflict: str) -> Outcome[Solution]:
    version = alloc_version()
    return Outcome(
        None, math.inf, "recomputed", "alloc", version, infeasible=True, conflict=conflict
    )


def _plan(instance: Instance, problem: ProjectProblem, schedule: Schedule) -> ProjectPlan | None:
    """Return a schedule as a plan of the project, or None if a stage runs more than once."""
    runs = []
    for part, ways in zip(instance.unfolded.jobs, usable(instance), strict=True):
        its = schedule.runs_of.get(part.id, ())
        if len({run.configuration for run in its}) != 1 or any(
            a.end_s != b.start_s for a, b in pairwise(its)
        ):
            return None
        mode = ways.index(its[0].configuration)
        runs.append(ActivityRun(part.id, mode, its[0].start_s))
    plan = ProjectPlan(tuple(runs))
    return None if verify_project(problem, plan) else plan


def _schedules(
    instance: Instance, problem: ProjectProblem, plan: ProjectPlan
) -> Iterator[Schedule]:
    """Yield schedules on hosts: at the times of the plan, in its order, and by each rule."""
    data = ProjectData(problem, whole=True)
    runs = {run.activity: run for run in plan.runs}
    starts = [runs[activity.id].start_s for activity in problem.activities]
    modes = [runs[activity.id].mode for activity in problem.activities]
    at = [data.modes[k].index(mode) for k, mode in enumerate(modes)]
    choices = [ways[mode] for ways, mode in zip(usable(instance), modes, strict=True)]
    soon = [0.0] * len(starts)
    for earliest, priority in (
        (starts, starts),
        (soon, starts),
        *((soon, rule(data, at)) for rule in RULES.values()),
    ):
        schedule = _on_hosts(instance, choices, earliest, priority)
        if schedule is not None:
            yield schedule


def _on_hosts(
    instance: Instance,
    choices: Sequence[int],
    earliest_s: Sequence[float],
    priority: Sequence[float],
) -> Schedule | None:
    """Return the schedule in which each stage starts as soon as it may and finds hosts.

    Parameters
    ----------
    instance
        The instance.
    choices
        Position of each stage's configuration.
    earliest_s
        When each may start, seconds.
    priority
        Who is placed first of those that may start at one time, the least first.

    Returns
    -------
    Schedule or None
        None where some stage never finds hosts.
    """
    parts, before = instance.unfolded.jobs, graph_of(instance).before
    ways = [part.configurations[c] for part, c in zip(parts, choices, strict=True)]
    pool, slot_s = HostPool(instance.topology), instance.slot_s
    executors = Executors(instance) if instance.move_s else None
    free = {t.name: t.gpu_quota_milli + t.borrowing_milli for t in instance.tenants}
    completion_s: dict[int, float] = {}
    holding: list[tuple[float, int]] = []
    runs: dict[int, Run | Assignment] = {}
    waiting = sorted(range(len(parts)), key=lambda k: (priority[k], k))
    now_s = 0.0
    while waiting:
        check_time()
        while holding and holding[0][0] <= now_s:
            _, k = heapq.heappop(holding)
            pool.release(ways[k], runs[k].tasks)
            if executors is not None:
                executors.end(runs[k], now_s)
            if parts[k].tenant in free:
                free[parts[k].tenant or ""] += ways[k].demand[0]
        later = [holding[0][0]] if holding else []
        left, placed = [], list[int]()
        for k in waiting:
            ends = [completion_s.get(p, math.inf) for p in before[k]]
            ready_s = _slot_at(max([parts[k].arrival_s, earliest_s[k], *ends]), slot_s)
            room = free.get(parts[k].tenant or "", math.inf) >= ways[k].demand[0]
            tasks = pool.place(ways[k]) if room and ready_s <= now_s else None
            if tasks is None:
                left.append(k)
                later += [ready_s] if now_s < ready_s < math.inf else []
                continue
            if parts[k].tenant in free:
                free[parts[k].tenant or ""] -= ways[k].demand[0]
            runs[k] = Assignment(parts[k].id, choices[k], tasks)
            placed.append(k)
        # GPUs move to all that starts now at once.
        delays = {} if executors is None else executors.start([runs[k] for k in placed], now_s)
        for k in placed:
            delay_s = delays.get(parts[k].id, 0.0)
            completion_s[k] = _end_s(instance, k, ways[k].rate, now_s, delay_s)
            end_s = _slot_at(completion_s[k], slot_s)
            runs[k] = Run(parts[k].id, choices[k], now_s, end_s, runs[k].tasks)
            heapq.heappush(holding, (end_s, k))
            later.append(end_s)
        waiting = left
        if waiting:
            if not later:
                return None
            now_s = min(later)
    return Schedule(tuple(run for k in range(len(parts)) if isinstance(run := runs[k], Run)))


def _slot_at(moment_s: float, slot_s: float | None) -> float:
    """Return the first start of a slot at a moment or later; without slots the moment."""
    if slot_s is None or math.isinf(moment_s):
        return moment_s
    return math.ceil(moment_s / slot_s - 1e-9) * slot_s


def _end_s(instance: Instance, k: int, rate: float, start_s: float, delay_s: float) -> float:
    """Return when a stage that starts now completes, as `alloc.progress.follow` sees it."""
    job = instance.unfolded.jobs[k]
    begun = job.work_done > 0 or any(a.job == job.id for a in instance.running)
    pause_s = (job.restart_cost_s if begun else 0.0) + delay_s
    end_s = start_s + pause_s + job.work_left / rate
    # Late in a long schedule the sum may round down by more work than the checker forgives.
    while rate * (end_s - start_s - pause_s) < job.work_left - WORK_TOLERANCE * job.work:
        end_s = math.nextafter(end_s, math.inf)
    return end_s
