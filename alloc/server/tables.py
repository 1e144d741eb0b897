"""The tables of the server, and the connection to the database that holds them."""

from __future__ import annotations

import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from alloc.errors import AllocError
from alloc.server.settings import default_database

SCHEMA_VERSION = "1"
"""Version of the tables below; a database of another version is refused, not guessed at."""
_MAKING = 0x616C6C6F63
"""Advisory lock of a PostgreSQL while the tables are made."""
_PATIENCE_S = 20.0
"""How long to wait for another process that writes to the same SQLite file, or for a PostgreSQL."""

metadata = MetaData()

meta = Table(
    "alloc_server_meta",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", String(64), nullable=False),
)

owners = Table(
    "alloc_server_owners",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("seen", Double, nullable=False),
)

jobs = Table(
    "alloc_server_jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("client", String(64), nullable=False),
    Column("operation", String(64), nullable=False),
    Column("created", Double, nullable=False),
    Column("state", String(16), nullable=False),
    Column("started", Double),
    Column("finished", Double),
    Column("expires", Double),
    Column("attempt", Integer, nullable=False),
    Column("label", String(200)),
    Column("problem", Text),
    Column("idempotency_key", String(255)),
    Column("body_hash", String(64)),
    # The server that looks after the job until it has ended.
    Column("owner", String(32)),
    Column("cancel", Boolean, nullable=False),
    UniqueConstraint("client", "idempotency_key"),
    Index("alloc_server_jobs_of_client", "client", "id"),
    Index("alloc_server_jobs_of_owner", "owner"),
    Index("alloc_server_jobs_by_expiry", "expires"),
)

requests = Table(
    "alloc_server_requests",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

results = Table(
    "alloc_server_results",
    metadata,
    # The key is what makes a result stored once: a second one for the same job is refused.
    Column("job", String(32), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

events = Table(
    "alloc_server_events",
    metadata,
    # What happened to a job that somebody watched, for whoever comes back after its end.
    Column("job", String(32), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

tokens = Table(
    "alloc_server_tokens",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("weight", Double, nullable=False),
    Column("created", Double, nullable=False),
    Column("revoked", Double),
)


class DatabaseError(AllocError):
    """The database of the server cannot be opened, read or written."""


def open_database(location: str, patience_s: float = _PATIENCE_S) -> Engine:
    """Return a connection to a database, with the tables of the server in it.

    Parameters
    ----------
    location
        Path of an SQLite file, made when absent, or a database URL.
    patience_s
        How long a transaction may hold others up while its server does nothing, seconds.

    Raises
    ------
    DatabaseError
        If it cannot be opened, or holds tables of another version.
    """
    engine = _engine(location, patience_s)
    try:
        with engine.begin() as connection:
            found = _schema_of(connection)
            # Events came later; older versions do without that table.
            if found is None or (
                found == SCHEMA_VERSION and not inspect(connection).has_table(events.name)
            ):
                found = _make_tables(connection)
    except SQLAlchemyError as error:
        engine.dispose()
        raise database_error("open", location, error) from error
    if found != SCHEMA_VERSION:
        engine.dispose()
        raise DatabaseError(
            f"{display_name(location)} has version {found} of the server's tables and this alloc "
            f"uses version {SCHEMA_VERSION}; use the alloc that wrote it, or another database."
        )
    return engine


def _schema_of(connection: Connection) -> str | None:
    """Return the version of the tables in a database, or None if they are not there yet."""
    if not inspect(connection).has_table(meta.name):
        return None
    return connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar()


def _make_tables(connection: Connection) -> str:
    """Put the tables that are missing into a database, and return their version.

    Several servers may open it at the same time: one of them makes the tables, the others wait.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))
    found = _schema_of(connection)
    metadata.create_all(connection)
    if found is None:
        connection.execute(insert(meta).values(name="schema", value=SCHEMA_VERSION))
    return found or SCHEMA_VERSION


def is_sqlite(location: str) -> bool:
    """Return whether a location is an SQLite file."""
    return "://" not in location or location.startswith("sqlite")


def sqlite_path(location: str) -> Path | None:
    """Return the path of an SQLite file, or None for other databases."""
    if not is_sqlite(location):
        return None
    if "://" not in location:
        return Path(location)
    name = make_url(location).database
    return Path(name) if name else None


def display_name(location: str) -> str:
    """Return how messages call a database: never with the password of a URL."""
    if "://" not in location:
        return f'the database "{location}"'
    try:
        return f'the database "{make_url(location).render_as_string(hide_password=True)}"'
    except ArgumentError:
        return "the database"


def database_error(verb: str, location: str, error: Exception) -> DatabaseError:
    """Return one sentence about what a database refuses.

    Parameters
    ----------
    verb
        What was to be done, such as ``open``.
    location
        Path or URL of the database; a password in it is not shown.
    error
        What SQLAlchemy or SQLite raised.
    """
    return DatabaseError(
        f"cannot {verb} {display_name(location)}: {reason_of(error).rstrip('.')}; check that "
        "it is reachable and may be written to."
    )


def reason_of(error: Exception) -> str:
    """Return the first line of what a database says; the rest may hold values of rows."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _engine(location: str, patience_s: float) -> Engine:
    try:
        path = sqlite_path(location)
        if path is not None:
            folder = path.absolute().parent
            if location == default_database():
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            elif not folder.is_dir():
                raise DatabaseError(
                    f"cannot open {display_name(location)}: there is no folder {folder}; make it "
                    "first."
                )
            # Requests and results are nobody else's on this machine; what SQLite puts beside the
            # file has the same permissions.
            path.touch(mode=0o600, exist_ok=True)
            url = location if "://" in location else f"sqlite:///{location}"
            engine = create_engine(url, connect_args={"timeout": _PATIENCE_S})
            event.listen(engine, "connect", _set_up_sqlite)
            return engine
        if is_sqlite(location):
            raise DatabaseError(
                "a database in memory goes with its server; give the path of a file."
            )
        engine = create_engine(
            location, pool_pre_ping=True, connect_args=_within_patience(location)
        )
        if engine.dialect.name == "postgresql":
            event.listen(engine, "connect", partial(_set_up_postgres, patience_s))
        return engine
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise DatabaseError(
            f"cannot open {display_name(location)}: {error}; give the path of a file, or a "
            "database URL whose driver is installed (postgresql+psycopg://...)."
        ) from None
    except OSError as error:
        raise database_error("open", location, error) from None


def _within_patience(location: str) -> dict[str, Any]:
    """Return what lets a PostgreSQL that is out of reach fail in seconds, not in minutes.

    The URL goes first: what it says of these is kept.
    """
    url = make_url(location)
    if url.get_backend_name() != "postgresql" or not url.get_driver_name().startswith("psycopg"):
        return {}
    seconds = round(_PATIENCE_S)
    known = {"connect_timeout": seconds, "tcp_user_timeout": 1000 * seconds}
    return {name: value for name, value in known.items() if name not in url.query}


def _set_up_postgres(patience_s: float, connection: Any, _record: Any) -> None:
    # A server that is stopped in the middle of a transaction must not keep its locks: others wait
    # for them to take over its jobs.
    with connection.cursor() as cursor:
        milliseconds = max(round(1000 * patience_s), 1)
        cursor.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
    connection.commit()


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # Readers and the writer do not wait for each other; a commit is on disk when it returns.
    _write_ahead(cursor)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Keep a write-ahead log; here SQLite itself does not wait for others who just do the same."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.02)
