"""Workers that cannot be started: another is, and nothing is left open."""

import asyncio
import socket
import subprocess
from typing import Any

import pytest

from alloc.server import pool as pools
from alloc.server.pool import Pool
from alloc.server.process import Worker


def test_a_worker_whose_channel_cannot_be_opened_is_replaced(settings, monkeypatch):
    """Else the server is one worker short for as long as it runs."""
    real = asyncio.open_connection
    refused: list[Any] = []

    async def first_fails(*, sock):
        if refused:
            return await real(sock=sock)
        refused.append(sock)
        raise OSError("too many open files")

    async def hired():
        ready = asyncio.Event()
        pool = Pool(settings.replace(workers=1), ready.set)
        pool.start()
        try:
            await asyncio.wait_for(ready.wait(), 20)
            return pool.num_idle
        finally:
            await pool.stop()

    monkeypatch.setattr(asyncio, "open_connection", first_fails)
    monkeypatch.setattr(pools, "_RETRY_S", 0.0)
    assert asyncio.run(hired()) == 1
    assert [sock.fileno() for sock in refused] == [-1]


def test_a_process_that_does_not_start_leaves_no_socket_open(settings, monkeypatch):
    """It is tried every second: without processes, soon there would be no files either."""
    real, pairs = socket.socketpair, []

    def kept():
        pairs.append(real())
        return pairs[-1]

    def fails(*_given, **_options):
        raise OSError("no more processes")

    monkeypatch.setattr(socket, "socketpair", kept)
    monkeypatch.setattr("alloc.server.worker_parent._parents", {})
    monkeypatch.setattr(subprocess, "Popen", fails)
    with pytest.raises(OSError, match="no more processes"):
        Worker(settings)
    assert [[end.fileno() for end in pair] for pair in pairs] == [[-1, -1]] * 2
