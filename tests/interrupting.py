"""Ctrl-C as it comes: a real signal, a while after a line of progress."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ctrl_c(after_s: float, line: str = "") -> Iterator[Callable[[str], None]]:
    """Yield a report that sends this process SIGINT so long after the first line with a text."""
    timers: list[threading.Timer] = []

    def report(said: str) -> None:
        if line in said and not timers:
            timers.append(threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)))
            timers[0].start()

    yield report
    for timer in timers:
        timer.cancel()
        timer.join()
