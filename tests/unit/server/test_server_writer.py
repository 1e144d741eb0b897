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


def behind_a_gate(engine, hand_in):
    """Return what came of changes that are handed in while the writer is held up."""
    gate = threading.Event()

    async def work():
        writer = Writer(engine)
        held = writer.write(lambda connection: gate.wait(300))
        futures = hand_in(writer)
        gate.set()
        await held
        ended = await asyncio.gather(*futures, return_exceptions=True)
        await asyncio.to_thread(writer.close)
        return ended

    return asyncio.run(work())


def test_rows_of_a_kind_are_written_together_and_other_changes_keep_their_place(engine):
    """What one row costs is mostly SQLAlchemy's; but a takeover stays where it was."""
    told: list[Any] = []

    def insert(connection, rows):
        told.append(list(rows))
        connection.execute(text("INSERT INTO t VALUES (:k)"), [{"k": row} for row in rows])
        return [10 * row for row in rows]

    def remove(connection, rows):
        told.append([-row for row in rows])
        return [-row for row in rows]

    def takeover(connection):
        told.append("takeover")
        return "taken"

    def hand_in(writer):
        return [
            writer.write_row(insert, 1),
            writer.write_row(remove, 7),
            writer.write_row(insert, 2),
            writer.write(takeover),
            writer.write_row(insert, 3),
            writer.write_row(insert, 4),
        ]

    assert behind_a_gate(engine, hand_in) == [10, -7, 20, "taken", 30, 40]
    assert told == [[1, 2], [-7], "takeover", [3, 4]]
    assert stored(engine) == [1, 2, 3, 4]


def test_a_row_that_fails_fails_alone(engine):
    def insert(connection, rows):
        connection.execute(text("INSERT INTO t VALUES (:k)"), [{"k": row} for row in rows])
        return rows

    ended = behind_a_gate(engine, lambda w: [w.write_row(insert, k) for k in (1, 2, 1, 3)])
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


def test_jobs_that_come_and_end_together_share_their_statements(settings):
    """At 200 jobs a second, four statements for each were a quarter of the server's work."""

    async def work():
        store = Store(settings)
        await store.register()
        told: list[int] = []
        event.listen(
            store.engine,
            "before_cursor_execute",
            lambda connection, cursor, statement, values, *_: told.append(len(values)),
        )
        mine = [job() for _ in range(4)]

        async def together(changes):
            gate = threading.Event()
            held = store._writer.write(lambda connection: gate.wait(300))
            ended = asyncio.gather(*changes)
            await asyncio.sleep(0)
            gate.set()
            await held
            return await ended

        assert await together(store.add(one, b"{}") for one in mine) == [None] * 4
        ends = (one.replace(state="done", finished=2.0, expires=9e9) for one in mine)
        assert await together(store.end(one, b"[]") for one in ends) == [True] * 4
        # Jobs and requests; then ends and results.
        assert told == [4, 4, 4, 4]
        assert {one.state for one in await store.list("c", limit=10)} == {"done"}
        await store.close()

    asyncio.run(work())


def test_of_jobs_that_end_together_only_those_that_were_lost_are_not_stored(settings):
    """They share an update, and what another server has taken over takes no others along."""

    async def work():
        store = Store(settings)
        await store.register()
        mine = [job() for _ in range(4)]
        await asyncio.gather(*(store.add(one, b"{}") for one in mine))
        done = [one.replace(state="done", finished=2.0, expires=9e9) for one in mine]
        assert await store.end(done[1], b'{"first": true}')
        gate = threading.Event()
        held = store._writer.write(lambda connection: gate.wait(300))
        ends = asyncio.gather(*(store.end(one, b'{"second": true}') for one in done))
        await asyncio.sleep(0)
        gate.set()
        await held
        assert await ends == [True, False, True, True]
        results = [await store.result(one.id) for one in mine]
        assert results == [b'{"second": true}', b'{"first": true}', *results[:1] * 2]
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
