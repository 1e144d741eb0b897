"""What a client may rely on: addresses, answers, problems and their words."""

import gzip
import json
import socket
import time
from typing import Any

import pytest
from server_harness import act, wait_for

from alloc.result import Result

WAIT = {"Prefer": "wait=30"}


def problem(response, status, kind):
    """Check that a response is a problem of that kind, and return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["type"] == f"urn:alloc:problem:{kind}"
    assert document["status"] == status
    assert document["title"]
    assert document["detail"].endswith((".", "?"))
    assert document["request_id"] == response.headers["x-request-id"]
    return document


def test_a_solve_is_accepted_run_and_kept(shared, tiny):
    """The long way: submit, watch, fetch."""
    response = shared.post("/v1/solve", json={"instance": tiny}, params={"label": "base"})
    assert response.status_code == 202
    job = response.json()
    assert response.headers["location"] == job["links"]["self"] == f"/v1/jobs/{job['id']}"
    assert (job["kind"], job["operation"], job["label"]) == ("job", "solve", "base")
    done = wait_for(shared, job["id"])
    assert done["state"] == "done"
    assert done["attempt"] == 1
    assert done["created_at"] <= done["started_at"] <= done["finished_at"] < done["expires_at"]
    result = Result.from_json(shared.get(job["links"]["result"]).text)
    assert result.certificate.status == "optimal"
    assert result.certificate.verified
    assert shared.get(job["links"]["request"]).json() == {"instance": tiny}


def test_a_client_may_wait_for_the_result(shared, tiny):
    """The short way: one request for a small solve."""
    response = shared.post(
        "/v1/solve", json={"instance": tiny, "formulation": "round"}, headers=WAIT
    )
    assert response.status_code == 200
    assert response.headers["preference-applied"] == "wait=30"
    assert Result.from_json(response.text).certificate.status == "optimal"
    kept = shared.get(response.headers["content-location"])
    assert kept.text == response.text


def test_waiting_ends_with_the_job_when_the_result_takes_longer(shared, tmp_path):
    response = act(shared, wait=0, act="hold", until=str(tmp_path / "go"))
    assert response.status_code == 202
    (tmp_path / "go").touch()
    assert wait_for(shared, response.json()["id"])["state"] == "done"


def test_place_says_where_jobs_stand_and_what_was_broken(shared, tiny):
    document = shared.post("/v1/place", json={"instance": tiny}, headers=WAIT).json()
    assert document["kind"] == "placement"
    assert document["broken"] == []
    assert Result.from_json(json.dumps(document["result"])).certificate.verified


def crowded():
    """Return a cluster of two GPUs that a job holds, while another waits for both."""
    two = [{"tasks": [{"role": "worker", "count": 2, "gpu_milli": 1000}], "rate": 1.0}]
    return {
        "schema_version": 1,
        "kind": "instance",
        "name": "one runs, one waits",
        "topology": {
            "name": "a host",
            "host_types": [{"name": "box", "num_gpus": 2, "gpu_type": "gpu"}],
            "hosts": [{"id": "host-0", "type": "box"}],
        },
        "jobs": [
            {"id": name, "arrival_s": 0.0, "work": 100.0, "configurations": two}
            for name in ("runs", "waits")
        ],
        "running": [
            {
                "job": "runs",
                "configuration": 0,
                "tasks": [{"host": "host-0", "role": "worker", "count": 2}],
            }
        ],
    }


def test_explain_names_what_a_job_lacks(shared):
    """Asked about nobody in particular it speaks of all that wait."""
    document = shared.post("/v1/explain", json={"instance": crowded()}, headers=WAIT).json()
    assert set(document["jobs"]) == {"waits"}
    found = document["jobs"]["waits"]
    assert found["starts"] is False
    assert "running jobs" in found["conflict"]
    assert found["sentence"].endswith(".")
    asked = {"instance": crowded(), "job": "wait", "moves": False}
    response = shared.post("/v1/explain", json=asked, headers=WAIT)
    assert "waits" in problem(response, 422, "invalid-instance")["detail"]


def test_compare_puts_schedulers_beside_the_optimum(shared):
    request = {"instances": ["elastic-tiny/01"], "schedulers": ["fifo", "srtf"]}
    document = shared.post("/v1/compare", json=request, headers=WAIT).json()
    assert document["kind"] == "comparison"
    assert {row["scheduler"] for row in document["rows"]} == {"optimum", "fifo", "srtf"}


def test_a_limit_is_a_result(shared):
    """A search that ends at its time limit answers with what it has."""
    request = {"instance": "elastic-small/04", "time_limit_s": 0.02}
    response = shared.post("/v1/solve", json=request, headers=WAIT)
    assert response.status_code == 200
    assert Result.from_json(response.text).certificate.limit == "time"


def test_infeasible_is_a_result(shared, tiny):
    late = {**tiny, "jobs": [{**tiny["jobs"][0], "deadline_s": 1.0, "arrival_s": 0.0}]}
    response = shared.post("/v1/solve", json={"instance": late}, headers=WAIT)
    assert response.status_code == 200
    result = Result.from_json(response.text)
    assert result.certificate.status == "infeasible"
    assert result.conflict


def test_a_field_that_is_wrong_is_named_with_its_place_and_the_cure(shared, tiny):
    wrong = {**tiny, "jobs": [{**tiny["jobs"][0], "wrok": 3.0}]}
    found = problem(shared.post("/v1/solve", json={"instance": wrong}), 422, "invalid-request")
    assert found["errors"][0]["pointer"] == "/instance/jobs/0/wrok"
    assert 'did you mean "work"?' in found["detail"]
    found = problem(
        shared.post("/v1/solve", json={"instance": tiny, "time_limit_s": -1}),
        422,
        "invalid-request",
    )
    assert found["errors"] == [{"pointer": "/time_limit_s", "detail": found["errors"][0]["detail"]}]


def test_an_instance_that_contradicts_itself_is_a_problem_of_the_job(shared, tiny):
    """Rules between fields are checked where the instance is built: in the worker."""
    wrong = {**tiny, "jobs": [{**tiny["jobs"][0], "work": -1.0}]}
    response = shared.post("/v1/solve", json={"instance": wrong}, headers=WAIT)
    found = problem(response, 422, "invalid-instance")
    assert "work is -1" in found["detail"]
    job_id = response.headers["location"].rpartition("/")[2]
    job = wait_for(shared, job_id)
    assert job["state"] == "failed"
    assert job["problem"]["type"] == "urn:alloc:problem:invalid-instance"
    assert job["problem"]["instance"] == f"/v1/jobs/{job_id}"
    problem(shared.get(f"/v1/jobs/{job_id}/result"), 422, "invalid-instance")


@pytest.mark.parametrize(
    ("request_fields", "kind", "words"),
    [
        ({"instance": "elastic-tiny/1"}, "invalid-instance", "did you mean"),
        ({"instance": "/etc/passwd"}, "invalid-instance", "not stored"),
        ({"instance": "../../setup"}, "invalid-instance", "not stored"),
        ({"formulation": "malleble"}, "invalid-instance", 'did you mean "malleable"'),
        ({"backend": "gurobi"}, "invalid-instance", "Known"),
        ({"formulation": "sharing", "backend": "cpsat"}, "unsupported", "cpsat"),
        ({"time_limit_s": 1e6}, "invalid-request", "at most 120 s"),
    ],
)
def test_options_that_are_wrong_say_what_there_is(shared, request_fields, kind, words):
    request = {"instance": "elastic-tiny/01", **request_fields}
    found = problem(shared.post("/v1/solve", json=request, headers=WAIT), 422, kind)
    assert words in found["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1",
        b'{"a": 1, "a": 2}',
        b"\xff\xfe{}",
        b"[" * 50_000,
        b"{}}",
        b'"\\ud800"',
        b'{"instance": "elastic-tiny/01", "instance": "elastic-tiny/02"}',
    ],
    ids=["empty", "cut", "list", "twice", "utf-16", "deep", "more", "half a character", "doubled"],
)
def test_a_body_that_is_no_json_is_refused_at_the_door(shared, body):
    headers = {"Content-Type": "application/json"}
    response = shared.post("/v1/solve", content=body, headers=headers)
    problem(response, 400, "malformed-json")


@pytest.mark.parametrize("body", [b"[]", b"3", b'"text"', b"null", b"{}"])
def test_json_of_the_wrong_shape_is_refused_at_the_door(shared, body):
    headers = {"Content-Type": "application/json"}
    problem(shared.post("/v1/solve", content=body, headers=headers), 422, "invalid-request")


def test_bodies_must_be_plain_json(shared):
    """No form that a web page could send on its own, no gzip bombs, no pickle."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/octet-stream"):
        response = shared.post("/v1/act", content=b"{}", headers={"Content-Type": kind})
        problem(response, 415, "unsupported-media-type")
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    bomb = gzip.compress(b" " * 10_000_000)
    problem(shared.post("/v1/act", content=bomb, headers=headers), 415, "unsupported-media-type")


