"""The pool of worker processes: who is free, who is at work; what died is replaced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from alloc.server.process import Worker
from alloc.server.settings import Settings

_log = structlog.get_logger("alloc.server.pool")
_WATCH_S = 0.25
"""Time between two looks at the workers, seconds."""
_RETRY_S = 1.0  # after a worker did not start: what is wrong, memory or so, is wrong for a while
_STOP_S = 20.0  # for the results of workers at the end: Kubernetes kills after 30 s


class Pool:
    """Worker processes, as many as the settings say; whoever frees up is reported.

    Parameters
    ----------
    settings
        Number and limits of the workers.
    on_idle
        Called whenever a worker becomes free.
    """

    def __init__(self, settings: Settings, on_idle: Callable[[], None]) -> None:
        self._settings = settings
        self._on_idle = on_idle
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._stopping = False
        self.restarts = 0

    def start(self) -> None:
        """Start the workers; they report for work one after the other."""
        for _ in range(self._settings.workers):
            self._spawn_task(self._hire())
        self._watch = asyncio.create_task(self._watch_workers())

    @property
    def num_idle(self) -> int:
        """Number of workers that wait for a job."""
        return len(self._idle)

    @property
    def num_busy(self) -> int:
        """Number of workers at work."""
        return len(self._busy)

    def take(self) -> Worker | None:
        """Return a free worker, which is busy from now on, or None."""
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                self._busy.add(worker)
                return worker
            self._replace(worker)
        return None

    def give_back(self, worker: Worker) -> None:
        """Take a worker back after a job; one that was killed or died is replaced."""
        self._busy.discard(worker)
        if worker.is_alive:
            self._idle.append(worker)
            self._on_idle()
        else:
            self._replace(worker)

    async def stop(self) -> None:
        """End all workers, also those at work."""
        self._stopping = True
        if self._watch is not None:
            self._watch.cancel()
        for worker in self._busy:
            worker.kill("stop")
        while self._idle:
            self._replace(self._idle.pop())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                while self._busy or self._tasks:
                    await asyncio.sleep(0.01)

    def _replace(self, worker: Worker) -> None:
        """Let a worker go, and start another unless the pool is being stopped."""
        worker.kill("recycle")
        self._spawn_task(worker.close())
        if not self._stopping:
            self.restarts += 1
            self._spawn_task(self._hire())

    async def _hire(self) -> None:
        """Start a worker, however often it takes."""
        while not self._stopping:
            try:
                worker = Worker(self._settings)
            except (OSError, EOFError) as error:
                _log.error("a worker does not start", reason=str(error))
                await asyncio.sleep(_RETRY_S)
                continue
            try:
                await worker.open()
            except (OSError, EOFError, TimeoutError) as error:
                _log.error("a worker does not get ready", reason=str(error))
                worker.kill("recycle")
                await worker.close()
                await asyncio.sleep(_RETRY_S)
                continue
            if self._stopping:
                worker.kill("stop")
                await worker.close()
                return
            self._idle.append(worker)
            self._on_idle()
            return

    async def _watch_workers(self) -> None:
        """Replace what died while idle, and kill what holds too much.

        The limit inside the worker does not see every allocation.
        """
        while True:
            await asyncio.sleep(_WATCH_S)
            most = self._settings.memory_limit_mib
            for worker in list(self._busy):
                if (worker.resident_mib() or 0.0) > worker.resident_at_start_mib + most:
                    worker.kill("memory")
            for worker in list(self._idle):
                # What one job left behind must not fail the next.
                left = (worker.resident_mib() or 0.0) - worker.resident_at_start_mib
                if left > most / 4 or not worker.is_alive:
                    self._idle.remove(worker)
                    self._replace(worker)

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
