"""Routes of the operations: ``POST /v1/solve`` and its like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from alloc.server.access import client_of, service_of
from alloc.server.answers import json_response, problem_response
from alloc.server.bodies import read_request
from alloc.server.openapi import operation_extras
from alloc.server.operations import Limits, Operation
from alloc.server.problems import Problem, refuse
from alloc.server.runner import Live
from alloc.server.service import Service, Submitted

DOOR_BYTES = 64 * 1024
"""Bytes up to which a body is checked before the job is accepted, which takes milliseconds. A
larger one would keep other requests waiting: the worker checks it, and the job fails with the same
problem."""
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?(?:$|[,;\s])", re.IGNORECASE)

_LABEL = r"^[^\x00-\x1f\x7f]*$"
_MAX_LABEL = 200  # letters: what a line of a list shows, and room in the database for each job
LabelQuery = Annotated[
    str | None,
    Query(max_length=_MAX_LABEL, pattern=_LABEL, description="The client's own name for the job."),
]


class _Route(APIRoute):
    """A route that FastAPI describes, and whose endpoint reads the request itself.

    Half of FastAPI's work on a small request is to find the arguments of the endpoint and to unwind
    what they depend on; here there is nothing of either.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        request = Request(scope, receive, send)
        response: Response = await self.endpoint(request, _label_of(request))
        await response(scope, receive, send)


def add_operations(router: APIRouter, operations: Mapping[str, Operation]) -> None:
    """Add the routes of all operations.

    Parameters
    ----------
    router
        Takes the routes.
    operations
        What the server can be asked to do, by name.
    """
    for operation in operations.values():
        router.add_api_route(
            f"/v1/{operation.name}",
            _endpoint(operation),
            methods=["POST"],
            tags=["operations"],
            status_code=202,
            operation_id=operation.name.replace("-", "_"),
            route_class_override=_Route,
            **operation_extras(operation),
        )


def _endpoint(operation: Operation) -> Any:
    async def submit(request: Request, label: LabelQuery = None) -> Response:
        client = await client_of(request)
        service = service_of(request)
        key = _idempotency_key(request)
        wait_s = _wait_of(request, service)
        body = await request.body()
        stop_after_s = None
        if len(body) <= DOOR_BYTES:
            limits = Limits(service.settings.job_limit_s, 1)
            stop_after_s = operation.stop_after(read_request(body, operation.request), limits)
        submitted = await service.submit(
            client, operation.name, body, label, key, stop_after_s, waits=bool(wait_s)
        )
        request.scope["alloc.job"] = submitted.job.id
        return await _answer(request, service, submitted, wait_s)

    return submit


async def _answer(
    request: Request, service: Service, submitted: Submitted, wait_s: float | None
) -> Response:
    """Return the result if the client waits for it and it comes in time, else the job."""
    here = f"/v1/jobs/{submitted.job.id}"
    headers = {"Location": here}
    if submitted.replayed:
        headers["Idempotency-Replayed"] = "true"
    if wait_s is not None:
        headers["Preference-Applied"] = f"wait={wait_s:g}"
        if submitted.live is None:
            ended = await ended_response(request, service, submitted.job.id, headers)
            if ended is not None:
                return ended
        elif await service.wait(submitted.live, wait_s):
            return _of_live(request, submitted.live, headers)
    live = submitted.live
    job = submitted.job if live is None else live.job
    progress = None if live is None else live.feed.progress
    return json_response(job.to_dict(progress), 202, {**headers, "Retry-After": "1"})


def _of_live(request: Request, live: Live, headers: Mapping[str, str]) -> Response:
    if live.result is not None:
        location = {**headers, "Content-Location": f"/v1/jobs/{live.job.id}/result"}
        return json_response(live.result, 200, location)
    return problem_response(request, problem_of_end(live.job.state, live.job.problem), headers)


async def ended_response(
    request: Request, service: Service, job_id: str, headers: Mapping[str, str]
) -> Response | None:
    """Return the result or problem of a stored job, or None if it has not ended.

    Parameters
    ----------
    request
        What is answered.
    service
        The service behind the application.
    job_id
        Id of the job.
    headers
        Headers of the answer.
    """
    job = await service.store.get(job_id)
    if job is None or not job.ended:
        return None
    if job.state == "done" and (result := await service.store.result(job_id)) is not None:
        return json_response(result, 200, headers)
    state = "expired" if job.state == "done" else job.state
    return problem_response(request, problem_of_end(state, job.problem), headers)


def problem_of_end(state: str, problem: str | None) -> Problem:
    """Return why a job that has ended has no result.

    Parameters
    ----------
    state
        ``failed``, ``cancelled`` or ``expired``.
    problem
        Of a failed job: its problem, as it is stored.
    """
    if state == "failed" and problem is not None:
        return Problem.from_json(problem)
    if state == "cancelled":
        return Problem("cancelled", "the job was cancelled; send the request again for a result.")
    return Problem(
        "expired", "the result is no longer kept; send the request again with a new key."
    )


def _label_of(request: Request) -> str | None:
    # Most requests have no query, and to take one apart makes three mappings.
    label = request.query_params.get("label") if request.scope.get("query_string") else None
    if label is None or (len(label) <= _MAX_LABEL and re.fullmatch(_LABEL, label)):
        return label
    wanted = f"at most {_MAX_LABEL} characters, and no control characters"
    raise refuse(
        "invalid-request",
        f"parameter label: {wanted}; send a shorter or plainer one.",
        errors=[{"parameter": "label", "detail": wanted}],
    )


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None or _KEY.fullmatch(key):
        return key
    raise refuse(
        "bad-request",
        "an Idempotency-Key is 1 to 255 visible ASCII characters; send for example a UUID.",
        errors=[{"parameter": "Idempotency-Key", "detail": "1 to 255 visible ASCII characters"}],
    )


def _wait_of(request: Request, service: Service) -> float | None:
    """Return the seconds that ``Prefer: wait`` asks for, at most those that are allowed."""
    preferences = ", ".join(request.headers.getlist("prefer"))
    found = _WAIT.search(preferences)
    return None if found is None else min(float(found[1]), service.settings.max_wait_s)