def test_a_body_that_is_too_large_is_refused_before_it_is_parsed(shared):
    """By what its header says, and, chunked, by what has come so far."""
    headers = {"Content-Type": "application/json"}
    found = problem(
        shared.post("/v1/act", content=b" " * 200_001, headers=headers), 413, "body-too-large"
    )
    assert "200000 bytes" in found["detail"]

    def pieces():
        for _ in range(50):
            yield b" " * 10_000

    problem(shared.post("/v1/act", content=pieces(), headers=headers), 413, "body-too-large")


def test_an_answer_before_the_end_of_the_body_reaches_who_still_sends(shared):
    """A connection closed at once resets it: what still comes is for nobody, nor is the answer."""
    head = (
        "POST /v1/act HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"
        "Content-Length: 100000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", shared.base_url.port), timeout=300) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 415 "), answer
        for _ in range(10):
            connection.sendall(b" " * 10_000)
        rest = b""
        while more := connection.recv(65536):
            rest += more
        assert b"unsupported-media-type" in answer + rest


def test_a_body_too_large_for_the_door_is_checked_by_the_worker(open_client, settings):
    """The same problem, only later: the door must not keep other requests waiting."""
    client = open_client(settings)
    response = act(client, wait=30, text="x" * (2**20 + 10), act=3)
    found = problem(response, 422, "invalid-request")
    assert found["errors"][0]["pointer"] == "/act"


