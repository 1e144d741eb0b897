"""The store: jobs, requests and results in the database, each change a method.

Every job that has not ended has an owner, the server that looks after it. Servers show every few
seconds that they live; the jobs of one that does not are taken over by another, or by the same one
after a restart. Whoever lost a job can no longer store anything for it, so a result is stored once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    bindparam,
    case,
    delete,
    extract,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from alloc.server.locking import FileLock
from alloc.server.packing import pack_body, unpack_body
from alloc.server.records import Job, State
from alloc.server.settings import Settings
from alloc.server.tables import (
    events,
    jobs,
    open_database,
    owners,
    requests,
    results,
    sqlite_path,
)
from alloc.server.writer import Writer

T = TypeVar("T")

_COLUMNS = tuple(jobs.c[known.name] for known in dataclasses.fields(Job))
_OPEN: tuple[State, ...] = ("queued", "running")
_CHUNK = 500  # rows of one statement of tidying up: others wait while it runs
_IN_LOOP_BYTES = 256 * 1024  # a larger body keeps other requests waiting

# Built once: putting a statement together costs more than running it.
_MINE = (jobs.c.id == bindparam("job")) & (jobs.c.owner == bindparam("me"))
# Not with IN, of which SQLAlchemy makes a text for each number of values: such a statement is not
# for many rows at a time.
_UPDATE = update(jobs).where(_MINE, or_(*(jobs.c.state == state for state in _OPEN)))
_START = _UPDATE.values(state="running", started=bindparam("at"), attempt=bindparam("number"))
_END = _UPDATE.values(
    state=bindparam("ending"),
    started=bindparam("begun"),
    finished=bindparam("at"),
    expires=bindparam("until"),
    attempt=bindparam("number"),
    problem=bindparam("why"),
    owner=None,
)
_RELEASE = _UPDATE.values(state="queued", owner=None)
_INSERT_REQUEST = insert(requests)
_INSERT_RESULT = insert(results)
_INSERT_EVENTS = insert(events)
_BY_KEY = select(*_COLUMNS).where(
    jobs.c.client == bindparam("whose"), jobs.c.idempotency_key == bindparam("key")
)
_BY_ID = select(*_COLUMNS).where(jobs.c.id == bindparam("job"))


class Store:
    """Jobs in a database.

    Parameters
    ----------
    settings
        Where the database is, and how long a lease lasts.

    Raises
    ------
    DatabaseError
        If it cannot be opened, or another server has the SQLite file.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        path = sqlite_path(settings.database)
        # One server to a file; so whatever jobs are in it when it opens, nobody runs them.
        self._lock = None
        self.engine = open_database(settings.database, settings.lease_s)
        self._folder = None if path is None else path.absolute().parent
        if path is not None:
            self._lock = FileLock(path.with_name(f"{path.name}.lock"), settings.database)
        self._writer = Writer(self.engine)
        self.owner = ""
        dialect = postgresql if self.engine.dialect.name == "postgresql" else sqlite
        # A commit whose answer was lost is made again.
        self._insert_jobs = dialect.insert(jobs).on_conflict_do_nothing()
        self._insert_job = self._insert_jobs.returning(jobs.c.id)
        self._insert_requests = dialect.insert(requests).on_conflict_do_nothing()
        self._insert_results = dialect.insert(results).on_conflict_do_nothing()
        self._insert_events = dialect.insert(events).on_conflict_do_nothing()

    async def close(self) -> None:
        """Write what is left, and let the database go."""
        await asyncio.to_thread(self._writer.close)
        self.engine.dispose()
        if self._lock is not None:
            self._lock.release()

    async def register(self) -> None:
        """Become an owner of jobs, under a new name."""
        name = secrets.token_hex(8)

        def change(connection: Connection) -> None:
            if self._lock is not None:
                connection.execute(delete(owners))
            connection.execute(insert(owners).values(id=name, seen=_clock(connection)))

        await self._writer.write(change)
        self.owner = name

    async def resign(self) -> None:
        """Own nothing any more: what is left is for others to take over at once."""
        name = self.owner
        await self._writer.write(lambda c: c.execute(delete(owners).where(owners.c.id == name)))

    async def show_life(self) -> bool:
        """Renew the lease; return False if it was lost."""
        name = self.owner

        def change(connection: Connection) -> bool:
            renewed = connection.execute(
                update(owners).where(owners.c.id == name).values(seen=_clock(connection))
            )
            return renewed.rowcount == 1

        return await self._writer.write(change)

    async def adopt(self) -> list[Job]:
        """Take over the jobs that nobody looks after; return them as they were found."""
        name = self.owner

        def change(connection: Connection) -> list[Job]:
            dead = owners.c.seen < _clock(connection) - self._settings.lease_s
            # Who is just showing life is not dead: do not wait to find out.
            found = select(owners.c.id).where(dead, owners.c.id != name)
            ids = connection.execute(found.with_for_update(skip_locked=True)).scalars().all()
            connection.execute(delete(owners).where(owners.c.id.in_(ids)))
            orphan = or_(jobs.c.owner.is_(None), jobs.c.owner.not_in(select(owners.c.id)))
            adopted = connection.execute(
                update(jobs)
                .where(jobs.c.state.in_(_OPEN), orphan)
                .values(owner=name)
                .returning(*_COLUMNS)
            )
            return sorted((Job(*row) for row in adopted), key=lambda job: job.id)

        return await self._writer.write(change)

    async def add(self, job: Job, body: bytes) -> Job | None:
        """Store a new job; return the earlier one of the same idempotency key instead, if any.

        Parameters
        ----------
        job
            The job.
        body
            Its request, as it came.
        """
        values = {**_plain(job), "owner": self.owner, "cancel": False}
        packed = await _packed(body)
        if job.idempotency_key is None:
            return await self._writer.write_row(self._add_all, (values, packed))

        def change(connection: Connection) -> Job | None:
            added = connection.execute(self._insert_job, values)
            if added.scalar() is None:
                if _first(connection, job.id) is not None:
                    # Written before, in a commit whose answer was lost.
                    return None
                found = connection.execute(
                    _BY_KEY, {"whose": job.client, "key": job.idempotency_key}
                ).one()
                return _as_of_now(Job(*found))
            connection.execute(_INSERT_REQUEST, {"job": job.id, "body": packed})
            return None

        return await self._writer.write(change)

    def _add_all(
        self, connection: Connection, added: Sequence[tuple[dict[str, Any], bytes]]
    ) -> list[Job | None]:
        """Store new jobs without idempotency keys, each with its request."""
        connection.execute(self._insert_jobs, [values for values, _ in added])
        connection.execute(
            self._insert_requests, [{"job": values["id"], "body": body} for values, body in added]
        )
        return [None for _ in added]

    async def add_ended(
        self, job: Job, body: bytes, result: bytes | None = None, events: bytes | None = None
    ) -> None:
        """Store a job of which nothing is stored yet, as it ended.

        Parameters
        ----------
        job
            The job as it ended; it has no idempotency key.
        body
            Its request, as it came.
        result, events
            As `end` takes them.
        """
        values = {**_plain(job), "owner": None, "cancel": False}
        packed = None if result is None else await _packed(result)
        past = None if events is None else await _packed(events)
        row = (values, await _packed(body), packed, past)
        await self._writer.write_row(self._add_all_ended, row)

    def _add_all_ended(
        self,
        connection: Connection,
        added: Sequence[tuple[dict[str, Any], bytes, bytes | None, bytes | None]],
    ) -> list[None]:
        """Store jobs that have ended, each with its request, its result and its events."""
        connection.execute(self._insert_jobs, [values for values, *_ in added])
        statements = (self._insert_requests, self._insert_results, self._insert_events)
        for k, statement in enumerate(statements, 1):
            rows = [{"job": one[0]["id"], "body": one[k]} for one in added if one[k] is not None]
            if rows:
                connection.execute(statement, rows)
        return [None for _ in added]

    async def start(self, job: Job) -> None:
        """Store that a job has been started."""
        values = {"job": job.id, "me": self.owner, "at": job.started, "number": job.attempt}
        await self._writer.write(lambda c: c.execute(_START, values))

    async def end(self, job: Job, result: bytes | None = None, events: bytes | None = None) -> bool:
        """Store how a job ended; return False if it was no longer this server's.

        Parameters
        ----------
        job
            The job as it ended.
        result
            The JSON document; None: there is none.
        events
            What happened to it, as JSON; None: nobody watched.
        """
        values = {
            "job": job.id,
            "me": self.owner,
            "ending": job.state,
            "begun": job.started,
            "at": job.finished,
            "until": job.expires,
            "number": job.attempt,
            "why": job.problem,
        }
        packed = None if result is None else await _packed(result)
        past = None if events is None else await _packed(events)

        return await self._writer.write_row(_end_all, (values, packed, past))

    async def release(self, job: Job) -> None:
        """Put a job back, for whoever takes it over."""
        values = {"job": job.id, "me": self.owner}
        await self._writer.write(lambda c: c.execute(_RELEASE, values))

    async def ask_to_cancel(self, job_id: str) -> None:
        """Leave word for the owner of a job, another server, that it is to be cancelled."""
        await self._writer.write(
            lambda c: c.execute(update(jobs).where(jobs.c.id == job_id).values(cancel=True))
        )

    async def own(self) -> set[str]:
        """Return the ids of the jobs that this server has to look after."""
        query = select(jobs.c.id).where(jobs.c.owner == self.owner, jobs.c.state.in_(_OPEN))
        return await self._read(lambda c: set(c.execute(query).scalars()))

    async def to_cancel(self) -> list[str]:
        """Return the ids of the own jobs that another server was asked to cancel."""
        query = select(jobs.c.id).where(jobs.c.owner == self.owner, jobs.c.cancel)
        return await self._read(lambda c: list(c.execute(query).scalars()))

    async def get(self, job_id: str) -> Job | None:
        """Return the job of that id, if there is one."""
        return await self._read(lambda c: _first(c, job_id))

    async def result(self, job_id: str) -> bytes | None:
        """Return the result of a job, if there is one."""
        query = select(results.c.body).where(results.c.job == job_id)
        return await self._read(lambda c: unpack_body(c.execute(query).scalar()))

    async def events(self, job_id: str) -> bytes | None:
        """Return the events of a job that was watched and has ended, as JSON."""
        query = select(events.c.body).where(events.c.job == job_id)
        return await self._read(lambda c: unpack_body(c.execute(query).scalar()))

    async def request(self, job_id: str) -> bytes | None:
        """Return the body that a job was asked for with, if it is still kept."""
        query = select(requests.c.body).where(requests.c.job == job_id)
        return await self._read(lambda c: unpack_body(c.execute(query).scalar()))

    async def list(
        self,
        client: str | None,
        *,
        limit: int,
        before: str | None = None,
        states: Sequence[str] = (),
        operation: str | None = None,
        label: str | None = None,
        created_after: float | None = None,
        created_before: float | None = None,
    ) -> list[Job]:
        """Return jobs, the latest first.

        Parameters
        ----------
        client
            Whose jobs; None: of all clients.
        limit
            Most jobs to return, 1 or more.
        before
            Id of the last job that is known; None: from the latest.
        states
            States; empty: all.
        operation, label
            What they were asked for, and what the client calls them; None: anything.
        created_after, created_before
            From this time on, and earlier than this, seconds since 1970; None: at any time.
        """
        query = select(*_COLUMNS).order_by(jobs.c.id.desc()).limit(limit)
        if client is not None:
            query = query.where(jobs.c.client == client)
        if before is not None:
            query = query.where(jobs.c.id < before)
        if operation is not None:
            query = query.where(jobs.c.operation == operation)
        if label is not None:
            query = query.where(jobs.c.label == label)
        if created_after is not None:
            query = query.where(jobs.c.created >= created_after)
        if created_before is not None:
            query = query.where(jobs.c.created < created_before)
        if states:
            # As `_as_of_now` says: what is past its time is expired, swept out or not.
            gone = jobs.c.expires <= time.time()
            query = query.where(case((gone, "expired"), else_=jobs.c.state).in_(states))
        return await self._read(lambda c: [_as_of_now(Job(*row)) for row in c.execute(query)])

    async def expire(self) -> int:
        """Drop results that are past their time, and forget old jobs; return how many."""
        now = time.time()
        past = jobs.c.expires < now
        old = select(jobs.c.id).where(past, jobs.c.state != "expired").limit(_CHUNK)
        buried = select(jobs.c.id).where(
            jobs.c.expires < now - self._settings.tombstone_ttl_s, jobs.c.state == "expired"
        )

        def change(connection: Connection) -> int:
            ids = list(connection.execute(old).scalars())
            for table in (results, requests, events):
                connection.execute(delete(table).where(table.c.job.in_(ids)))
            connection.execute(update(jobs).where(jobs.c.id.in_(ids)).values(state="expired"))
            gone = list(connection.execute(buried.limit(_CHUNK)).scalars())
            connection.execute(delete(jobs).where(jobs.c.id.in_(gone)))
            return len(ids) + len(gone)

        return await self._writer.write(change)

    async def trouble(self) -> str | None:
        """Return why nothing can be stored, or None if it can."""
        if self._folder is not None:
            try:
                free = shutil.disk_usage(self._folder).free
            except OSError:
                return "the folder of the database is not there"
            if free < self._settings.max_body_bytes:
                return "the disk of the database is full"
        if self._writer.is_stuck:
            return "the database takes no changes"
        try:
            await self._read(lambda c: c.execute(select(1)).scalar())
        except SQLAlchemyError:
            return "the database does not answer"
        return None

    async def _read(self, query: Callable[[Connection], T]) -> T:
        def work() -> T:
            with self.engine.connect() as connection:
                return query(connection)

        return await asyncio.to_thread(work)


