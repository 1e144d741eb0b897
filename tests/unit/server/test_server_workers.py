"""Workers: how they start and end, with what they have started, and what replaces them."""

import asyncio
import operator
import os
import resource
import signal
import socket
import subprocess
import time
from typing import Any

import pytest
from server_harness import (
    act,
    files_of,
    parent_of,
    processes_of,
    wait_for,
    wait_until_gone,
)

from alloc.server import pool as pools
from alloc.server import worker_parent
from alloc.server.pool import Pool
from alloc.server.process import Worker

OPERATIONS_MODULE = """
import multiprocessing, os, signal, sys
from alloc.server.operations import Operation
from alloc.server.requests import Request

def describe(request, tell, limits):
    return {
        "folder": os.getcwd(),
        "input": sys.stdin.read() + os.read(0, 1).decode(),
        "output": os.readlink("/proc/self/fd/1"),
        "ctrl_c": signal.getsignal(signal.SIGINT).name,
        "sigterm": signal.getsignal(signal.SIGTERM).name,
        "threads": os.environ["OMP_NUM_THREADS"],
        "one_process": multiprocessing.current_process().daemon,
    }

OPERATIONS = [Operation("describe", "Say.", Request, f"{__name__}:describe", "What it is.")]
"""


def test_a_worker_whose_channel_cannot_be_opened_is_replaced(settings, monkeypatch):
    """Else the server is one worker short for as long as it runs."""
    real = asyncio.open_connection
    refused: list[Any] = []

    async def first_fails(*, sock):
        if refused:
            return await real(sock=sock)
        refused.append(sock)
        raise OSError("too many open files")

    async def hired():
        ready = asyncio.Event()
        pool = Pool(settings.replace(workers=1), ready.set)
        pool.start()
        try:
            await asyncio.wait_for(ready.wait(), 300)
            return pool.num_idle
        finally:
            await pool.stop()

    monkeypatch.setattr(asyncio, "open_connection", first_fails)
    monkeypatch.setattr(pools, "_RETRY_S", 0.0)
    assert asyncio.run(hired()) == 1
    assert [sock.fileno() for sock in refused] == [-1]


def test_a_process_that_does_not_start_leaves_no_socket_open(settings, monkeypatch):
    """It is tried every second: without processes, soon there would be no files either."""
    real, pairs = socket.socketpair, []

    def kept():
        pairs.append(real())
        return pairs[-1]

    def fails(*_given, **_options):
        raise OSError("no more processes")

    monkeypatch.setattr(socket, "socketpair", kept)
    monkeypatch.setattr("alloc.server.worker_parent._parents", {})
    monkeypatch.setattr(subprocess, "Popen", fails)
    with pytest.raises(OSError, match="no more processes"):
        Worker(settings)
    assert [[end.fileno() for end in pair] for pair in pairs] == [[-1, -1]] * 2


def started_by(client, folder):
    """Run a job that starts a process; return the job's id, its worker, and that process."""
    told = folder / "process"
    job = act(client, act="start", text=str(told)).json()["id"]
    while not (told.exists() and told.read_text().endswith("\n")):
        time.sleep(0.02)
    helper = int(told.read_text())
    return job, parent_of(helper), helper


@pytest.mark.long
@pytest.mark.parametrize("how", ["cancel", "crash"])
def test_what_a_job_has_started_ends_with_its_worker(how, open_client, settings, tmp_path):
    """An external solver would go on for hours, for nobody, on the cores of the next jobs."""
    client = open_client(settings.replace(workers=1))
    job, worker, helper = started_by(client, tmp_path)
    if how == "cancel":
        assert client.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"
    else:
        os.kill(worker, signal.SIGSEGV)
        assert "signal 11" in wait_for(client, job)["problem"]["detail"]
    wait_until_gone([worker, helper])
    assert act(client, wait=30).status_code == 200


def test_a_worker_that_dies_before_it_has_read_its_job_is_replaced(open_client, settings):
    """Else the next job is given to it, and fails too."""
    client = open_client(settings.replace(workers=1))
    worker = act(client, wait=30).json()["process"]
    os.kill(worker, signal.SIGSTOP)
    job = act(client, act="hold").json()["id"]
    wait_for(client, job, states=("running",))
    os.kill(worker, signal.SIGKILL)
    assert wait_for(client, job)["state"] == "failed"
    assert act(client, wait=30).json()["process"] != worker


@pytest.mark.long
def test_workers_die_with_their_parent_and_the_next_job_finds_others(open_client, settings):
    """The system may kill any process when memory runs out."""
    client = open_client(settings.replace(workers=1, preload=False))
    before = act(client, wait=30).json()["process"]
    parent = parent_of(before)
    job = act(client, act="hold").json()["id"]
    wait_for(client, job, states=("running",))
    os.kill(parent, signal.SIGKILL)
    found = wait_for(client, job)
    assert found["state"] == "failed"
    assert found["problem"]["type"] == "urn:alloc:problem:worker-died"
    assert found["problem"]["status"] == 500
    after = act(client, wait=30).json()["process"]
    assert parent_of(after) != parent
    wait_until_gone([parent, before])


@pytest.mark.long
def test_a_parent_that_does_not_leave_is_killed(settings, monkeypatch):
    """Else a server whose workers' parent hangs would never end."""
    monkeypatch.setattr(worker_parent, "_parents", {})
    monkeypatch.setattr(worker_parent, "_LEAVE_S", 0.01)

    async def left_by_a_stopped_parent():
        worker = Worker(settings.replace(preload=False))
        await worker.open()
        stopped = parent_of(worker.pid)
        os.kill(stopped, signal.SIGSTOP)
        for parent in worker_parent._parents.values():
            parent.end()
        wait_until_gone([stopped, worker.pid])
        await worker.close()

    asyncio.run(left_by_a_stopped_parent())