@pytest.mark.parametrize(
    ("operation", "request_", "pointer"),
    [
        ("solve", {"instance": "elastic-tiny/1"}, "/instance"),
        ("solve", {"formulation": "malleble"}, "/formulation"),
        ("place", {"goal": "gpus_plaecd"}, "/goal"),
        ("place", {"goal": "makespan"}, "/goal"),
        ("explain", {"job": "nobody"}, "/job"),
        ("compare", {"schedulers": ["fifo", "fofi"]}, "/schedulers/1"),
        ("compare", {"instances": ["elastic-tiny/01", "x/01"]}, "/instances/1"),
        ("plan", {"problem": "planning-tinny"}, "/problem"),
        ("plan", {"replay": {"scheduler": "fofi"}}, "/replay/scheduler"),
        ("what-if", {"changes": ["demand=+20%", "sunshine=+1"]}, "/changes/1"),
        ("what-if", {"other_scheduler": "fifo"}, "/other_scheduler"),
        ("solve", {"time_limit_s": 1e6}, "/time_limit_s"),
    ],
)
def test_what_only_the_worker_knows_is_said_of_its_field(shared, operation, request_, pointer):
    """A page, or a program, can show the sentence where the mistake is."""
    plans: dict[str, Any] = {"problem": "planning-tiny"}
    known = {
        "compare": {"instances": ["elastic-tiny/01"], "schedulers": ["fifo"]},
        "plan": plans,
        "what-if": plans,
    }.get(operation, {"instance": "elastic-tiny/01"})
    response = shared.post(f"/v1/{operation}", json={**known, **request_}, headers=WAIT)
    found = response.json()
    assert response.status_code == 422
    assert [error["pointer"] for error in found["errors"]] == [pointer]
    assert found["errors"][0]["detail"] == found["detail"]


def test_a_method_nobody_knows_makes_no_series_of_metrics(shared):
    """Or whoever can reach the port could fill the memory with words."""
    for number in range(3):
        problem(shared.request(f"ODD{number}", "/v1/jobs"), 405, "method-not-allowed")
    metrics = shared.get("/metrics").text
    assert "ODD" not in metrics
    assert 'method="other",route="/v1/jobs",status="405"}' in metrics


def test_a_client_that_goes_away_is_no_error_of_the_server(shared):
    """Uploads break off every day; a 500 in the log would be read as a bug."""
    head = (
        "POST /v1/act HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Content-Length: 1000\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", shared.base_url.port), timeout=300) as connection:
        connection.sendall(head.encode())
    counted = 'method="POST",route="/v1/act",status="499"}'
    end = time.monotonic() + 300
    while counted not in (metrics := shared.get("/metrics").text):
        assert time.monotonic() < end, metrics
        time.sleep(0.05)


