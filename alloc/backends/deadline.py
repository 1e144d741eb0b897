"""A deadline for code that looks at no clock: building a model in Pyomo may outlast its solve."""

from __future__ import annotations

import ctypes
import threading
from types import TracebackType

from alloc.errors import OutOfTime


class Deadline:
    """Raise `OutOfTime` in the block's thread when its time is up, whatever Python code it runs.

    Not for blocks within each other. Where the time is up as the block ends, either may be.

    Parameters
    ----------
    seconds
        Wall time from the beginning of the block, seconds.

    Notes
    -----
    As Ctrl-C does, the error comes between two steps of Python code: a call into a library in C
    ends first. Other than Ctrl-C it comes in every thread.
    """

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(max(seconds, 0.0), self._raise)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._is_over = False

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._timer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            _set_error(self._thread, None)

    def _raise(self) -> None:
        with self._lock:
            if not self._is_over:
                _set_error(self._thread, OutOfTime)


def _set_error(thread: int, kind: type[BaseException] | None) -> None:
    """Let a thread raise an error at its next step; None takes back what it has not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if kind is None else ctypes.py_object(kind)
    )
