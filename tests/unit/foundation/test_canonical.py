"""Canonical JSON is written as text; a general JSON writer must say the same, byte for byte."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from problems_of_families import tiny_problems

import alloc
from alloc.documents.canonical import canonical_record, text_of
from alloc.documents.encoding import encode, encode_part
from alloc.errors import InstanceError
from alloc.families import FAMILIES
from alloc.problems.allocation.instance import Instance


def by_json(plain: object) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain_instance(instance: Instance) -> dict[str, object]:
    """What the canonical text of an instance holds: configurations once, in order of first use."""
    sets = list(dict.fromkeys(job.configurations for job in instance.jobs))
    return {
        **encode_part(instance, ("description", "jobs")),
        "configuration_sets": [encode(found) for found in sets],
        "jobs": [
            {
                **encode_part(job, ("configurations",)),
                "configurations": sets.index(job.configurations),
            }
            for job in instance.jobs
        ],
    }


@pytest.mark.parametrize("name", FAMILIES)
def test_the_text_is_that_of_a_general_writer(name: str) -> None:
    for problem in tiny_problems(name):
        assert canonical_record(problem).decode() == by_json(encode_part(problem))
        if isinstance(problem, Instance):
            found = alloc.documents.canonical_json(problem).decode()
            assert found == by_json(plain_instance(problem))


@pytest.mark.parametrize(
    "value",
    [
        *(
            0,
            -0.0,
            1.0,
            1e22,
            2**62,
            2**63,
            -(2**70),
            1e-320,
            0.1,
            1 / 3,
            True,
            None,
            np.float64(2),
        ),
        *(
            np.int64(3),
            np.arange(4.0).reshape(2, 2),
            'a"\\\n\u00e9\U0001f600\ud800',
            ("a", (1, 2.5)),
        ),
        *([1, "x"], {"b": 1, "a": (2.0, None)}, (), alloc.Limits(2.0, seed=3)),
    ],
    ids=repr,
)
def test_values_are_written_as_by_a_general_writer(value: object) -> None:
    assert text_of(value, {}) == by_json(encode(value))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), (1.0, -float("inf")), object()])
def test_what_no_document_holds_is_refused(value: object) -> None:
    with pytest.raises(InstanceError, match=r"^rate"):
        text_of(value, {}, "rate")


@dataclass
class Doubled:
    """Makes a new tuple each time that it is asked for one, gone as soon as it is written."""

    number: Any

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return (value, 2 * value) if name == "number" else value


def test_a_tuple_that_is_gone_lends_its_text_to_no_other() -> None:
    text = text_of(tuple(map(Doubled, range(20))), {})
    assert json.loads(text) == [{"number": [n, 2 * n]} for n in range(20)]


def document(counts: list[int]) -> str:
    def configuration(count: int) -> dict[str, object]:
        group = {"role": "worker", "count": count, "gpu_milli": 1000}
        return {"tasks": [group], "rate": 1.0}

    topology = {
        "name": "one",
        "host_types": [{"name": "t", "num_gpus": 8, "gpu_type": "a100"}],
        "hosts": [{"id": "h", "type": "t"}],
    }
    jobs = [
        {"id": f"j{n}", "arrival_s": 0, "work": 1, "configurations": [configuration(count)]}
        for n, count in enumerate(counts)
    ]
    head = {"schema_version": 1, "kind": "instance", "name": "x", "topology": topology}
    return json.dumps({**head, "jobs": jobs})


def test_equal_task_groups_of_a_document_are_one_object() -> None:
    jobs = alloc.Instance.from_json(document([2, 3, 2])).jobs
    groups = [job.configurations[0].tasks[0] for job in jobs]
    assert groups[0] is groups[2]
    assert [group.count for group in groups] == [2, 3, 2]


def test_a_wrong_task_group_is_refused_as_often_as_it_is_read() -> None:
    for _ in range(2):
        with pytest.raises(InstanceError, match=r"j1.*count is 0"):
            alloc.Instance.from_json(document([2, 0, 2]))
