"""Access: which client a request comes from."""

from __future__ import annotations

from fastapi import Request

from alloc.server.problems import refuse
from alloc.server.service import Service
from alloc.server.tokens import LOCAL, Client

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
    client = await service.clients.of(token.strip())
    if client is None:
        raise _unauthorized(
            "the token is unknown or revoked; whoever runs the server makes a new one with "
            "`alloc serve tokens add NAME`."
        )
    return client


def _unauthorized(detail: str) -> Exception:
    return refuse("unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="alloc"'})
