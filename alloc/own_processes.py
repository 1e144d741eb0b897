"""Processes of one run for joblib, which has one set of them for all threads of a process.

A run that ends joblib's own, or needs others than those that are there, ends them for every run of
every thread: calls in the middle end with an error, and those that were not sent are waited for
without end.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import joblib
from joblib.externals.loky import ProcessPoolExecutor
from joblib.parallel import get_active_backend

Loky: Any = joblib.parallel.LokyBackend
_Base: Any = joblib.parallel.ParallelBackendBase

IDLE_S = 300
"""After so long without a call a process ends, seconds; as joblib's own do."""


class OwnProcesses(_Base):  # type: ignore[misc, unused-ignore]
    """A backend for joblib: processes that no other thread has."""

    supports_retrieve_callback = True
    supports_return_generator = True
    supports_inner_max_num_threads = True
    # How many may run, and within what, is as for joblib's own processes.
    effective_n_jobs = Loky.effective_n_jobs

    def __init__(self, inner_max_num_threads: int | None = None) -> None:
        super().__init__(inner_max_num_threads=inner_max_num_threads)
        self.is_used = False
        self._own: ProcessPoolExecutor | None = None
        self._how: tuple[int, int, dict[str, str]] = (0, 0, {})
        self._workers: ProcessPoolExecutor | None = None

    def configure(self, n_jobs: int = 1, parallel: Any = None, **settings: Any) -> int:
        """Use the processes that are there, the same for all pools; joblib calls this first.

        Parameters
        ----------
        n_jobs
            Processes; -1: one for each core.
        parallel
            The pool, or None.
        settings
            What joblib sets besides, which says nothing here.
        """
        count: int = self.effective_n_jobs(n_jobs)
        if count == 1:
            # joblib's backend says how calls are made here.
            Loky(nesting_level=self.nesting_level).configure(n_jobs, parallel, **settings)
        how = (os.getpid(), count, self._prepare_worker_env(n_jobs=count))
        # Where one died since, calls end with an error; a fork has no thread that sends them.
        if self._own is None or how != self._how or self._own._flags.broken:  # noqa: SLF001
            self.close()
            self._own = ProcessPoolExecutor(count, timeout=IDLE_S, env=how[2])
        self._workers, self._how, self.parallel = self._own, how, parallel
        return count

    def submit(self, func: Any, callback: Any = None) -> Any:
        """Send a call; joblib calls this.

        Parameters
        ----------
        func
            A call without arguments.
        callback
            Is given the future once it is done; or None.
        """
        assert self._workers is not None, "joblib has configured this"
        future = self._workers.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, future: Any) -> Any:
        """Return what a call returned, or raise what it raised."""
        return future.result()

    def terminate(self) -> None:
        """Leave the processes to the pools that follow; joblib calls this last."""
        # The pool has this backend: a circle would keep the processes of a thread that has ended.
        self._workers = self.parallel = None

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """End the calls, which ends their processes; joblib calls this where it gives up."""
        self.close()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

    def close(self) -> None:
        """End the processes."""
        own, self._own, self._workers = self._own, None, None
        if own is None:
            return
        end_processes(own)


def end_processes(processes: ProcessPoolExecutor) -> None:
    """End processes, in the middle of their calls."""
    # Their thread drops all calls at the end, and would then look for those that wait here.
    with suppress(queue.Empty, AttributeError):
        while True:
            processes._work_ids.get_nowait()  # noqa: SLF001 - no other way in
    processes.shutdown(kill_workers=True)


_living: weakref.WeakSet[OwnProcesses] = weakref.WeakSet()


class _Kept(threading.local):
    """Processes that a thread keeps from one run to the next: a second is long to start them."""

    def __init__(self) -> None:
        self.backend = OwnProcesses()
        _living.add(self.backend)


_kept = _Kept()


@atexit.register
def _close_all() -> None:
    """End what threads have kept, while the modules that loky needs for it are there."""
    for backend in list(_living):
        backend.close()


@contextmanager
def own_processes(fresh: bool = False) -> Iterator[None]:
    """Have joblib's processes be this thread's own, where it would use processes.

    Parameters
    ----------
    fresh
        Whether they start for this run and end with it, and are not those of the run before.
    """
    active = get_active_backend()[0]
    if not isinstance(active, (Loky, OwnProcesses)):
        yield
        return
    threads = active.inner_max_num_threads
    backend = _kept.backend
    # A run within another has others: its end is none of the outer one's.
    fresh = fresh or backend.is_used or threads is not None
    if fresh:
        backend = OwnProcesses(threads)
    backend.is_used = True
    with joblib.parallel_config(backend=backend):
        try:
            yield
        finally:
            backend.is_used = False
            if fresh:
                backend.close()
