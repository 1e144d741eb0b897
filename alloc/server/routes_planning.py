"""Routes of planning: stored problems, and what changes can be written."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from alloc.server.access import client_of
from alloc.server.answers import json_response
from alloc.server.openapi import problems
from alloc.server.problems import refuse

router = APIRouter(prefix="/v1", tags=["catalogue"])
_LIST = {200: {"description": "A list, in `items`."}, **problems("unauthorized")}


@router.get(
    "/planning-problems",
    summary="List the stored planning problems.",
    response_model=None,
    responses=_LIST,
)
async def list_planning_problems(request: Request) -> Response:
    """Ids of the planning problems that come with alloc, small ones first."""
    await client_of(request)
    from alloc.instances.stored_planning import EXAMPLES

    items = [{"id": name, "about": about} for name, (about, _) in EXAMPLES.items()]
    return json_response({"schema_version": 1, "items": items})


@router.get(
    "/planning-problems/{problem_id}",
    summary="Return a stored planning problem.",
    response_model=None,
    responses={
        200: {"description": "A planning document."},
        **problems("unauthorized", "not-found"),
    },
)
async def get_planning_problem(request: Request, problem_id: str) -> Response:
    """Return its document; see /v1/planning-problems for the ids."""
    await client_of(request)
    from alloc.documents import format_of
    from alloc.instances.stored_planning import EXAMPLES, load_stored_planning

    if problem_id not in EXAMPLES:
        raise refuse(
            "not-found", "there is no such planning problem; /v1/planning-problems lists them."
        )
    document = await run_in_threadpool(
        lambda: json.dumps(format_of("planning").encode(load_stored_planning(problem_id))).encode()
    )
    return json_response(document)


@router.get(
    "/changes",
    summary="List what a what-if can change.",
    response_model=None,
    responses=_LIST,
)
async def list_changes(request: Request) -> Response:
    """Text of each kind of change, with what it means."""
    await client_of(request)
    from alloc.planning.change_text import GRAMMAR

    items = [{"text": text, "meaning": meaning} for text, meaning in GRAMMAR]
    return json_response({"schema_version": 1, "items": items})
