"""Worker processes that never hear of Ctrl-C: whoever started them ends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import joblib

from alloc.own_processes import own_processes
from alloc.parallel import open_cluster
from alloc.processes import ctrl_c_waits


@contextmanager
def worker_processes(count: int) -> Iterator[joblib.Parallel]:
    """Yield joblib's `Parallel` with its worker processes running, deaf to Ctrl-C.

    Workers that hear it, in the middle of a call or of their own imports, print a traceback each,
    while the process that started them is about to end them anyway. The workers of a cluster that
    is open (`alloc.parallel.workers`) are used as they are.

    Parameters
    ----------
    count
        Number of processes.
    """
    cluster = open_cluster()
    if cluster is not None:
        yield cluster.pool()
        return
    # The processes of an earlier run may hear Ctrl-C.
    with own_processes(fresh=True):
        parallel = joblib.Parallel(n_jobs=count)
        with ctrl_c_waits(), parallel:
            # The first calls start the processes, which are there for the calls that follow.
            parallel(joblib.delayed(int)() for _ in range(count))
        with parallel:
            yield parallel
