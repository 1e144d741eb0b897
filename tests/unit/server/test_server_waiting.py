"""Jobs whose client waits for the answer: on disk when anything is said of them, in one commit."""

import asyncio
import contextlib
import threading
import time
from typing import Any

import httpx
import pytest
from server_harness import Running, act, wait_for
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from alloc.server import Settings
from alloc.server.records import Job, new_job_id
from alloc.server.store import Store

AWAY = OperationalError("COMMIT", {}, OSError("the connection is gone"))


async def gone(self, *_arguments, **_options):
    """Store nothing: the database is away."""
    raise AWAY


async def never(self, *_arguments, **_options):
    """Fail the test that comes here."""
    raise AssertionError("stored in another way")


class Waiting:
    """A client that asks for a job, and waits for the answer in a thread of its own."""

    def __init__(self, client, **request):
        self.answer: Any = None
        self._thread = threading.Thread(target=self._ask, args=(client,), kwargs=request)
        self._thread.start()

    def _ask(self, client, **request):
        self.answer = act(client, **request)

    def end(self):
        """Return the answer, once it has come."""
        self._thread.join()
        return self.answer


def listed(client):
    """Return the jobs that are in the database."""
    return client.get("/v1/jobs").json()["jobs"]


def wait_until_listed(client):
    """Return the first job that the database shows."""
    end = time.monotonic() + 300
    while not (jobs := listed(client)):
        assert time.monotonic() < end, "the job is not stored"
        time.sleep(0.02)
    return jobs[0]


@pytest.mark.long
def test_a_job_and_its_result_are_stored_together(open_client, settings, monkeypatch):
    """Half of what the database costs a small job is saved, and the wait for a commit."""
    monkeypatch.setattr(Store, "add", never)
    monkeypatch.setattr(Store, "end", never)
    monkeypatch.setattr("alloc.server.runner._UNHEARD_S", 300.0)
    client = open_client(settings)
    answer = act(client, wait=300, text="together", label="mine")
    assert (answer.status_code, answer.json()["text"]) == (200, "together")
    (job,) = listed(client)
    assert (job["state"], job["attempt"], job["label"]) == ("done", 1, "mine")
    assert client.get(job["links"]["result"]).content == answer.content
    assert client.get(job["links"]["request"]).json() == {"text": "together"}


@pytest.mark.parametrize("request_", [{"act": "fail"}, {"act": "crash"}])
def test_so_is_one_that_fails(open_client, settings, monkeypatch, request_):
    monkeypatch.setattr(Store, "add", never)
    monkeypatch.setattr("alloc.server.runner._UNHEARD_S", 300.0)
    client = open_client(settings)
    answer = act(client, wait=300, **request_)
    (job,) = listed(client)
    assert job["state"] == "failed"
    assert job["problem"]["type"] == answer.json()["type"]


def test_a_key_is_stored_before_its_job_runs(open_client, settings, monkeypatch):
    """Whoever sends it again at once must find the job."""
    monkeypatch.setattr(Store, "add_ended", never)
    client = open_client(settings)
    answer = act(client, wait=300, text="key", headers={"Idempotency-Key": "a"})
    assert answer.json()["text"] == "key"


def test_a_job_that_takes_a_moment_is_on_disk_before_it_ends(open_client, settings, tmp_path):
    """Its client may wait for an hour, in which the server may be killed."""
    client = open_client(settings)
    waiting = Waiting(client, wait=300, act="hold", until=str(tmp_path / "go"), text="late")
    job = wait_until_listed(client)
    assert job["state"] == "running"
    (tmp_path / "go").touch()
    answer = waiting.end()
    assert answer.json()["text"] == "late"
    assert client.get(job["links"]["result"]).content == answer.content
    assert len(listed(client)) == 1


@pytest.mark.long
def test_a_wait_that_runs_out_tells_of_a_job_that_is_on_disk(
    open_client, settings, tmp_path, monkeypatch
):
    monkeypatch.setattr("alloc.server.runner._UNHEARD_S", 300.0)
    client = open_client(settings)
    answer = act(client, wait=1, act="hold", until=str(tmp_path / "go"), text="after all")
    assert answer.status_code == 202
    (job,) = listed(client)
    assert job["id"] == answer.json()["id"]
    (tmp_path / "go").touch()
    assert wait_for(client, job["id"])["state"] == "done"
    assert client.get(job["links"]["result"]).json()["text"] == "after all"


def test_of_what_cannot_be_stored_nothing_is_kept(open_client, settings, monkeypatch):
    """The client is told to come again, and finds no job that it did not hear of."""
    client = open_client(settings)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", gone)
        patch.setattr(Store, "add_ended", gone)
        answer = act(client, wait=300, text="lost")
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:alloc:problem:store-unavailable"
    assert listed(client) == []
    assert act(client, wait=300, text="again").json()["text"] == "again"


