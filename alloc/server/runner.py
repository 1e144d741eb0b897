"""The runner: takes jobs from the queue to a worker, and stores how they ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError

from alloc.server.fairness import FairQueue
from alloc.server.feed import EventStream
from alloc.server.metrics import Metrics
from alloc.server.pool import Pool
from alloc.server.process import Ended, Worker
from alloc.server.records import Job, State
from alloc.server.settings import Settings
from alloc.server.store import Store
from alloc.server.tables import reason_of

_log = structlog.get_logger("alloc.server.runner")

SMALL = 64 * 1024
"""Bytes up to which a body waits in memory; a larger one is read again when its turn comes."""
_SHORT_S = 0.1
"""Jobs that take less are stored once, when they end."""
_UNHEARD_S = 0.5
"""Longest time for which a job is not stored whose client waits for its answer: nobody has heard of
it before. A crowd of small jobs that waits a little must not cost a second commit each, which would
make it wait longer; and half a second of work is little to ask for again after a crash."""
_RETRY_S = (0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(eq=False)
class Live:
    """A job that has not ended, with what is not stored of it.

    Parameters
    ----------
    job
        The job as it is now.
    body
        Its request, or None to read it again.
    feed
        What happens to it.
    done
        Set when it has ended, or will not end here.
    result
        Its result, once it is stored.
    worker
        The worker that runs it.
    stop_after_s
        Wall time soon after which it is stopped, seconds, or None if the worker has to say it.
    is_stored
        Whether it is in the database.
    storing
        What brings it there just now, or None.
    may_be_stored
        Whether an attempt to store it failed: the answer of the commit may be all that was lost.
    """

    job: Job
    body: bytes | None
    feed: EventStream = field(default_factory=EventStream)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    result: bytes | None = None
    worker: Worker | None = None
    stop_after_s: float | None = None
    is_stored: bool = True
    storing: asyncio.Future[Any] | None = None
    may_be_stored: bool = False


class Runner:
    """Runs jobs in worker processes, fairly between clients.

    Parameters
    ----------
    settings
        Workers and limits.
    metrics
        Where to count.
    store
        Where jobs are kept.
    """

    def __init__(self, settings: Settings, metrics: Metrics, store: Store) -> None:
        self.queue = FairQueue()
        self.lives: dict[str, Live] = {}
        self.pool = Pool(settings, self._dispatch)
        self.stopping = asyncio.Event()
        self._settings = settings
        self._metrics = metrics
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(
        self,
        job: Job,
        body: bytes | None,
        weight: float,
        stop_after_s: float | None = None,
        *,
        is_stored: bool = True,
    ) -> Live:
        """Let a job wait for a worker.

        Parameters
        ----------
        job
            The job.
        body
            Its request; None: to be read from the database.
        weight
            Share of worker time of its client, above 0.
        stop_after_s
            Wall time soon after which it is stopped, seconds; None: the worker has to say it.
        is_stored
            Whether it is in the database. One that is not, with its small body, is stored when it
            ends, or a moment later; before it is told of, `store` is called.
        """
        kept = body if body is not None and len(body) <= SMALL else None
        live = Live(job, kept, stop_after_s=stop_after_s, is_stored=is_stored)
        self.lives[job.id] = live
        if not is_stored:
            asyncio.get_running_loop().call_later(_UNHEARD_S, self._store_late, live)
        live.feed.status(job)
        self.queue.put(job.client, job.id, weight)
        self._dispatch()
        return live

    async def store(self, live: Live) -> None:
        """Store a job, unless it is stored: what is on disk survives the server.

        Raises
        ------
        SQLAlchemyError
            If the database does not take it.
        """
        if not live.is_stored and live.storing is None:
            assert live.body is not None
            live.storing = asyncio.ensure_future(self._store.add(live.job, live.body))
        await self._until_stored(live)

    async def _until_stored(self, live: Live) -> None:
        """Wait for what stores a job just now."""
        under_way = live.storing
        if under_way is None:
            return
        try:
            # Several wait for it, and one who goes must not take it along.
            await asyncio.shield(under_way)
        except Exception:
            if live.storing is under_way:
                live.storing, live.may_be_stored = None, True
            raise
        live.is_stored, live.storing = True, None

    async def cancel(self, live: Live) -> None:
        """Take a job out of the queue, or kill the worker that runs it."""
        if self.queue.remove(live.job.client, live.job.id):
            await self.end(live, "cancelled")
        elif live.worker is not None:
            live.worker.kill("cancel")

    def abandon(self) -> None:
        """Let all jobs go: they are another server's now."""
        for live in list(self.lives.values()):
            self.queue.remove(live.job.client, live.job.id)
            if live.worker is not None:
                live.worker.kill("stop")
            self._forget(live)

    def begin_stop(self) -> None:
        """Take no more work, and let those who watch or wait go."""
        self.stopping.set()
        for live in self.lives.values():
            live.feed.wake()
            live.done.set()

    async def stop(self) -> None:
        """Let running jobs end for a while; what is left in `lives` has not ended."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._settings.drain_s)
        await self.pool.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)
        for task in self._tasks:
            task.cancel()

    async def end(
        self,
        live: Live,
        state: State,
        *,
        problem: str | None = None,
        result: bytes | None = None,
    ) -> None:
        """Store how a job ended, however long the database takes, and tell those who wait.

        Parameters
        ----------
        live
            The job.
        state
            ``done``, ``failed`` or ``cancelled``.
        problem
            Of a failed job: the problem document, as text.
        result
            Of a job that is done: the JSON document.
        """
        now = time.time()
        expires = now + self._settings.result_ttl_s
        job = live.job.replace(state=state, finished=now, expires=expires, problem=problem)
        for pause in _pauses():
            try:
                mine = await self._store_end(live, job, result)
                break
            except SQLAlchemyError as error:
                _log.error("a result cannot be stored yet", job=job.id, reason=reason_of(error))
                if not live.is_stored and live.storing is None:
                    # Nobody was promised anything: whoever waits hears that it cannot be stored.
                    self._forget(live)
                    return
                await asyncio.sleep(pause)
        if not mine:
            _log.warning("another server has taken over a job", job=job.id)
            self._forget(live)
            return
        self.lives.pop(job.id, None)
        live.job, live.result = job, result
        live.feed.status(job, last=True)
        live.done.set()
        self._metrics.jobs.labels(job.operation, state).inc()

    async def _store_end(self, live: Live, job: Job, result: bytes | None) -> bool:
        """Store how a job ended, and itself if it is not; return False if it is another server's.

        Parameters
        ----------
        live
            The job.
        job
            The job as it ended.
        result
            The JSON document; None: there is none.
        """
        events = live.feed.to_json() if live.feed.watched else None
        if not live.is_stored and live.storing is None and not live.may_be_stored:
            await self._add_ended(live, job, result, events)
            return True
        # What may be there without its end must not be left there so.
        await self.store(live)
        return await self._store.end(job, result, events)

    async def _add_ended(
        self, live: Live, job: Job, result: bytes | None, events: bytes | None
    ) -> None:
        """Store a job of which nothing is stored; the others wait for that who want it stored."""
        assert live.body is not None
        under_way = live.storing = asyncio.get_running_loop().create_future()
        try:
            await self._store.add_ended(job, live.body, result, events)
        except BaseException as error:
            live.storing = None
            under_way.set_exception(error)
            under_way.exception()  # nobody need wait for it
            raise
        live.is_stored, live.storing = True, None
        under_way.set_result(None)

    def _forget(self, live: Live) -> None:
        """Let those who watch or wait for a job look for it in the database."""
        if self.lives.get(live.job.id) is live:
            del self.lives[live.job.id]
        live.done.set()
        live.feed.close()

    def _dispatch(self) -> None:
        """Give the workers that are free the jobs that are next."""
        while not self.stopping.is_set() and len(self.queue):
            worker = self.pool.take()
            job_id = None if worker is None else self.queue.take()
            if worker is None or job_id is None:
                return
            live = self.lives[job_id]
            live.worker = worker
            self._spawn(self._run(worker, live))

    async def _run(self, worker: Worker, live: Live) -> None:
        """Run a job in a worker, and store how it ended."""
        now = time.time()
        live.job = live.job.replace(state="running", started=now, attempt=live.job.attempt + 1)
        job = live.job
        live.feed.status(job)
        self._metrics.wait_seconds.labels(job.operation).observe(now - job.created)
        timer = asyncio.get_running_loop().call_later(_SHORT_S, self._store_start, live)
        began = time.perf_counter()
        body = live.body if live.body is not None else await self._body_of(job)
        ended = await worker.run(job.operation, body, live.feed.tell, live.stop_after_s)
        live.worker = None
        timer.cancel()
        took = time.perf_counter() - began
        self.queue.finish(job.id, took)
        self.pool.give_back(worker)
        self._metrics.job_seconds.labels(job.operation).observe(took)
        if ended.stopped == "cancel":
            await self.end(live, "cancelled")
        elif ended.failure is not None:
            _log_failure(job, ended)
            await self.end(live, "failed", problem=ended.failure.problem)
        elif ended.result is not None:
            await self.end(live, "done", result=ended.result)
        else:
            # Stopped with the server: the job is put back when everything else is done.
            live.job = job.replace(state="queued")

    async def _body_of(self, job: Job) -> bytes:
        """Read the request of a job again; without one the worker says what is wrong."""
        for pause in _RETRY_S:
            try:
                return await self._store.request(job.id) or b""
            except SQLAlchemyError as error:
                _log.error("a request cannot be read yet", job=job.id, reason=reason_of(error))
                await asyncio.sleep(pause)
        return b""

    def _store_late(self, live: Live) -> None:
        async def store() -> None:
            for pause in _pauses():
                if live.is_stored or self.lives.get(live.job.id) is not live:
                    return
                try:
                    await self.store(live)
                except SQLAlchemyError as error:
                    reason = reason_of(error)
                    _log.error("a job cannot be stored yet", job=live.job.id, reason=reason)
                    await asyncio.sleep(pause)

        if not live.is_stored and self.lives.get(live.job.id) is live:
            self._spawn(store())

    def _store_start(self, live: Live) -> None:
        async def store() -> None:
            try:
                await self._store.start(live.job)
            except SQLAlchemyError as error:
                _log.error("a start cannot be stored", job=live.job.id, reason=reason_of(error))

        # One that is not stored yet will be as one that runs.
        if live.job.state == "running" and (live.is_stored or live.storing is not None):
            self._spawn(store())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task failed", exc_info=error)


def _log_failure(job: Job, ended: Ended) -> None:
    if ended.failure is not None and ended.failure.trace:
        _log.error("job failed", job=job.id, operation=job.operation, trace=ended.failure.trace)


def _pauses() -> Iterator[float]:
    yield from _RETRY_S
    while True:
        yield _RETRY_S[-1]
