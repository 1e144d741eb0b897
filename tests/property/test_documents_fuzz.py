"""Fuzzing the readers of documents: whatever comes in, a valid object or one sentence comes out."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import instances, results, solutions

from alloc.documents import format_of
from alloc.documents.reading import save
from alloc.errors import InstanceError
from alloc.verification import verify

Reader = Callable[[str | bytes], Any]
READERS: dict[str, Reader] = {
    "instance": format_of("instance").parse,
    "solution": format_of("solution").parse,
    "result": format_of("result").parse,
    "topology": format_of("topology").parse,
}
# A hang is a failure, a slow machine is not. A longer hunt: ALLOC_FUZZ_EXAMPLES=2000.
fuzz = settings(
    max_examples=int(os.environ.get("ALLOC_FUZZ_EXAMPLES", "50")),
    deadline=10_000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from((10**30, -(10**30), 10**400, 2**63, 1e308, -1e308, 5e-324, 0.5, 1e12)),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=5),
    st.sampled_from(
        ("inf", "-inf", "nan", "host", "job-0", "allocation", "instance", "1", "x" * 200)
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = ("id", "name", "kind", "type", "rate", "tasks", "jobs", "count", "configurations", "links")


def document(data: st.DataObject, kind: str) -> str:
    """Draw a valid document of a kind."""
    instance = data.draw(instances(max_jobs=3, max_hosts=3))
    if kind == "instance":
        return save(instance)
    if kind == "topology":
        return save(instance.topology)
    if kind == "solution":
        return save(data.draw(solutions(instance)))
    return save(data.draw(results(instance)))


def containers(value: Any) -> list[Any]:
    """Return all objects and lists of a JSON value that have a member, outermost first."""
    if not isinstance(value, dict | list):
        return []
    members = value.values() if isinstance(value, dict) else value
    inner = [found for member in members for found in containers(member)]
    return [value, *inner] if value else inner


def mutate(data: st.DataObject, raw: Any) -> None:
    """Drop, rename, copy, retype or replace one member somewhere in a JSON value."""
    places = containers(raw)
    if not places:
        return
    place = data.draw(st.sampled_from(range(len(places))))
    target = places[place]
    keys = list(target) if isinstance(target, dict) else list(range(len(target)))
    key = data.draw(st.sampled_from(keys))
    match data.draw(st.sampled_from(("drop", "replace", "retag", "copy", "quote", "add"))):
        case "drop":
            del target[key]
        case "replace":
            target[key] = data.draw(VALUES)
        case "retag" if isinstance(target, dict):
            known = st.sampled_from(FIELDS)
            target[data.draw(st.one_of(known, st.text(max_size=6), known))] = target.pop(key)
        case "copy" if isinstance(target, list):
            target.append(copy.deepcopy(target[key]))
        case "quote":
            target[key] = json.dumps(target[key])
        case _ if isinstance(target, dict):
            target[data.draw(st.text(max_size=6))] = data.draw(VALUES)
        case _:
            target.append(data.draw(VALUES))


def read(kind: str, text: str | bytes) -> Any:
    """Read, or make sure that the refusal is one line for people."""
    try:
        return READERS[kind](text)
    except InstanceError as error:
        sentence = str(error)
    assert len(sentence) > 10
    assert "pydantic" not in sentence
    sentence.encode()  # it must be printable wherever it goes
    return None


@pytest.mark.long
@pytest.mark.parametrize("kind", READERS)
@fuzz
@given(data=st.data())
def test_documents_with_wrong_fields_are_read_or_refused(kind: str, data: st.DataObject) -> None:
    """People and programs write documents with fields dropped, misspelled, copied or mistyped."""
    raw = json.loads(document(data, kind))
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(data, raw)
    found = read(kind, json.dumps(raw))
    if kind == "instance" and found is not None:
        assert format_of("instance").parse(save(found)) == found
        assert len(found.fingerprint) == 64
        _ = found.topology.graph


@pytest.mark.long
@pytest.mark.parametrize("kind", READERS)
@fuzz
@given(data=st.data())
def test_damaged_bytes_are_read_or_refused(kind: str, data: st.DataObject) -> None:
    """Files lose their end and bytes flip; doubled pieces come from careless merges."""
    text = bytearray(document(data, kind).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.sampled_from(("flip", "cut", "double", "insert"))):
            case "flip":
                text[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del text[at : at + data.draw(st.integers(1, 400))]
            case "double":
                text[at:at] = text[at : at + data.draw(st.integers(1, 60))]
            case "insert":
                text[at:at] = data.draw(
                    st.one_of(
                        st.binary(max_size=4), st.sampled_from((b"1e400", b"NaN", b"\\ud800"))
                    )
                )
        text = text or bytearray(b" ")
    read(kind, bytes(text))


@pytest.mark.long
@fuzz
@given(kind=st.sampled_from(list(READERS)), value=VALUES, head=st.booleans())
def test_any_json_is_read_or_refused(kind: str, value: Any, head: bool) -> None:
    """Some other program's JSON lands here too, with our head or without."""
    if head:
        value = {"schema_version": 1, "kind": kind, "name": value, "jobs": value, "runs": value}
    read(kind, json.dumps(value))


@pytest.mark.long
@fuzz
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60)))
def test_any_bytes_are_refused(text: bytes | str) -> None:
    """Nothing short and random is a document."""
    for kind in READERS:
        assert read(kind, text) is None


@pytest.mark.long
@fuzz
@given(data=st.data())
def test_any_solution_that_reads_can_be_judged(data: st.DataObject) -> None:
    """A hostile solution must not break the checker: it gets violations, however absurd it is."""
    instance = data.draw(instances(max_jobs=3, max_hosts=3))
    raw = json.loads(save(data.draw(solutions(instance))))
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(data, raw)
    found = read("solution", json.dumps(raw))
    if found is not None:
        for violation in verify(instance, found):
            assert violation.sentence
