"""Worker processes: Ctrl-C is for whoever started them."""

import multiprocessing
import os
import signal
import threading
from contextlib import ExitStack
from multiprocessing.connection import Connection

import joblib
import pytest
from joblib.externals.loky import ProcessPoolExecutor, get_reusable_executor

from alloc.parallel import Workers, workers
from alloc.solving.processes import processes_beside, worker_processes


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


def never_ends() -> None:
    """Wait for what nobody does."""
    threading.Event().wait()


def processes(crew: Workers) -> set[int]:
    """Return the processes that some calls were made in."""
    return {process for process, _ in crew.start(blocked, [()] * 8)}


def of_calls(beside: ProcessPoolExecutor) -> set[int]:
    """Return the processes that some calls were made in."""
    return {future.result()[0] for future in [beside.submit(blocked) for _ in range(8)]}


@pytest.mark.long
def test_no_other_run_ends_the_processes_of_this_one():
    """Each run began with the end of the processes that joblib shares between all threads."""
    with ExitStack() as stack:
        shared = stack.enter_context(workers("loky", 2))
        runs = [processes(shared)]
        others = []
        for _ in range(2):
            others.append(stack.enter_context(processes_beside(2)))
            runs.append(of_calls(others[-1]))
        parallel = stack.enter_context(worker_processes(2))
        runs.append({process for process, _ in parallel(joblib.delayed(blocked)() for _ in "abcd")})
        assert sum(len(run) for run in runs) == len(set.union(*runs))
        get_reusable_executor(reuse=True).shutdown(kill_workers=True)
        # What ends a run's calls is its own matter, too.
        with processes_beside(2) as ending:
            ended = [ending.submit(never_ends) for _ in range(8)]
        assert all(future.done() for future in ended)
        assert len(of_calls(others[0]) | runs[1]) == 2


def has_others() -> bool:
    """Return whether processes may work beside this one."""
    with processes_beside(1) as others:
        return others is not None


def send_others(channel: Connection) -> None:
    """Send whether processes may work beside this one."""
    channel.send(has_others())


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*Loky-backed")
def test_processes_work_beside_a_run_of_any_thread_but_not_beside_a_worker():
    found = [has_others()]
    thread = threading.Thread(target=lambda: found.append(has_others()))
    thread.start()
    thread.join()
    assert found == [True, True]
    for kind in ("loky", "threading"):
        assert joblib.Parallel(2, kind)(joblib.delayed(has_others)() for _ in "ab") == [False] * 2
    spawn = multiprocessing.get_context("spawn")
    receive, send = spawn.Pipe(duplex=False)
    daemon = spawn.Process(target=send_others, args=(send,), daemon=True)
    daemon.start()
    assert receive.recv() is False
    daemon.join()
