"""The OpenAPI description: what the routes say, completed by what only alloc knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from alloc.documents.typed import ResultDocument
from alloc.server.documents import (
    ComparisonDocument,
    ExplanationsDocument,
    JobDocument,
    PlacementDocument,
    ProblemDocument,
)
from alloc.server.operations import Operation
from alloc.server.problems import KINDS, MEDIA_TYPE

_REF = "#/components/schemas/{model}"
_RESULTS: Mapping[str, type[Any]] = {
    "solve": ResultDocument,
    "place": PlacementDocument,
    "explain": ExplanationsDocument,
    "compare": ComparisonDocument,
}
_PROBLEM = {"schema": {"$ref": _REF.format(model="ProblemDocument")}}
# What any request may meet.
_ALWAYS = ("wrong-host", "store-unavailable")


def problems(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route that are problems, by status."""
    found: dict[int | str, dict[str, Any]] = {}
    for kind in (*kinds, *_ALWAYS):
        status, title = KINDS[kind]
        before = found.get(status)
        description = title if before is None else f"{before['description']}; {title}"
        found[status] = {"description": description, "content": {MEDIA_TYPE: _PROBLEM}}
    return found


def operation_extras(operation: Operation) -> dict[str, Any]:
    """Return what the description of an operation's route says beside its address."""
    result = _RESULTS.get(operation.name)
    schema = {} if result is None else {"$ref": _REF.format(model=result.__name__)}
    content = {"application/json": {"schema": schema}}
    job = {"application/json": {"schema": {"$ref": _REF.format(model="JobDocument")}}}
    headers = {"Location": {"description": "The job.", "schema": {"type": "string"}}}
    body = {"$ref": _REF.format(model=operation.request.__name__)}
    return {
        "summary": operation.summary,
        "description": f"Returns, when the job is done: {operation.returns}",
        "response_model": None,
        "responses": {
            200: {
                "description": f"{operation.returns} Only with `Prefer: wait`.",
                "content": content,
                "headers": headers,
            },
            202: {"description": "The job was accepted.", "content": job, "headers": headers},
            **problems(
                "malformed-json",
                "unauthorized",
                "forbidden-origin",
                "body-too-slow",
                "cancelled",
                "expired",
                "body-too-large",
                "unsupported-media-type",
                "invalid-request",
                "too-many-jobs",
                "solver-failed",
                "queue-full",
            ),
        },
        "openapi_extra": {
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "parameters": _HEADERS,
        },
    }


_HEADERS: list[dict[str, Any]] = [
    {
        "name": "Prefer",
        "in": "header",
        "required": False,
        "description": "`wait=SECONDS`: answer with the result if it comes in time.",
        "schema": {"type": "string", "examples": ["wait=5"]},
    },
    {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "The same key and body again is the same job, not another one.",
        "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"},
    },
]


def describe(app: FastAPI, operations: Mapping[str, Operation]) -> dict[str, Any]:
    """Return the OpenAPI description of the application.

    Parameters
    ----------
    app
        The application, with all routes.
    operations
        What it can be asked to do, by name.
    """
    description = get_openapi(
        title="alloc",
        version=app.version,
        summary="Certified allocation of GPU clusters: solve, place, compare, explain and plan.",
        routes=app.routes,
    )
    models: list[Any] = [operation.request for operation in operations.values()]
    answers: list[Any] = [*_RESULTS.values(), JobDocument, ProblemDocument]
    _, schemas = models_json_schema(
        [(model, "validation") for model in (*models, *answers)], ref_template=_REF
    )
    components = description.setdefault("components", {})
    components["schemas"] = {**schemas.get("$defs", {}), **_used(components.get("schemas", {}))}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    _word_refusals(description)
    description["security"] = [{"token": []}, {}]
    return description


def _word_refusals(description: dict[str, Any]) -> None:
    """Say of parameters that are wrong what this server answers, not what FastAPI would."""
    refusal = problems("invalid-request")[422]
    for path in description["paths"].values():
        for route in path.values():
            found = route["responses"].get("422")
            if found is not None and MEDIA_TYPE not in found.get("content", {}):
                route["responses"]["422"] = refusal


def _used(schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what FastAPI adds for errors that this server words otherwise."""
    return {
        name: schema
        for name, schema in schemas.items()
        if name not in ("HTTPValidationError", "ValidationError")
    }
