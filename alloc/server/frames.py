"""Frames: what server and worker say to each other over a socket. JSON and bytes, no pickle."""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass
from typing import Literal

Tag = Literal["ready", "limit", "progress", "result", "failure"]

_TAGS: tuple[Tag, ...] = ("ready", "limit", "progress", "result", "failure")
HEAD = struct.Struct("!BQ")
"""Tag and length of a frame from a worker."""
JOB_HEAD = struct.Struct("!?HQ")
"""Whether the worker is to say the time limit of the job, and the lengths of the name of the
operation and of the body, in a frame to a worker."""


@dataclass(frozen=True)
class Failure:
    """Why a job failed.

    Parameters
    ----------
    problem
        The problem document of the job, as `alloc.server.problems.Problem.to_json` writes it.
    trace
        For the log of the server: the traceback, or nothing for a mistake of the client's.
    """

    problem: str
    trace: str = ""

    def to_bytes(self) -> bytes:
        """Return the content of its frame."""
        return json.dumps([self.problem, self.trace]).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Failure:
        """Read the content of its frame."""
        problem, trace = json.loads(data)
        return Failure(problem, trace)


def pack(tag: Tag, content: bytes = b"") -> bytes:
    """Return a frame from a worker.

    Parameters
    ----------
    tag
        What the frame says.
    content
        Its content: text in UTF-8, or the JSON document of a result.
    """
    return HEAD.pack(_TAGS.index(tag), len(content)) + content


def unpack_head(data: bytes) -> tuple[Tag, int]:
    """Return the tag and the length of the content of a frame from a worker."""
    number, length = HEAD.unpack(data)
    return _TAGS[number], length


def pack_job(operation: str, body: bytes, *, says_limit: bool = True) -> bytes:
    """Return a frame to a worker.

    Parameters
    ----------
    operation
        Name of the operation.
    body
        The body of the request, or of the first frame how to start.
    says_limit
        Whether the worker is to say how long the request may take: the server has read small ones
        itself, and a frame costs both of them as much as a twentieth of a small solve.
    """
    name = operation.encode()
    return JOB_HEAD.pack(says_limit, len(name), len(body)) + name + body


def receive_job(channel: socket.socket) -> tuple[str, bytes, bool] | None:
    """Return the next job, as `pack_job` packs it; None when the server has closed the channel."""
    head = _receive(channel, JOB_HEAD.size)
    if head is None:
        return None
    says_limit, name_length, length = JOB_HEAD.unpack(head)
    content = _receive(channel, name_length + length)
    if content is None:
        return None
    # A view: a slice would be a second copy of a body that may be large.
    body = bytes(memoryview(content)[name_length:])
    return content[:name_length].decode(), body, says_limit


def _receive(channel: socket.socket, length: int) -> bytearray | None:
    """Return exactly so many bytes, or None if the channel ends before."""
    data = bytearray(length)
    view = memoryview(data)
    have = 0
    while have < length:
        count = channel.recv_into(view[have:])
        if count == 0:
            return None
        have += count
    return data
