"""The store: what is put comes back, and everything that can go wrong says so in a sentence."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy

from alloc.comparison import Store, StoreError
from alloc.comparison.schedules import pack_schedule, unpack_schedule
from alloc.comparison.store import Item
from alloc.problems.allocation.solution import Run, Schedule, TaskPlacement


def item(key: str, value: float = 1.0, blob: bytes | None = b"x") -> Item:
    return Item(key, "cell", True, {"value": value}, blob)


def test_what_is_put_comes_back_from_the_file(tmp_path: Path):
    path = tmp_path / "runs.db"
    with Store(path) as store:
        store.put(item("a"), item("b", 2.0, None))
    with Store(path) as store:
        assert store.get(["a", "b", "c"], blobs=True) == {"a": item("a"), "b": item("b", 2.0, None)}
        assert store.get(["a"])["a"].blob is None


def test_a_url_and_a_path_are_the_same_store(tmp_path: Path):
    with Store(tmp_path / "runs.db") as store:
        store.put(item("a"))
    with Store(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        assert "a" in store.get(["a"])


def test_a_second_put_replaces(tmp_path: Path):
    with Store() as store:
        store.put(item("a", 1.0))
        store.put(item("a", 2.0))
        assert store.get(["a"])["a"].record == {"value": 2.0}


def test_more_keys_than_a_statement_may_hold():
    """Databases limit the values in one statement; a sweep has more cells than that."""
    with Store() as store:
        for k in range(0, 1200, 100):
            store.put(*(item(str(j)) for j in range(k, k + 100)))
        assert len(store.get(map(str, range(2000)))) == 1200


def test_the_last_written_comes_first():
    with Store() as store:
        for key in "abc":
            store.put(Item(key, "experiment", True, {}))
        assert [found.key for found in store.all_of("experiment")] == ["c", "b", "a"]


def test_another_kind_of_file_is_refused(tmp_path: Path):
    """A typo in the path must not destroy somebody's file."""
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but of value to somebody\n" * 100)
    with pytest.raises(StoreError, match=r"cannot open.*notes.txt.*not an SQLite file"):
        Store(path)
    assert path.read_text().startswith("not a database")


def test_a_damaged_file_is_recognised(tmp_path: Path):
    """Half of the pages are overwritten, as after a crash of the machine."""
    path = tmp_path / "runs.db"
    with Store(path) as store:
        store.put(*(item(str(k), blob=bytes(3000)) for k in range(100)))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"runs.db.*damaged; restore a copy"), Store(path) as store:
        store.get(map(str, range(100)), blobs=True)


def test_an_unreadable_record_is_named(tmp_path: Path):
    path = tmp_path / "runs.db"
    with Store(path) as store:
        store.put(item("abcdef"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alloc_items SET record = '{truncat'")
    connection.close()
    with Store(path) as store, pytest.raises(StoreError, match=r"is damaged: the cell abcdef"):
        store.get(["abcdef"])


def test_a_locked_file_says_who_to_wait_for(tmp_path: Path):
    path = tmp_path / "runs.db"
    with Store(path, lock_patience_s=0.05) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"cannot write to.*another process is writing"):
            store.put(item("a"))
        other.execute("ROLLBACK")
        other.close()
        store.put(item("a"))


def test_a_full_disk_keeps_what_is_stored(tmp_path: Path):
    """SQLite reports a page limit exactly as it reports a full disk."""
    with Store(tmp_path / "runs.db") as store:
        store.put(item("first"))
        sqlalchemy.event.listen(
            store._engine,
            "connect",
            lambda connection, _: connection.execute("PRAGMA max_page_count = 12").close(),
        )
        with pytest.raises(StoreError, match=r"the disk is full; free some space and run again"):
            store.put(item("second", blob=bytes(10**6)))
        assert list(store.get(["first", "second"])) == ["first"]


def test_a_missing_folder_is_named(tmp_path: Path):
    with pytest.raises(StoreError, match=r'there is no folder ".*nowhere"; make it first'):
        Store(tmp_path / "nowhere" / "runs.db")


def test_a_folder_is_no_store(tmp_path: Path):
    with pytest.raises(StoreError, match=r"cannot open.*check the path and its permissions"):
        Store(tmp_path)


def test_tables_of_another_version_are_refused(tmp_path: Path):
    path = tmp_path / "runs.db"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alloc_meta SET value = '99'")
    connection.close()
    with pytest.raises(StoreError, match=r"has version 99 .* writes version 1; use the alloc"):
        Store(path)


def test_an_unknown_database_is_explained_without_the_password():
    with pytest.raises(StoreError, match=r"cannot open.*nosuchdb.*driver") as caught:
        Store("nosuchdb://user:secret@host/runs")
    assert "secret" not in str(caught.value)


def test_a_hopeless_url_is_explained():
    with pytest.raises(StoreError, match=r"cannot open the store"):
        Store("://")


def test_schedules_survive_packing():
    place = (TaskPlacement("h0", "worker", 1, (0,)), TaskPlacement("h1", "ps", 2))
    schedule = Schedule(
        (Run("a", 0, 0.0, 0.1 + 0.2, place), Run("a", 1, 5.0, 7.5, place), Run("b", 0, 0, 1)),
        {"c": "too large"},
    )
    assert unpack_schedule(pack_schedule(schedule)) == schedule


def test_an_empty_schedule_survives_packing():
    assert unpack_schedule(pack_schedule(Schedule((), {"a": "never"}))).unplaced == {"a": "never"}


def test_a_damaged_schedule_is_recognised():
    with pytest.raises(StoreError, match=r"a schedule in it is not readable"):
        unpack_schedule(b"garbage")