@pytest.mark.long
def test_a_server_that_is_killed_leaves_no_process(server, tmp_path):
    """Neither its workers, nor the process they are forked from, nor what a job has started."""
    first = server(workers=2)
    _, worker, helper = started_by(first.client, tmp_path)
    below = processes_of(first.process.pid)
    assert {worker, helper, parent_of(worker)} < set(below)
    first.kill()
    wait_until_gone(below)


@pytest.mark.long
def test_fifty_starts_leave_nothing_behind(settings, monkeypatch):
    """Neither a process that nobody waits for, nor an open file, here or where they are forked."""
    # Not where a server of other tests, which is still there, has its workers forked.
    monkeypatch.setattr(worker_parent, "_parents", {})

    async def starts(count):
        for _ in range(count):
            worker = Worker(settings)
            await worker.open()
            parent = parent_of(worker.pid)
            assert os.getpgid(worker.pid) == worker.pid
            worker.kill("recycle")
            await worker.close()
        wait_until_gone(processes_of(parent))  # the last of them may be ending
        return parent, *(files_of(pid) for pid in (os.getpid(), parent))

    async def compared():
        parent, *files = await starts(1)
        # What ended last may not be closed yet.
        few = [number + 10 for number in files]
        after, *files_after = await starts(50)
        assert after == parent
        assert all(map(operator.le, files_after, few))
        for one in worker_parent._parents.values():
            one.end()

    asyncio.run(compared())


@pytest.mark.parametrize("missing", ["process", "socket", "handed over"])
def test_where_no_process_can_be_forked_the_server_hears_of_it(missing, monkeypatch):
    """The workers that are there go on, and the server tries again."""
    (channel, theirs), (report, reported) = socket.socketpair(), socket.socketpair()
    ends = [theirs.detach(), reported.detach()]

    def fails():
        raise OSError("too many")

    if missing == "process":
        monkeypatch.setattr(os, "fork", fails)
    elif missing == "socket":
        monkeypatch.setattr(socket, "socketpair", fails)
    else:
        os.close(ends.pop())
    workers: dict[Any, Any] = {}
    with channel, report, socket.socket() as control:
        worker_parent._fork(ends, control, workers)
        assert (channel.recv(1), report.recv(1), workers) == (b"", b"", {})


@pytest.mark.long
def test_workers_go_on_where_their_parent_can_open_no_file(settings, monkeypatch):
    """One that is not handed over is missing; those at work must not end with it."""
    # A parent of its own: the sockets of other tests' workers are more than it may open here.
    parents: dict[bool, Any] = {}
    monkeypatch.setattr(worker_parent, "_parents", parents)

    async def started():
        worker = Worker(settings)
        await worker.open()
        return worker

    async def tried():
        first = await started()
        parent = parent_of(first.pid)
        soft, hard = resource.prlimit(parent, resource.RLIMIT_NOFILE)
        resource.prlimit(parent, resource.RLIMIT_NOFILE, (3, hard))
        try:
            refused = Worker(settings)
            with pytest.raises((OSError, EOFError)):
                await refused.open()
            await refused.close()
        finally:
            resource.prlimit(parent, resource.RLIMIT_NOFILE, (soft, hard))
        second = await started()
        assert first.is_alive
        assert parent_of(second.pid) == parent
        for worker in (first, second):
            worker.kill("recycle")
            await worker.close()

    try:
        asyncio.run(tried())
    finally:
        for parent in parents.values():
            parent.end()


@pytest.mark.long
def test_a_server_that_ignores_the_ends_of_processes_hears_of_its_workers(settings, monkeypatch):
    """So it may have been started, and what it starts inherits it."""
    monkeypatch.setattr("alloc.server.worker_parent._parents", {})

    async def parent_of_one_that_crashes():
        worker = Worker(settings.replace(preload=False))
        await worker.open()
        parent = parent_of(worker.pid)
        asyncio.get_running_loop().call_soon(os.kill, worker.pid, signal.SIGSEGV)
        ended = await worker.run("act", b'{"act": "hold"}', lambda line: None)
        assert "signal 11" in ended.failure.problem
        worker.kill("recycle")
        await worker.close()
        return parent

    async def two():
        return await parent_of_one_that_crashes(), await parent_of_one_that_crashes()

    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        first, second = asyncio.run(two())
    finally:
        signal.signal(signal.SIGCHLD, before)
        worker_parent._end_parents()
    assert first == second


def test_a_worker_is_where_its_server_is(open_client, settings, tmp_path, monkeypatch):
    """Also if that has moved since the process that workers are forked from was started."""
    act(open_client(settings.replace(workers=1)), wait=30)
    (tmp_path / "late_operations.py").write_text(OPERATIONS_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    client = open_client(
        settings.replace(
            workers=1, operations=("late_operations",), database=str(tmp_path / "other.sqlite")
        )
    )
    found = client.post("/v1/describe", json={}, headers={"Prefer": "wait=30"}).json()
    assert found == {
        "folder": str(tmp_path),
        "input": "",
        "output": "/dev/null",
        "ctrl_c": "SIG_IGN",
        "sigterm": "SIG_DFL",
        "threads": os.environ.get("OMP_NUM_THREADS", "1"),
        "one_process": True,
    }
