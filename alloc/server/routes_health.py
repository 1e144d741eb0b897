"""Routes for whoever runs the server: health, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from alloc.server.access import client_of, service_of
from alloc.server.answers import json_response
from alloc.server.documents import HealthDocument
from alloc.server.openapi import problems
from alloc.server.problems import refuse

router = APIRouter(tags=["health"])


@router.get("/health/live", summary="Say whether the server lives.", response_model=HealthDocument)
async def live(request: Request) -> Response:
    """Needs no token."""
    return json_response({"status": "ok"})


@router.get(
    "/health/ready",
    summary="Say whether the server takes work.",
    response_model=HealthDocument,
    responses=problems("shutting-down"),
)
async def ready(request: Request) -> Response:
    """Needs no token. 503 with the reason while it does not."""
    reason = await service_of(request).ready()
    if reason is not None:
        raise refuse("not-ready", f"{reason}; ask again.", headers={"Retry-After": "1"})
    return json_response({"status": "ok"})


@router.get(
    "/metrics",
    summary="Return the metrics.",
    response_model=None,
    responses={
        200: {"description": "Text for Prometheus.", "content": {"text/plain": {}}},
        **problems("unauthorized"),
    },
)
async def metrics(request: Request) -> Response:
    """Needs a token where requests do."""
    await client_of(request)
    rendered = service_of(request).metrics.render()
    return Response(rendered, media_type=CONTENT_TYPE_LATEST)
