"""Child processes: they end with their parent, and a death is told in words."""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


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
