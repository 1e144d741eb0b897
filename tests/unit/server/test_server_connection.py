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
