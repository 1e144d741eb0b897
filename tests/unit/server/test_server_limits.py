"""Limits: a job that takes too much ends alone, with a clear problem."""

import contextlib
import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest
from server_harness import act, wait_for
from uvicorn.protocols.http.h11_impl import H11Protocol

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
    response = act(one_worker, wait=30, act="sleep", seconds=60, asked_s=0.2)
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
    end = time.monotonic() + 30
    # Before anybody asks for it.
    while "alloc_workers_replaced 1.0" not in one_worker.get("/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.05)
    answer = act(one_worker, wait=30).json()
    assert answer["process"] != process


def test_workers_run_as_many_jobs_at_once_as_there_are_workers(open_client, settings):
    client = open_client(settings.replace(workers=3))
    jobs = [act(client, act="sleep", seconds=60).json()["id"] for _ in range(4)]
    for job in jobs[:3]:
        wait_for(client, job, states=("running",))
    assert client.get(f"/v1/jobs/{jobs[3]}").json()["state"] == "queued"
    client.post(f"/v1/jobs/{jobs[0]}/cancel")
    wait_for(client, jobs[3], states=("running",))


def test_the_whole_queue_has_an_end_too(open_client, settings):
    client = open_client(settings.replace(workers=1, max_queue=1))
    running = act(client, act="sleep", seconds=60).json()
    wait_for(client, running["id"], states=("running",))
    assert act(client).status_code == 202
    refused = act(client)
    assert refused.status_code == 503
    assert failure(refused)[0] == "queue-full"


def test_a_body_that_does_not_come_is_not_waited_for(open_client, settings):
    """A thousand clients that send half a request would hold a thousand connections."""
    client = open_client(settings.replace(workers=1, body_timeout_s=0.3))
    with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=20) as channel:
        head = "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        channel.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        answer = b""
        while piece := channel.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"urn:alloc:problem:body-too-slow" in answer


def test_headers_have_an_end(settings):
    """Whoever needs no token yet could fill the memory with one header, whatever is installed."""
    answer = b""
    with BackgroundServer(settings.replace(workers=1)) as server:
        # The only parser of uvicorn's with such a limit.
        assert server._server.config.http_protocol_class is H11Protocol
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=20) as channel,
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
