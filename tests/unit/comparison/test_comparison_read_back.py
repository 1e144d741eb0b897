"""Comparisons in a store are read back as they were, and what is damaged is named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from alloc.comparison import Comparison, Store, StoreError, compare
from alloc.comparison.settings import OPTIMUM
from alloc.problems.allocation.instance import Instance

LIMIT_S = 20.0


def test_the_store_may_fail_without_losing_what_it_has(queue: Instance, tmp_path: Path):
    """The store fills up after the second cell: a sentence, and the two cells are there later."""
    path = tmp_path / "runs.db"

    class Filling(Store):
        puts = 0

        def put(self, *items):
            self.puts += any(found.kind == "cell" for found in items)
            if self.puts == 3:
                raise StoreError("cannot write: the disk is full")
            super().put(*items)

    with Filling(path) as store, pytest.raises(StoreError, match="the disk is full"):
        compare([queue], ["fifo"], seeds=range(4), time_limit_s=LIMIT_S, store=store)
    assert Comparison.from_store(path).missing == 2


def test_reading_back_gives_the_same_comparison(queue: Instance, tmp_path: Path):
    path = tmp_path / "runs.db"
    comparison = compare([queue], ["fifo"], seeds=(0, 7), time_limit_s=LIMIT_S, store=path)
    again = Comparison.from_store(path)
    assert again.rows == comparison.rows
    assert again.per_instance() == comparison.per_instance()
    assert again.schedule("queue-01", "fifo", 7) == comparison.schedule("queue-01", "fifo", 7)
    assert again.jcts("queue-01", "fifo") == pytest.approx([30.0, 40.0])
    assert again.jcts("queue-01", OPTIMUM) == pytest.approx([40.0, 10.0])
    assert again.settings == comparison.settings


def test_reading_back_by_key_and_the_latest(queue: Instance, tmp_path: Path):
    path = tmp_path / "runs.db"
    first = compare([queue], ["fifo"], time_limit_s=LIMIT_S, store=path)
    compare([queue], ["drf"], time_limit_s=LIMIT_S, store=path)
    assert Comparison.from_store(path).experiment.schedulers == ("drf",)
    key = first.experiment.key[:12]
    assert Comparison.from_store(path, key).experiment.schedulers == ("fifo",)
    with pytest.raises(StoreError, match=rf'has no experiment "zz"; it has .*{key}'):
        Comparison.from_store(path, "zz")


def test_an_empty_store_has_no_experiment(tmp_path: Path):
    with pytest.raises(StoreError, match=r"has no experiment; it has none"):
        Comparison.from_store(tmp_path / "runs.db")


@pytest.mark.parametrize("kind", ["bound", "cell", "instance", "experiment"])
def test_a_damaged_item_is_named(queue: Instance, tmp_path: Path, kind: str):
    """Half-written or edited items are refused by name, not shown as numbers."""
    path = tmp_path / "runs.db"
    compare([queue], ["fifo"], time_limit_s=LIMIT_S, store=path)
    with Store(path) as store:
        damaged = store.all_of(kind)[0]
        store.put(dataclasses.replace(damaged, record={}, blob=b"garbage"))
    with pytest.raises(StoreError, match=rf"damaged: the {kind} {damaged.key[:12]}"):
        Comparison.from_store(path)
