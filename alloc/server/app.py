"""The application: routes, middleware and the service behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from alloc.release import alloc_version
from alloc.server import routes_catalogue, routes_health, routes_jobs, routes_planning
from alloc.server.answers import add_handlers
from alloc.server.metrics import Metrics
from alloc.server.openapi import describe
from alloc.server.operations import operations
from alloc.server.pages import routes as routes_page
from alloc.server.routes_operations import add_operations
from alloc.server.service import Service
from alloc.server.settings import Settings
from alloc.server.shield import SecurityMiddleware
from alloc.server.store import Store


def make_app(settings: Settings, store: Store | None = None) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    settings
        How the server runs.
    store
        The open database; None: it is opened when the application starts.
    """
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = store
        if opened is None:
            opened = await asyncio.to_thread(Store, settings)
        service = Service(settings, metrics, opened)
        app.state.service = service
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="alloc",
        version=alloc_version(),
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        # Their pages load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # The server has metrics and logs of its own, which say nothing of what a request holds; to
        # find out that nobody wants FastAPI's takes it longer than to check an address.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    known = operations(settings.operations)
    # FastAPI's way to replace the description.
    app.openapi = _described(app, known)  # type: ignore[method-assign]
    app.state.settings = settings
    add_handlers(app)
    add_operations(app.router, known)
    app.include_router(routes_jobs.router)
    app.include_router(routes_catalogue.router)
    app.include_router(routes_planning.router)
    app.include_router(routes_health.router)
    app.include_router(routes_page.router)
    app.add_middleware(SecurityMiddleware, settings=settings, metrics=metrics)
    return app


def _described(app: FastAPI, known: Any) -> Any:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app, known)
        return app.openapi_schema

    return openapi
