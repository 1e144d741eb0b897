"""The worker: a process that runs one job after the other and may be killed at any time."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
from multiprocessing import current_process
from pathlib import Path

from alloc.documents.kept import keep_last
from alloc.errors import (
    AllocError,
    BackendUnavailableError,
    InstanceError,
    UnsupportedFeatureError,
)
from alloc.processes import limit_memory
from alloc.resources import amounts_of
from alloc.server.bodies import read_request
from alloc.server.frames import Failure, Tag, pack, pack_job, receive_job
from alloc.server.operations import Limits, Operation, operations
from alloc.server.problems import Problem, ProblemError
from alloc.server.settings import Settings
from alloc.topology import Topology

_PAUSE_S = 0.2
"""Shortest time between two lines of progress; a solver may have thousands a second to say."""
_MOMENT_S = 0.05
"""Seconds that a job runs before it says how far it is: one that is done sooner need not."""
_NICENESS = 1
"""By how much workers give way to the server. With 1 it answers within milliseconds while every
core solves; with 5 a worker beside other work of the machine gets a third of what that gets, and
less than it takes to solve 200 small problems a second."""
_TOPOLOGIES = 8
"""Topologies that a worker remembers: clients ask about the same few clusters again and again, and
which gangs stand on them takes a tenth of a small solve to find out."""
_MAX_HOSTS, _MAX_GANGS = 10_000, 10_000
"""Hosts, and gangs asked about, up to which a topology is remembered: some ten MB each."""


def main(channel: socket.socket) -> None:
    """Run jobs from the channel until it is closed.

    Parameters
    ----------
    channel
        Socket to the server, which first sends how to start (see `how_to_start`), then jobs.
    """
    # Only the server decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.nice(_NICENESS)
    # What a solver prints is not a log.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    # One process a job: the limit of its memory is that of a process.
    current_process().daemon = True
    first = receive_job(channel)
    if first is None:
        return
    start = json.loads(first[1])
    sys.path[:] = start["path"]
    os.chdir(start["folder"])
    known = operations(start["operations"])
    keep_last(Topology, _TOPOLOGIES, _is_small, _names)
    limits = Limits(start["job_limit_s"], os.cpu_count() or 1, start["max_body_bytes"])
    # What is allocated beyond the limit fails here, before the server has to kill.
    limit_memory(start["memory_limit_mib"])
    channel.sendall(pack("ready", str(os.getpid()).encode()))
    while (job := receive_job(channel)) is not None:
        name, body, says_limit = job
        tag, content = run_job(known[name], body, limits, channel, says_limit=says_limit)
        channel.sendall(pack(tag, content))


def _is_small(topology: Topology) -> bool:
    return topology.num_hosts <= _MAX_HOSTS and len(topology.known_gangs) <= _MAX_GANGS


def _names(topology: Topology) -> tuple[tuple[str, ...], ...]:
    """Return the names of resources, those of amounts of 0 too, which make no topology another."""
    given = (topology.resources, *(kind.resources for kind in topology.host_types))
    return tuple(amounts_of(own).names for own in given)


def how_to_start(settings: Settings) -> bytes:
    """Return the first frame for a worker: its settings, and where it finds modules and files."""
    start = {
        "path": [entry for entry in sys.path if isinstance(entry, str)],
        "folder": str(Path.cwd()),
        "operations": settings.operations,
        "job_limit_s": settings.job_limit_s,
        "memory_limit_mib": settings.memory_limit_mib,
        "max_body_bytes": settings.max_body_bytes,
    }
    return pack_job("start", json.dumps(start).encode())


def run_job(
    operation: Operation,
    body: bytes,
    limits: Limits,
    channel: socket.socket,
    *,
    says_limit: bool = True,
) -> tuple[Tag, bytes]:
    """Run a job; return its last frame. Whatever goes wrong is its failure, not the worker's.

    Parameters
    ----------
    operation
        What is asked for.
    body
        The body of the request, as it came.
    limits
        What the job may use.
    channel
        Socket to the server, for lines of progress and the time limit that the request asks for.
    says_limit
        Whether to say that time limit.
    """
    # Of a job that is done in a moment nobody wants to hear how far it is.
    said = time.monotonic() - _PAUSE_S + _MOMENT_S

    def tell(line: str) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= _PAUSE_S:
            said = now
            channel.sendall(pack("progress", line.encode("utf-8", "replace")))

    try:
        request = read_request(body, operation.request)
        seconds = operation.stop_after(request, limits)
        if says_limit and seconds is not None:
            channel.sendall(pack("limit", repr(seconds).encode()))
        return "result", operation.execute(request, tell, limits)
    except Exception as error:  # the boundary of the process
        return "failure", _failure(error).to_bytes()


def _failure(error: Exception) -> Failure:
    """Return what the client hears, and what the log keeps."""
    match error:
        case ProblemError():
            return Failure(error.problem.to_json())
        case InstanceError():
            return Failure(Problem("invalid-instance", str(error)).to_json())
        case UnsupportedFeatureError() | BackendUnavailableError():
            return Failure(Problem("unsupported", str(error)).to_json())
        case MemoryError():
            sentence = (
                "the job needed more memory than the server gives a job; send a smaller "
                "instance, or choose another method."
            )
            return Failure(Problem("memory-limit", sentence).to_json())
        case AllocError():
            return Failure(Problem("solver-failed", str(error)).to_json(), _trace(error))
        case _:
            sentence = (
                "an error that is a bug in alloc; report it with what the server logged under "
                "the id of this job."
            )
            return Failure(Problem("internal", sentence).to_json(), _trace(error))


def _trace(error: Exception) -> str:
    return "".join(traceback.format_exception(error))
