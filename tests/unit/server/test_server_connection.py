"""A connection: what is written in one turn of the event loop goes out in one piece."""

import asyncio
from types import SimpleNamespace
from typing import Any

from alloc.server.connection import _Joined


def joined() -> tuple[_Joined, list[bytes | None]]:
    """Return a connection, and what it sends; None for its end."""
    sent: list[bytes | None] = []
    transport: Any = SimpleNamespace(
        write=sent.append, close=lambda: sent.append(None), is_closing=lambda: sent[-1:] == [None]
    )
    return _Joined(transport, asyncio.get_running_loop()), sent


def test_head_and_body_are_one_write():
    async def work():
        connection, sent = joined()
        connection.write(b"head ")
        connection.write(b"body")
        assert sent == []
        await asyncio.sleep(0)
        connection.write(b"next")
        await asyncio.sleep(0)
        return sent

    assert asyncio.run(work()) == [b"head body", b"next"]


def test_what_was_written_goes_out_before_the_end():
    async def work():
        connection, sent = joined()
        connection.write(b"last")
        connection.close()
        assert connection.is_closing()
        await asyncio.sleep(0)
        return sent

    assert asyncio.run(work()) == [b"last", None]


def test_a_stream_that_never_pauses_is_not_kept_back():
    """The transport would not learn of it, and so could not ask the writer to wait."""

    async def work():
        connection, sent = joined()
        for _ in range(100):
            connection.write(bytes(10_000))
        written = sum(map(len, sent))
        await asyncio.sleep(0)
        return written, sum(map(len, sent))

    written, all_in_all = asyncio.run(work())
    assert written >= 1_000_000 - 2**16
    assert all_in_all == 1_000_000
