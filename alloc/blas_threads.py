"""Numpy without threads of its own, for who multiplies small matrices again and again.

After a product its threads go on turning for a while, on cores that other processes want.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
"""Held while one of the next two changes."""
_limits = ExitStack()
"""Gives numpy its threads back."""
_runs = 0
"""Runs that are not over yet: each would give back what it found, one of two that overlap 1."""


@contextmanager
def no_blas_threads() -> Iterator[None]:
    """Let numpy multiply in one thread, in all of this process, until the last run is over."""
    global _runs
    with _lock:
        if not _runs:
            _limits.enter_context(threadpool_limits(1, "blas"))
        _runs += 1
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if not _runs:
                _limits.close()
