"""Worker processes that never hear of Ctrl-C: whoever started them ends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import joblib
from joblib.externals.loky import ProcessPoolExecutor
from joblib.parallel import get_active_backend

from alloc.own_processes import IDLE_S, Loky, OwnProcesses, end_processes, own_processes
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


@contextmanager
def processes_beside(count: int) -> Iterator[ProcessPoolExecutor | None]:
    """Yield processes of this machine that work beside this one, and end them at the end.

    Whoever sends calls, which starts the processes, does so while Ctrl-C waits
    (`alloc.processes.ctrl_c_waits`).

    Parameters
    ----------
    count
        Number of processes, 1 or more.

    Yields
    ------
    ProcessPoolExecutor or None
        None where joblib would start no process, as within a worker or a daemon.
    """
    active = get_active_backend()[0]
    is_loky = isinstance(active, (Loky, OwnProcesses))
    loky = active if is_loky else Loky(nesting_level=0)
    may_start = is_loky or open_cluster() is not None
    # joblib knows what may have children.
    if not may_start or loky.effective_n_jobs(count + 1) == 1:
        yield None
        return
    # Each has its share of the cores for its threads.
    threads = loky._prepare_worker_env(n_jobs=count + 1)  # noqa: SLF001
    processes = ProcessPoolExecutor(count, timeout=IDLE_S, env=threads)
    try:
        yield processes
    finally:
        end_processes(processes)
