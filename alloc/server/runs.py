"""Runs: what the operations do, in a worker process. Solvers load here, and only here.

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

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from alloc.documents.building import built
from alloc.documents.shapes import from_record
from alloc.families import family_of, require_family
from alloc.result import Limits as SolveLimits
from alloc.server.operations import Limits, Tell
from alloc.server.problems import blame
from alloc.server.requests import (
    CompareRequest,
    ExplainRequest,
    PlaceRequest,
    SolveRequest,
    asked_of,
    instance_of,
    problem_of,
    require_scheduler,
)

if TYPE_CHECKING:
    from alloc.comparison.experiment import CellEvent


def run_solve(request: SolveRequest, tell: Tell, limits: Limits) -> str:
    """Return the result document of a solve."""
    from alloc.solving import solve
    from alloc.verification.starts import require_start

    with blame("/formulation"):
        if request.formulation is not None:
            require_family(request.formulation)
    with blame("/instance"):
        problem = asked_of(request.instance)
    with blame("/formulation"):
        family = family_of(problem, request.formulation)
    with blame("/warm_start"):
        start = None
        if request.warm_start is not None:
            start = require_start(problem, from_record(built(request.warm_start)), family.check)
    return solve(
        problem,
        family.name,
        request.backend,
        objective=request.objective,
        limits=SolveLimits(
            seconds=request.time_limit_s,
            gap=request.gap,
            seed=request.seed,
            workers=min(request.workers, limits.threads),
        ),
        warm_start=start,
        progress=tell,
    ).to_json()


def run_place(request: PlaceRequest, tell: Tell, limits: Limits) -> dict[str, Any]:
    """Return the result document of a placement, with what was broken before it."""
    from alloc.documents import format_of
    from alloc.solving.placing.place import place

    with blame("/goal"):
        require_family("placement").require_objective(None, request.goal)
    placement = place(
        problem_of(request).with_moves(request.move_budget, request.evict),
        request.goal,
        backend=request.backend,
        repair=request.repair,
        limits=SolveLimits(
            seconds=request.time_limit_s,
            seed=request.seed,
            workers=min(request.workers, limits.threads),
        ),
        progress=tell,
    )
    return {
        "schema_version": 1,
        "kind": "placement",
        "result": format_of("result").encode(placement.result),
        "broken": [str(violation) for violation in placement.broken],
        "repaired": placement.repaired,
    }


def run_explain(request: ExplainRequest, tell: Tell, limits: Limits) -> dict[str, Any]:
    """Return for each job that was asked about whether it starts, and why not."""
    from alloc.solving.placing.explain import explain

    problem = problem_of(request)
    running = {assignment.job for assignment in problem.running}
    asked = [job.id for job in problem.jobs if job.id not in running]
    answers = {}
    for name in asked if request.job is None else [request.job]:
        tell(f"job {name}")
        with blame("/job"):
            found = explain(
                problem, name, moves=request.moves, limits=SolveLimits(seconds=request.time_limit_s)
            )
        answers[name] = {"starts": found is None, **({} if found is None else asdict(found))}
    return {"schema_version": 1, "kind": "explanations", "jobs": answers}


def run_compare(request: CompareRequest, tell: Tell, limits: Limits) -> str:
    """Return the document of a comparison."""
    from alloc.comparison import compare
    from alloc.schedulers import scheduler_names

    known = scheduler_names()
    for k, name in enumerate(request.schedulers):
        with blame(f"/schedulers/{k}"):
            require_scheduler(name, known)
    with blame("/formulation"):
        require_family(request.formulation)
    instances = []
    for k, part in enumerate(request.instances):
        with blame(f"/instances/{k}"):
            instances.append(instance_of(part))

    def report(event: CellEvent) -> None:
        tell(f"{event.done}/{event.total}  {event.label}: {event.error or 'done'}")

    return compare(
        instances,
        request.schedulers,
        seeds=range(request.seeds),
        knowledge=request.knowledge,
        work_error=request.work_error,
        speed_error=request.speed_error,
        objective=request.objective,
        formulation=request.formulation,
        backend=request.backend,
        time_limit_s=request.time_limit_s,
        progress=report,
    ).to_json()
