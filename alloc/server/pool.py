"""The pool of worker processes: hands out jobs, enforces limits, replaces what died.

Workers are forked from a process that has loaded the solvers and does nothing else (Python's
forkserver), so a new one takes milliseconds, and a kill of one touches nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import forkserver, get_context
from pathlib import Path
from typing import Literal

import structlog

from alloc.server import worker as worker_process
from alloc.server.frames import HEAD, Failure, pack_job, unpack_head
from alloc.server.operations import Limits
from alloc.server.problems import Problem
from alloc.server.settings import Settings

Reason = Literal["time", "memory", "cancel", "stop", "recycle"]

_log = structlog.get_logger("alloc.server.pool")
_WATCH_S = 0.25
"""Time between two looks at the memory of the workers, seconds."""
_RETRY_S = 1.0
_READY_S = 120.0
# One thread each: what a solver may use is decided by the request, not by the BLAS below it.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Ended:
    """How a job ended in its worker.

    Parameters
    ----------
    result
        The JSON document, or None.
    failure
        Why there is none, or None.
    stopped
        Why the server itself ended the worker: cancelled, or shutting down.
    """

    result: bytes | None = None
    failure: Failure | None = None
    stopped: Literal["cancel", "stop"] | None = None


class Worker:
    """A worker process, seen from the server."""

    def __init__(self, settings: Settings) -> None:
        context = get_context("forkserver")
        ours, theirs = socket.socketpair()
        limits = Limits(settings.job_limit_s, os.cpu_count() or 1)
        self._process = context.Process(
            target=worker_process.main,
            args=(theirs, settings.operations, limits, settings.memory_limit_mib),
            daemon=True,
            name="alloc-worker",
        )
        with _start_method_environment():
            solvers = ["alloc.server.preload"] if settings.preload else []
            context.set_forkserver_preload(["__main__", "alloc.server.worker", *solvers])
            forkserver.ensure_running()
        self._process.start()
        theirs.close()
        self._socket = ours
        self._limits = settings
        self.killed_for: Reason | None = None
        self.resident_at_start_mib = 0.0

    async def open(self) -> None:
        """Wait until it is ready for a job."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
        async with asyncio.timeout(_READY_S):
            await self._frame()
        self.resident_at_start_mib = self.resident_mib() or 0.0

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid or 0

    @property
    def is_alive(self) -> bool:
        """Whether the process is there: it has not closed its end of the channel."""
        return self.killed_for is None and not self._reader.at_eof()

    def kill(self, reason: Reason) -> None:
        """End the process at once, whatever it does."""
        if self.killed_for is None:
            self.killed_for = reason
        self._process.kill()

    def resident_mib(self) -> float | None:
        """Return the memory that it holds, MiB; None where the system does not say."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return None
        return pages * resource.getpagesize() / 2**20

    async def run(self, operation: str, body: bytes, tell: Callable[[str], None]) -> Ended:
        """Run a job to its end; a worker that dies or is killed ends it too."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._limits.job_limit_s, self.kill, "time")
        try:
            self._writer.write(pack_job(operation, body))
            await self._writer.drain()
            while True:
                tag, content = await self._frame()
                if tag == "progress":
                    tell(content.decode("utf-8", "replace"))
                elif tag == "limit":
                    timer.cancel()
                    seconds = float(content) + self._limits.grace_s
                    timer = loop.call_later(
                        min(seconds, self._limits.job_limit_s), self.kill, "time"
                    )
                elif tag == "result":
                    return Ended(result=content)
                else:
                    return Ended(failure=Failure.from_bytes(content))
        except (asyncio.IncompleteReadError, ConnectionError):
            return await self._died()
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Let an idle worker go, and forget it."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        await asyncio.to_thread(self._process.join, 2.0)
        if self._process.is_alive():
            self._process.kill()
            await asyncio.to_thread(self._process.join)
        self._process.close()

    async def _frame(self) -> tuple[str, bytes]:
        tag, length = unpack_head(await self._reader.readexactly(HEAD.size))
        return tag, await self._reader.readexactly(length) if length else b""

    async def _died(self) -> Ended:
        """Say why a process is no more."""
        await asyncio.to_thread(self._process.join)
        reason, code = self.killed_for, self._process.exitcode
        if reason in ("cancel", "stop"):
            return Ended(stopped="cancel" if reason == "cancel" else "stop")
        if reason == "time":
            problem = Problem(
                "time-limit",
                "the job took longer than it may take on this server and was stopped; ask for a "
                "shorter time_limit_s, or send a smaller instance.",
            )
        elif reason == "memory":
            problem = Problem(
                "memory-limit",
                f"the job needed more than the {self._limits.memory_limit_mib} MiB of memory that "
                "this server gives a job; send a smaller instance, or choose another method.",
            )
        else:
            how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            problem = Problem(
                "worker-died",
                f"the process that ran the job died ({how}); try again, and if it dies again, "
                "choose another backend or a smaller instance.",
            )
        return Ended(failure=Failure(problem.to_json(), f"worker ended: {reason or code}"))


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
        self._stopping = False
        self.restarts = 0

    def start(self) -> None:
        """Start the workers; they report for work one after the other."""
        for _ in range(self._settings.workers):
            self._spawn_task(self._hire())
        self._spawn_task(self._watch_memory())

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
        """Let all workers go, killing those at work."""
        self._stopping = True
        for worker in self._busy:
            worker.kill("stop")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        leaving = [*self._idle, *self._busy]
        self._idle.clear()
        await asyncio.gather(*(worker.close() for worker in leaving), return_exceptions=True)

    def _replace(self, worker: Worker) -> None:
        if self._stopping:
            return
        self.restarts += 1
        self._spawn_task(self._dismiss(worker))
        self._spawn_task(self._hire())

    async def _dismiss(self, worker: Worker) -> None:
        await worker.close()

    async def _hire(self) -> None:
        """Start a worker, however often it takes."""
        while not self._stopping:
            try:
                worker = await asyncio.to_thread(Worker, self._settings)
                await worker.open()
            except (OSError, EOFError, TimeoutError) as error:
                _log.error("a worker does not start", error=str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                self._idle.append(worker)
                self._on_idle()
                return

    async def _watch_memory(self) -> None:
        """Kill what holds too much; the limit inside the worker does not see every allocation."""
        while True:
            await asyncio.sleep(_WATCH_S)
            most = self._settings.memory_limit_mib
            for worker in list(self._busy):
                if (worker.resident_mib() or 0.0) > worker.resident_at_start_mib + most:
                    worker.kill("memory")
            for worker in list(self._idle):
                # What one job left behind must not fail the next.
                if (worker.resident_mib() or 0.0) > worker.resident_at_start_mib + most / 4:
                    self._idle.remove(worker)
                    worker.kill("recycle")
                    self._replace(worker)

    def _spawn_task(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@contextlib.contextmanager
def _start_method_environment() -> Iterator[None]:
    """Give the process that workers are forked from one thread for each of them."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
