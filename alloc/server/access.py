"""Access: which client a request comes from."""

from __future__ import annotations

import time

from fastapi import Request

from alloc.server.problems import refuse
from alloc.server.service import Service
from alloc.server.tokens import LOCAL, Client, hash_of

_LOOK_AGAIN_S = 0.5
"""Shortest time between two looks for a new token; guesses must not become database reads."""
_LOCAL = Client(LOCAL)


def service_of(request: Request) -> Service:
    """Return the service behind the application."""
    service: Service = request.app.state.service
    return service


async def client_of(request: Request) -> Client:
    """Return the client of a request.

    Raises
    ------
    ProblemError
        If it has no good token, and needs one.
    """
    client = await _known(request)
    request.scope["alloc.client"] = client.name
    return client


async def _known(request: Request) -> Client:
    service = service_of(request)
    header = request.headers.get("authorization")
    if header is None:
        if not service.settings.needs_tokens:
            return _LOCAL
        raise _unauthorized("send a token: Authorization: Bearer alloc_...")
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer":
        raise _unauthorized("the Authorization header must be: Bearer alloc_...")
    digest = hash_of(token.strip())
    client = service.clients.get(digest)
    if client is None and service.may_refresh_clients(time.monotonic(), _LOOK_AGAIN_S):
        await service.refresh_clients()
        client = service.clients.get(digest)
    if client is None:
        raise _unauthorized(
            "the token is unknown or revoked; whoever runs the server makes a new one with "
            "`alloc serve tokens add NAME`."
        )
    return client


def _unauthorized(detail: str) -> Exception:
    return refuse("unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="alloc"'})
