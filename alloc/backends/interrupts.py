"""Ctrl-C while a solver works: it stops, and what it has found is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import highspy
    from highspy.highs import HighsCallbackEvent

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether Ctrl-C was pressed."""

    pressed = False

    def press(self, number: int, frame: FrameType | None) -> None:
        """Remember a signal: what Python does at a signal.

        Parameters
        ----------
        number, frame
            The signal and where it struck, as `signal.signal` gives them; neither is
            looked at.
        """
        self.pressed = True

    def watch(self, solver: highspy.Highs) -> None:
        """Let HiGHS end its run when it is pressed."""
        for asked in (solver.cbMipInterrupt, solver.cbSimplexInterrupt, solver.cbIpmInterrupt):
            asked.subscribe(self.pass_on)

    def pass_on(self, event: HighsCallbackEvent) -> None:
        """Tell HiGHS to stop: what it calls now and then."""
        if self.pressed:
            event.interrupt()


_outer: Stop | None = None
"""That of the main thread while it works."""


@contextmanager
def stoppable(solver: highspy.Highs | None = None) -> Iterator[Stop]:
    """Let Ctrl-C, or a SIGTERM that is treated alike, end a run of a solver before its time is up.

    Other solvers that run meanwhile, or all without `solver`, are for the caller to watch, as is
    CP-SAT. Inside another one, what was pressed there counts, and both learn what is pressed.

    HiGHS asks between iterations of a linear program, and in an integer program between nodes, so
    not before its first relaxation is solved. Python itself would hear of it only when the run is
    over, and then raise `KeyboardInterrupt`, which loses the run. Where somebody else handles these
    signals, or in a thread that gets none, nothing is changed.
    """
    global _outer
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    if _outer is not None:
        if solver is not None:
            _outer.watch(solver)
        yield _outer
        return
    ours = [n for n in _SIGNALS if signal.getsignal(n) is signal.default_int_handler]
    if ours and solver is not None:
        stop.watch(solver)
    try:
        for number in ours:
            signal.signal(number, stop.press)
        _outer = stop if ours else None
        yield stop
    finally:
        _outer = None
        for number in ours:
            signal.signal(number, signal.default_int_handler)
