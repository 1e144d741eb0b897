"""The life of a job: kept once, cancelled, watched, listed, expired."""

import asyncio
import json
import re
import threading
import time
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from server_harness import act, wait_for
from sqlalchemy import inspect
from sqlalchemy.exc import OperationalError

from alloc.server import Settings, routes_jobs
from alloc.server.records import Job
from alloc.server.store import Store
from alloc.server.tables import events as stored_events
from alloc.server.tables import open_database


def test_the_same_key_and_body_is_the_same_job(shared):
    """A client that did not hear the answer may send again: nothing is done twice."""
    headers = {"Idempotency-Key": "key-1"}
    first = act(shared, wait=30, headers=headers, text="a")
    again = act(shared, wait=30, headers=headers, text="a")
    assert first.status_code == again.status_code == 200
    assert first.headers["location"] == again.headers["location"]
    assert first.text == again.text
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    replay = act(shared, headers=headers, text="a")
    assert replay.status_code == 202
    assert replay.json()["state"] == "done"


def test_the_same_key_with_another_body_is_refused(shared):
    """Or an answer to something else would pass for the one that was asked for."""
    headers = {"Idempotency-Key": "key-2"}
    act(shared, headers=headers, text="a")
    other = act(shared, headers=headers, text="b")
    assert other.status_code == 422
    assert other.json()["type"] == "urn:alloc:problem:idempotency-key-reused"
    elsewhere = shared.post("/v1/solve", json={"instance": "elastic-tiny/01"}, headers=headers)
    assert elsewhere.status_code == 422


def test_the_same_key_many_times_at_once_is_one_job(shared):
    locations = set()

    def send():
        response = act(shared, wait=30, headers={"Idempotency-Key": "key-3"}, text="at once")
        locations.add((response.status_code, response.headers["location"]))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(locations) == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
def test_a_key_that_is_none_is_refused(shared, key):
    response = act(shared, headers={"Idempotency-Key": key})
    assert response.status_code == 400
    assert response.json()["errors"][0]["parameter"] == "Idempotency-Key"


def test_cancelling_kills_a_job_that_runs(shared):
    """At once, although the job does not look up; and the next job finds a worker."""
    job = act(shared, act="hold").json()
    wait_for(shared, job["id"], states=("running",))
    cancelled = shared.post(job["links"]["cancel"])
    assert cancelled.json()["state"] == "cancelled"
    again = shared.post(job["links"]["cancel"])
    assert (again.status_code, again.json()["state"]) == (200, "cancelled")
    result = shared.get(job["links"]["result"])
    assert result.status_code == 409
    assert result.json()["type"] == "urn:alloc:problem:cancelled"
    assert act(shared, wait=30).status_code == 200


def test_cancelling_a_job_that_waits_takes_it_out_of_the_queue(open_client, settings):
    client = open_client(settings.replace(workers=1))
    running = act(client, act="hold").json()
    wait_for(client, running["id"], states=("running",))
    waiting = act(client, text="waits").json()
    assert client.post(waiting["links"]["cancel"]).json()["state"] == "cancelled"
    assert client.post(running["links"]["cancel"]).json()["state"] == "cancelled"


def test_a_job_that_is_done_cannot_be_cancelled(shared):
    location = act(shared, wait=30).headers["location"]
    response = shared.post(f"{location}/cancel")
    assert response.status_code == 409
    assert response.json()["type"] == "urn:alloc:problem:already-finished"


def test_the_result_of_a_job_that_runs_is_not_there_yet(shared):
    job = act(shared, act="hold").json()
    response = shared.get(job["links"]["result"])
    assert response.status_code == 409
    assert response.json()["type"] == "urn:alloc:problem:not-finished"
    assert response.headers["retry-after"]
    shared.post(job["links"]["cancel"])


def events(response):
    """Yield (id, kind, data) of a stream of server-sent events."""
    fields = {}
    for line in response.iter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield int(fields["id"]), fields["event"], json.loads(fields["data"])
            fields = {}


