"""The service behind the application: accepts jobs, finds, watches and cancels them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from sqlalchemy.exc import SQLAlchemyError

from alloc.server.clients import Clients
from alloc.server.keeper import LeaseManager
from alloc.server.metrics import Metrics
from alloc.server.operations import Operation, operations
from alloc.server.problems import refuse
from alloc.server.records import Job, new_job_id
from alloc.server.runner import SMALL, Live, Runner
from alloc.server.settings import Settings
from alloc.server.store import Store
from alloc.server.tokens import Client

_log = structlog.get_logger("alloc.server.service")

_CANCEL_S = 10.0
"""Longest wait for the end of a job that was cancelled, seconds."""


@dataclass(frozen=True)
class Submitted:
    """What came of a submission.

    Parameters
    ----------
    job
        The job, new or known by its idempotency key.
    live
        Its life, if it has not ended and this server runs it.
    replayed
        Whether it was known.
    """

    job: Job
    live: Live | None
    replayed: bool = False


class Service:
    """Jobs of one server.

    Parameters
    ----------
    settings
        Limits and addresses.
    metrics
        Where to count.
    store
        The open database.
    """

    def __init__(self, settings: Settings, metrics: Metrics, store: Store) -> None:
        self.settings = settings
        self.metrics = metrics
        self.store = store
        self.operations: Mapping[str, Operation] = operations(settings.operations)
        self.clients = Clients(store.engine)
        self._runner = Runner(settings, metrics, store)
        self._keeper = LeaseManager(settings, store, self._runner, self.clients, self.operations)
        runner, pool = self._runner, self._runner.pool
        metrics.gauge("alloc_queue_length", "Jobs that wait.", lambda: len(runner.queue))
        metrics.gauge("alloc_workers_busy", "Workers at work.", lambda: pool.num_busy)
        metrics.gauge("alloc_workers_idle", "Workers without work.", lambda: pool.num_idle)
        metrics.gauge("alloc_workers_replaced", "Workers that died.", lambda: pool.restarts)

    @property
    def stopping(self) -> asyncio.Event:
        """Set when the server is about to end."""
        return self._runner.stopping

    async def start(self) -> None:
        """Take over what is left in the database, and start the workers."""
        self._runner.pool.start()
        await self._keeper.start()

    def begin_stop(self) -> None:
        """Take no more work, and let those who watch or wait go."""
        self._runner.begin_stop()

    async def stop(self) -> None:
        """Let running jobs end for a while, put back the others, and close the database."""
        self.begin_stop()
        self._keeper.stop()
        await self._runner.stop()
        left = list(self._runner.lives.values())
        with contextlib.suppress(SQLAlchemyError):
            for live in left:
                await self._runner.store(live)
                await self.store.release(live.job)
            await self.store.resign()
        await self.store.close()
        _log.info("stopped", put_back=len(left))

    async def ready(self) -> str | None:
        """Return why the server cannot take work, or None if it can."""
        if self.stopping.is_set():
            return "the server is shutting down"
        if self._runner.pool.num_idle + self._runner.pool.num_busy == 0:
            return "no worker has started yet"
        return await self.store.trouble()

    async def submit(
        self,
        client: Client,
        operation: str,
        body: bytes,
        label: str | None = None,
        key: str | None = None,
        stop_after_s: float | None = None,
        *,
        waits: bool = False,
    ) -> Submitted:
        """Accept a job: when this returns it is on disk, unless the client waits for its end.

        Parameters
        ----------
        client
            Who asks.
        operation
            Name of the operation.
        body
            The request, as it came.
        label
            The client's own name for the job; None: no name.
        key
            Idempotency key: the same key and request are the same job; None: a new job each time.
        stop_after_s
            Wall time soon after which it is stopped, seconds; None: the worker has to say it.
        waits
            Whether the client hears nothing before the job has ended: then it may be stored with
            its result, in one commit. `wait` sees to it that what is told of is on disk.

        Raises
        ------
        ProblemError
            If there is no room for it, or its idempotency key belongs to another request.
        """
        self._require_room(client)
        digest = hashlib.sha256(operation.encode() + b"\0" + body).hexdigest() if key else None
        job = Job(
            id=new_job_id(),
            client=client.name,
            operation=operation,
            created=time.time(),
            label=label,
            idempotency_key=key,
            body_hash=digest,
        )
        # Of a key it must be known at once whether there is a job; and what is not kept in memory
        # is read again.
        later = waits and key is None and len(body) <= SMALL
        known = None if later else await self.store.add(job, body)
        if known is None:
            self.metrics.submitted.labels(operation).inc()
            weight = client.weight
            new = self._runner.accept(job, body, weight, stop_after_s, is_stored=not later)
            return Submitted(job, new)
        if known.body_hash != digest:
            raise refuse(
                "idempotency-key-reused",
                f"the idempotency key belongs to job {known.id}, whose request was another one; "
                "use a new key for a new request.",
            )
        live = self.live(known.id)
        return Submitted(known if live is None else live.job, live, replayed=True)

    def live(self, job_id: str) -> Live | None:
        """Return a job that this server looks after and that has not ended."""
        return self._runner.lives.get(job_id)

    async def find(self, client: Client, job_id: str) -> Job:
        """Return a job of a client.

        Parameters
        ----------
        client
            Who asks.
        job_id
            Id of the job.

        Raises
        ------
        ProblemError
            If it has no such job.
        """
        live = self.live(job_id)
        job = live.job if live is not None else await self.store.get(job_id)
        if job is None or job.client != client.name:
            raise refuse("not-found", f"there is no job {job_id}; /v1/jobs lists those there are.")
        return job

    async def wait(self, live: Live, seconds: float) -> bool:
        """Wait until a job has ended; return whether it has. When this returns it is on disk.

        Parameters
        ----------
        live
            The job.
        seconds
            Longest wait, seconds, 0 or more.

        Raises
        ------
        SQLAlchemyError
            If it cannot be stored.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await live.done.wait()
        if not live.job.ended:
            await self._runner.store(live)
        return live.job.ended

    async def cancel(self, job: Job) -> Job:
        """Cancel a job, and kill the worker that runs it; return what became of it.

        Raises
        ------
        ProblemError
            If it has ended otherwise.
        """
        live = self.live(job.id)
        if live is not None:
            await self._runner.cancel(live)
            await self.wait(live, _CANCEL_S)
            job = live.job
        else:
            job = await self.store.get(job.id) or job
            if not job.ended:
                # Another server runs it, and looks for such words.
                await self.store.ask_to_cancel(job.id)
        if job.ended and job.state != "cancelled":
            raise refuse(
                "already-finished", f"job {job.id} is {job.state}; there is nothing to cancel."
            )
        return job

    def _require_room(self, client: Client) -> None:
        if self.stopping.is_set():
            raise refuse(
                "shutting-down",
                "the server is shutting down; send the request again in a moment.",
                headers={"Retry-After": "5"},
            )
        queue = self._runner.queue
        if queue.waiting_of(client.name) >= self.settings.max_queue_per_client:
            raise refuse(
                "too-many-jobs",
                f"{self.settings.max_queue_per_client} jobs of this client wait already; let some "
                "end, or cancel some.",
                headers={"Retry-After": "10"},
            )
        if len(queue) >= self.settings.max_queue:
            raise refuse(
                "queue-full",
                f"{self.settings.max_queue} jobs wait already; send the request again later.",
                headers={"Retry-After": "30"},
            )
