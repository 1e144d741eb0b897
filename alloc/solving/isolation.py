"""A call in a process of its own: a solver that crashes there leaves the caller's session alone."""

from __future__ import annotations

import pickle
import queue
import signal
import subprocess
import threading
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Literal

from alloc.errors import InstanceError, SolverError
from alloc.processes import death, end_with_parent, python_command

Kind = Literal["ready", "progress", "result", "error", "dead"]


def run_isolated(
    function: Callable[..., Any],
    *arguments: Any,
    progress: Callable[[str], None] | None = None,
    on_death: str = "",
    **options: Any,
) -> Any:
    """Call a function of alloc in a process of its own, and return what it returns.

    The process knows what an import knows: not what this session has defined or registered. It is
    started afresh, which takes about a second; limits of time count from then on. Its group of
    processes is its own, so that Ctrl-C in a terminal reaches it through this one only.

    Parameters
    ----------
    function
        `solve`, `place` or any other that takes `progress`, from a module that can be imported.
    arguments, options
        What it is called with.
    progress
        Called in this process with each line that the function reports.
    on_death
        A sentence for the error, should the process die.

    Raises
    ------
    InstanceError
        If an argument cannot be sent to a process.
    SolverError
        If the process died.
    KeyboardInterrupt
        At the second Ctrl-C. The first ends the search, as in this process.
    AllocError
        What the function itself raises.
    """
    try:
        call = pickle.dumps((function, arguments, options))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InstanceError(
            f"{function.__name__} cannot be sent to a process of its own ({error}); define what "
            "you hand it at the top of a module, or leave out isolated."
        ) from None
    ours, theirs = Pipe()
    with theirs:
        process = subprocess.Popen(
            python_command("alloc.solving.isolation:_serve", theirs.fileno()),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
    messages: queue.SimpleQueue[tuple[Kind, Any]] = queue.SimpleQueue()
    # In a thread, where no Ctrl-C can break off a message in the middle.
    reader = threading.Thread(target=_read, args=(ours, call, messages), daemon=True)
    reader.start()
    try:
        return _answer(messages, process, function.__name__, progress, on_death)
    finally:
        process.kill()
        process.wait()
        reader.join()
        ours.close()


def _read(
    connection: Connection, call: bytes, messages: queue.SimpleQueue[tuple[Kind, Any]]
) -> None:
    """Hand over the call, and take what comes until the end of the process."""
    try:
        connection.send_bytes(call)
        while True:
            messages.put(connection.recv())
    except (EOFError, OSError):
        messages.put(("dead", None))
    except Exception as error:  # what came back cannot be read here
        messages.put(("error", SolverError(f"the answer of another process: {error!r}.")))


def _answer(
    messages: queue.SimpleQueue[tuple[Kind, Any]],
    process: subprocess.Popen[bytes],
    name: str,
    progress: Callable[[str], None] | None,
    on_death: str,
) -> Any:
    """Wait for the answer, and pass on Ctrl-C."""
    ready = interrupted = False
    while True:
        try:
            kind, value = messages.get()
            if kind == "progress" and progress is not None:
                progress(value)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            if ready:
                process.send_signal(signal.SIGINT)
            continue
        if kind == "ready":
            ready = True
            if interrupted:
                process.send_signal(signal.SIGINT)
        elif kind == "result":
            return value
        elif kind == "error":
            raise value
        elif kind == "dead":
            raise SolverError(f"{name}: its process {death(process.wait())}. {on_death}".rstrip())


def _serve(descriptor: int) -> None:
    """Run the one call of this process."""
    # A batch system may send SIGTERM to every process; the caller decides what becomes of this one.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    connection = Connection(descriptor)
    end_with_parent(descriptor)
    # Sent by a thread: an interrupt in the middle of a message would spoil all that follow.
    messages: queue.SimpleQueue[tuple[Kind, Any]] = queue.SimpleQueue()
    sender = threading.Thread(target=_send, args=(connection, messages), daemon=True)
    sender.start()
    last: tuple[Kind, Any]
    try:
        function, arguments, options = pickle.loads(connection.recv_bytes())
        messages.put(("ready", None))
        options["progress"] = lambda line: messages.put(("progress", line))
        last = ("result", function(*arguments, **options))
    except BaseException as error:
        last = ("error", _portable(error))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    messages.put(last)
    sender.join()


def _send(connection: Connection, messages: queue.SimpleQueue[tuple[Kind, Any]]) -> None:
    """Send every message, the answer last."""
    kind = "ready"
    while kind not in ("result", "error"):
        kind, value = messages.get()
        try:
            connection.send((kind, value))
        except Exception as error:  # whatever pickle makes of the answer
            connection.send(("error", _portable(error)))


def _portable(error: BaseException) -> BaseException:
    """Return an error that survives the way to another process, with its traceback as a note."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever the constructor of somebody's error does
        error = SolverError(f"{type(error).__name__}: {error}")
    trace = "".join(traceback.format_exception(error))
    error.add_note(f"In the process of the call:\n{trace}")
    return error
