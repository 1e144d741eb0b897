"""Clocks that run down: what is left of a limit, as a whole or for a part of the work.

No part of a search asks how long its limit was, only whether time is up: then a longer limit begins
with all that a shorter one does, and is never worse.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Returns the seconds left; time is up at 0 and below."""


def endless() -> float:
    """Return the seconds left where there is no limit."""
    return math.inf


def timer(seconds: float) -> Clock:
    """Return a clock of wall time that runs out after some seconds."""
    ends = time.perf_counter() + seconds
    return lambda: ends - time.perf_counter()
