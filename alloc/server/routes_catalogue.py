"""Routes of the catalogue: what there is to ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from alloc.server.access import client_of, service_of
from alloc.server.answers import json_response
from alloc.server.openapi import problems
from alloc.server.problems import refuse

if TYPE_CHECKING:
    from alloc.families import Family

router = APIRouter(prefix="/v1", tags=["catalogue"])
_LIST = {200: {"description": "A list, in `items`."}, **problems("unauthorized")}


@router.get(
    "/operations", summary="List what the server can do.", response_model=None, responses=_LIST
)
async def list_operations(request: Request) -> Response:
    """Name, address, and the schema of the body."""
    await client_of(request)
    return _items(
        {
            "name": operation.name,
            "address": f"/v1/{operation.name}",
            "summary": operation.summary,
            "returns": operation.returns,
            "request": f"/v1/openapi.json#/components/schemas/{operation.request.__name__}",
        }
        for operation in service_of(request).operations.values()
    )


@router.get("/formulations", summary="List the formulations.", response_model=None, responses=_LIST)
async def list_formulations(request: Request) -> Response:
    """Name, title and objectives of what can be solved."""
    await client_of(request)
    from alloc.families import instance_families

    return _items(map(_described, instance_families().values()))


@router.get(
    "/families", summary="List the families of problems.", response_model=None, responses=_LIST
)
async def list_families(request: Request) -> Response:
    """Name, title, objectives and methods of what can be solved, and the kind of its documents."""
    await client_of(request)
    from alloc.families import FAMILIES

    return _items(
        {**_described(found), "kind": found.kind, "methods": list(found.methods)}
        for found in FAMILIES.values()
    )


@router.get("/schedulers", summary="List the schedulers.", response_model=None, responses=_LIST)
async def list_schedulers(request: Request) -> Response:
    """Names of the schedulers that can be compared."""
    await client_of(request)
    from alloc.schedulers.registry import scheduler_names

    return _items({"name": name} for name in scheduler_names())


@router.get(
    "/instances", summary="List the stored instances.", response_model=None, responses=_LIST
)
async def list_instances(request: Request) -> Response:
    """Ids of the instances that come with alloc, with their size."""
    await client_of(request)
    from alloc.instances import manifest

    return _items(
        {"id": entry.id, "family": entry.family, "jobs": entry.jobs, "hosts": entry.hosts}
        for entry in manifest()
    )


@router.get(
    "/instances/{family}/{number}",
    summary="Return a stored instance.",
    response_model=None,
    responses={
        200: {"description": "An instance document."},
        **problems("unauthorized", "not-found"),
    },
)
async def get_instance(request: Request, family: str, number: str) -> Response:
    """Return its document; see /v1/instances for the ids."""
    await client_of(request)
    from alloc.instances import load, manifest

    wanted = f"{family}/{number}"
    # Looked up, never opened: an id that is not in the manifest reaches no file.
    if wanted not in {entry.id for entry in manifest()}:
        raise refuse("not-found", "there is no such instance; /v1/instances lists them.")
    document = await run_in_threadpool(lambda: load(wanted).to_json().encode())
    return json_response(document)


def _described(found: Family) -> dict[str, object]:
    return {
        "name": found.name,
        "family": found.code,
        "title": found.title,
        "objective": found.objective,
        "objectives": list(found.objectives),
    }


def _items(items: Any) -> Response:
    return json_response({"schema_version": 1, "items": list(items)})