def watched(client, job, go, lines=3):
    """Watch a job that holds, let it go after so many lines of progress, and return its events."""
    seen = []
    with client.stream("GET", job["links"]["events"]) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for event in events(response):
            seen.append(event)
            if sum(kind == "progress" for _, kind, _ in seen) == lines:
                go.touch()
    return seen


def test_a_job_can_be_watched_while_it_runs(shared, tmp_path):
    """The stream tells of every state and of progress, and ends with the job."""
    go = tmp_path / "go"
    job = act(shared, act="hold", until=str(go), text="watched").json()
    seen = watched(shared, job, go)
    states = [data["state"] for _, kind, data in seen if kind == "status"]
    assert states == ["queued", "running", "done"]
    lines = [data["line"] for _, kind, data in seen if kind == "progress"]
    # The server may leave out lines that follow each other closely.
    assert all(re.fullmatch(r"starting: watched|step \d+", line) for line in lines)
    assert len(lines) > 2
    ids = [number for number, _, _ in seen]
    assert ids == sorted(set(ids))


def test_a_watcher_that_comes_back_misses_nothing(shared, tmp_path):
    """Last-Event-ID: the rest of the events, each once."""
    job = act(shared, act="hold", until=str(tmp_path / "go")).json()
    first = []
    with shared.stream("GET", job["links"]["events"]) as response:
        for event in events(response):
            first.append(event)
            if event[1] == "progress":
                break
    headers = {"Last-Event-ID": str(first[-1][0])}
    with shared.stream("GET", job["links"]["events"], headers=headers) as response:
        (tmp_path / "go").touch()
        rest = list(events(response))
    assert rest[0][0] > first[-1][0]
    assert rest[-1][2]["state"] == "done"
    with shared.stream("GET", job["links"]["events"]) as response:
        late = list(events(response))
    assert [data["state"] for _, _, data in late] == ["done"]
    over = shared.get(job["links"]["events"], headers={"Last-Event-ID": str(rest[-1][0])})
    assert over.status_code == 204


def test_a_watcher_that_comes_back_after_the_end_misses_nothing(shared, tmp_path):
    """Of what it has not seen, also the progress; whoever never watched gets the end alone."""
    go = tmp_path / "go"
    job = act(shared, act="hold", until=str(go)).json()
    seen = watched(shared, job, go)
    assert len(seen) > 4
    for number, _, _ in seen[:-1]:
        headers = {"Last-Event-ID": str(number)}
        with shared.stream("GET", job["links"]["events"], headers=headers) as response:
            rest = list(events(response))
        # The last one, the end, is told from the stored job, with an id of its own.
        assert rest[:-1] == [event for event in seen if event[0] > number][:-1]
        assert rest[-1][1:] == seen[-1][1:]
        assert rest[-1][0] > number


def test_a_watcher_whose_ids_run_ahead_of_the_clock_still_hears_of_the_end(
    open_client, settings, monkeypatch, tmp_path
):
    """A burst of lines has later ids than the end of the job: 204 would say that it was seen."""
    monkeypatch.setattr(
        "alloc.server.feed.time", SimpleNamespace(time=lambda: time.time() + 1000.0)
    )
    client = open_client(settings)
    go = tmp_path / "go"
    job = act(client, act="hold", until=str(go)).json()
    seen = watched(client, job, go)
    for number, _, _ in seen[:-1]:
        headers = {"Last-Event-ID": str(number)}
        with client.stream("GET", job["links"]["events"], headers=headers) as response:
            assert response.status_code == 200
            assert list(events(response))[-1][2]["state"] == "done"
    headers = {"Last-Event-ID": str(seen[-1][0])}
    assert client.get(job["links"]["events"], headers=headers).status_code == 204


