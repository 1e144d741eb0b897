"""Canonical JSON of many records at once: the very text that each has by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from alloc.documents.canonical import (
    canonical_record,
    text_of,
    text_of_record,
    texts_of,
    texts_of_records,
)
from alloc.errors import InstanceError
from alloc.instances import load


@dataclass(frozen=True)
class Thing:
    """A record of whatever documents may hold."""

    name: str
    size: Any = 1.0
    parts: tuple[Any, ...] = ()
    inner: Any = None


SHARED = ("a", 2.5, True)
THINGS = (
    *(Thing(f"t{k}", size) for k, size in enumerate((1, 1.0, True, -0.0, 0, 2.5, 10**9))),
    *(Thing(f"u{k}", parts=SHARED) for k in range(3)),
    Thing("none", None, (), None),
    Thing("deep", 3.0, (("x", ()), ("x", (1, 2))), Thing("inner", 4)),
    Thing("é", np.float64(2.5), (Thing("y"), Thing("y"), Thing("z", 2))),
    Thing("array", np.array([1.0, 2.0])),
    *(Thing("same", 1.5, SHARED, Thing("same")) for _ in range(20)),
)


@pytest.mark.parametrize("count", [0, 1, 2, len(THINGS)])
def test_many_records_are_written_as_each_is(count: int) -> None:
    """With defaults in some, equal numbers of several types, shared tuples and nested records."""
    some = THINGS[-count:] if count else ()
    assert texts_of_records(some, {}) == [text_of_record(thing, {}) for thing in some]


@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0, True, "1"),
        (1.0, -0.0, 0.0, 2.5),
        ("a", "b", "a"),
        (SHARED, SHARED, (), ((),), ("a",)),
        (True, False),
        (None, None),
    ],
)
def test_values_are_written_as_each_is(values: tuple[Any, ...]) -> None:
    """Also twice over, when the texts of their tuples are known."""
    known: dict[int, tuple[Any, str]] = {}
    expected = [text_of(value, {}) for value in values]
    assert texts_of(values, known) == expected
    assert texts_of(values * 20, known) == expected * 20
    assert text_of(values * 20, {}) == f"[{','.join(expected * 20)}]"


@pytest.mark.parametrize("name", ["elastic-tiny/01", "stages-jct/01", "placement-tiny/01"])
def test_jobs_of_stored_instances_are_written_as_each_is(name: str) -> None:
    """Every field that jobs have, with and without stages."""
    jobs = load(name).jobs
    assert texts_of_records(jobs, {}) == [canonical_record(job).decode() for job in jobs]


def test_what_is_not_finite_is_refused_by_its_field() -> None:
    """Wherever it stands."""
    with pytest.raises(InstanceError, match="size is nan"):
        texts_of_records([*THINGS, Thing("bad", float("nan"))], {})
