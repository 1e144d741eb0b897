"""Frames between the server and its workers: what was packed comes out, and never a part of it."""

from __future__ import annotations

import socket
import threading
import tracemalloc

import pytest

from alloc.server.frames import pack_job, receive_job


def received(data: bytes) -> tuple[str, bytes, bool] | None:
    """Return what a worker gets of bytes after which the server is gone."""
    server, worker = socket.socketpair()

    def send() -> None:
        with server:
            server.sendall(data)

    sender = threading.Thread(target=send)
    sender.start()
    with worker:
        found = receive_job(worker)
    sender.join()
    return found


@pytest.mark.parametrize("says_limit", [False, True])
@pytest.mark.parametrize("body", [b"", b"{}", bytes(range(256)) * 9])
def test_a_job_is_received_as_it_was_packed(body: bytes, says_limit: bool) -> None:
    frame = pack_job("solve", body, says_limit=says_limit)
    assert received(frame) == ("solve", body, says_limit)


def test_no_part_of_a_frame_is_a_job() -> None:
    frame = pack_job("solve", b'{"a": 1}')
    assert [received(frame[:length]) for length in range(len(frame))] == [None] * len(frame)


def test_a_large_body_is_held_twice_at_most() -> None:
    """A worker may use little more memory than its job: a third copy is one too many."""
    frame = pack_job("solve", bytes(8 << 20))
    tracemalloc.start()
    assert received(frame) is not None
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2.5 * len(frame)
