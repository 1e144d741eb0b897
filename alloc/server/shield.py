"""The shield: what every request passes before the application sees it. Plain ASGI.

Host names (DNS rebinding), origins (other sites' pages), size, speed and type of bodies; headers
of every answer; and the line in the log, which says nothing of what the request holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import secrets
import socket
import time
from collections.abc import Mapping

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alloc.server.metrics import Metrics
from alloc.server.problems import MEDIA_TYPE, Problem, ProblemError, refuse
from alloc.server.settings import Settings, is_loopback

_log = structlog.get_logger("alloc.server.requests")

_SAFE = ("GET", "HEAD", "OPTIONS")
_METHODS = frozenset((*_SAFE, "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT"))
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}|\[[0-9A-Fa-f:.]+\]")
_HEADERS = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "content-security-policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
            "frame-ancestors 'none'"
        ),
    }.items()
)
_NO_STORE = (b"cache-control", b"no-store")
_RUN, _NUMBERS = secrets.token_hex(4), itertools.count(1)
"""What the ids of requests are made of: they say which is which and are no secret, and to ask the
system for chance takes longer than to count."""
_LINGER_S = 2.0
"""How long what is left of a body is read after the answer; a reset would overtake the answer."""


class SecurityMiddleware:
    """Middleware around the application.

    Parameters
    ----------
    app
        The application.
    settings
        Host names and limits of bodies.
    metrics
        Where requests are counted.
    """

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._hosts = _own_names(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        exchange = _Exchange(scope, headers, receive, send)
        try:
            self._check_address(scope, headers)
            body = self._checked_body(headers, receive, exchange)
            await self._app(scope, body, exchange.send)
        except ProblemError as error:
            await exchange.refuse(error.problem)
        except ClientDisconnect:
            # Nobody is left to answer; the line in the log says 499.
            pass
        except Exception:
            _log.exception("unexpected error", request_id=exchange.id)
            await exchange.refuse(
                Problem("internal", "an error that is a bug in alloc; report it with request_id.")
            )
        finally:
            self._account(scope, exchange)

    def _check_address(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Refuse names that are not this server's, and pages of other sites."""
        host = headers.get("host", "")
        name = _without_port(host).lower()
        literal = _ADDRESS.fullmatch(name) is not None and not self._settings.is_loopback
        if not (name in self._hosts or literal):
            raise refuse(
                "wrong-host",
                "the server does not answer to the host name of this request; use its address, or "
                "start it with --allow-host NAME.",
            )
        origin = headers.get("origin")
        if origin is not None and scope["method"] not in _SAFE:
            _, separator, authority = origin.partition("://")
            if not separator or authority.lower() != host.lower():
                raise refuse(
                    "forbidden-origin",
                    "the request comes from a page of another origin, which may only read; send "
                    "it from a program, or from the server's own page.",
                )

    def _checked_body(
        self, headers: Mapping[str, str], receive: Receive, exchange: _Exchange
    ) -> Receive:
        """Refuse bodies by what their headers say; return what reads them within the limits."""
        most = self._settings.max_body_bytes
        length = headers.get("content-length")
        if length is not None and (not length.isdecimal() or int(length[:20]) > most):
            raise _too_large(most)
        if not exchange.owed:
            return receive
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise refuse(
                "unsupported-media-type",
                "compressed bodies are not taken; send the JSON as it is.",
            )
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise refuse(
                "unsupported-media-type",
                "the body must be JSON; send it with Content-Type: application/json.",
            )
        return _limited(receive, self._settings, exchange)

    def _account(self, scope: Scope, exchange: _Exchange) -> None:
        route = getattr(scope.get("route"), "path", "other")
        seconds = time.perf_counter() - exchange.began
        status = exchange.status or 499
        # Not whatever word a client sends: each would be a series of its own, and stay.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        # Probes come every second and have nothing to say.
        log = _log.debug if route.startswith("/health/") else _log.info
        log(
            "request",
            request_id=exchange.id,
            method=method,
            route=route,
            status=status,
            ms=round(1e3 * seconds, 1),
            client=scope.get("alloc.client"),
            job=scope.get("alloc.job"),
        )


class _Exchange:
    """A request and the answer to it, on its way out."""

    def __init__(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        self.id = f"{_RUN}{next(_NUMBERS):08x}"
        self.began = time.perf_counter()
        self.status: int | None = None
        # Whether some of the body has yet to come.
        length = headers.get("content-length", "0")
        self.owed = length != "0" or "transfer-encoding" in headers
        self._scope = scope
        self._receive = receive
        self._send = send
        scope["alloc.request_id"] = self.id

    async def send(self, message: Message) -> None:
        """Send a message, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            headers += [*_HEADERS, (b"x-request-id", self.id.encode())]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append(_NO_STORE)
            if self.owed:
                # What is left of the body would be taken for the next request.
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        elif self.owed and not message.get("more_body", False):
            # The connection is closed with the last message: all is said before, and then heard.
            await self._send({**message, "more_body": True})
            await self._hear_out()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def _hear_out(self) -> None:
        """Read what is left of the body, and forget it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while (await self._receive()).get("more_body", False):
                    pass

    async def refuse(self, problem: Problem) -> None:
        """Answer with a problem, unless an answer is on its way already."""
        if self.status is not None:
            return
        document = problem.to_dict(self._scope["path"], self.id)
        body = json.dumps(document).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
        ]
        await self.send(
            {"type": "http.response.start", "status": problem.status, "headers": headers}
        )
        await self.send({"type": "http.response.body", "body": body})


def _limited(receive: Receive, settings: Settings, exchange: _Exchange) -> Receive:
    """Return a `receive` that refuses bodies which are too large or too slow."""
    size = 0
    end: float | None = None

    async def limited() -> Message:
        nonlocal size, end
        if not exchange.owed:
            return await receive()
        now = asyncio.get_running_loop().time()
        end = now + settings.body_total_s if end is None else end
        patience_s = min(settings.body_timeout_s, end - now)
        try:
            async with asyncio.timeout(max(patience_s, 0.0)):
                message = await receive()
        except TimeoutError:
            raise _too_slow(settings, patience_s) from None
        size += len(message.get("body", b""))
        exchange.owed = bool(message.get("more_body", False))
        if size > settings.max_body_bytes:
            exchange.owed = True
            raise _too_large(settings.max_body_bytes)
        return message

    return limited


def _too_slow(settings: Settings, patience_s: float) -> ProblemError:
    if patience_s < settings.body_timeout_s:
        return refuse(
            "body-too-slow",
            f"the body did not come within {settings.body_total_s:g} s; send it faster, or a "
            "smaller one.",
        )
    return refuse("body-too-slow", f"nothing of the body came for {patience_s:g} s; send it again.")


def _too_large(most: int) -> ProblemError:
    return refuse(
        "body-too-large",
        f"the body is larger than the {most} bytes that this server takes; let jobs share "
        "configuration sets, split the instance, or start the server with --max-body.",
    )


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _own_names(settings: Settings) -> frozenset[str]:
    names = {"localhost", "127.0.0.1", "[::1]", settings.host.lower()}
    names |= {name.lower() for name in settings.allowed_hosts}
    if not is_loopback(settings.host):
        names.add(socket.gethostname().lower())
    return frozenset(names)
