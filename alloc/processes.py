"""Child processes: how they start, end with their parent, keep to a limit of memory, and die."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
"""The number of this request in ``linux/prctl.h``: Python has no name for it."""
_RESERVED_MIB = 1024
"""Address space beyond a limit of memory: what allocators and threads reserve and never use."""
_SOFT = 0.9
"""Of a limit of memory, where a search is told to end: the rest is for what it does until then."""
_LOOK_S = 0.02
"""Between two looks at the memory, seconds: a core fills some 50 MiB in this time."""


@contextlib.contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Hold Ctrl-C back for a moment.

    Signals that are blocked when a process starts are blocked in it for good: workers that start
    here do not hear the SIGINT that a terminal sends to all processes of a command.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    # Their helpers let signals through again when they start, so they come first.
    resource_tracker.ensure_running()
    loky_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def python_command(function: str, *arguments: object) -> list[str]:
    """Return the command of a fresh Python that imports what this one can, and calls a function.

    Parameters
    ----------
    function
        ``module:function``.
    arguments
        What it is called with: numbers, text and their like, of which `repr` is the Python code.
    """
    module, _, name = function.partition(":")
    # First of all: what lies in the working folder must not stand in for a module of Python's.
    path = [entry for entry in sys.path if isinstance(entry, str)]
    call = f"{name}({', '.join(map(repr, arguments))})"
    code = f"import sys; sys.path[:] = {path!r}; from {module} import {name}; {call}"
    return [sys.executable, "-c", code]


def end_with_parent(channel: int) -> None:
    """Let this process not outlive its parent, not even one that is killed.

    Parameters
    ----------
    channel
        File descriptor of a pipe or socket whose other end only the parent holds; it is watched
        for its closing, nothing is read.
    """
    import select
    import threading

    if sys.platform.startswith("linux"):
        import ctypes

        # Also while a solver lets no other thread run.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        ended = select.poll()
        # Nothing is waited for but the end of the other side, which is always reported.
        ended.register(channel, 0)
        ended.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit_memory(max_mib: float) -> None:
    """Let allocations fail in this process that take it far beyond a limit; on Linux only.

    Parameters
    ----------
    max_mib
        What may be added to what is held now, MiB.
    """
    if not sys.platform.startswith("linux"):
        return
    import resource
    from pathlib import Path

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    held = pages * resource.getpagesize()
    most = held + int((max_mib + _RESERVED_MIB) * 2**20)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


class MemoryWatch:
    """Whether the memory ran short while somebody looked."""

    def __init__(self) -> None:
        self.ran_short = False


@contextlib.contextmanager
def memory_watch(max_mib: float) -> Iterator[MemoryWatch]:
    """Interrupt this process, as Ctrl-C does, before it takes more than a limit of memory.

    Parameters
    ----------
    max_mib
        What may be added to what is held now, MiB.

    Notes
    -----
    At nine tenths of it. Memory is looked at from a thread, fifty times a second, so what is
    allocated at once is seen afterwards only: `limit_memory` refuses that.
    """
    import threading

    watch, ended = MemoryWatch(), threading.Event()
    most = _held_mib() + _SOFT * max_mib

    def look() -> None:
        while not ended.wait(_LOOK_S):
            if _held_mib() > most:
                watch.ran_short = True
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()


def _held_mib() -> float:
    """Return the memory that this process holds, MiB; where it cannot be read, the most so far."""
    import resource
    from pathlib import Path

    if sys.platform.startswith("linux"):
        # The most so far of a process that was started by a larger one is that of its parent.
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def death(code: int | None) -> str:
    """Return how a process died and what helps, to follow its name in a sentence.

    Parameters
    ----------
    code
        Its exit code; for a signal, its number below 0; None if it is not known.

    Examples
    --------
    >>> death(-11).partition(";")[0]
    'died (signal 11, SIGSEGV) by a crash of its solver'
    """
    if code == -signal.SIGKILL:
        # Nobody sends this one but a person, or the system's guard of its memory.
        return (
            "died (signal 9, SIGKILL), most likely ended by the system for its memory; choose a "
            "smaller instance"
        )
    if code is None or code >= 0:
        how = f"ended without an answer (exit code {'unknown' if code is None else code})"
    else:
        try:
            name = f", {signal.Signals(-code).name}"
        except ValueError:  # a real-time signal
            name = ""
        how = f"died (signal {-code}{name}) by a crash of its solver"
    return f"{how}; choose another backend or a smaller instance"
