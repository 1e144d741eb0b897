"""The garbage collector: it rests where millions of objects are made and no cycle among them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Let the garbage collector rest in a block that makes many objects and no cycle among them.

    The collector looks at all of them again and again for one; of reading a large document that
    took half of the time.
    """
    enabled = gc.isenabled()
    try:  # also for a Ctrl-C right after the next line
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()