@pytest.mark.parametrize("seen", range(5))
def test_a_watcher_of_another_servers_job_hears_of_each_state_once(monkeypatch, seen):
    """However often it comes back: what it has heard of is not said again."""
    monkeypatch.setattr("alloc.server.routes_jobs._LOOK_S", 0.0)
    queued = Job(id="j", client="c", operation="act", created=1.0)
    running = queued.replace(state="running", started=2.0, attempt=1)
    again = running.replace(started=3.0, attempt=2)  # taken over by a third server
    done = again.replace(state="done", finished=4.0)

    def told(after, *looks):
        async def get(job_id):
            return looks_left.pop(0)

        async def events(job_id):
            return None

        async def collect():
            service: Any = SimpleNamespace(
                live=lambda job_id: None,
                stopping=asyncio.Event(),
                store=SimpleNamespace(get=get, events=events),
            )
            return [
                (int(event.id), json.loads(event.data)["state"])
                async for event in routes_jobs._events(service, "j", after)
            ]

        looks_left = [*looks, None]
        return asyncio.run(collect())

    looks = [queued, running, running, again, done]
    before = told(-1, *looks[:seen])
    last = before[-1][0] if before else -1
    rest = told(last, *looks[max(seen - 1, 0) :])
    # Whoever comes back in time to see the second attempt hears of that too.
    attempts = ["running"] * (2 if seen == 4 else 1)
    assert [state for _, state in (*before, *rest)] == ["queued", *attempts, "done"]
    ids = [number for number, _ in (*before, *rest)]
    assert ids == sorted(set(ids))


def test_every_server_of_a_process_streams_to_the_end(open_client, settings, tmp_path):
    """Older versions of sse-starlette tied the whole process to the loop of its first stream."""
    for k in range(2):
        client = open_client(settings.replace(workers=1, database=str(tmp_path / f"{k}.sqlite")))
        job = act(client).json()
        with client.stream("GET", job["links"]["events"]) as response:
            assert list(events(response))[-1][2]["state"] == "done"


def test_a_job_that_was_stored_unheard_is_run_all_the_same(open_client, settings, monkeypatch):
    """The database went away with the answer to the commit: the client is told to come again.

    With its key it finds the job that was stored, which somebody has to run.
    """
    monkeypatch.setattr("alloc.server.keeper.STRAY_S", 0.1)
    client = open_client(settings)
    plain = Store.add

    async def add(self, job, body):
        await plain(self, job, body)
        raise OperationalError("COMMIT", {}, OSError("the connection is gone"))

    headers = {"Idempotency-Key": "unheard"}
    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", add)
        assert act(client, headers=headers, text="kept").status_code == 503
    again = act(client, headers=headers, text="kept")
    assert again.status_code == 202
    job = wait_for(client, again.json()["id"])
    assert (job["state"], job["attempt"]) == ("done", 1)
    assert client.get(job["links"]["result"]).json()["text"] == "kept"


def test_pages_stay_as_they_are_while_jobs_come(open_client, settings):
    """A cursor is a place between jobs, not a number of them."""
    client = open_client(settings)
    made = [act(client, wait=30, label=f"job-{k}").headers["location"][-32:] for k in range(7)]
    first = client.get("/v1/jobs", params={"limit": 3})
    page = first.json()
    assert [job["id"] for job in page["jobs"]] == made[:3:-1]
    for _ in range(2):
        act(client, wait=30, label="later")
    address = first.headers["link"].partition(">")[0].removeprefix("<")
    page = client.get(address).json()
    assert [job["id"] for job in page["jobs"]] == made[3:0:-1]
    last = client.get("/v1/jobs", params={"limit": 3, "cursor": page["next_cursor"]}).json()
    assert [job["id"] for job in last["jobs"]] == made[:1]
    assert last["next_cursor"] is None


