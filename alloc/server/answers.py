"""Answers: JSON and problems as responses, and what handles the errors of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from alloc.server.problems import MEDIA_TYPE, Problem, ProblemError
from alloc.server.tables import reason_of

_log = structlog.get_logger("alloc.server.answers")


def json_response(
    document: Mapping[str, Any] | bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a JSON document, given as values or as it is.

    Parameters
    ----------
    document
        Plain values, or the text as it is.
    status
        HTTP status.
    headers
        Headers of the answer; None: none of its own.
    """
    body = document if isinstance(document, bytes) else _dump(document)
    return Response(body, status, headers, "application/json")


def problem_response(
    request: Request, problem: Problem, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a problem document.

    Parameters
    ----------
    request
        What is answered; its address and id are in the document.
    problem
        What is wrong.
    headers
        Headers beside the problem's own.
    """
    document = problem.to_dict(request.url.path, request.scope.get("alloc.request_id"))
    return Response(
        _dump(document), problem.status, {**problem.headers, **(headers or {})}, MEDIA_TYPE
    )


def add_handlers(app: FastAPI) -> None:
    """Let every error of a request end in a problem document."""

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)
        return problem_response(request, error.problem)

    async def on_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = [
            {"parameter": str(detail["loc"][-1]), "detail": str(detail["msg"])}
            for detail in error.errors()
        ]
        first = errors[0]
        sentence = f"parameter {first['parameter']}: {first['detail']}; see /v1/openapi.json."
        return problem_response(request, Problem("invalid-request", sentence, errors))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            problem = Problem(
                "not-found", "there is nothing at this address; /v1/openapi.json lists all."
            )
        elif error.status_code == 405:
            problem = Problem(
                "method-not-allowed",
                "the method is not allowed here; /v1/openapi.json lists those that are.",
            )
        else:
            problem = Problem("bad-request", f"{error.detail}; send it as HTTP asks for.")
        return problem_response(request, problem, error.headers)

    async def on_database(request: Request, error: Exception) -> Response:
        _log.error("the database does not answer", reason=reason_of(error))
        problem = Problem(
            "store-unavailable",
            "the database does not answer; send the request again in a moment.",
            headers={"Retry-After": "2"},
        )
        return problem_response(request, problem)

    app.add_exception_handler(ProblemError, on_problem)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(SQLAlchemyError, on_database)


def _dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
