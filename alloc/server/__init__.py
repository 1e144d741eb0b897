"""The HTTP server: jobs that solve, place, compare and plan.

`create_app` makes the ASGI application, `serve` runs it, `serve_in_background` runs it in a thread;
all need the ``server`` extra. Settings need nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alloc.errors import BackendUnavailableError, missing_extra
from alloc.server.settings import Settings as Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from alloc.server.serving import BackgroundServer


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the server as an ASGI application.

    Parameters
    ----------
    settings
        How it runs; by default what the environment says.

    Raises
    ------
    BackendUnavailableError
        If the ``server`` extra is not installed.
    """
    try:
        from alloc.server.app import make_app
    except ModuleNotFoundError as error:
        raise missing_packages(error) from None
    return make_app(Settings.from_environment() if settings is None else settings)


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C, then let running jobs end for a while.

    Raises
    ------
    BackendUnavailableError
        If the ``server`` extra is not installed.
    AllocError
        If it cannot listen, open the database, or would be open to others without tokens.
    """
    try:
        from alloc.server.serving import run
    except ModuleNotFoundError as error:
        raise missing_packages(error) from None
    run(settings)


def serve_in_background(settings: Settings) -> BackgroundServer:
    """Return a server in a thread of this process, for notebooks and tests.

    It runs inside its ``with`` block; `address` and `port` say where.

    Raises
    ------
    BackendUnavailableError
        If the ``server`` extra is not installed.
    AllocError
        If it cannot listen, open the database, or would be open to others without tokens.
    """
    try:
        from alloc.server.serving import BackgroundServer
    except ModuleNotFoundError as error:
        raise missing_packages(error) from None
    return BackgroundServer(settings)


def missing_packages(error: ModuleNotFoundError) -> BackendUnavailableError:
    """Return the error for a package of the ``server`` extra that is not installed."""
    return missing_extra(f"the server needs {error.name}", "server", error)
