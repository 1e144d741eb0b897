"""A worker process, seen from the server: it is handed jobs, and killed when they overrun.

Workers are forked from a process that has loaded the solvers and does nothing else (Python's
forkserver), so a new one takes milliseconds, and a kill of one touches nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import forkserver, get_context, popen_forkserver, spawn
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from alloc.processes import death
from alloc.server import worker as worker_process
from alloc.server.frames import HEAD, Failure, pack_job, unpack_head
from alloc.server.operations import Limits
from alloc.server.problems import Problem
from alloc.server.settings import Settings

Reason = Literal["time", "memory", "cancel", "stop", "recycle"]

_READY_S = 120.0
_LEAVE_S = 5.0
# One thread each: what a solver may use is decided by the request, not by the BLAS below it.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_starting = threading.Lock()


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
        try:
            with _starting, _one_thread_each(), _main_left_alone():
                solvers = ["alloc.server.preload"] if settings.preload else []
                context.set_forkserver_preload(["alloc.server.worker", *solvers])
                forkserver.ensure_running()
                self._process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours
        self._writer: asyncio.StreamWriter | None = None
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
        writer = self._writer
        assert writer is not None
        try:
            writer.write(pack_job(operation, body))
            await writer.drain()
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
        """Wait for the end of a worker that was killed, and forget it."""
        if self._writer is None:  # its channel could not be opened
            self._socket.close()
        else:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        await asyncio.to_thread(self._process.join)
        self._process.close()

    async def _frame(self) -> tuple[str, bytes]:
        tag, length = unpack_head(await self._reader.readexactly(HEAD.size))
        return tag, await self._reader.readexactly(length) if length else b""

    async def _died(self) -> Ended:
        """Say why a process is no more."""
        await asyncio.to_thread(self._process.join, _LEAVE_S)
        # One that closed its channel and does not end is of no use either.
        self._process.kill()
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
            problem = Problem(
                "worker-died",
                f"the process that ran the job {death(code)}.",
            )
        return Ended(failure=Failure(problem.to_json(), f"worker ended: {reason or code}"))


@contextlib.contextmanager
def _main_left_alone() -> Iterator[None]:
    """Let no worker run the program's main module again, as `multiprocessing` would.

    Workers need nothing of it, and a script that opens a server without asking for its name first
    would open another in each of them.
    """

    def without_main(name: str) -> dict[str, Any]:
        plain = spawn.get_preparation_data(name)
        return {key: value for key, value in plain.items() if not key.startswith("init_main")}

    vars(popen_forkserver)["spawn"] = SimpleNamespace(get_preparation_data=without_main)
    try:
        yield
    finally:
        vars(popen_forkserver)["spawn"] = spawn


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
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
