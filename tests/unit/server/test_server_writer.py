"""The writer and the store: many changes to a commit, each for itself; jobs stored once."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import IntegrityError, OperationalError

from alloc.server import Settings
from alloc.server.records import Job, new_job_id
from alloc.server.store import Store
from alloc.server.tables import DatabaseError
from alloc.server.writer import GATHER_S, Writer


@pytest.fixture
def engine(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path / 'x.sqlite'}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (k INTEGER PRIMARY KEY)"))
    yield engine
    engine.dispose()


def add(number):
    return lambda connection: connection.execute(text(f"INSERT INTO t VALUES ({number})")).rowcount


def stored(engine):
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT k FROM t ORDER BY k")).scalars())


def test_changes_that_wait_share_a_commit(engine):
    """A commit waits for the disk; two hundred a second would each wait for the one before."""
    commits: list[Any] = []
    event.listen(engine, "commit", commits.append)

    async def work():
        writer = Writer(engine)
        assert await asyncio.gather(*(writer.write(add(k)) for k in range(200))) == [1] * 200
        await asyncio.to_thread(writer.close)

    asyncio.run(work())
    assert stored(engine) == list(range(200))
    assert len(commits) < 20


def test_a_crowd_of_changes_makes_no_crowd_of_commits(engine, monkeypatch):
    """A disk that is fast must not turn every change into a commit: commits cost CPU time."""
    commits: list[Any] = []
    pauses: list[float] = []
    event.listen(engine, "commit", commits.append)
    gate, together = threading.Event(), threading.Event()

    def sleep(seconds):
        """Take as long as the next changes take to come."""
        pauses.append(seconds)
        together.wait()

    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep)
    monkeypatch.setattr("alloc.server.writer.time", clock)

    async def work():
        writer = Writer(engine)
        futures = [writer.write(lambda connection: gate.wait())]
        for turn in range(20):
            together.clear()
            futures += [writer.write(add(3 * turn + k)) for k in range(3)]
            together.set()
            gate.set()
            await asyncio.gather(*futures)
        await asyncio.to_thread(writer.close)

    asyncio.run(work())
    assert stored(engine) == list(range(60))
    # One to begin with, or two: the first crowd may come while the first change is on its way.
    assert len(commits) <= 21
    assert pauses == [GATHER_S] * 20


def test_a_change_alone_does_not_wait_for_company(engine, monkeypatch):
    """One client after the other is answered as fast as the disk allows."""
    pauses: list[float] = []

    async def work():
        writer = Writer(engine)
        await asyncio.gather(*(writer.write(add(k)) for k in range(9)))
        await writer.write(add(10))
        monkeypatch.setattr("time.sleep", pauses.append)
        for k in range(20, 30):
            await writer.write(add(k))
        monkeypatch.undo()
        await asyncio.to_thread(writer.close)

    asyncio.run(work())
    assert pauses == []


def test_a_change_that_fails_fails_alone(engine):
    """Others that shared its commit are written all the same."""

    async def work():
        writer = Writer(engine)
        ended = await asyncio.gather(
            *(writer.write(add(k)) for k in (1, 2, 1, 3)), return_exceptions=True
        )
        await asyncio.to_thread(writer.close)
        return ended

    ended = asyncio.run(work())
    assert [type(value) for value in ended] == [int, int, IntegrityError, int]
    assert stored(engine) == [1, 2, 3]


def test_closing_writes_what_is_left(engine):
    async def work():
        writer = Writer(engine)
        futures = [writer.write(add(k)) for k in range(20)]
        await asyncio.to_thread(writer.close)
        await asyncio.gather(*futures)

    asyncio.run(work())
    assert len(stored(engine)) == 20


@pytest.fixture
def settings(tmp_path):
    return Settings(database=str(tmp_path / "server.sqlite"))


def job(**fields):
    given = {"id": new_job_id(), "client": "c", "operation": "act", "created": 1.0, **fields}
    return Job(**given)


def test_a_result_is_stored_once(settings):
    """Whoever ends a job second changes nothing, whatever it comes with."""

    async def work():
        store = Store(settings)
        await store.register()
        mine = job()
        assert await store.add(mine, b"{}") is None
        done = mine.replace(state="done", finished=2.0, expires=9e9)
        assert await store.end(done, b'{"first": true}')
        assert not await store.end(done, b'{"second": true}')
        assert not await store.end(mine.replace(state="failed", finished=3.0), None)
        assert await store.result(mine.id) == b'{"first": true}'
        found = await store.get(mine.id)
        assert (found.state, found.finished) == ("done", 2.0)
        await store.close()

    asyncio.run(work())


def test_what_was_taken_over_is_lost_to_its_former_owner(settings):
    """The lease is what makes two servers one: the loser's writes do not count."""

    async def work():
        store = Store(settings)
        await store.register()
        mine = job()
        await store.add(mine, b"{}")
        former = store.owner
        await store.register()
        (adopted,) = await store.adopt()
        assert adopted.id == mine.id
        heir, store.owner = store.owner, former
        assert not await store.show_life()
        assert not await store.end(mine.replace(state="done", finished=2.0), b"{}")
        store.owner = heir
        assert await store.show_life()
        assert await store.end(mine.replace(state="done", finished=2.0), b"{}")
        await store.close()

    asyncio.run(work())


def test_a_commit_whose_answer_is_lost_stores_the_job_once(settings, monkeypatch):
    """The writer tries again, and finds its own job: it is new all the same, with a key or not."""
    plain = Writer._commit
    lose = [True]

    def commit(self, changes):
        values = plain(self, changes)
        if lose.pop():
            raise OperationalError("COMMIT", {}, OSError("the connection is gone"))
        return values

    async def work():
        store = Store(settings)
        await store.register()
        monkeypatch.setattr(Writer, "_commit", commit)
        for fields in ({}, {"idempotency_key": "k", "body_hash": "h"}):
            gate = threading.Event()
            lose[:] = [False, False, False, True, False]
            first = store._writer.write(lambda c, gate=gate: gate.wait(300))  # type: ignore[misc]
            mine = job(**fields)
            added = asyncio.gather(*(store.add(one, b"{}") for one in (job(), job(), mine)))
            await asyncio.sleep(0)
            gate.set()
            assert await first
            assert await added == [None] * 3
            assert await store.request(mine.id) == b"{}"
        monkeypatch.undo()
        assert len(await store.list("c", limit=10)) == 6
        await store.close()

    asyncio.run(work())


def test_large_requests_are_kept_whole(settings):
    """Also those that are compressed, and those that look compressed."""

    async def work():
        store = Store(settings)
        await store.register()
        for body in (b"{}", b'{"a": "' + b"x" * 100_000 + b'"}', b" " * 2000):
            mine = job()
            await store.add(mine, body)
            assert await store.request(mine.id) == body
        assert await store.request("0" * 32) is None
        await store.close()

    asyncio.run(work())


def test_a_file_has_one_server(settings):
    first = Store(settings)
    with pytest.raises(DatabaseError, match="is in use by another server"):
        Store(settings)
    asyncio.run(first.close())
    asyncio.run(Store(settings).close())


def test_ids_of_jobs_sort_by_time_and_are_not_guessed():
    ids = [new_job_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert [found[:12] for found in ids] == sorted(found[:12] for found in ids)
    assert all(len(found) == 32 for found in ids)
