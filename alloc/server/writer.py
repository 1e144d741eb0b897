"""The writer: one thread through which everything is written, many changes to a commit.

A commit costs the same for one change as for fifty. While one is on its way to the disk, the next
changes gather, and in a crowd they gather a moment longer; each waits for its own commit, so what
was acknowledged is on disk.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

T = TypeVar("T")
Row = TypeVar("Row")
Apply = Callable[[Connection, Sequence[Any]], Sequence[Any]]
"""Makes changes of one kind together; returns what came of each."""
_MOST = 500
"""Most changes in a commit: a crowd must not hold up the first of it for long."""
_SLOW_S = 5.0
"""Time after which a commit is stuck, seconds: on a busy disk it takes a tenth of that."""
GATHER_S = 0.03
"""Shortest time from one commit to the next while changes come in a crowd, seconds: at 200 jobs a
second a third of the server's CPU time went into commits of one or two changes each. A change takes
0.29 ms of it in a commit of two, 0.16 in one of four and 0.12 in one of six, as here."""


@dataclass(frozen=True)
class _Change:
    """A change that waits to be written, and who waits for it."""

    apply: Apply
    row: Any
    is_free: bool
    """Whether it may change places with others."""
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class Writer:
    """Writes to a database, in the order in which changes are handed in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changes: queue.SimpleQueue[_Change | None] = queue.SimpleQueue()
        self._failed = False
        self._began: float | None = None
        self._thread = threading.Thread(target=self._work, name="alloc-writer", daemon=True)
        self._thread.start()

    def write(self, apply: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Hand in a change; the future ends once it is on disk.

        The change may be applied twice, the first time in a transaction that failed and was undone.
        """
        return self._put(lambda connection, rows: [apply(connection)], None, is_free=False)

    def write_row(
        self, apply: Callable[[Connection, Sequence[Row]], Sequence[T]], row: Row
    ) -> asyncio.Future[T]:
        """Hand in a change that a commit makes together with others of its kind.

        Most of what a small change costs is SQLAlchemy's, and ten rows cost little more than one.
        In a commit such changes change places: those of different kinds must not concern the same
        row, and others keep their place among them.

        Parameters
        ----------
        apply
            Makes the changes of some rows; returns what came of each. Where it raises an error they
            are made one by one, each with a commit of its own.
        row
            What is to be changed.
        """
        return self._put(apply, row, is_free=True)

    def _put(self, apply: Apply, row: Any, *, is_free: bool) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._changes.put(_Change(apply, row, is_free, loop, future))
        return future

    @property
    def is_stuck(self) -> bool:
        """Whether the last change could not be written, or one has been on its way for long."""
        began = self._began
        return self._failed or (began is not None and time.monotonic() - began > _SLOW_S)

    def close(self) -> None:
        """Write what is left, and stop."""
        self._changes.put(None)
        self._thread.join()

    def _work(self) -> None:
        going = True
        crowded, began = False, 0.0
        while going:
            batch = [self._changes.get()]
            if crowded:
                time.sleep(max(began + GATHER_S - time.monotonic(), 0.0))
            began = time.monotonic()
            while len(batch) < _MOST and not self._changes.empty():
                batch.append(self._changes.get())
            going = None not in batch
            changes = [change for change in batch if change is not None]
            crowded = len(changes) > 1
            if not changes:
                continue
            try:
                values = self._commit(changes)
            except Exception as error:
                self._one_by_one(changes, error)
            else:
                _settle(changes, values)

    def _commit(self, changes: list[_Change]) -> list[Any]:
        self._began = time.monotonic()
        try:
            with self._engine.begin() as connection:
                values = _apply_all(connection, changes)
        except OperationalError:
            self._failed = True
            raise
        finally:
            self._began = None
        self._failed = False
        return values

    def _one_by_one(self, changes: list[_Change], error: Exception) -> None:
        """Let what is wrong with one change not keep the others from being written."""
        for change in changes:
            try:
                if len(changes) == 1:
                    raise error
                values = self._commit([change])
            except Exception as reason:
                change.loop.call_soon_threadsafe(_fail, change.future, reason)
            else:
                _settle([change], values)


def _apply_all(connection: Connection, changes: Sequence[_Change]) -> list[Any]:
    """Make changes, those of a kind together; return what came of each."""
    values: list[Any] = [None] * len(changes)
    kinds: dict[Apply, list[int]] = {}

    def apply_kinds() -> None:
        for apply, numbers in kinds.items():
            found = apply(connection, [changes[k].row for k in numbers])
            for k, value in zip(numbers, found, strict=True):
                values[k] = value
        kinds.clear()

    for k, change in enumerate(changes):
        if not change.is_free:
            apply_kinds()
        kinds.setdefault(change.apply, []).append(k)
        if not change.is_free:
            apply_kinds()
    apply_kinds()
    return values


def _settle(changes: list[_Change], values: list[Any]) -> None:
    # One wake-up of the loop for the whole batch.
    changes[0].loop.call_soon_threadsafe(_succeed, changes, values)


def _succeed(changes: list[_Change], values: list[Any]) -> None:
    for change, value in zip(changes, values, strict=True):
        if not change.future.done():
            change.future.set_result(value)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
