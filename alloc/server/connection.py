"""A connection: HTTP/1.1 as uvicorn speaks it, with a limit to the time that a head may take."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.h11_impl import H11Protocol


def connection_type(head_timeout_s: float) -> type[H11Protocol]:
    """Return the class of the connections of a server.

    Parameters
    ----------
    head_timeout_s
        Longest time from the first byte of a request, or from the start of the connection, to the
        end of the headers, seconds. Uvicorn itself waits for ever.
    """
    return type("Connection", (_Connection,), {"head_timeout_s": head_timeout_s})


class _Joined:
    """A transport that sends what is written in one turn of the event loop in one piece.

    Uvicorn writes head and body of an answer one after the other: two system calls here, two
    packets, and two turns of whoever waits for them. What is large goes out at once: only the
    transport says when a writer must wait for a slow reader.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Send some bytes before the loop goes on to what comes next."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)
        self._size += len(data)
        if self._size > HIGH_WATER_LIMIT:
            self._send()

    def close(self) -> None:
        """Close the connection when all is sent."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts:
            self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Connection(H11Protocol):
    head_timeout_s: float
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Joined(transport, self.loop))  # type: ignore[arg-type]
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        # Between two requests nothing runs here: uvicorn ends connections that are kept too long.
        part_of_head = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not part_of_head:
            self._stop_timer()
        elif self._head_timer is None:
            self._start_timer()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_timeout_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
