"""Worker processes: Ctrl-C is for whoever started them."""

import os
import signal
import threading

import joblib
import pytest

from alloc.solving.processes import worker_processes


def blocked() -> tuple[int, set[int]]:
    """Return the process, and the signals that never reach it."""
    return os.getpid(), {int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, ())}


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no signal masks")
def test_workers_never_hear_of_ctrl_c_and_the_parent_still_does():
    """Each printed a traceback, in its own imports or calls, beside the answer."""
    # Processes of an earlier call in this one, which hear it, are not gone on with.
    joblib.Parallel(n_jobs=2)(joblib.delayed(blocked)() for _ in range(4))
    with worker_processes(2) as parallel:
        found = parallel(joblib.delayed(blocked)() for _ in range(8))
    assert os.getpid() not in {process for process, _ in found}
    assert all(int(signal.SIGINT) in signals for _, signals in found)
    heard = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: heard.set())
    try:
        os.kill(os.getpid(), signal.SIGINT)
        assert heard.wait(300)
    finally:
        signal.signal(signal.SIGINT, before)
