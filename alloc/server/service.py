"""The service: the life of a job from its acceptance to its end."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError

from alloc.server.fairness import FairQueue
from alloc.server.feed import Feed
from alloc.server.metrics import Metrics
from alloc.server.operations import Operation, operations
from alloc.server.pool import Ended, Pool, Worker
from alloc.server.problems import Problem, refuse
from alloc.server.records import Job, State, new_job_id
from alloc.server.settings import Settings
from alloc.server.store import Store
from alloc.server.tables import reason_of
from alloc.server.tokens import Client, good_tokens

_log = structlog.get_logger("alloc.server.service")

_SMALL = 64 * 1024
"""Bytes up to which a body waits in memory; a larger one is read again when its turn comes."""
_SHORT_S = 0.1
"""Jobs that take less are stored once, when they end."""
_RETRY_S = (0.5, 1.0, 2.0, 5.0, 10.0)
EXPIRY_S = 30.0
_CANCEL_S = 10.0


@dataclass(eq=False)
class Live:
    """A job that has not ended, with what is not stored of it."""

    job: Job
    body: bytes | None
    feed: Feed = field(default_factory=Feed)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    result: bytes | None = None
    worker: Worker | None = None


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
    """Jobs of one server: accepted, queued, run, stored and watched.

    Parameters
    ----------
    settings
        Limits and addresses.
    metrics
        Where to count.
    store
        The database, or None to open it with the service.
    """

    def __init__(self, settings: Settings, metrics: Metrics, store: Store | None = None) -> None:
        self.settings = settings
        self.metrics = metrics
        self.operations: Mapping[str, Operation] = operations(settings.operations)
        self.stopping = asyncio.Event()
        self._given_store = store
        self.clients: dict[str, Client] = {}
        self._clients_read = 0.0
        self._queue = FairQueue()
        self._lives: dict[str, Live] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._background: list[asyncio.Task[None]] = []
        self._pool = Pool(settings, self._dispatch)
        self._started = False
        pool = self._pool
        metrics.gauge("alloc_queue_length", "Jobs that wait.", lambda: len(self._queue))
        metrics.gauge("alloc_workers_busy", "Workers at work.", lambda: pool.num_busy)
        metrics.gauge("alloc_workers_idle", "Workers without work.", lambda: pool.num_idle)
        metrics.gauge(
            "alloc_workers_replaced",
            "Workers that died or were killed.",
            lambda: pool.restarts,
        )

    async def start(self) -> None:
        """Open the database, take over what is left in it, and start the workers."""
        if self._given_store is None:
            self._given_store = await asyncio.to_thread(Store, self.settings)
        self.store = self._given_store
        await self.store.register()
        await self.refresh_clients()
        self._pool.start()
        await self._adopt()
        self._background = [
            asyncio.create_task(self._repeat(self._beat, self.settings.lease_s / 5)),
            asyncio.create_task(self._repeat(self._expire, EXPIRY_S)),
        ]
        self._started = True

    def begin_stop(self) -> None:
        """Take no more work, and let those who watch or wait go."""
        self.stopping.set()
        for live in self._lives.values():
            live.feed.wake()
            if not live.done.is_set():
                live.done.set()

    async def stop(self) -> None:
        """Let running jobs end for a while, put back the others, and close the database."""
        self.begin_stop()
        for task in self._background:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.settings.drain_s)
        await self._pool.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(SQLAlchemyError):
            for live in self._lives.values():
                await self.store.release(live.job)
            await self.store.resign()
        await self.store.close()
        _log.info("stopped", put_back=len(self._lives))

    async def ready(self) -> str | None:
        """Return why the server cannot take work, or None if it can."""
        if self.stopping.is_set():
            return "the server is shutting down"
        if not self._started or self._pool.num_idle + self._pool.num_busy == 0:
            return "no worker has started yet"
        try:
            await self.store.ping()
        except SQLAlchemyError:
            return "the database does not answer"
        return None

    async def refresh_clients(self) -> None:
        """Read the tokens that are good."""
        self.clients = await asyncio.to_thread(good_tokens, self.store.engine)

    def may_refresh_clients(self, now: float, pause_s: float) -> bool:
        """Return whether the tokens have not been read for a while."""
        if now - self._clients_read < pause_s:
            return False
        self._clients_read = now
        return True

    async def submit(
        self,
        client: Client,
        operation: str,
        body: bytes,
        label: str | None = None,
        key: str | None = None,
    ) -> Submitted:
        """Accept a job: when this returns it is on disk.

        Raises
        ------
        ProblemError
            If there is no room for it, or its idempotency key belongs to another request.
        """
        self._require_room(client, key)
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
        known = await self.store.add(job, body)
        if known is not None:
            if known.body_hash != digest:
                raise refuse(
                    "idempotency-key-reused",
                    f"the idempotency key belongs to job {known.id}, whose request was another "
                    "one; use a new key for a new request.",
                )
            live = self._lives.get(known.id)
            return Submitted(known if live is None else live.job, live, replayed=True)
        live = Live(job, body if len(body) <= _SMALL else None)
        self._lives[job.id] = live
        live.feed.status(job.to_dict())
        self.metrics.submitted.labels(operation).inc()
        self._queue.put(client.name, job.id, client.weight)
        self._dispatch()
        return Submitted(job, live)

    def live(self, job_id: str) -> Live | None:
        """Return a job that this server looks after and that has not ended."""
        return self._lives.get(job_id)

    async def find(self, client: Client, job_id: str) -> Job:
        """Return a job of a client.

        Raises
        ------
        ProblemError
            If it has no such job.
        """
        live = self._lives.get(job_id)
        job = live.job if live is not None else await self.store.get(job_id)
        if job is None or job.client != client.name:
            raise refuse("not-found", f"there is no job {job_id}; /v1/jobs lists those there are.")
        return job

    async def wait(self, live: Live, seconds: float) -> bool:
        """Wait until a job has ended; return whether it has."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await live.done.wait()
        return live.job.ended

    async def cancel(self, job: Job) -> Job:
        """Cancel a job, and kill the worker that runs it; return what became of it.

        Raises
        ------
        ProblemError
            If it has ended otherwise.
        """
        live = self._lives.get(job.id)
        if live is None:
            job = await self.store.get(job.id) or job
            if job.state == "cancelled":
                return job
            if job.ended:
                raise refuse(
                    "already-finished", f"job {job.id} is {job.state}; there is nothing to cancel."
                )
            await self.store.ask_to_cancel(job.id)
            return job
        if self._queue.remove(job.client, job.id):
            await self._end(live, "cancelled")
        elif live.worker is not None:
            live.worker.kill("cancel")
        await self.wait(live, _CANCEL_S)
        return live.job

    def _require_room(self, client: Client, key: str | None) -> None:
        if self.stopping.is_set():
            raise refuse(
                "shutting-down",
                "the server is shutting down; send the request again in a moment.",
                headers={"Retry-After": "5"},
            )
        if self._queue.waiting_of(client.name) >= self.settings.max_queue_per_client:
            raise refuse(
                "too-many-jobs",
                f"{self.settings.max_queue_per_client} jobs of this client wait already; let some "
                "end, or cancel some.",
                headers={"Retry-After": "10"},
            )
        if len(self._queue) >= self.settings.max_queue:
            raise refuse(
                "queue-full",
                f"{self.settings.max_queue} jobs wait already; send the request again later.",
                headers={"Retry-After": "30"},
            )

    def _dispatch(self) -> None:
        """Give the workers that are free the jobs that are next."""
        while not self.stopping.is_set() and len(self._queue) and self._pool.num_idle:
            worker = self._pool.take()
            job_id = self._queue.take() if worker is not None else None
            if worker is None or job_id is None:
                return
            live = self._lives[job_id]
            live.worker = worker
            self._spawn(self._run(worker, live))

    async def _run(self, worker: Worker, live: Live) -> None:
        """Run a job in a worker, and store how it ended."""
        now = time.time()
        live.job = live.job.replace(state="running", started=now, attempt=live.job.attempt + 1)
        job = live.job
        live.feed.status(job.to_dict())
        self.metrics.wait_seconds.labels(job.operation).observe(now - job.created)
        timer = asyncio.get_running_loop().call_later(_SHORT_S, self._store_start, live)
        began = time.perf_counter()
        body = live.body if live.body is not None else await self._body_of(live)
        ended = await worker.run(job.operation, body, live.feed.tell)
        live.worker = None
        timer.cancel()
        self._pool.give_back(worker)
        took = time.perf_counter() - began
        self._queue.finish(job.id, took)
        self.metrics.job_seconds.labels(job.operation).observe(took)
        if ended.stopped == "cancel":
            await self._end(live, "cancelled")
        elif ended.failure is not None:
            self._log_failure(job, ended)
            await self._end(live, "failed", problem=ended.failure.problem)
        elif ended.result is not None:
            await self._end(live, "done", result=ended.result)
        else:
            # Stopped with the server: the job is put back when everything else is done.
            live.job = job.replace(state="queued")

    async def _body_of(self, live: Live) -> bytes:
        """Read the request of a job again; without one the worker says what is wrong."""
        for pause in (*_RETRY_S, 0.0):
            try:
                return await self.store.request(live.job.id) or b""
            except SQLAlchemyError as error:
                _log.error("the database does not answer", reason=reason_of(error))
                await asyncio.sleep(pause)
        return b""

    async def _end(
        self,
        live: Live,
        state: State,
        *,
        problem: str | None = None,
        result: bytes | None = None,
    ) -> None:
        """Store how a job ended, however long the database takes, and tell those who wait."""
        now = time.time()
        job = live.job.replace(
            state=state,
            finished=now,
            expires=now + self.settings.result_ttl_s,
            problem=problem,
        )
        for pause in _retries():
            try:
                mine = await self.store.end(job, result)
                break
            except SQLAlchemyError as error:
                _log.error("a result cannot be stored yet", job=job.id, reason=reason_of(error))
                await asyncio.sleep(pause)
        self._lives.pop(job.id, None)
        if not mine:
            _log.warning("another server has taken over a job", job=job.id)
            live.done.set()
            live.feed.wake()
            return
        live.job, live.result = job, result
        live.feed.status(job.to_dict(), last=True)
        live.done.set()
        self.metrics.jobs.labels(job.operation, state).inc()

    def _store_start(self, live: Live) -> None:
        async def store() -> None:
            try:
                await self.store.start(live.job)
            except SQLAlchemyError as error:
                _log.error("a start cannot be stored", job=live.job.id, reason=reason_of(error))

        if live.job.state == "running":
            self._spawn(store())

    def _log_failure(self, job: Job, ended: Ended) -> None:
        if ended.failure is not None and ended.failure.trace:
            _log.error("job failed", job=job.id, operation=job.operation, trace=ended.failure.trace)

    async def _adopt(self) -> None:
        """Take over jobs that nobody looks after."""
        weights = {client.name: client.weight for client in self.clients.values()}
        for job in await self.store.adopt():
            if job.id in self._lives:
                continue
            live = Live(job.replace(state="queued"), None)
            self._lives[job.id] = live
            _log.info("job taken over", job=job.id, state=job.state, attempt=job.attempt)
            reason = self._unfit(job)
            if reason is not None:
                await self._end(live, "failed", problem=reason.to_json())
                continue
            live.feed.status(live.job.to_dict())
            self._queue.put(job.client, job.id, weights.get(job.client, 1.0))
        self._dispatch()

    def _unfit(self, job: Job) -> Problem | None:
        """Return why a job that was left behind is not started again, or None."""
        if job.operation not in self.operations:
            return Problem("unsupported", f'this server has no operation "{job.operation}".')
        if job.attempt >= self.settings.max_attempts:
            return Problem(
                "server-died",
                f"the server died {job.attempt} times while the job ran; send a smaller instance, "
                "or ask who runs the server what its log says.",
            )
        return None

    async def _beat(self) -> None:
        """Show life, look for jobs left behind, and do what other servers were asked to."""
        if not await self.store.show_life():
            _log.error("the lease was lost; the jobs of this server are another's now")
            for live in list(self._lives.values()):
                self._queue.remove(live.job.client, live.job.id)
                if live.worker is not None:
                    live.worker.kill("stop")
                self._lives.pop(live.job.id, None)
                live.done.set()
                live.feed.wake()
            await self.store.register()
        await self._adopt()
        for job_id in await self.store.to_cancel():
            if (found := self._lives.get(job_id)) is not None:
                await self.cancel(found.job)
        await self.refresh_clients()

    async def _expire(self) -> None:
        while await self.store.expire():
            pass

    async def _repeat(self, work: Any, pause: float) -> None:
        while True:
            await asyncio.sleep(pause)
            try:
                await work()
            except SQLAlchemyError as error:
                _log.error("the database does not answer", reason=reason_of(error))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task failed", exc_info=error)


def _retries() -> Any:
    yield from _RETRY_S
    while True:
        yield _RETRY_S[-1]
