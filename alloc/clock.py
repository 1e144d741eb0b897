"""The time that a piece of work may take, for what works in the depth: models, searches for hosts.

A variable of the context holds it, so that no signature of a model names a clock; each thread has
its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from alloc.errors import OutOfTime

_ends: ContextVar[float] = ContextVar("ends", default=math.inf)
"""When the time is up, on the clock of `time.perf_counter`."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit the time of a block: of building a model, or of placing what it says.

    Parameters
    ----------
    seconds
        Wall time from the beginning of the block, seconds. A limit around the block stays.

    Raises
    ------
    OutOfTime
        In the block, by what calls `check_time`.
    """
    token = _ends.set(min(_ends.get(), time.perf_counter() + seconds))
    try:
        yield
    finally:
        _ends.reset(token)


def time_is_up() -> bool:
    """Return whether the time of the block is up."""
    return time.perf_counter() >= _ends.get()


def check_time() -> None:
    """Raise `OutOfTime` if the time of the block is up: what loops over rows call."""
    if time_is_up():
        raise OutOfTime
