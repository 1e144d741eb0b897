"""Serving: the application under uvicorn, from the first check to the graceful end."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
import time
from typing import Any

import structlog
import uvicorn

from alloc.errors import AllocError, InstanceError
from alloc.server.app import make_app
from alloc.server.connection import connection_type
from alloc.server.logs import configure_logs
from alloc.server.operations import operations
from alloc.server.settings import Settings
from alloc.server.store import Store
from alloc.server.tables import open_database
from alloc.server.tokens import good_tokens

_log = structlog.get_logger("alloc.server")
_KEEP_ALIVE_S = 75  # longer than the 60 s after which usual proxies let go, so they do it first
_BACKLOG = 2048  # what uvicorn takes by itself; the socket is opened before it is asked
_READY_S = 120.0  # as long as a worker may take, see `alloc.server.process`


class _Server(uvicorn.Server):
    """Uvicorn that tells the service first: streams and waiting requests must let go."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        service = getattr(self.config.app.state, "service", None)  # type: ignore[union-attr]
        if service is not None:
            service.begin_stop()
        await super().shutdown(sockets)


def run(settings: Settings) -> None:
    """Serve until a signal ends it; see `alloc.server.serve`."""
    require_safe(settings)
    configure_logs(settings.log_level)
    server, listener = make_server(settings)
    host, port = listener.getsockname()[:2]
    _log.info(
        "listening",
        address=f"http://{f'[{host}]' if ':' in host else host}:{port}",
        open=not settings.needs_tokens,
        workers=settings.workers,
    )
    # What is loaded now stays; looking through it for garbage again and again costs requests time.
    gc.collect()
    gc.freeze()
    try:
        # Uvicorn raises the signal that ended it once more when all is done.
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
    finally:
        listener.close()
    if not server.started:
        raise AllocError("the server could not start; the log above says why.")


def make_server(settings: Settings) -> tuple[uvicorn.Server, socket.socket]:
    """Return a server that is ready to run, and the socket that it is to listen on.

    Raises
    ------
    AllocError
        If the address is taken or not this machine's, or the database or a module of operations
        cannot be opened.
    """
    # Before anything is opened that an error would leave open.
    operations(settings.operations)
    listener = _listen(settings)
    try:
        store = Store(settings)
    except AllocError:
        listener.close()
        raise
    config = uvicorn.Config(
        make_app(settings, store),
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(settings.drain_s) + 5,
        server_header=False,
        proxy_headers=False,
        ws="none",
        # On h11: the other parser, which would be taken where it is installed, has no limit to the
        # size of headers.
        http=connection_type(settings.head_timeout_s),
        h11_max_incomplete_event_size=64 * 1024,
    )
    return _Server(config), listener


class BackgroundServer:
    """A server in a thread of this process; see `alloc.server.serve_in_background`."""

    def __init__(self, settings: Settings) -> None:
        require_safe(settings)
        # Among the output of a program or a notebook only what is wrong is of interest.
        configure_logs("warning")
        self._server, self._listener = make_server(settings)
        self.port: int = self._listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [self._listener]},
            name="alloc-server",
            daemon=True,
        )

    def __enter__(self) -> BackgroundServer:
        self._thread.start()
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop it, and wait for its end."""
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()

    def _wait_until_ready(self) -> None:
        # Half a second to load, which a server of its own has no use for.
        import httpx

        end = time.monotonic() + _READY_S
        with httpx.Client(base_url=self.address) as client:
            while self._thread.is_alive() and time.monotonic() < end:
                with contextlib.suppress(httpx.TransportError):
                    if client.get("/health/ready").status_code == httpx.codes.OK:
                        return
                time.sleep(0.02)
        raise AllocError("the server did not get ready; its log says why.")


def require_safe(settings: Settings) -> None:
    """Refuse to be open to other machines without tokens.

    Raises
    ------
    InstanceError
        If it would be.
    """
    if not settings.needs_tokens:
        if settings.is_loopback:
            return
        raise InstanceError(
            f"server: {settings.host} is open to other machines, and require_tokens is off; "
            "leave it on, or listen on 127.0.0.1."
        )
    engine = open_database(settings.database)
    try:
        found: dict[str, Any] = good_tokens(engine)
    finally:
        engine.dispose()
    if not found:
        raise InstanceError(
            f"server: {settings.host} needs tokens, and there are none; make one with "
            "`alloc serve tokens add NAME`, or listen on 127.0.0.1 without --require-tokens."
        )


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host.strip("[]"), settings.port))
        # From here on clients wait to be served instead of being turned away.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise AllocError(
            f"server: cannot listen on {settings.host}:{settings.port} "
            f"({error.strerror or error}); choose another --port or --host."
        ) from None
    listener.set_inheritable(False)
    return listener
