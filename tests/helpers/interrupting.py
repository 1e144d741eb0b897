"""Ctrl-C at a moment that an event names, never a clock: a busy machine must not move it."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from alloc.backends.interrupts import Stop


def press(number: int = signal.SIGINT) -> None:
    """Send this process a signal, as a terminal does at Ctrl-C."""
    os.kill(os.getpid(), number)


def ctrl_c_at(line: str) -> Callable[[str], None]:
    """Return a progress callback that presses Ctrl-C at the first line with this text."""
    pressed = False

    def report(said: str) -> None:
        nonlocal pressed
        if line in said and not pressed:
            pressed = True
            press()

    return report


def working(found: Any) -> bool:
    """HiGHS is in the middle of its work."""
    return True


def incumbent(found: Any) -> bool:
    """HiGHS has a solution and a bound of an integer program, and they do not meet."""
    primal, dual = found.mip_primal_bound, found.mip_dual_bound
    return math.isfinite(primal) and math.isfinite(dual) and dual > 0 and abs(primal - dual) > 1e-6


@contextmanager
def ctrl_c_in_highs(
    when: Callable[[Any], bool], number: int = signal.SIGINT
) -> Iterator[list[int]]:
    """Press Ctrl-C once, when HiGHS asks whether to go on and what it has found is so far.

    Yields the list of the signals sent. It is for runs that may be stopped
    (`alloc.backends.interrupts`).
    """
    sent: list[int] = []
    pass_on = Stop.pass_on

    def watched(self: Stop, event: Any) -> None:
        if not sent and when(event.data_out):
            sent.append(number)
            press(number)
        pass_on(self, event)

    Stop.pass_on = watched  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        Stop.pass_on = pass_on  # type: ignore[method-assign]
