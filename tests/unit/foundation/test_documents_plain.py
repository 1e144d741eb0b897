"""Small plain documents, read without pydantic: as the models read them, and no laxer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from document_samples import SAMPLES, mutants

from alloc.documents import format_of
from alloc.documents.building import built
from alloc.documents.kinds import KINDS
from alloc.documents.plain import SMALL, plain_record
from alloc.errors import InstanceError
from alloc.instances.listing import ROOT, listing

SINGLE = [kind for kind in KINDS if len(KINDS[kind].types) == 1]
READ = ("instance", "topology", "planning", "operation", "checkpoint_problem")
"""Kinds of which the sample is plain."""


def by_models(raw: Any, kind: str) -> Any:
    """Return what the models make of a document, None if they refuse it."""
    try:
        return built(format_of(kind).require_structure(raw))
    except InstanceError:
        return None


def plainly(raw: Any, kind: str) -> Any:
    return plain_record(raw, KINDS[kind].types[0], kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", SINGLE)
def test_what_is_read_is_what_the_models_read(kind: str) -> None:
    """Of each document with one thing wrong in it, too: what is wrong is left to the models."""
    for sample in SAMPLES[kind]:
        raw = json.loads(format_of(kind).write(sample))
        for _, name, changed in ((), "as it is", raw), *mutants(raw):
            found = plainly(changed, kind)
            if found is not None:
                expected = by_models(changed, kind)
                assert repr(found) == repr(expected), name
                assert found == expected, name


@pytest.mark.parametrize("kind", READ)
def test_a_plain_document_is_read(kind: str) -> None:
    for sample in SAMPLES[kind]:
        assert plainly(json.loads(format_of(kind).write(sample)), kind) == sample


def test_the_small_instances_of_the_library_are_plain() -> None:
    read = 0
    for known in listing().values():
        path = ROOT / known.file
        if known.kind != "instance" or not path.exists():
            continue
        if path.stat().st_size <= SMALL:
            raw = json.loads(path.read_text(encoding="utf-8"))
            found = plainly(raw, "instance")
            assert found == by_models(raw, "instance")
            assert found.fingerprint == known.fingerprint
            read += 1
    assert read > 5


@pytest.mark.parametrize(
    "change",
    [
        {"slot_s": "60"},
        {"slot_s": True},
        {"slot_s": float("nan")},
        {"slot_s": -1},
        {"name": "half a \ud800 character"},
        {"nmae": "week"},
        {"jobs": {}},
        {"schema_version": 1.0},
        {"kind": "topology"},
        {"configuration_sets": {"x": [{"tasks": [], "rate": 1}]}},
    ],
)
def test_what_is_wrong_is_left_to_the_models(change: dict[str, Any]) -> None:
    raw = json.loads(format_of("instance").write(SAMPLES["instance"][0]))
    assert plainly(raw | change, "instance") is None


def test_equal_task_groups_are_one_object() -> None:
    raw = json.loads(format_of("instance").write(SAMPLES["instance"][0]))
    first, second = (plainly(raw, "instance").jobs[0].configurations[0] for _ in range(2))
    assert first.tasks[0] is second.tasks[0]
