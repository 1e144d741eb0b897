"""Runs about plans: what ``plan``, ``what-if`` and ``pareto`` do, in a worker process."""

from __future__ import annotations

from typing import Any

from alloc.errors import InstanceError, nearest
from alloc.planning.change_text import read_change
from alloc.planning.differences import what_if
from alloc.planning.documents import encode_front, encode_report, encode_what_if
from alloc.planning.fronts import GOAL_FACTORS, pareto
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import SolveSettings, plan
from alloc.schedulers.registry import scheduler_names
from alloc.server.operations import Limits, Tell
from alloc.server.requests_planning import (
    FrontRequest,
    PlanRequest,
    ReplayPart,
    WhatIfRequest,
    planning_problem_of,
)


def run_plan(request: PlanRequest, tell: Tell, limits: Limits) -> dict[str, Any]:
    """Return the report of a plan."""
    replay = request.replay
    found = plan(
        planning_problem_of(request.problem),
        settings=_solver(request, limits),
        replay=None if replay is None else _replay(replay, replay.scheduler, request.seed),
        max_rounds=1 if replay is None else replay.rounds,
        watch=tell,
    )
    return encode_report(found)


def run_what_if(request: WhatIfRequest, tell: Tell, limits: Limits) -> dict[str, Any]:
    """Return a what-if beside its base."""
    replay = request.replay
    other = None
    if request.other_scheduler is not None:
        if replay is None:
            raise InstanceError("other_scheduler needs a replay; give replay as well.")
        other = _replay(replay, request.other_scheduler, request.seed)
    found = what_if(
        planning_problem_of(request.problem),
        [read_change(change) for change in request.changes],
        settings=_solver(request, limits),
        replay=None if replay is None else _replay(replay, replay.scheduler, request.seed),
        changed_replay=other,
        max_rounds=1 if replay is None else replay.rounds,
        watch=tell,
    )
    return encode_what_if(found)


def run_front(request: FrontRequest, tell: Tell, limits: Limits) -> dict[str, Any]:
    """Return a Pareto front."""
    front = pareto(
        planning_problem_of(request.problem),
        request.axis,
        points=request.points,
        factors=request.factors or GOAL_FACTORS,
        settings=_solver(request, limits),
        watch=tell,
    )
    return encode_front(front)


def _solver(request: PlanRequest | FrontRequest, limits: Limits) -> SolveSettings:
    return SolveSettings(
        request.time_limit_s, request.gap, request.seed, min(request.workers, limits.threads)
    )


def _replay(part: ReplayPart, scheduler: str, seed: int) -> ReplaySettings:
    # A name, never a path: strangers may not have files of this machine opened.
    if scheduler not in scheduler_names():
        raise InstanceError(
            f'unknown scheduler "{scheduler}"{nearest(scheduler, scheduler_names()) or ";"} '
            "/v1/schedulers lists the names."
        )
    return ReplaySettings(scheduler, jobs=part.jobs, seed=seed)
