"""Restarts: what was accepted survives any end of the server, once."""

import os
import signal
import subprocess
import sys

import pytest
from server_harness import (
    TESTS,
    act,
    processes_of,
    wait_for,
    wait_for_stored,
    wait_until_gone,
    wait_until_ready,
)


@pytest.mark.long
def test_jobs_survive_a_kill(server):
    """Running, waiting and finished ones: none is lost, none is there twice."""
    first = server(workers=2)
    done = act(first.client, wait=30, text="done", headers={"Idempotency-Key": "a"})
    running = [act(first.client, act="hold", text=f"r{k}").json() for k in range(2)]
    waiting = [
        act(first.client, text=f"w{k}", headers={"Idempotency-Key": f"w{k}"}).json()
        for k in range(4)
    ]
    for job in running:
        wait_for_stored(first.database, job["id"], attempt=1)
    below = processes_of(first.process.pid)
    assert len(below) >= 3
    first.kill()
    wait_until_gone(below)

    first.let_go()
    second = server(workers=2)
    for job, text in zip([*running, *waiting], ("r0", "r1", "w0", "w1", "w2", "w3"), strict=True):
        found = wait_for(second.client, job["id"])
        assert found["state"] == "done"
        assert found["attempt"] == (2 if job in running else 1)
        assert second.client.get(job["links"]["result"]).json()["text"] == text
    kept = second.client.get(done.headers["content-location"])
    assert kept.text == done.text
    again = act(second.client, text="w1", headers={"Idempotency-Key": "w1"})
    assert again.json()["id"] == waiting[1]["id"]
    other = act(second.client, text="other", headers={"Idempotency-Key": "w1"})
    assert other.status_code == 422
    assert len(second.client.get("/v1/jobs").json()["jobs"]) == 7


@pytest.mark.slow
def test_a_watcher_is_taken_up_again_after_a_restart(server, tmp_path):
    """Ids of events go on, so Last-Event-ID means the same to the next server."""
    first = server(workers=1)
    job = act(first.client, act="hold", until=str(tmp_path / "end")).json()
    wait_for(first.client, job["id"], states=("running",))
    seen = 0
    with first.client.stream("GET", job["links"]["events"]) as response:
        for line in response.iter_lines():
            if line.startswith("id: "):
                seen = int(line[4:])
            if line == "event: progress":
                break
    first.kill()
    second = server(workers=1)
    headers = {"Last-Event-ID": str(seen)}
    with second.client.stream("GET", job["links"]["events"], headers=headers) as response:
        (tmp_path / "end").touch()
        text = "".join(f"{line}\n" for line in response.iter_lines())
    assert '"state":"done"' in text.replace(" ", "")
    assert all(int(line[4:]) > seen for line in text.splitlines() if line.startswith("id: "))


@pytest.mark.slow
def test_a_job_that_takes_the_server_down_is_not_started_for_ever(server):
    first = server(workers=1, max_attempts=2)
    job = act(first.client, act="hold").json()
    for number in (1, 2):
        wait_for_stored(first.database, job["id"], attempt=number)
        first.kill()
        first = server(workers=1, max_attempts=2)
    found = wait_for(first.client, job["id"])
    assert found["state"] == "failed"
    assert found["problem"]["type"] == "urn:alloc:problem:server-died"


@pytest.mark.long
def test_a_graceful_end_puts_back_what_does_not_end_in_time(server, tmp_path):
    """The next server starts the job afresh; the one that ends in time is stored."""
    first = server(workers=2, drain_s=5.0)
    long = act(first.client, act="hold").json()
    go = str(tmp_path / "end")
    short = act(first.client, act="hold", until=go, text="short").json()
    for job in (long, short):
        wait_for(first.client, job["id"], states=("running",))
    below = processes_of(first.process.pid)
    first.process.send_signal(signal.SIGTERM)
    (tmp_path / "end").touch()
    assert first.stop() == 0
    wait_until_gone(below)
    assert '"put_back": 1' in first.lines()

    second = server(workers=2)
    assert second.client.get(short["links"]["result"]).json()["text"] == "short"
    assert wait_for(second.client, long["id"], states=("running",))["id"] == long["id"]


@pytest.mark.long
def test_a_graceful_end_lets_watchers_and_waiters_go(server):
    """A stream without end must not keep the server from ending."""
    first = server(workers=1)
    job = act(first.client, act="hold").json()
    with first.client.stream("GET", job["links"]["events"]) as response:
        lines = response.iter_lines()
        next(lines)
        first.process.send_signal(signal.SIGTERM)
        list(lines)
    assert first.stop() == 0


@pytest.mark.long
def test_two_servers_do_not_share_an_sqlite_file(server, tmp_path):
    """Each would take the other's jobs for left behind."""
    first = server()
    environment = {
        **os.environ,
        "ALLOC_DATABASE": str(tmp_path / "server.sqlite"),
        "ALLOC_PORT": "0",
        "PYTHONPATH": str(TESTS),
    }
    second = subprocess.run(
        [sys.executable, "-m", "alloc", "serve"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert second.returncode == 1
    assert "is in use by another server" in second.stderr
    assert "Traceback" not in second.stderr
    wait_until_ready(first.client)