async def _packed(body: bytes) -> bytes:
    """Return a body as it is stored; packing a large one would keep other requests waiting."""
    if len(body) <= _IN_LOOP_BYTES:
        return pack_body(body)
    return await asyncio.to_thread(pack_body, body)


class _LostJob(Exception):
    """One of the jobs that ended together was no longer this server's; who knows which."""


def _end_all(
    connection: Connection, ended: Sequence[tuple[dict[str, Any], bytes | None, bytes | None]]
) -> list[bool]:
    """Store how jobs ended, with their results and events; return which were this server's.

    Raises
    ------
    _LostJob
        If some of several were not.
    """
    done = connection.execute(_END, [values for values, _, _ in ended]).rowcount
    if done != len(ended):
        if len(ended) > 1:
            raise _LostJob
        return [False]
    for statement, k in ((_INSERT_RESULT, 1), (_INSERT_EVENTS, 2)):
        rows = [{"job": one[0]["job"], "body": one[k]} for one in ended if one[k] is not None]
        if rows:
            connection.execute(statement, rows)
    return [True] * len(ended)


def _clock(connection: Connection) -> float:
    """Return the time in seconds by the clock that all servers of a database share."""
    if connection.dialect.name == "sqlite":
        return time.time()
    return float(connection.execute(select(extract("epoch", func.clock_timestamp()))).scalar_one())


def _first(connection: Connection, job_id: str) -> Job | None:
    row = connection.execute(_BY_ID, {"job": job_id}).one_or_none()
    return None if row is None else _as_of_now(Job(*row))


def _as_of_now(job: Job) -> Job:
    """Return a job that is past its time as expired, swept out of the database or not."""
    if job.expires is not None and job.expires <= time.time():
        return job.replace(state="expired")
    return job


def _plain(job: Job) -> dict[str, Any]:
    return {column.name: getattr(job, column.name) for column in _COLUMNS}
