"""Jobs at a server: watched, waited for, cancelled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import httpx

from alloc.client.errors import RemoteError
from alloc.client.transport import RETRIED, Transport

T = TypeVar("T")
ENDED = frozenset({"done", "failed", "cancelled", "expired"})


@dataclass(frozen=True)
class JobStatus:
    """What a server says of a job.

    Parameters
    ----------
    id
        Unique at the server.
    operation
        What was asked for.
    state
        ``queued``, ``running``, ``done``, ``failed``, ``cancelled`` or ``expired``.
    label
        The client's own name for it, or None.
    attempt
        How often it was started.
    progress
        The last line about how far it is, or None.
    """

    id: str
    operation: str
    state: str
    label: str | None
    attempt: int
    progress: str | None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ENDED

    @staticmethod
    def of(document: dict[str, Any]) -> JobStatus:
        """Return the status that a job document means."""
        return JobStatus(
            id=document["id"],
            operation=document["operation"],
            state=document["state"],
            label=document["label"],
            attempt=document["attempt"],
            progress=document["progress"],
        )


class RemoteJob(Generic[T]):
    """A job at a server.

    Made by `Client.submit` and its like. It lives at the server: the client may go away and come
    back with `Client.job`.
    """

    def __init__(self, transport: Transport, job_id: str, decode: Callable[[bytes], T]) -> None:
        self.id = job_id
        self._transport = transport
        self._decode = decode

    def __repr__(self) -> str:
        return f"RemoteJob({self.id!r} at {self._transport.url})"

    def status(self) -> JobStatus:
        """Return what the server says of it now."""
        return self._status(None)

    def _status(self, until: float | None) -> JobStatus:
        return JobStatus.of(self._transport.send("GET", f"/v1/jobs/{self.id}", until=until).json())

    def cancel(self) -> JobStatus:
        """Take it out of the queue, or stop it. Again is not an error.

        Raises
        ------
        RemoteError
            If it is finished already.
        """
        return JobStatus.of(self._transport.send("POST", f"/v1/jobs/{self.id}/cancel").json())

    def progress(self) -> Iterator[str]:
        """Yield lines of progress until the job has ended.

        A connection that breaks is opened again where it broke; a server that is restarted goes on
        with its jobs, and so does this.

        Raises
        ------
        RemoteError
            If the server stays away for longer than the client's patience.
        """
        last: str | None = None
        attempt, end = 0, time.monotonic() + self._transport.patience_s
        while True:
            try:
                with self._transport.watch(f"/v1/jobs/{self.id}/events", last) as events:
                    # The server is there, however little it has to tell.
                    attempt, end = 0, time.monotonic() + self._transport.patience_s
                    for event in events:
                        end = time.monotonic() + self._transport.patience_s
                        last = event.id or last
                        data = json.loads(event.data)
                        if event.event == "progress":
                            yield str(data["line"])
                        elif event.event == "status" and data["state"] in ENDED:
                            return
                if last is not None and self.status().ended:
                    return
            except httpx.TransportError:
                pass
            except RemoteError as error:
                if error.status not in RETRIED:
                    raise
            if not self._transport.pause_to_reconnect(attempt, end):
                raise RemoteError(
                    f"job {self.id}: {self._transport.url} does not answer any more; the job goes "
                    "on there, so ask again later.",
                    "unreachable",
                )
            attempt += 1

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the result and return it.

        Parameters
        ----------
        timeout_s
            Longest wait, seconds; None: until it has ended.

        Raises
        ------
        RemoteError
            If it has not ended by then, or the server does not answer any more; if it was
            cancelled, failed at the server, or has expired.
        InstanceError, UnsupportedFeatureError
            If the server refuses the instance or an option.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        pause = 0.02
        while not self._status(end).ended:
            if end is not None and time.monotonic() + pause > end:
                raise RemoteError(
                    f"job {self.id} has not ended within {timeout_s:g} s; wait longer, or cancel "
                    "it.",
                    "not-finished",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        return self._decode(self._transport.send("GET", f"/v1/jobs/{self.id}/result").content)
