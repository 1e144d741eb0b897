"""The client gives what solving at home gives, and loses nothing when the server goes away."""

import socket
from types import SimpleNamespace

import httpx
import pytest
from server_harness import Running, Server

from alloc.client import Client, RemoteError, RemoteJob
from alloc.client.errors import error_of
from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.instances import load
from alloc.instances.stored_planning import load_stored_planning
from alloc.server import Settings
from alloc.server.tables import open_database
from alloc.server.tokens import add_token
from alloc.solving import solve


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Return the address of a server that these tests share."""
    settings = Settings(
        database=str(tmp_path_factory.mktemp("client") / "server.sqlite"),
        workers=2,
        operations=("server_operations",),
        max_body_bytes=200_000,
        drain_s=0.2,
    )
    with Running(settings) as running:
        yield str(running.client.base_url).rstrip("/")


@pytest.fixture
def client(address):
    with Client(address, patience_s=20.0) as made:
        yield made


@pytest.mark.long
def test_a_solve_is_that_of_solving_here(client):
    instance = load("elastic-tiny/01")
    for given in (instance, "elastic-tiny/01"):
        result = client.solve(given, formulation="round")
        here = solve(instance, "round")
        assert result.certificate.objective == here.certificate.objective
        assert result.certificate.fingerprint == instance.fingerprint
        assert result.solution is not None


def test_other_operations_return_what_they_are_about(client):
    placed = client.place("elastic-tiny/01", time_limit_s=5.0)
    assert placed.result.solution is not None
    assert placed.broken == ()
    assert client.explain("elastic-tiny/01", time_limit_s=5.0)
    rows = client.compare(["elastic-tiny/01"], ["fifo"], time_limit_s=10.0)["rows"]
    assert any(row["scheduler"] == "fifo" for row in rows)


def test_plans_and_what_ifs_come_back_typed(client):
    problem = load_stored_planning("planning-tiny")
    plan = client.plan(problem, gap=1e-6)
    assert plan.holds
    assert plan.result.certificate.fingerprint == problem.fingerprint
    found = client.what_if("planning-tiny", ["demand=+20%"])
    assert found.at_least > 0
    assert found.base.result.solution is not None
    front = client.pareto("planning-tiny", "energy", points=2, time_limit_s=5.0)
    assert len(front["points"]) >= 1


def test_files_of_this_machine_are_read_there(client, tmp_path):
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("id,submit,elapsed,cards\na,0,60,2\nb,0,x,2\n")
    found = client.read_files(jobs, columns={"gpus": "cards"}, slot_s=60)
    assert found.headline.startswith("1 job ")
    assert found.problem.slot_s == 60.0
    assert found.report["rows_skipped"] == 1
    assert {one["is"] for one in found.columns["chosen"]} >= {"gpus", "arrival"}
    assert client.solve(found.problem).solution is not None
    cluster = tmp_path / "cluster.conf"
    cluster.write_text("SwitchName=leaf Nodes=n[1-4]\n")
    assert client.read_files(cluster, host_type="dgx-h100").problem.num_gpus == 32
    with pytest.raises(InstanceError, match="no column looks like the gpus"):
        client.read_files(jobs)
    with pytest.raises(InstanceError, match="cannot be read"):
        client.read_files(tmp_path / "none.csv")


def test_progress_is_told_and_jobs_are_found_again(client, address, tmp_path):
    go = tmp_path / "go"
    request = {"act": "hold", "until": str(go), "text": "a"}
    job = client.submit("act", request, label="counted")
    lines = []
    for line in job.progress():
        lines.append(line)
        go.touch()
    assert job.status().state == "done"
    # The server may leave out lines that follow each other closely.
    assert lines
    assert all(line == "starting: a" or line.startswith("step ") for line in lines)
    with Client(address) as other:
        again = other.job(job.id)
        assert again.result() == job.result()
        assert [found.id for found in other.jobs(label="counted", limit=1)] == [job.id]
        assert len(list(other.jobs(limit=2))) >= 1


def test_jobs_are_cancelled_and_waits_end(client):
    job = client.submit("act", {"act": "hold"})
    with pytest.raises(RemoteError, match="has not ended within") as waited:
        job.result(timeout_s=0.2)
    assert waited.value.kind == "not-finished"
    assert job.cancel().state == "cancelled"
    with pytest.raises(RemoteError, match="was cancelled"):
        job.result()


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda c: c.solve("elastic-tiny/99"), InstanceError, "is not stored"),
        (lambda c: c.solve("elastic-tiny/01", formulaton="x"), InstanceError, "formulaton"),
        (lambda c: c.plan("planning-tinny"), InstanceError, 'did you mean "planning-tiny"'),
        (lambda c: c.job("0" * 32), RemoteError, "job"),
        (lambda c: c.submit("act", {"act": "x" * 300_000}), RemoteError, "large"),
        (lambda c: c.submit("nothing", {}), RemoteError, "no such|address"),
    ],
)
def test_problems_are_errors_in_the_servers_words(client, call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(client)


@pytest.mark.parametrize("limit", [float("inf"), {1, 2}])
def test_what_is_no_json_is_said_before_it_is_sent(limit):
    with (
        Client("http://127.0.0.1:9", patience_s=0.1) as away,
        pytest.raises(InstanceError, match="an option of solve cannot be written as JSON"),
    ):
        away.solve("elastic-tiny/01", time_limit_s=limit)


def test_a_mistake_is_said_once(client):
    with pytest.raises(InstanceError) as error:
        client.solve("elastic-tiny/01", time_limit_s=-1)
    assert str(error.value).count("greater than 0") == 1
    several = {"type": "a:invalid-request", "detail": "/a: bad (and 1 more); see x."}
    fields = [{"pointer": "/a", "detail": "bad"}, {"pointer": "/b", "detail": "worse"}]
    found = error_of({**several, "errors": fields}, 422)
    assert str(found) == "/a: bad (and 1 more); see x; /b: worse."


def test_watching_outlasts_a_database_that_is_away(monkeypatch):
    """503 means come again; a stream that says little is not one that is broken."""
    ended = b'event: status\nid: 2\ndata: {"state": "done"}\n\n'
    stream = {"content-type": "text/event-stream"}
    answers = [
        httpx.Response(503, json={"type": "a:store-unavailable", "detail": "later"}),
        httpx.Response(200, headers=stream, content=b"event: progress\nid: 1\ndata: "
                       b'{"line": "half"}\n\n'),
        httpx.Response(503, json={"type": "a:store-unavailable", "detail": "later"}),
        httpx.Response(200, headers=stream, content=ended),
    ]  # fmt: skip

    def answer(request):
        if request.url.path.endswith("/events"):
            return answers.pop(0)
        known = {"operation": "act", "state": "running", "id": "x", "label": None}
        return httpx.Response(200, json={**known, "attempt": 1, "progress": None})

    with Client("http://127.0.0.1:9", patience_s=20.0) as client:
        client._transport._http = httpx.Client(
            transport=httpx.MockTransport(answer), base_url=client.url
        )
        assert list(client.job("x").progress()) == ["half"]
        assert not answers
        answers.append(httpx.Response(200, text="<html>"))
        with pytest.raises(RemoteError, match="is it one"):
            list(client.job("x").progress())


def test_kinds_of_problems_are_kinds_of_errors():
    assert isinstance(
        error_of({"type": "a:unsupported", "detail": "d"}, 422), UnsupportedFeatureError
    )
    known = error_of({"type": "urn:alloc:problem:expired", "detail": "d", "request_id": "r"}, 410)
    assert isinstance(known, RemoteError)
    assert (known.kind, known.status, known.request_id) == ("expired", 410, "r")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Client("localhost:8642"), "begins with http"),
        (lambda: Client("http://localhost", timeout_s=0), "timeout_s"),
    ],
)
def test_clients_of_nothing_are_refused(make, sentence):
    with pytest.raises(InstanceError, match=sentence):
        make()


def test_a_server_that_is_not_there_is_said_with_the_cure():
    with (
        Client("http://127.0.0.1:9", patience_s=0.3) as away,
        pytest.raises(RemoteError, match="`alloc serve` starts one") as error,
    ):
        away.solve("elastic-tiny/01")
    assert error.value.kind == "unreachable"


def test_an_answer_that_is_not_of_alloc_is_said(monkeypatch):
    def strange(request):
        return httpx.Response(404, text="<html>", request=request)

    with Client("http://127.0.0.1:9", patience_s=0.1) as away:
        away._transport._http = httpx.Client(
            transport=httpx.MockTransport(strange), base_url=away.url
        )
        with pytest.raises(RemoteError, match="not as a server of alloc does"):
            away.job("0" * 32)


def test_a_lost_answer_is_asked_for_again_with_the_same_key(address):
    """The first answers are lost on the way; the job is made once."""
    keys, lost = [], iter([True, True, False])
    real = httpx.Client(base_url=address)

    def unreliable(request):
        answer = real.request(
            request.method,
            request.url.path,
            content=request.content,
            headers={k: v for k, v in request.headers.items() if k not in ("host",)},
        )
        if request.method == "POST":
            keys.append(request.headers["idempotency-key"])
            if next(lost):
                raise httpx.ReadError("gone", request=request)
        return httpx.Response(answer.status_code, content=answer.content, request=request)

    with real, Client(address, patience_s=20.0) as client:
        before = {job.id for job in client.jobs()}
        client._transport.close()
        client._transport._http = httpx.Client(
            transport=httpx.MockTransport(unreliable), base_url=address
        )
        job = client.submit("act", {"act": "echo"})
    assert len(keys) == 3
    assert len(set(keys)) == 1
    with Client(address) as client:
        assert {found.id for found in client.jobs()} - before == {job.id}


@pytest.mark.parametrize(("lost", "timeout_s"), [(0, 600.0), (2, 600.0), (0, 601.0), (0, 1e8)])
def test_an_answer_that_comes_soon_takes_one_request_also_where_some_are_lost(
    address, lost, timeout_s
):
    """It took four: the job, its state twice or more, and the result."""
    requests = []
    real = httpx.Client(base_url=address, timeout=300.0)

    def unreliable(request):
        headers = {k: v for k, v in request.headers.items() if k != "host"}
        answer = real.request(
            request.method, request.url.path, content=request.content, headers=headers
        )
        requests.append(f"{request.method} {request.headers.get('idempotency-key')}")
        if len(requests) <= lost:
            raise httpx.ReadError("gone", request=request)
        return httpx.Response(answer.status_code, content=answer.content, request=request)

    with real, Client(address, timeout_s=timeout_s, patience_s=20.0) as client:
        before = {job.id for job in client.jobs()}
        client._transport.close()
        client._transport._http = httpx.Client(
            transport=httpx.MockTransport(unreliable), base_url=address
        )
        result = client.solve("elastic-tiny/01", formulation="round")
    assert result.certificate.status == "optimal"
    assert len(requests) == 1 + lost
    assert len(set(requests)) == 1
    with Client(address) as client:
        assert len({job.id for job in client.jobs()} - before) == 1


def test_an_answer_that_does_not_come_soon_is_waited_for(address):
    with Client(address, timeout_s=1e-3, patience_s=20.0) as client:
        client._transport.close()
        client._transport._http = httpx.Client(base_url=address, timeout=300.0)
        assert client.solve("elastic-tiny/01", formulation="round").certificate.verified


def test_busy_servers_are_asked_again():
    answers = iter([httpx.Response(503, headers={"Retry-After": "0"}), httpx.Response(429)])

    def busy(request):
        answer = next(answers, None)
        return answer or httpx.Response(200, json={"operation": "solve"})

    with Client("http://127.0.0.1:9", patience_s=5.0) as client:
        client._transport._http = httpx.Client(
            transport=httpx.MockTransport(busy), base_url=client.url
        )
        assert client.job("x").id == "x"


def test_a_token_is_sent_and_never_shown(tmp_path):
    secret = "alloc_" + "s" * 40
    with Client("http://127.0.0.1:9", secret, patience_s=0.1) as client:
        assert client._transport._http.headers["authorization"] == f"Bearer {secret}"
        with pytest.raises(RemoteError) as error:
            client.job("x")
        assert secret not in f"{client!r} {client.__dict__} {error.value}"


def test_a_wrong_token_is_refused(tmp_path):
    settings = Settings(
        database=str(tmp_path / "server.sqlite"), workers=1, drain_s=0.2, require_tokens=True
    )
    engine = open_database(settings.database)
    add_token(engine, "somebody")
    engine.dispose()
    with (
        Running(settings) as running,
        Client(f"http://127.0.0.1:{running.port}", "alloc_wrong", patience_s=0.5) as client,
        pytest.raises(RemoteError, match="unknown or revoked") as error,
    ):
        client.solve("elastic-tiny/01")
    assert (error.value.kind, error.value.status) == ("unauthorized", 401)


@pytest.mark.long
def test_a_job_survives_the_server_and_so_does_who_watches_it(tmp_path):
    """Killed in the middle of a job and started again: one result, one stream of progress."""
    port = _free_port()
    server = Server(tmp_path, port=port, workers=1)
    try:
        with Client(f"http://127.0.0.1:{port}", patience_s=60.0) as client:
            job = client.submit("act", {"act": "hold", "text": "once"})
            killed = False
            for line in job.progress():
                if not killed and line.startswith("step "):
                    killed = True
                    server.kill()
                    server = Server(tmp_path, port=port, workers=1)
                    server.let_go()
            assert killed
            assert job.result()["text"] == "once"
            assert [found.id for found in client.jobs()] == [job.id]
    finally:
        server.kill()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_server_that_went_away_is_not_waited_for_longer_than_was_asked(monkeypatch):
    """The patience of a minute was the least that any wait took."""
    slept = []

    def sleep(seconds):
        slept.append(seconds)

    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=sleep)
    for module in ("job", "transport"):
        monkeypatch.setattr(f"alloc.client.{module}.time", clock)
    with (
        Client("http://127.0.0.1:9", patience_s=60.0) as client,
        pytest.raises(RemoteError, match="does not answer") as caught,
    ):
        RemoteJob(client._transport, "0" * 32, bytes).result(timeout_s=0.5)
    assert caught.value.kind == "unreachable"
    assert 0.0 < sum(slept) <= 0.5
