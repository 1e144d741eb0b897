"""A connection: HTTP/1.1 as uvicorn speaks it, with a limit to the time that a head may take."""

from __future__ import annotations

import asyncio

import h11
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


class _Connection(H11Protocol):
    head_timeout_s: float
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
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
