"""The process that workers are forked from: it has loaded the solvers, and does nothing else.

So a worker starts within milliseconds, and has nothing of the program that runs the server: its
main module is not run again. A worker and what it starts are a group of processes of their own,
which ends with the worker.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from importlib import import_module
from multiprocessing import connection
from typing import NoReturn

from alloc.processes import end_with_parent, python_command
from alloc.server import worker

# One thread each: what a solver may use is decided by the request, not by the BLAS below it.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_LEAVE_S = 5.0
"""Time to kill the workers and leave, seconds: a thousand times what it takes."""


def start_worker(channel: socket.socket, preload: bool) -> socket.socket:
    """Start a worker; return the socket on which its exit code comes, as text, when it has ended.

    Shutting that socket down kills the worker and what it has started. Closed without an exit code,
    it says that no worker could be forked, or that the process they are forked from has died; the
    next call starts another.

    Parameters
    ----------
    channel
        The worker's end of the socket on which it talks to the server.
    preload
        Whether it is to have the solvers loaded.

    Raises
    ------
    OSError
        If no process can be started.
    """
    with _starting:
        parent = _parents.get(preload)
        if parent is not None and not parent.is_alive:
            parent.end()
            parent = None
        if parent is None:
            parent = _parents[preload] = _Parent(preload)
    with socket_pair() as (report, theirs):
        socket.send_fds(parent.control, [b"+"], [channel.fileno(), theirs.fileno()])
    report.setblocking(False)
    return report


@contextlib.contextmanager
def socket_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield two connected sockets, the second to hand over: it is closed, on an error both are."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            yield ours, theirs
        except BaseException:
            ours.close()
            raise


class _Parent:
    """The process that workers are forked from, as the server sees it."""

    def __init__(self, preload: bool) -> None:
        with socket_pair() as (self.control, theirs):
            self._process = subprocess.Popen(
                python_command("alloc.server.worker_parent:main", theirs.fileno(), preload),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=_ONE_THREAD | os.environ,
                # Ctrl-C in a terminal is for the server, which decides what becomes of its workers.
                start_new_session=True,
            )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self.control.close()
        self._process.terminate()
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_parents: dict[bool, _Parent] = {}
"""By whether they preload; all servers of a program share them."""
_starting = threading.Lock()


@atexit.register
def _end_parents() -> None:
    for parent in _parents.values():
        parent.end()


def main(descriptor: int, preload: bool) -> None:
    """Fork a worker for each pair of sockets that comes, until the server closes its end.

    Parameters
    ----------
    descriptor
        File descriptor of the socket on which the pairs come: see `start_worker`.
    preload
        Whether to load the solvers first.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    # A server may be started with it ignored: then no exit code is kept.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if preload:
        # What is not installed is missed by the jobs that need it.
        with contextlib.suppress(ImportError):
            import_module("alloc.server.preload")
    control = socket.socket(fileno=descriptor)
    # Of each worker two sockets, which end when it has ended, and when the server wants it to end;
    # with both its process id, and the second again, to report the exit code.
    workers: dict[socket.socket, tuple[int, socket.socket]] = {}
    try:
        while True:
            ready = connection.wait([control, *workers])[0]
            if ready is control:
                asked, ends, _, _ = socket.recv_fds(control, 1, 2)
                if not asked:
                    return
                _fork(ends, control, workers)
                continue
            assert isinstance(ready, socket.socket)
            pid, report = workers.pop(ready)
            _kill_group(pid)
            if ready is not report:
                workers.pop(report, None)
                _, status = os.waitpid(pid, 0)
                # The server may have forgotten the worker already.
                with ready, report, contextlib.suppress(OSError):
                    report.send(str(os.waitstatus_to_exitcode(status)).encode())
    finally:
        for pid, _ in workers.values():
            _kill_group(pid)


def _fork(
    ends: Iterable[int],
    control: socket.socket,
    workers: dict[socket.socket, tuple[int, socket.socket]],
) -> None:
    """Fork a worker and add it; where that cannot be done, close its sockets."""
    sockets = [socket.socket(fileno=end) for end in ends]
    for end in sockets:
        # What a job starts must not hold it open.
        end.set_inheritable(False)
    try:
        # Fewer have come if this process has too many files open.
        channel, report = sockets
        with socket_pair() as (ended, held):
            pid = os.fork()
            if pid == 0:
                _run(channel, held, (control, report, ended, *workers))
    except (OSError, ValueError):
        for end in sockets:
            end.close()
        return
    channel.close()
    # Here too: it may have to be killed before it has run. One that has died has no group.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    workers[ended] = workers[report] = pid, report


def _run(channel: socket.socket, held: socket.socket, others: Iterable[socket.socket]) -> NoReturn:
    """Run a worker in this process, and end it; what is its parent's alone is closed first."""
    code = 1
    try:
        # Here too: what it starts must be of its group.
        os.setpgid(0, 0)
        for other in others:
            other.close()
        end_with_parent(held.fileno())
        worker.main(channel)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _kill_group(pid: int) -> None:
    # There may be nobody left; macOS forbids to kill what has ended and is not yet waited for.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
