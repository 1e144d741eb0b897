"""The store of finished work: SQLite by default, any database by its URL.

Every finished piece is committed at once, by one process, so that an interrupt or a kill loses
nothing that was computed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from alloc.errors import AllocError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.sql.schema import Table

SCHEMA_VERSION = "1"
"""Version of the tables below; a store of another version is refused, not guessed at."""
_LOCK_PATIENCE_S = 20.0
"""For what another process writes: a commit takes milliseconds, so one that takes longer hangs."""
_CHUNK = 500
"""Keys asked for at once: databases limit the number of values in a statement."""


class StoreError(AllocError):
    """The store cannot be opened, read or written."""


@dataclass(frozen=True)
class Item:
    """A stored piece of work.

    Parameters
    ----------
    key
        What it depends on, as a hash.
    kind
        ``cell``, ``bound``, ``instance`` or ``experiment``.
    ok
        Whether it succeeded. What failed is shown, and tried again by the next run.
    record
        The piece itself, plain JSON values.
    blob
        The bulky part of it, compressed, or None.
    """

    key: str
    kind: str
    ok: bool
    record: Mapping[str, Any]
    blob: bytes | None = None


class Store:
    """Finished work, by key.

    Parameters
    ----------
    location
        Path of an SQLite file (made when absent), a database URL that SQLAlchemy understands
        (``postgresql+psycopg://...``), or None to keep everything in memory.
    lock_patience_s
        How long to wait for an SQLite file that another process is writing, seconds.

    Raises
    ------
    StoreError
        If the store cannot be opened or is not a store of alloc's.
    """

    def __init__(
        self,
        location: str | PathLike[str] | None = None,
        *,
        lock_patience_s: float = _LOCK_PATIENCE_S,
    ) -> None:
        self.name = _name(location)
        self._engine = _engine(location, lock_patience_s, self.name)
        self._meta, self._items = _tables()
        try:
            with self._session("open") as connection:
                self._meta.metadata.create_all(connection)
                self._check_version(connection)
        except BaseException:
            self._engine.dispose()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def put(self, *items: Item) -> None:
        """Store items, all or none, replacing those of the same key.

        Raises
        ------
        StoreError
            If they cannot be written.
        """
        from sqlalchemy import delete, insert

        rows = [
            {
                "key": item.key,
                "kind": item.kind,
                "ok": item.ok,
                "record": json.dumps(dict(item.record)),
                "blob": item.blob,
                "created": datetime.now(UTC).isoformat(timespec="microseconds"),
            }
            for item in items
        ]
        with self._session("write to") as connection:
            keys = [item.key for item in items]
            connection.execute(delete(self._items).where(self._items.c.key.in_(keys)))
            connection.execute(insert(self._items), rows)

    def get(self, keys: Iterable[str], *, blobs: bool = False) -> dict[str, Item]:
        """Return the stored items of the given keys, with their bulky parts if asked for.

        Parameters
        ----------
        keys
            Keys of items; those that are not stored are left out.
        blobs
            Whether the bulky parts are wanted.

        Raises
        ------
        StoreError
            If the store cannot be read.
        """
        from sqlalchemy import select

        wanted = list(dict.fromkeys(keys))
        table = self._items.c
        columns = [table.key, table.kind, table.ok, table.record]
        if blobs:
            columns.append(table.blob)
        found: dict[str, Item] = {}
        with self._session("read") as connection:
            for first in range(0, len(wanted), _CHUNK):
                some = wanted[first : first + _CHUNK]
                for row in connection.execute(select(*columns).where(table.key.in_(some))):
                    found[row.key] = self._item(tuple(row))
        return found

    def all_of(self, kind: str) -> list[Item]:
        """Return the items of a kind, the last written first, without their bulky parts."""
        from sqlalchemy import select

        table = self._items.c
        query = select(table.key, table.kind, table.ok, table.record).where(table.kind == kind)
        with self._session("read") as connection:
            rows = connection.execute(query.order_by(table.created.desc(), table.key)).all()
        return [self._item(tuple(row)) for row in rows]

    def _item(self, row: tuple[Any, ...]) -> Item:
        key, kind, ok, text, *blob = row
        try:
            record = json.loads(text)
        except ValueError:
            raise StoreError(
                f"{self.name} is damaged: the {kind} {key[:12]} is not readable; restore a copy, "
                "or start again with another store."
            ) from None
        return Item(key, kind, bool(ok), record, blob[0] if blob else None)

    def _check_version(self, connection: Connection) -> None:
        from sqlalchemy import insert, select

        found = connection.execute(
            select(self._meta.c.value).where(self._meta.c.name == "schema")
        ).scalar()
        if found is None:
            connection.execute(insert(self._meta).values(name="schema", value=SCHEMA_VERSION))
        elif found != SCHEMA_VERSION:
            raise StoreError(
                f"{self.name} has version {found} of the store's tables and this alloc writes "
                f"version {SCHEMA_VERSION}; use the alloc that wrote it, or another store."
            )

    @contextmanager
    def _session(self, verb: str) -> Iterator[Connection]:
        """Open a transaction, and say in one sentence what is wrong when it fails."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error)
            raise StoreError(f"cannot {verb} {self.name}: {_cure(reason)}") from error


def _tables() -> tuple[Table, Table]:
    from sqlalchemy import Boolean, Column, LargeBinary, MetaData, String, Table, Text

    metadata = MetaData()
    meta = Table(
        "alloc_meta",
        metadata,
        Column("name", String(32), primary_key=True),
        Column("value", String(64), nullable=False),
    )
    items = Table(
        "alloc_items",
        metadata,
        Column("key", String(64), primary_key=True),
        Column("kind", String(16), nullable=False, index=True),
        Column("ok", Boolean, nullable=False),
        Column("record", Text, nullable=False),
        Column("blob", LargeBinary),
        Column("created", String(40), nullable=False),
    )
    return meta, items


def _name(location: str | PathLike[str] | None) -> str:
    """Return how messages call the store: never with the password of a URL."""
    if location is None:
        return "the store in memory"
    text = fspath(location)
    if "://" not in text:
        return f'the store "{text}"'
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return f'the store "{make_url(text).render_as_string(hide_password=True)}"'
    except ArgumentError:
        return "the store"


def _engine(location: str | PathLike[str] | None, patience_s: float, name: str) -> Engine:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    from sqlalchemy.pool import NullPool, StaticPool

    if location is None:
        # One connection: every further one would open an empty database of its own.
        return create_engine("sqlite://", poolclass=StaticPool)
    text = fspath(location)
    if "://" not in text:
        folder = Path(text).absolute().parent
        if not folder.is_dir():
            raise StoreError(f'cannot open {name}: there is no folder "{folder}"; make it first.')
        text = f"sqlite:///{text}"
    try:
        if text.startswith("sqlite"):
            return create_engine(text, poolclass=NullPool, connect_args={"timeout": patience_s})
        return create_engine(text)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise StoreError(
            f"cannot open {name}: {error}; give the path of a file, or a database URL whose "
            "driver is installed."
        ) from None


def _cure(reason: str) -> str:
    """Return the database's reason with what to do about it."""
    cures = {
        "not a database": "it is not an SQLite file; give another path, or delete the file if it "
        "is of no use.",
        "malformed": "the file is damaged; restore a copy, or start again with another store.",
        "locked": "another process is writing to it; let that one finish, or use another store.",
        "full": "the disk is full; free some space and run again: what is stored is kept, and "
        "the run goes on from there.",
        "disk I/O error": "the disk refuses to write (full, or failing); free some space and run "
        "again: what is stored is kept.",
        "readonly": "it may not be written to; change its permissions, or use another store.",
        "unable to open": "the file cannot be opened; check the path and its permissions.",
        "no such column": "its tables are not alloc's; use another store.",
    }
    for sign, cure in cures.items():
        if sign in reason:
            return cure
    return f"{reason}; check that the database is reachable and writable."