def test_a_label_that_cannot_be_one_is_refused(shared):
    """It stands in lists and on pages; a name as long as a body does not."""
    for label in ("x" * 201, "two\nlines", "\x00"):
        response = shared.post("/v1/act", json={}, params={"label": label})
        found = problem(response, 422, "invalid-request")
        assert found["errors"][0]["parameter"] == "label"
    response = shared.post("/v1/act", json={}, params={"label": "x" * 200})
    assert response.json()["label"] == "x" * 200


def test_a_host_name_that_is_not_the_servers_is_refused(shared):
    """DNS rebinding: a page of another site that has its name point here."""
    for host in ("evil.example", "127.0.0.1.evil.example", "", "10.0.0.1"):
        problem(shared.get("/v1/jobs", headers={"Host": host}), 421, "wrong-host")
    for host in ("localhost:8000", "127.0.0.1", "[::1]:80", "LOCALHOST"):
        assert shared.get("/v1/jobs", headers={"Host": host}).status_code == 200


def test_pages_of_other_origins_may_not_write(shared):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999"):
        response = shared.post("/v1/act", json={}, headers={"Origin": origin})
        problem(response, 403, "forbidden-origin")
    own = str(shared.base_url).rstrip("/")
    assert shared.post("/v1/act", json={}, headers={"Origin": own}).status_code == 202
    assert shared.get("/v1/jobs", headers={"Origin": "http://evil.example"}).status_code == 200


def test_every_answer_has_headers_that_protect_a_browser(shared):
    for response in (shared.get("/v1/jobs"), shared.get("/nothing"), shared.post("/v1/act")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["cache-control"] == "no-store"
        assert "server" not in response.headers


def test_what_is_not_there_is_a_problem_too(shared):
    problem(shared.get("/v2/solve"), 404, "not-found")
    problem(shared.get("/v1/jobs/nonsense"), 404, "not-found")
    problem(shared.get(f"/v1/jobs/{'0' * 32}"), 404, "not-found")
    problem(shared.delete("/v1/jobs"), 405, "method-not-allowed")
    found = problem(shared.get("/v1/jobs", params={"limit": 0}), 422, "invalid-request")
    assert found["errors"][0]["parameter"] == "limit"


def test_what_is_wrong_with_alloc_is_not_told_to_clients(shared):
    """The sentence of an error nobody foresaw may hold anything; the log has it."""
    response = act(shared, wait=30, act="fail", text="inner secret")
    found = problem(response, 500, "internal")
    assert "inner secret" not in response.text
    assert "RuntimeError" not in response.text
    assert "bug" in found["detail"]
    problem(act(shared, wait=30, act="doubt"), 500, "solver-failed")
    problem(act(shared, wait=30, act="refuse"), 422, "invalid-instance")


def test_the_catalogue_lists_what_there_is(shared, tiny):
    operations = {item["name"] for item in shared.get("/v1/operations").json()["items"]}
    assert {"solve", "place", "compare", "explain", "act"} <= operations
    formulations = {item["name"] for item in shared.get("/v1/formulations").json()["items"]}
    assert {"round", "malleable", "placement"} <= formulations
    assert "fifo" in {item["name"] for item in shared.get("/v1/schedulers").json()["items"]}
    assert "elastic-tiny/01" in {i["id"] for i in shared.get("/v1/instances").json()["items"]}
    assert shared.get("/v1/instances/elastic-tiny/01").json() == tiny
    problem(shared.get("/v1/instances/elastic-tiny/../../x"), 404, "not-found")
    problem(shared.get("/v1/instances/elastic-tiny/99"), 404, "not-found")


def test_the_description_names_operations_schemas_and_problems(shared):
    description = shared.get("/v1/openapi.json").json()
    solve = description["paths"]["/v1/solve"]["post"]
    body = solve["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/SolveRequest"}
    schemas = description["components"]["schemas"]
    assert {"SolveRequest", "InstanceDocument", "JobDocument", "ProblemDocument"} <= set(schemas)
    for status in ("400", "413", "415", "422", "429", "503"):
        assert "application/problem+json" in solve["responses"][status]["content"]
    text = json.dumps(description)
    for reference in set(text.split('"#/components/schemas/')[1:]):
        assert reference.partition('"')[0] in schemas


def test_health_and_metrics_show_how_the_server_does(shared):
    assert shared.get("/health/live").json() == {"status": "ok"}
    assert shared.get("/health/ready").json() == {"status": "ok"}
    act(shared, wait=30)
    text = shared.get("/metrics").text
    assert 'alloc_jobs_total{operation="act",state="done"}' in text
    assert 'alloc_http_requests_total{method="POST",route="/v1/act",status="200"}' in text
    assert "alloc_queue_length 0.0" in text
