"""Hostile clients of a server on loopback: half-sent heads, dripping bodies, malformed documents.

Each does one kind of thing again and again, about once a second, for a given time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from multiprocessing import get_context
from multiprocessing.synchronize import Event

_PAUSE_S = 1.0
_START_S = 60.0
_HEAD = (
    "POST /v1/solve HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    "{headers}Content-Length: {length}\r\n\r\n"
)
_DOOR = 60_000
"""Bytes of a body that the server looks at before it accepts a job."""
_MIB = 2**20


def _many(item: str, size: int) -> str:
    return ",".join([item] * (size // (len(item) + 1)))


def _wide(size: int) -> str:
    return ",".join(f'"{number:x}":0' for number in range(size // 10))


_BODIES = {
    "empty jobs, 60 kB": f'{{"instance":{{"jobs":[{_many("{}", _DOOR)}]}}}}',
    "unknown fields, 60 kB": f'{{"instance":{{{_wide(_DOOR)}}}}}',
    "empty lists, 60 kB": f'{{"a":[{_many("[]", _DOOR)}]}}',
    "empty jobs, 1 MiB": f'{{"instance":{{"jobs":[{_many("{}", _MIB)}]}}}}',
    "no JSON": "x" * _DOOR,
    "doubled keys": '{"instance":"elastic-tiny/01","instance":"elastic-tiny/02"}',
    "brackets": "[" * _DOOR,
}

Behaviour = Callable[[int, str], Awaitable[None]]


@contextmanager
def hostile_clients(port: int, number: int, headers: str) -> Iterator[int]:
    """Let so many clients be hostile while the block runs, which gets the id of their process.

    `headers` hold their token.
    """
    context = get_context("spawn")
    begun = context.Event()
    arguments = (port, number, headers, begun)
    process = context.Process(target=_work, args=arguments, daemon=True)
    process.start()
    assert process.pid is not None
    try:
        # What it takes to load is no part of what hostile clients cost.
        if not begun.wait(_START_S):
            raise RuntimeError("the hostile clients do not start")
        yield process.pid
    finally:
        process.terminate()
        process.join()


def _work(port: int, number: int, headers: str, begun: Event) -> None:
    begun.set()
    asyncio.run(_all(port, number, headers))


async def _all(port: int, number: int, headers: str) -> None:
    behaviours: list[Behaviour] = [_half_head, _drip]
    behaviours += [_sender(body) for body in _BODIES.values()]
    clients = islice(cycle(behaviours), number)
    await asyncio.gather(*(_again(client, port, headers) for client in clients))


async def _again(client: Behaviour, port: int, headers: str) -> None:
    while True:
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            await client(port, headers)
        await asyncio.sleep(_PAUSE_S)


async def _half_head(port: int, headers: str) -> None:
    """Open ten connections a second, and never end a head."""
    for _ in range(10):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/solve HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
        _KEPT.append(writer)


async def _drip(port: int, headers: str) -> None:
    """Send a body a byte at a time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_HEAD.format(headers=headers, length=_MIB).encode())
    while not reader.at_eof():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(_PAUSE_S / 10)


def _sender(body: str) -> Behaviour:
    async def send(port: int, headers: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_HEAD.format(headers=headers, length=len(body)).encode() + body.encode())
        async with asyncio.timeout(10 * _PAUSE_S):
            await reader.readuntil(b"\r\n\r\n")
        writer.close()

    return send


_KEPT: deque[asyncio.StreamWriter] = deque(maxlen=400)
"""Connections that are held open, fewer than the files that a process may have."""
