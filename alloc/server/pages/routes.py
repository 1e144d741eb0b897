"""Routes of the page: the page itself, its files, and finished jobs as HTML."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from alloc.server.access import client_of, service_of
from alloc.server.openapi import problems
from alloc.server.pages.parts import Document, Scenario
from alloc.server.problems import ProblemError, refuse
from alloc.server.records import Job
from alloc.server.routes_operations import problem_of_end

router = APIRouter(tags=["page"])

_MAX_COMPARED = 8
"""Jobs beside each other: a table with more columns is wider than a screen."""
_HTML = "text/html; charset=utf-8"
_PAGE: dict[int | str, dict[str, Any]] = {
    200: {"description": "A page.", "content": {"text/html": {}}}
}
_OF_JOB: dict[int | str, dict[str, Any]] = {
    **_PAGE,
    **problems(
        "unauthorized",
        "not-found",
        "not-finished",
        "expired",
        "invalid-request",
        "invalid-instance",
        "internal",
    ),
}


@router.get("/", summary="The web page.", response_model=None, include_in_schema=False)
async def show_page() -> Response:
    """Return the page; it asks for a token itself if the server wants one."""
    from alloc.server.pages.rendering import page

    return Response(page(), media_type=_HTML)


@router.get(
    "/page/{name}", summary="A file of the page.", response_model=None, include_in_schema=False
)
async def show_asset(name: str) -> Response:
    """Return a style sheet, a script or a picture; looked up by name, no text reaches a file."""
    from alloc.server.pages.rendering import assets

    if name not in assets():
        raise refuse("not-found", "there is no such file of the page; open / for the page.")
    body, kind = assets()[name]
    return Response(body, media_type=kind)


@router.get(
    "/v1/jobs/{job_id}/view",
    summary="Show the result of a job as a piece of HTML.",
    operation_id="view_result",
    response_model=None,
    responses=_OF_JOB,
)
async def show_view(request: Request, job_id: str) -> Response:
    """Words, charts and tables of a job that is done; no scripts, and all names escaped."""
    job, asked, result = await _finished(request, job_id)

    def render() -> str:
        from alloc.server.pages.rendering import fragment
        from alloc.server.pages.views import view_of

        return fragment(view_of(job, asked, result))

    return Response(await run_in_threadpool(render), media_type=_HTML)


@router.get(
    "/v1/jobs/{job_id}/report",
    summary="Return the result of a job as a report to keep.",
    operation_id="get_report",
    response_model=None,
    responses=_OF_JOB,
)
async def get_report(request: Request, job_id: str) -> Response:
    """Return one HTML document that needs nothing else."""
    job, asked, result = await _finished(request, job_id)

    def render() -> str:
        from alloc.server.pages.rendering import report
        from alloc.server.pages.views import view_of

        return report(view_of(job, asked, result), _provenance(job))

    disposition = f'attachment; filename="alloc-{job.operation}-{job.id[-6:]}.html"'
    return Response(
        await run_in_threadpool(render),
        headers={"Content-Disposition": disposition},
        media_type=_HTML,
    )


@router.get(
    "/v1/comparisons/view",
    summary="Show several finished jobs side by side as a piece of HTML.",
    operation_id="compare_results",
    response_model=None,
    responses=_OF_JOB,
)
async def show_comparison(
    request: Request,
    job: Annotated[
        list[str], Query(min_length=1, max_length=_MAX_COMPARED, description="Ids of jobs.")
    ],
) -> Response:
    """Plans are held against plans, schedules against schedules."""
    found = [await _finished(request, job_id) for job_id in dict.fromkeys(job)]

    def render() -> str:
        from alloc.server.pages.rendering import fragment
        from alloc.server.pages.views import comparison_view, scenarios_of

        scenarios = [one for parts in found for one in scenarios_of(*parts)]
        if not scenarios:
            raise refuse(
                "invalid-request",
                "none of these jobs can be compared; choose plans, what-ifs, solves or places.",
            )
        return fragment(comparison_view(_told_apart(scenarios)))

    return Response(await run_in_threadpool(render), media_type=_HTML)


async def _finished(request: Request, job_id: str) -> tuple[Job, Document | None, Any]:
    """Return a job of the client that is done, with its request and its result."""
    client = await client_of(request)
    service = service_of(request)
    job = await service.find(client, job_id)
    request.scope["alloc.job"] = job.id
    if not job.ended:
        raise refuse(
            "not-finished",
            f"job {job.id} is not finished; watch /v1/jobs/{job.id}/events, or ask again.",
            headers={"Retry-After": "1"},
        )
    result = await service.store.result(job.id) if job.state == "done" else None
    if result is None:
        state = "expired" if job.state == "done" else job.state
        raise ProblemError(problem_of_end(state, job.problem))
    asked = await service.store.request(job.id)
    return job, None if asked is None else json.loads(asked), json.loads(result)


def _told_apart(scenarios: list[Scenario]) -> list[Scenario]:
    """Return scenarios with a number behind names that come twice."""
    import dataclasses

    seen: dict[str, int] = {}
    found = []
    for one in scenarios:
        seen[one.name] = seen.get(one.name, 0) + 1
        count = seen[one.name]
        found.append(one if count == 1 else dataclasses.replace(one, name=f"{one.name} ({count})"))
    return found


def _provenance(job: Job) -> dict[str, str]:
    document = job.to_dict()
    return {
        "job": job.id,
        "operation": job.operation,
        "label": job.label or "",
        "finished": str(document["finished_at"]),
    }
