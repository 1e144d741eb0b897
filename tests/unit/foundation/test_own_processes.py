"""Processes that a thread keeps: they end with it, and none that died or was forked is used."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from server_harness import wait_until_gone

from alloc import own_processes
from alloc.parallel import workers

pytestmark = pytest.mark.long


def wait_and_say(barrier: str) -> int:
    """Return the process of a call, once each of two processes has one."""
    folder = Path(barrier)
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < 2:
        threading.Event().wait(0.01)
    return os.getpid()


def run(barrier: str) -> set[int]:
    """Return the processes of a run with two."""
    Path(barrier).mkdir()
    with workers("loky", 2) as crew:
        return set(crew.in_order(wait_and_say, [(barrier,)] * 2))


def test_the_processes_of_a_thread_end_with_it(tmp_path):
    """A circle kept them until the garbage collector came: each thread of a server left some."""
    used: list[int] = []
    thread = threading.Thread(target=lambda: used.extend(run(str(tmp_path / "run"))))
    gc.collect()
    gc.disable()
    try:
        thread.start()
        thread.join()
        assert len(used) == 2
        wait_until_gone(used)
    finally:
        gc.enable()


def test_a_run_after_the_death_of_an_idle_process_has_others(tmp_path):
    first = run(str(tmp_path / "first"))
    os.kill(min(first), signal.SIGKILL)
    wait_until_gone(first)
    second = run(str(tmp_path / "second"))
    assert len(second) == 2
    assert not first & second


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_has_processes_of_its_own(tmp_path):
    """It sent calls to those of its parent, where nobody took them: it waited without end."""
    first = run(str(tmp_path / "first"))
    receive, send = multiprocessing.Pipe(duplex=False)

    def forked() -> None:
        send.send(run(str(tmp_path / "forked")))
        # Python waits for them at the end of a fork, until they have been idle for long.
        own_processes._kept.backend.close()

    fork = multiprocessing.get_context("fork").Process(target=forked)
    fork.start()
    assert receive.poll(300)
    second = receive.recv()
    fork.join()
    assert fork.exitcode == 0
    assert len(second) == 2
    wait_until_gone(second)
    # Those of the parent are still there.
    assert run(str(tmp_path / "third")) == first


def test_where_joblib_has_no_processes_calls_are_made_here():
    code = (
        "from alloc.parallel import workers\n"
        "for kind, count in ((None, 1), (None, 2), ('threading', 2)):\n"
        "    with workers(kind, count) as crew: print(crew.in_order(abs, [(-1,), (-2,)]))\n"
    )
    environment = {**os.environ, "JOBLIB_MULTIPROCESSING": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:3] == ["[1, 2]"] * 3