def test_a_job_whose_result_could_not_be_stored_is_run_again(open_client, settings, monkeypatch):
    """The database is back when its client hears of it: then it is a job as any other."""
    monkeypatch.setattr("alloc.server.keeper.STRAY_S", 0.1)
    monkeypatch.setattr(Store, "add_ended", gone)
    client = open_client(settings)
    answer = act(client, wait=300, text="twice")
    assert answer.status_code == 202
    job = wait_for(client, answer.json()["id"])
    assert job["state"] == "done"
    assert client.get(job["links"]["result"]).json()["text"] == "twice"


def test_a_job_that_was_stored_in_a_commit_whose_answer_was_lost_ends_once(
    open_client, settings, tmp_path, monkeypatch
):
    """It must not stay there as one that runs, to be run again beside its result."""
    monkeypatch.setattr("alloc.server.keeper.STRAY_S", 0.1)
    add = Store.add

    async def lost(self, job, body):
        await add(self, job, body)
        raise AWAY

    monkeypatch.setattr(Store, "add", lost)
    client = open_client(settings)
    waiting = Waiting(client, wait=300, act="hold", until=str(tmp_path / "go"), text="once")
    wait_until_listed(client)
    monkeypatch.setattr(Store, "add", add)
    (tmp_path / "go").touch()
    answer = waiting.end()
    assert (answer.status_code, answer.json()["text"]) == (200, "once")
    (job,) = listed(client)
    assert (job["state"], job["attempt"]) == ("done", 1)
    assert client.get(job["links"]["result"]).content == answer.content


@pytest.mark.long
def test_a_job_that_takes_long_is_stored_once_the_database_is_back(
    open_client, settings, tmp_path, monkeypatch
):
    """One failure must not leave an hour's work to the luck of its end."""
    add, tries = Store.add, []

    async def back_later(self, job, body):
        tries.append(job.id)
        if len(tries) < 2:
            raise AWAY
        return await add(self, job, body)

    monkeypatch.setattr(Store, "add", back_later)
    client = open_client(settings)
    waiting = Waiting(client, wait=300, act="hold", until=str(tmp_path / "go"), text="back")
    assert wait_until_listed(client)["state"] == "running"
    (tmp_path / "go").touch()
    assert waiting.end().json()["text"] == "back"
    assert len({*tries}) == 1


@pytest.mark.long
def test_a_graceful_end_puts_back_what_was_not_stored(settings, tmp_path, monkeypatch):
    """The client that waits hears where its job is, and the next server runs it."""
    monkeypatch.setattr("alloc.server.runner._UNHEARD_S", 300.0)
    go = tmp_path / "go"
    with Running(settings) as first:
        waiting = Waiting(first.client, wait=300, act="hold", until=str(go), text="put back")
        end = time.monotonic() + 300
        while "alloc_workers_busy 1.0" not in first.client.get("/metrics").text:
            assert time.monotonic() < end, "the job is not run"
            time.sleep(0.02)
        assert listed(first.client) == []
        first._server._server.should_exit = True
        answer = waiting.end()
    assert answer.status_code == 202
    go.touch()
    with Running(settings) as second:
        job = wait_for(second.client, answer.json()["id"])
        assert job["state"] == "done"
        assert second.client.get(job["links"]["result"]).json()["text"] == "put back"


@pytest.mark.long
def test_a_kill_loses_no_job_that_has_waited_for_a_moment(server):
    """Nobody has heard of the job; but it was long enough for its loss to be dear."""
    first = server(workers=1)

    def ask():
        with contextlib.suppress(httpx.TransportError):
            act(first.client, wait=300, act="hold")

    waiting = threading.Thread(target=ask)
    waiting.start()
    job = wait_until_listed(first.client)
    first.kill()
    waiting.join()
    first.let_go()
    second = server(workers=1)
    assert wait_for(second.client, job["id"])["state"] == "done"


def test_jobs_that_end_together_are_added_together_and_once(settings):
    """Three statements for all of them; a commit whose answer was lost changes nothing again."""

    async def work():
        store = Store(Settings(database=settings.database))
        await store.register()
        told: list[int] = []
        event.listen(
            store.engine,
            "before_cursor_execute",
            lambda connection, cursor, statement, values, *_: told.append(len(values)),
        )
        ended = [
            Job(new_job_id(), "c", "act", 1.0, "done", 2.0, 3.0, 9e9, attempt=1) for _ in range(4)
        ]
        rows = [(store_values(job), b"{}", b"[]", None) for job in ended]
        for _ in range(2):
            with store.engine.begin() as connection:
                assert store._add_all_ended(connection, rows) == [None] * 4
        assert told == [4, 4, 4] * 2
        assert await store.list("c", limit=10) == sorted(ended, key=lambda j: j.id, reverse=True)
        assert await store.result(ended[0].id) == b"[]"
        assert await store.own() == set()
        assert not await store.end(ended[0], b'{"second": true}')
        await store.close()

    asyncio.run(work())


def store_values(job):
    """Return the row of a job that nobody has to look after."""
    return {**vars(job), "owner": None, "cancel": False}
