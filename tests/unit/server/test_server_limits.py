"""Limits: a job that takes too much ends alone, with a clear problem."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest
from server_harness import act, wait_for, wait_until_ready
from uvicorn.protocols.http.h11_impl import H11Protocol

from alloc.errors import AllocError
from alloc.server.serving import BackgroundServer


def failure(response):
    """Return the kind and the sentence of a problem."""
    document = response.json()
    return document["type"].rpartition(":")[2], document["detail"]


@pytest.fixture
def one_worker(open_client, settings):
    """Return a client of a server with one worker and tight limits."""
    return open_client(settings.replace(workers=1, memory_limit_mib=100, grace_s=0.3))


def test_a_job_that_overruns_is_stopped(one_worker):
    """Its own limit and a moment more; the next job finds a new worker."""
    response = act(one_worker, wait=30, act="hold", asked_s=0.2)
    assert response.status_code == 422
    kind, sentence = failure(response)
    assert kind == "time-limit"
    assert "shorter time_limit_s" in sentence
    assert act(one_worker, wait=30).status_code == 200
    assert "alloc_workers_replaced 1.0" in one_worker.get("/metrics").text


def test_a_job_that_takes_too_much_memory_is_stopped(one_worker):
    """Before the machine has none left for the others."""
    response = act(one_worker, wait=30, act="hog")
    assert response.status_code == 422
    kind, sentence = failure(response)
    assert kind == "memory-limit"
    assert "memory" in sentence
    assert act(one_worker, wait=30).status_code == 200


def test_a_crash_of_a_solver_is_the_failure_of_its_job(one_worker):
    response = act(one_worker, wait=30, act="crash")
    assert response.status_code == 500
    kind, sentence = failure(response)
    assert kind == "worker-died"
    assert "signal 11" in sentence
    assert act(one_worker, wait=30).status_code == 200


def test_a_worker_that_died_while_idle_costs_no_job(one_worker):
    """The system may kill any process; a job that comes after that must not pay for it."""
    process = act(one_worker, wait=30).json()["process"]
    os.kill(process, signal.SIGKILL)
    end = time.monotonic() + 300
    # Before anybody asks for it.
    while "alloc_workers_replaced 1.0" not in one_worker.get("/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.05)
    answer = act(one_worker, wait=30).json()
    assert answer["process"] != process


def test_workers_run_as_many_jobs_at_once_as_there_are_workers(open_client, settings):
    client = open_client(settings.replace(workers=3))
    jobs = [act(client, act="hold").json()["id"] for _ in range(4)]
    for job in jobs[:3]:
        wait_for(client, job, states=("running",))
    assert client.get(f"/v1/jobs/{jobs[3]}").json()["state"] == "queued"
    client.post(f"/v1/jobs/{jobs[0]}/cancel")
    wait_for(client, jobs[3], states=("running",))


def test_the_whole_queue_has_an_end_too(open_client, settings):
    client = open_client(settings.replace(workers=1, max_queue=1))
    running = act(client, act="hold").json()
    wait_for(client, running["id"], states=("running",))
    assert act(client).status_code == 202
    refused = act(client)
    assert refused.status_code == 503
    assert failure(refused)[0] == "queue-full"


@pytest.mark.long
def test_a_body_that_does_not_come_is_not_waited_for(open_client, settings):
    """A thousand clients that send half a request would hold a thousand connections."""
    client = open_client(settings.replace(workers=1, body_timeout_s=0.3))
    with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=300) as channel:
        head = "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        channel.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        answer = b""
        while piece := channel.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"urn:alloc:problem:body-too-slow" in answer


def test_a_body_that_drips_has_an_end(open_client, settings):
    """Each byte comes in time, and the last one never would."""
    client = open_client(settings.replace(workers=1, body_timeout_s=30.0, body_total_s=0.5))
    with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=300) as channel:
        head = "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        channel.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode())
        channel.settimeout(0.02)
        answer, sent = b"", 0
        while not answer.endswith(b"}") and sent < 1000:
            with contextlib.suppress(ConnectionError):
                channel.sendall(b" ")
                sent += 1
            with contextlib.suppress(TimeoutError):
                answer += channel.recv(4096)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"did not come within 0.5 s" in answer


@pytest.mark.parametrize("sent", [b"", b"GET /health/live HTTP/1.1\r\nHost: loc"])
def test_a_head_that_never_ends_is_not_waited_for(open_client, settings, sent):
    """Neither of a new connection, nor of one that was kept after an answer."""
    client = open_client(settings.replace(workers=1, head_timeout_s=0.3))
    whole = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for first in (b"", whole) if sent else (b"",):
        with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=300) as channel:
            channel.sendall(first)
            answer = b""
            while first and not answer.endswith(b"}"):
                answer += channel.recv(4096)
            channel.sendall(sent)
            assert channel.recv(4096) == b""


def test_a_connection_is_kept_while_requests_come(open_client, settings, tmp_path, monkeypatch):
    """What limits the time of a head is no limit to a connection, nor to an answer."""
    made = []
    start = H11Protocol.connection_made

    def connection_made(self, transport):
        made.append(self)
        start(self, transport)

    monkeypatch.setattr(H11Protocol, "connection_made", connection_made)
    client = open_client(settings.replace(workers=1))
    with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=300) as channel:
        go = tmp_path / "go"
        body = json.dumps({"act": "hold", "until": str(go)}).encode()
        request = (
            b"POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Prefer: wait=20\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        for number in range(1, 3):
            channel.sendall(request)
            while len(jobs := client.get("/v1/jobs").json()["jobs"]) < number:
                pass
            wait_for(client, jobs[0]["id"], states=("running",))
            (mine,) = [one for one in made if one.client == channel.getsockname()]
            assert mine._head_timer is None
            go.touch()
            answer = b""
            while not answer.endswith(b"}"):
                piece = channel.recv(4096)
                assert piece
                answer += piece
            assert answer.startswith(b"HTTP/1.1 200")
            go.unlink()


def test_a_server_that_cannot_store_says_that_it_is_not_ready(open_client, settings, monkeypatch):
    """A balancer sends requests elsewhere, instead of to a server that answers 503 to each."""
    client = open_client(settings.replace(workers=1))
    assert client.get("/health/ready").status_code == 200
    full = shutil.disk_usage(Path(settings.database).parent)._replace(free=10_000)
    with monkeypatch.context() as patch:
        patch.setattr("alloc.server.store.shutil.disk_usage", lambda path: full)
        answer = client.get("/health/ready")
        assert answer.status_code == 503
        assert "the disk of the database is full" in answer.json()["detail"]
    assert client.get("/health/ready").status_code == 200
    with sqlite3.connect(settings.database) as held:
        monkeypatch.setattr("alloc.server.writer._SLOW_S", 0.05)
        held.execute("BEGIN IMMEDIATE")
        waiting = threading.Thread(target=act, args=(client,))
        waiting.start()
        while client.get("/health/ready").status_code == 200:
            time.sleep(0.02)
        held.rollback()
        waiting.join()
    monkeypatch.setattr("alloc.server.writer._SLOW_S", 60.0)
    wait_until_ready(client)


def test_a_folder_that_is_not_there_is_said_before_anything_is_opened(settings, tmp_path):
    missing = tmp_path / "nowhere" / "jobs.sqlite"
    with pytest.raises(AllocError, match=r"there is no folder .*nowhere; make it first\."):
        BackgroundServer(settings.replace(database=str(missing)))
    assert not missing.parent.exists()


def test_headers_have_an_end(settings):
    """Whoever needs no token yet could fill the memory with one header, whatever is installed."""
    answer = b""
    with BackgroundServer(settings.replace(workers=1)) as server:
        # The only parser of uvicorn's with such a limit.
        assert issubclass(server._server.config.http_protocol_class, H11Protocol)
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=300) as channel,
            contextlib.suppress(ConnectionError),
        ):
            channel.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
            for _ in range(100):
                channel.sendall(b"x" * 10_000)
            answer = channel.recv(4096)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")


def test_the_database_is_for_its_owner_alone(open_client, settings):
    """Requests and results are as private as whoever sent them thinks."""
    act(open_client(settings.replace(workers=1)), wait=30)
    files = list(Path(settings.database).parent.glob("server.sqlite*"))
    assert len(files) >= 3
    assert [file for file in files if stat.S_IMODE(file.stat().st_mode) & 0o077] == []
