"""A worker process, seen from the server: it is handed jobs, and killed when they overrun."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from alloc.processes import death
from alloc.server.frames import HEAD, Failure, pack_job, unpack_head
from alloc.server.problems import Problem
from alloc.server.settings import Settings
from alloc.server.worker import how_to_start
from alloc.server.worker_parent import socket_pair, start_worker

Reason = Literal["time", "memory", "cancel", "stop", "recycle"]

# To load the solvers takes seconds, and far longer where all cores are busy or the disk is slow.
_READY_S = 120.0
_LEAVE_S = 5.0  # from the end of the channel to that of the process: it has nothing left to do
_MAX_CODE = 16
"""Bytes of an exit code as text."""


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
        with socket_pair() as (self._socket, theirs):
            self._report = start_worker(theirs, settings.preload)
        self._writer: asyncio.StreamWriter | None = None
        self._limits = settings
        self.killed_for: Reason | None = None
        self.pid = 0
        self.resident_at_start_mib = 0.0

    async def open(self) -> None:
        """Wait until it is ready for a job."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
        async with asyncio.timeout(_READY_S):
            self._writer.write(how_to_start(self._limits))
            _, pid = await self._frame()
        self.pid = int(pid)
        self.resident_at_start_mib = self.resident_mib() or 0.0

    @property
    def is_alive(self) -> bool:
        """Whether the process is there: it has not closed its end of the channel."""
        # The channel of a process that ended before it had read its job has an error, not an end.
        is_closed = self._reader.at_eof() or self._reader.exception() is not None
        return self.killed_for is None and not is_closed

    def kill(self, reason: Reason) -> None:
        """End the process and what it has started at once, whatever it does."""
        if self.killed_for is None:
            self.killed_for = reason
        with contextlib.suppress(OSError):  # closed by its parent, when the worker had ended
            self._report.shutdown(socket.SHUT_WR)

    def resident_mib(self) -> float | None:
        """Return the memory that it holds, MiB; None where the system does not say."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return None
        return pages * resource.getpagesize() / 2**20

    async def run(
        self,
        operation: str,
        body: bytes,
        tell: Callable[[str], None],
        stop_after_s: float | None = None,
    ) -> Ended:
        """Run a job to its end; a worker that dies or is killed ends it too.

        Parameters
        ----------
        operation
            Name of the operation.
        body
            The body of the request, as it came.
        tell
            Takes lines of progress.
        stop_after_s
            Wall time after which it is stopped, but for the grace of the settings, seconds; None:
            the worker says it, once it has read the body.
        """
        timer = self._timer(stop_after_s)
        writer = self._writer
        assert writer is not None
        try:
            writer.write(pack_job(operation, body, says_limit=stop_after_s is None))
            await writer.drain()
            while True:
                tag, content = await self._frame()
                if tag == "progress":
                    tell(content.decode("utf-8", "replace"))
                elif tag == "limit":
                    timer.cancel()
                    timer = self._timer(float(content))
                elif tag == "result":
                    return Ended(result=content)
                else:
                    return Ended(failure=Failure.from_bytes(content))
        except (asyncio.IncompleteReadError, ConnectionError):
            return await self._died()
        finally:
            timer.cancel()

    def _timer(self, stop_after_s: float | None) -> asyncio.TimerHandle:
        """Return what stops the job when its time is up."""
        seconds = self._limits.job_limit_s
        if stop_after_s is not None:
            seconds = min(stop_after_s + self._limits.grace_s, seconds)
        return asyncio.get_running_loop().call_later(seconds, self.kill, "time")

    async def close(self) -> None:
        """Wait for the end of a worker that was killed, and forget it."""
        if self._writer is None:  # its channel could not be opened
            self._socket.close()
        else:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        await self._exit_code()
        self._report.close()

    async def _frame(self) -> tuple[str, bytes]:
        tag, length = unpack_head(await self._reader.readexactly(HEAD.size))
        return tag, await self._reader.readexactly(length) if length else b""

    async def _exit_code(self) -> int | None:
        """Wait for the end of the process; None if nobody is left who knows how it ended."""
        code = await asyncio.get_running_loop().sock_recv(self._report, _MAX_CODE)
        return int(code) if code else None

    async def _died(self) -> Ended:
        """Say why a process is no more."""
        try:
            async with asyncio.timeout(_LEAVE_S):
                code = await self._exit_code()
        except TimeoutError:
            # One that closed its channel and does not end is of no use either.
            self.kill("recycle")
            code = await self._exit_code()
        reason = self.killed_for
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
