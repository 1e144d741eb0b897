"""A load generator: requests at a fixed rate over kept-alive connections, in its own process.

The rate is kept whatever the server does (an open loop), and the latency of a request counts from
when it was due, so that a server that stalls cannot hide it by slowing the generator down.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection

_CONNECTIONS = 64


@dataclass(frozen=True)
class Load:
    """What came of a load.

    Parameters
    ----------
    latencies_s
        Seconds from when each answered request was due to the end of its answer.
    failures
        Number of requests with another answer than 200, or none.
    first_failure
        What the first of them was.
    seconds
        From the first request to the last answer.
    cpu_s
        CPU time that the generator itself used, seconds.
    """

    latencies_s: Sequence[float]
    failures: int
    first_failure: str
    seconds: float
    cpu_s: float


def generate_load(
    port: int, path: str, bodies: Sequence[bytes], rate: float, seconds: float, headers: str = ""
) -> Load:
    """Send `bodies` in turn to a server on loopback; return what came of it."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_work, args=(theirs, port, path, list(bodies), rate, seconds, headers), daemon=True
    )
    process.start()
    theirs.close()
    load: Load = ours.recv()
    process.join()
    return load


def _work(
    channel: Connection,
    port: int,
    path: str,
    bodies: Sequence[bytes],
    rate: float,
    seconds: float,
    headers: str,
) -> None:
    requests = [_request(path, body, headers) for body in bodies]
    gc.freeze()
    channel.send(asyncio.run(_send_all(port, requests, rate, seconds)))


def _request(path: str, body: bytes, headers: str) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _send_all(port: int, requests: Sequence[bytes], rate: float, seconds: float) -> Load:
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(_CONNECTIONS):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    latencies: list[float] = []
    failures: list[str] = []

    async def send(request: bytes, due: float) -> None:
        connection = await free.get()
        reader, writer = connection
        try:
            writer.write(request)
            status, body = await _answer(reader)
        except (OSError, EOFError, ValueError) as error:
            failures.append(repr(error))
            connection = await asyncio.open_connection("127.0.0.1", port)
        else:
            if status == 200:
                latencies.append(time.perf_counter() - due)
            else:
                failures.append(f"{status} {body[:300]!r}")
        free.put_nowait(connection)

    cpu = time.process_time()
    start = time.perf_counter()
    tasks = []
    for number in range(round(rate * seconds)):
        due = start + number / rate
        pause = due - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        tasks.append(asyncio.create_task(send(requests[number % len(requests)], due)))
    await asyncio.gather(*tasks)
    took = time.perf_counter() - start
    first = failures[0] if failures else ""
    return Load(latencies, len(failures), first, took, time.process_time() - cpu)


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    lower = head.lower()
    start = lower.index(b"content-length:") + 15
    length = int(lower[start : lower.index(b"\r\n", start)])
    return status, await reader.readexactly(length)
