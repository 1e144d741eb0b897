"""Routes of jobs: status, result, events, cancelling and lists."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import AwareDatetime
from sqlalchemy.exc import SQLAlchemyError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from alloc.server.access import client_of, service_of
from alloc.server.answers import json_response
from alloc.server.documents import JobDocument, JobList
from alloc.server.feed import event_id, last_event_id, past_events
from alloc.server.openapi import problems
from alloc.server.problems import refuse
from alloc.server.records import Job, State
from alloc.server.routes_operations import ended_response
from alloc.server.service import Service

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_ID = re.compile(r"[0-9a-f]{32}")
_PING_S = 15
"""Between signs of life on a stream: proxies cut what is silent for 30 s or a minute, and
clients of alloc do after 45 s."""
_LOOK_S = 1.0
"""How often a job that another server runs is looked at."""

JobId = Annotated[str, Path(description="Id of the job.")]


@router.get(
    "",
    summary="List the jobs, the latest first.",
    operation_id="list_jobs",
    response_model=JobList,
    responses=problems("unauthorized", "invalid-request"),
)
async def list_jobs(
    request: Request,
    state: Annotated[list[State] | None, Query(description="Only these states.")] = None,
    operation: Annotated[
        str | None, Query(max_length=64, pattern=r"^[a-z][a-z-]*$", description="Only this one.")
    ] = None,
    label: Annotated[
        str | None,
        Query(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$", description="Only this label."),
    ] = None,
    created_after: Annotated[
        AwareDatetime | None, Query(description="From this time on, RFC 3339.")
    ] = None,
    created_before: Annotated[
        AwareDatetime | None, Query(description="Before this time, RFC 3339.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Most jobs on a page.")] = 50,
    cursor: Annotated[
        str | None,
        Query(pattern=r"^[0-9a-f]{32}$", description="The next_cursor of the page before."),
    ] = None,
) -> Response:
    """Pages stay as they are: jobs that come meanwhile are on none of the pages that follow."""
    client = await client_of(request)
    service = service_of(request)
    found = await service.store.list(
        client.name,
        limit=limit + 1,
        before=cursor,
        states=state or (),
        operation=operation,
        label=label,
        created_after=_seconds(created_after),
        created_before=_seconds(created_before),
    )
    page = found[:limit]
    following = page[-1].id if len(found) > limit else None
    headers = {}
    if following is not None:
        address = request.url.include_query_params(cursor=following)
        headers["Link"] = f'<{address.path}?{address.query}>; rel="next"'
    documents = []
    for job in page:
        live = service.live(job.id)
        documents.append(job.to_dict() if live is None else live.job.to_dict(live.feed.progress))
    return json_response(
        {"schema_version": 1, "kind": "jobs", "jobs": documents, "next_cursor": following},
        headers=headers,
    )


@router.get(
    "/{job_id}",
    summary="Show a job.",
    operation_id="get_job",
    response_model=JobDocument,
    responses=problems("unauthorized", "not-found"),
)
async def get_job(request: Request, job_id: JobId) -> Response:
    """Its state, and how far it is."""
    service, job = await _find(request, job_id)
    live = service.live(job_id)
    return json_response(job.to_dict(None if live is None else live.feed.progress))


@router.get(
    "/{job_id}/result",
    summary="Return the result of a job.",
    operation_id="get_result",
    response_model=None,
    responses={
        200: {"description": "The document that the operation returns."},
        **problems(
            "unauthorized", "not-found", "not-finished", "expired", "invalid-instance", "internal"
        ),
    },
)
async def get_result(request: Request, job_id: JobId) -> Response:
    """409 while it is not finished; the problem of a job that failed; 410 once it has expired."""
    service, _ = await _find(request, job_id)
    response = await ended_response(request, service, job_id, {})
    if response is None:
        raise refuse(
            "not-finished",
            f"job {job_id} is not finished; watch /v1/jobs/{job_id}/events, or ask again.",
            headers={"Retry-After": "1"},
        )
    return response


@router.get(
    "/{job_id}/request",
    summary="Return the body that a job was asked for with.",
    operation_id="get_request",
    response_model=None,
    responses={
        200: {"description": "The body of the request."},
        **problems("unauthorized", "not-found", "expired"),
    },
)
async def get_request(request: Request, job_id: JobId) -> Response:
    """Kept as long as the result."""
    service, job = await _find(request, job_id)
    body = None if job.state == "expired" else await service.store.request(job_id)
    if body is None:
        raise refuse("expired", f"the request of job {job_id} is no longer kept; send a new one.")
    return json_response(body)


@router.post(
    "/{job_id}/cancel",
    summary="Cancel a job.",
    operation_id="cancel_job",
    response_model=JobDocument,
    responses=problems("unauthorized", "not-found", "already-finished", "forbidden-origin"),
)
async def cancel_job(request: Request, job_id: JobId) -> Response:
    """Take it out of the queue, or kill the worker that runs it. Again is not an error."""
    service, job = await _find(request, job_id)
    return json_response((await service.cancel(job)).to_dict())


@router.get(
    "/{job_id}/events",
    summary="Watch a job.",
    operation_id="watch_job",
    response_model=None,
    responses={
        200: {
            "description": "Server-sent events: `status` with the job document, and `progress` "
            "with a line. Ends with the job. Last-Event-ID resumes.",
            "content": {"text/event-stream": {}},
        },
        204: {"description": "The last event was received before."},
        **problems("unauthorized", "not-found"),
    },
)
async def watch_job(request: Request, job_id: JobId) -> Response:
    """Every state that the job goes through from now on, and its progress."""
    service, job = await _find(request, job_id)
    after = last_event_id(request.headers.get("last-event-id"))
    live = service.live(job_id)
    if live is None and job.ended and await _has_seen_the_end(service, job, after):
        return Response(status_code=204)
    return EventSourceResponse(
        _events(service, job_id, after),
        ping=_PING_S,
        headers={"X-Accel-Buffering": "no"},
        # The events end by themselves when the server stops: cut off, they would have no end.
        shutdown_grace_period=service.settings.drain_s,
    )


async def _has_seen_the_end(service: Service, job: Job, after: int) -> bool:
    """Return whether `after` is the id of the last event of a job that has ended."""
    if after < event_id(job.finished or 0.0):
        return False
    # Ids of many lines at once run ahead of the clock: these events came before the last one.
    before = past_events(await service.store.events(job.id), -1)
    return all(number < after for number, _, _ in before)


async def _events(service: Service, job_id: str, after: int) -> AsyncIterator[ServerSentEvent]:
    """Yield the events of a job until it has ended or the server stops."""
    live = service.live(job_id)
    if live is not None:
        async for event in live.feed.watch(after, service.stopping):
            after = event.id
            yield _sent(event.id, event.kind, event.data)
            if event.last:
                return
    # It has ended, or another server looks after it.
    shown = None
    while not service.stopping.is_set():
        try:
            job = await service.store.get(job_id)
        except SQLAlchemyError:
            # Whoever watches comes back, and is told then what is wrong.
            return
        if job is None:
            return
        if job.ended and after >= 0:
            for number, kind, data in past_events(await service.store.events(job_id), after):
                after = number
                yield _sent(number, kind, data)
        at = event_id(job.finished or job.started or job.created)
        heard = after >= at and (job.state == "running" or job.started is None)
        if heard and shown is None:
            shown = job.state  # by somebody who comes back; what was put back is news
        if job.ended or job.state != shown:
            shown = job.state
            yield _sent(max(at, after + 1), "status", json.dumps(job.to_dict()))
        if job.ended:
            return
        await asyncio.sleep(_LOOK_S)


def _sent(number: int, kind: str, data: str) -> ServerSentEvent:
    return ServerSentEvent(data, event=kind, id=str(number), retry=1000)


async def _find(request: Request, job_id: str) -> tuple[Service, Job]:
    client = await client_of(request)
    service = service_of(request)
    if not _ID.fullmatch(job_id):
        raise refuse("not-found", "this is the id of no job; /v1/jobs lists those there are.")
    request.scope["alloc.job"] = job_id
    return service, await service.find(client, job_id)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
