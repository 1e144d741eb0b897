"""The keeper: keeps the lease of this server, and takes over the jobs of those that died."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog
from sqlalchemy.exc import SQLAlchemyError

from alloc.server.clients import Clients
from alloc.server.operations import Operation
from alloc.server.problems import Problem
from alloc.server.records import Job
from alloc.server.runner import Live, Runner
from alloc.server.settings import Settings
from alloc.server.store import Store
from alloc.server.tables import reason_of

_log = structlog.get_logger("alloc.server.keeper")

EXPIRY_S = 30.0
"""Time between two looks for results that are past their time, seconds."""
STRAY_S = 10.0
"""Time between two looks for own jobs that nobody runs, seconds."""


class LeaseManager:
    """What a server does again and again.

    Parameters
    ----------
    settings
        How long a lease is, and how often a job is started.
    store
        Where jobs are kept.
    runner
        What runs them.
    clients
        Who may send requests.
    operations
        What this server can do.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        runner: Runner,
        clients: Clients,
        operations: Mapping[str, Operation],
    ) -> None:
        self._settings = settings
        self._store = store
        self._runner = runner
        self._clients = clients
        self._operations = operations
        self._tasks: list[asyncio.Task[None]] = []
        self._missed: set[str] = set()

    async def start(self) -> None:
        """Take over what was left behind, and begin."""
        await self._store.register()
        await self._clients.refresh()
        await self._adopt()
        self._tasks = [
            asyncio.create_task(self._repeat(self._beat, self._settings.lease_s / 5)),
            asyncio.create_task(self._repeat(self._expire, EXPIRY_S)),
            asyncio.create_task(self._repeat(self._find_strays, STRAY_S)),
        ]

    def stop(self) -> None:
        """End it."""
        for task in self._tasks:
            task.cancel()

    async def _beat(self) -> None:
        """Show life, look for jobs left behind, and do what other servers were asked to."""
        if not await self._store.show_life():
            _log.error("the lease was lost; the jobs of this server are another's now")
            self._runner.abandon()
            await self._store.register()
        await self._adopt()
        for job_id in await self._store.to_cancel():
            if (live := self._runner.lives.get(job_id)) is not None:
                await self._runner.cancel(live)
        await self._clients.refresh()

    async def _adopt(self) -> None:
        """Take over jobs that nobody looks after."""
        for job in await self._store.adopt():
            if job.id in self._runner.lives:
                continue
            _log.info("job taken over", job=job.id, state=job.state, attempt=job.attempt)
            queued = job.replace(state="queued")
            reason = self._unfit(job)
            if reason is not None:
                await self._runner.end(Live(queued, None), "failed", problem=reason.to_json())
            else:
                self._runner.accept(queued, None, self._clients.weight_of(job.client))

    async def _find_strays(self) -> None:
        """Run the own jobs that nobody runs.

        When the database goes away just as a job is stored, nobody hears that it was. A client
        that sends its request again, with the same key, must not wait for it in vain.
        """
        missed = await self._store.own() - self._runner.lives.keys()
        # One that is just being accepted is here by the next look.
        for job_id in missed & self._missed:
            job = await self._store.get(job_id)
            if job is not None and not job.ended and job_id not in self._runner.lives:
                _log.info("stray job found", job=job.id)
                weight = self._clients.weight_of(job.client)
                self._runner.accept(job.replace(state="queued"), None, weight)
        self._missed = missed

    def _unfit(self, job: Job) -> Problem | None:
        """Return why a job that was left behind is not started again, or None."""
        if job.operation not in self._operations:
            return Problem("unsupported", f'this server has no operation "{job.operation}".')
        if job.attempt >= self._settings.max_attempts:
            return Problem(
                "server-died",
                f"the server died {job.attempt} times while the job ran; send a smaller instance, "
                "or ask who runs the server what its log says.",
            )
        return None

    async def _expire(self) -> None:
        while await self._store.expire():
            pass

    async def _repeat(self, work: Callable[[], Awaitable[None]], pause: float) -> None:
        while True:
            await asyncio.sleep(pause)
            try:
                await work()
            except SQLAlchemyError as error:
                _log.error("the database does not answer", reason=reason_of(error))
            except Exception:
                # A lease that is no longer renewed would cost every job that runs.
                _log.exception("unexpected error")
