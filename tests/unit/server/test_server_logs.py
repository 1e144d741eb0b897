"""Logs: JSON lines that say what happened, and nothing that is secret."""

import io
import json

import pytest
from server_harness import act, wait_for

from alloc.server.logs import configure_logs, hide_secrets
from alloc.server.tables import open_database
from alloc.server.tokens import add_token

SECRET = "hush-hush-0123456789"


@pytest.mark.long
def test_secrets_never_reach_the_log(server, tmp_path):
    """Not in headers, bodies, queries, labels, keys, nor in the errors that they lead to."""
    engine = open_database(str(tmp_path / "server.sqlite"))
    token = add_token(engine, "team")
    engine.dispose()
    running = server(log_level="debug", require_tokens="true")
    client = running.client
    client.headers["Authorization"] = f"Bearer {token}"
    assert act(client, wait=30, text=SECRET, headers={"Idempotency-Key": SECRET}).is_success
    assert act(client, wait=30, text=SECRET, label=SECRET).is_success
    for headers in (
        {"Authorization": f"Bearer {SECRET}"},
        {"Authorization": f"Basic {SECRET}"},
        {"Host": SECRET},
        {"Cookie": SECRET},
        {"X-Request-Id": SECRET},
        {"Idempotency-Key": SECRET * 20},
    ):
        act(client, headers=headers, text=SECRET)
    client.get(f"/v1/jobs?token={SECRET}")
    client.get(f"/v1/{SECRET}")
    client.get(f"/v1/jobs/{SECRET}")
    client.post("/v1/act", content=SECRET.encode(), headers={"Content-Type": "application/json"})
    client.post("/v1/act", json={"act": "refuse", SECRET: SECRET})
    job = act(client, text=SECRET).json()
    wait_for(client, job["id"])
    assert running.stop() == 0
    log = running.log.read_text()
    assert SECRET not in log
    assert token not in log
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert {"request_id", "method", "route", "status", "ms", "client", "job"} <= set(requests[-1])
    assert any(line["client"] == "team" and line["status"] == 200 for line in requests)


@pytest.mark.long
def test_an_error_nobody_foresaw_is_in_the_log_under_the_id_of_its_job(server):
    """What the client may not read, whoever runs the server must."""
    running = server()
    job = act(running.client, act="fail").json()
    wait_for(running.client, job["id"])
    lines = [json.loads(line) for line in running.lines().splitlines()]
    (failed,) = [line for line in lines if line["event"] == "job failed"]
    assert failed["job"] == job["id"]
    assert "RuntimeError" in failed["trace"]
    assert "server_operations.py" in failed["trace"]


def test_fields_that_sound_secret_are_hidden():
    """The last line of defence, should somebody log one."""
    event = {"event": "x", "Authorization": "a", "db_password": "b", "new_token": "c", "job": "d"}
    hidden = hide_secrets(None, "info", event)
    assert hidden == {
        "event": "x",
        "Authorization": "[hidden]",
        "db_password": "[hidden]",
        "new_token": "[hidden]",
        "job": "d",
    }


def test_logs_are_one_json_object_a_line():
    import structlog

    stream = io.StringIO()
    configure_logs("info", stream)
    try:
        log = structlog.get_logger("x")
        log.debug("not shown")
        log.info("shown", number=3, text="two\nlines")
        try:
            raise ValueError("broken")
        except ValueError:
            log.exception("failed")
    finally:
        configure_logs("error")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["number"], first["level"]) == ("shown", 3, "info")
    assert "ValueError: broken" in second["exception"]
