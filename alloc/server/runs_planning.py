"""Runs about plans: what ``plan``, ``what-if`` and ``pareto`` do, in a worker process.

Parameters
----------
request
    What is asked.
tell
    Takes lines of progress.
limits
    What the server allows.
"""

from __future__ import annotations

from typing import Any

from alloc.errors import InstanceError
from alloc.planning.change_text import read_change
from alloc.planning.changes import Change
from alloc.planning.differences import what_if
from alloc.planning.documents import encode_front, encode_report, encode_what_if
from alloc.planning.fronts import GOAL_FACTORS, pareto
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Limits as SolveLimits
from alloc.schedulers.registry import scheduler_names
from alloc.server.operations import Limits, Tell
from alloc.server.problems import blame
from alloc.server.requests import require_scheduler
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
        _problem(request),
        limits=_limits(request, limits),
        replay=_replay(replay, request.seed),
        max_iterations=1 if replay is None else replay.rounds,
        progress=tell,
    )
    return encode_report(found)


def run_what_if(request: WhatIfRequest, tell: Tell, limits: Limits) -> dict[str, Any]:
    """Return a what-if beside its base."""
    replay = request.replay
    found = what_if(
        _problem(request),
        _changes(request),
        limits=_limits(request, limits),
        replay=_replay(replay, request.seed),
        changed_replay=_other_replay(request),
        max_iterations=1 if replay is None else replay.rounds,
        progress=tell,
    )
    return encode_what_if(found)


def run_front(request: FrontRequest, tell: Tell, limits: Limits) -> dict[str, Any]:
    """Return a Pareto front."""
    front = pareto(
        _problem(request),
        request.axis,
        points=request.points,
        factors=request.factors or GOAL_FACTORS,
        limits=_limits(request, limits),
        progress=tell,
    )
    return encode_front(front)


def _limits(request: PlanRequest | FrontRequest, limits: Limits) -> SolveLimits:
    return SolveLimits(
        request.time_limit_s, request.gap, request.seed, min(request.workers, limits.threads)
    )


def _replay(part: ReplayPart | None, seed: int) -> ReplaySettings | None:
    if part is None:
        return None
    with blame("/replay/scheduler"):
        require_scheduler(part.scheduler, scheduler_names())
    return ReplaySettings(part.scheduler, jobs=part.jobs, seed=seed)


def _other_replay(request: WhatIfRequest) -> ReplaySettings | None:
    if request.other_scheduler is None:
        return None
    with blame("/other_scheduler"):
        if request.replay is None:
            raise InstanceError("other_scheduler needs a replay; give replay as well.")
        require_scheduler(request.other_scheduler, scheduler_names())
    return ReplaySettings(request.other_scheduler, jobs=request.replay.jobs, seed=request.seed)


def _problem(request: PlanRequest | FrontRequest) -> PlanningProblem:
    with blame("/problem"):
        return planning_problem_of(request.problem)


def _changes(request: WhatIfRequest) -> list[Change]:
    changes = []
    for k, change in enumerate(request.changes):
        with blame(f"/changes/{k}"):
            changes.append(read_change(change))
    return changes