def test_lists_can_be_narrowed(open_client, settings):
    client = open_client(settings)
    act(client, wait=30, label="a")
    act(client, wait=30, label="b", act="refuse")
    moment = act(client, wait=30, label="a").headers["date"]
    assert moment
    listed = client.get("/v1/jobs").json()["jobs"]

    def labels(**params):
        return [job["label"] for job in client.get("/v1/jobs", params=params).json()["jobs"]]

    assert labels() == ["a", "b", "a"]
    assert labels(state="failed") == ["b"]
    assert labels(state=["failed", "done"]) == ["a", "b", "a"]
    assert labels(label="a") == ["a", "a"]
    assert labels(operation="solve") == []
    assert labels(created_after=listed[1]["created_at"]) == ["a", "b"]
    assert labels(created_before=listed[1]["created_at"]) == ["a"]
    assert client.get("/v1/jobs", params={"created_after": "yesterday"}).status_code == 422
    assert client.get("/v1/jobs", params={"cursor": "x"}).status_code == 422


def test_a_result_expires_and_then_the_job_is_forgotten(open_client, settings, monkeypatch):
    """410 as long as the server knows that there was one, 404 after that."""
    later = [0.0]
    clock = SimpleNamespace(time=lambda: time.time() + later[0])
    monkeypatch.setattr("alloc.server.store.time", clock)
    monkeypatch.setattr("alloc.server.keeper.EXPIRY_S", 0.1)
    client = open_client(settings.replace(result_ttl_s=1000.0, tombstone_ttl_s=1000.0))
    location = act(client, wait=30, headers={"Idempotency-Key": "k"}).headers["location"]
    assert client.get(f"{location}/result").status_code == 200
    later[0] = 1500.0
    wait_for(client, location[-32:], states=("expired",))
    for part in ("result", "request"):
        response = client.get(f"{location}/{part}")
        assert response.status_code == 410
        assert response.json()["type"] == "urn:alloc:problem:expired"
    assert act(client, wait=1, headers={"Idempotency-Key": "k"}).status_code == 410
    later[0] = 3000.0
    end = time.monotonic() + 300
    while client.get(location).status_code != 404:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_result_past_its_time_is_gone_before_it_is_swept_out(open_client, settings, monkeypatch):
    later = [0.0]
    clock = SimpleNamespace(time=lambda: time.time() + later[0])
    client = open_client(settings.replace(result_ttl_s=1000.0))
    key = {"Idempotency-Key": "k"}
    location = act(client, wait=30, headers=key).headers["location"]
    monkeypatch.setattr("alloc.server.store.time", clock)
    later[0] = 1001.0
    for part in ("result", "request"):
        assert client.get(f"{location}/{part}").status_code == 410
    assert client.get(location).json()["state"] == "expired"
    assert act(client, headers=key).json()["state"] == "expired"
    for state, num_jobs in (("done", 0), ("expired", 1)):
        assert len(client.get("/v1/jobs", params={"state": state}).json()["jobs"]) == num_jobs


def test_a_database_from_before_events_were_kept_gets_their_table(settings):
    engine = open_database(settings.database)
    stored_events.drop(engine)
    engine.dispose()
    engine = open_database(settings.database)
    assert inspect(engine).has_table(stored_events.name)
    engine.dispose()


def test_labels_are_short_and_printable(shared):
    assert act(shared, label="x" * 201).status_code == 422
    assert act(shared, label="a\nb").status_code == 422
    assert act(shared, label="Größe 2 – billiger").status_code == 202


def test_too_many_jobs_are_refused_with_a_time_to_come_back(open_client, settings):
    client = open_client(settings.replace(workers=1, max_queue=3, max_queue_per_client=2))
    running = act(client, act="hold").json()
    wait_for(client, running["id"], states=("running",))
    assert [act(client).status_code for _ in range(3)] == [202, 202, 429]
    refused = act(client)
    assert refused.json()["type"] == "urn:alloc:problem:too-many-jobs"
    assert int(refused.headers["retry-after"]) > 0


def test_an_address_that_is_taken_is_one_sentence(shared, settings):
    from alloc.errors import AllocError
    from alloc.server.serving import make_server

    port = httpx.URL(str(shared.base_url)).port
    with pytest.raises(AllocError, match=f"cannot listen on 127.0.0.1:{port}"):
        make_server(Settings(port=port, database=settings.database))
