"""Other work on the machine: a process that keeps a share of one core busy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context

_PERIOD_S = 0.02
"""Work and rest in turns, seconds: as long as what a scheduler of the system gives at a time, so
that neither looks like a pause to what runs beside it."""


@contextmanager
def other_work(cores: float) -> Iterator[int | None]:
    """Keep a share of a core busy while the block runs, which gets the id of the process.

    Parameters
    ----------
    cores
        Share, from 0 to 1; of 0 there is no process, and no id.
    """
    if not cores:
        yield None
        return
    process = get_context("spawn").Process(target=_work, args=(cores,), daemon=True)
    process.start()
    try:
        yield process.pid
    finally:
        process.terminate()
        process.join()


def _work(cores: float) -> None:
    """Use so much CPU time, whatever else wants some."""
    began, used = time.monotonic(), time.process_time()
    while True:
        # What it could not get it does not ask for later: that would be more than its share.
        owed = cores * (time.monotonic() - began) - (time.process_time() - used)
        if owed > _PERIOD_S:
            began, used = time.monotonic(), time.process_time()
        elif owed > 0:
            end = time.process_time() + owed
            while time.process_time() < end:
                pass
        time.sleep(_PERIOD_S * (1.0 - cores))
