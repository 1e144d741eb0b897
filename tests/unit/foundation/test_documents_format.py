"""The format of documents: what is written, how it is laid out, and its published schema."""

from __future__ import annotations

import dataclasses
import json
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from alloc.certificate import Certificate
from alloc.documents import canonical_json, format_of, json_schema, write_schemas
from alloc.documents.descriptions import DESCRIPTIONS
from alloc.documents.kinds import KINDS
from alloc.documents.reading import save
from alloc.documents.records import meanings_in_docstring
from alloc.documents.shapes import SHAPES, Shape
from alloc.errors import InstanceError
from alloc.family import load, path_of
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Run, Schedule
from alloc.problems.quadratic_assignment import QuadraticAssignment
from alloc.result import Result
from alloc.solving import solve
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

ROOT = Path(__file__).parents[3]
CLUSTER = flat_cluster("pair", HostType("box", 4, "v100", 32000, 65536), 2)
ELASTIC = tuple(Configuration((TaskGroup("worker", w, 1000),), w**0.5) for w in (1, 2, 4))
CERTIFICATE = Certificate(
    "feasible", 12.5, -math.inf, "min", "mean_jct", "f2", "highs", "1.13", 0, 1, 2.5, "ab" * 32
)


def instance_of(*jobs: Job, **fields: Any) -> Instance:
    """Return an instance of jobs on two hosts."""
    return Instance("pairs", CLUSTER, jobs, **fields)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write all schemas; return the text of each file."""
    folder = tmp_path_factory.mktemp("schema")
    return {path.name: path.read_text() for path in write_schemas(folder)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_schema_is_up_to_date(kind: str, written: dict[str, str]) -> None:
    """Other tools validate against the files; ``python -m alloc.documents`` renews them."""
    name = f"{kind}.schema.json"
    assert (ROOT / "docs" / "schema" / name).read_text() == written[name]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_schema_is_described(kind: str) -> None:
    """Whoever has only the schema needs the units and ranges."""
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    definitions = [schema, *schema.get("$defs", {}).values()]
    for definition in definitions:
        for name, field in definition.get("properties", {}).items():
            assert field.get("description"), (definition.get("title"), name)
        if "properties" in definition:
            assert definition["additionalProperties"] is False


def test_schemas_hold_the_defaults_of_the_types() -> None:
    """The defaults are the dataclasses' own; a copy could drift."""
    properties = json_schema("instance")["$defs"]["JobPart"]["properties"]
    assert properties["weight"]["default"] == Job.weight
    assert properties["elasticity"]["default"] == Job.elasticity


def test_defaults_are_left_out() -> None:
    """Files stay small and say what is special about a job."""
    text = save(instance_of(Job("a", 0.0, 5.0, (rigid_gang(1),))))
    assert json.loads(text)["jobs"] == [
        {
            "id": "a",
            "arrival_s": 0,
            "work": 5,
            "configurations": [
                {"tasks": [{"role": "worker", "count": 1, "gpu_milli": 1000}], "rate": 1}
            ],
        }
    ]
    assert list(json.loads(text)) == ["schema_version", "kind", "name", "topology",
                                      "configuration_sets", "jobs"]  # fmt: skip


def test_one_line_per_job_host_and_configuration() -> None:
    """A diff of two instances shows the jobs that changed."""
    jobs = tuple(Job(f"job-{k}", float(k), 5.0, ELASTIC, model="bert") for k in range(3))
    text = save(instance_of(*jobs, slot_s=20.0, description={"seed": "1", "by": "us"}))
    assert (
        text
        == """{
  "schema_version": 1,
  "kind": "instance",
  "name": "pairs",
  "description": {
    "seed": "1",
    "by": "us"
  },
  "topology": {
    "name": "pair",
    "host_types": [
      {"name": "box", "num_gpus": 4, "gpu_type": "v100", "cpu_milli": 32000, "memory_mib": 65536}
    ],
    "hosts": [
      {"id": "host-0", "type": "box"},
      {"id": "host-1", "type": "box"}
    ]
  },
  "slot_s": 20,
  "configuration_sets": {
    "bert": [
      {"tasks": [{"role": "worker", "count": 1, "gpu_milli": 1000}], "rate": 1},
      {"tasks": [{"role": "worker", "count": 2, "gpu_milli": 1000}], "rate": 1.4142135623730951},
      {"tasks": [{"role": "worker", "count": 4, "gpu_milli": 1000}], "rate": 2}
    ]
  },
  "jobs": [
    {"id": "job-0", "arrival_s": 0, "work": 5, "model": "bert", "configurations": "bert"},
    {"id": "job-1", "arrival_s": 1, "work": 5, "model": "bert", "configurations": "bert"},
    {"id": "job-2", "arrival_s": 2, "work": 5, "model": "bert", "configurations": "bert"}
  ]
}
"""
    )


def test_one_line_per_run_and_log_line() -> None:
    """Results are read by people too."""
    schedule = Schedule((Run("a", 0, 0.0, 5.0), Run("a", 1, 5.0, 9.0)), {"b": "no room"})
    text = save(Result(schedule, CERTIFICATE, log=("start", "end")))
    lines = text.splitlines()
    assert '    "start",' in lines
    assert '      {"job": "a", "configuration": 0, "start_s": 0, "end_s": 5},' in lines
    assert '      "b": "no room"' in lines
    assert '    "bound": "-inf",' in lines


def test_sets_are_named_for_the_model() -> None:
    """A person looks for resnet-50, not for set-17."""
    other = tuple(Configuration(c.tasks, c.rate * 2) for c in ELASTIC)
    third = tuple(Configuration(c.tasks, c.rate * 3) for c in ELASTIC)
    fourth = tuple(Configuration(c.tasks, c.rate * 4) for c in ELASTIC)
    text = save(
        instance_of(
            Job("a", 0.0, 5.0, ELASTIC, model="bert"),
            Job("b", 0.0, 5.0, other, model="bert"),
            Job("c", 0.0, 5.0, third),
            Job("d", 0.0, 5.0, fourth, model="bert"),
            Job("e", 0.0, 5.0, fourth, model="vgg"),
            Job("f", 0.0, 5.0, (rigid_gang(1),), model="once"),
        )
    )
    document = json.loads(text)
    assert list(document["configuration_sets"]) == ["bert", "bert-2", "set-1", "set-2"]
    assert isinstance(document["jobs"][-1]["configurations"], list)


def test_equal_sets_are_written_once() -> None:
    """A trace reader that builds a tuple per job must not make a file of a gigabyte."""
    jobs = [Job(f"job-{k}", 0.0, 5.0, tuple([*ELASTIC])) for k in range(4)]
    document = json.loads(save(instance_of(*jobs)))
    assert [job["configurations"] for job in document["jobs"]] == ["set-1"] * 4


def test_numpy_numbers_are_numbers() -> None:
    """Generators compute with numpy; a file must not say so."""
    job = Job("a", np.float64(2.0), np.float32(1.5), ELASTIC, preemptible=np.bool_(False))  # type: ignore[arg-type]
    plain = Job("a", 2, 1.5, ELASTIC, preemptible=False)
    assert save(instance_of(job)) == save(instance_of(plain))
    assert instance_of(job).fingerprint == instance_of(plain).fingerprint
    first = format_of("instance").parse(save(instance_of(job))).jobs[0]
    assert type(first.arrival_s) is float


def test_equal_numbers_are_written_alike() -> None:
    """Minus zero and integers beyond what a float holds are equal to what they are equal to."""
    a, b = Job("a", -0.0, 10**16, ELASTIC), Job("a", 0, 1e16, ELASTIC)
    assert canonical_json(instance_of(a)) == canonical_json(instance_of(b))
    a, b = Job("a", 0.0, 10**25, ELASTIC), Job("a", 0, 1e25, ELASTIC)
    assert canonical_json(instance_of(a)) == canonical_json(instance_of(b))


@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_a_result_with_infinities_survives(infinity: float) -> None:
    """No bound, and an objective that is infinite because a job never completes, are answers."""
    certificate = CERTIFICATE.replace(bound=infinity, objective=infinity)
    assert format_of("result").parse(save(Result(None, certificate))).certificate == certificate


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda: save(Schedule((Run("a", 0, math.nan, 5.0),))), "start_s is nan"),
        (lambda: save(Schedule((Run("a", 0, 0.0, math.inf),))), "end_s is inf"),
        (lambda: save(Result(None, CERTIFICATE.replace(bound=math.nan))), "bound is nan"),
        (
            lambda: save(instance_of(Job("a", 0.0, 1.0, ELASTIC), description={"n": 3})),
            "description: 'n' is 3; give text",
        ),
        (lambda: save(Allocation((), {"a": None})), "unplaced: 'a' is None; give text"),
        (
            lambda: save(instance_of(Job("\ud800", 0.0, 1.0, ELASTIC))),
            r"half a character .*\\ud800",
        ),
        (
            lambda: save(instance_of(Job("a", 0.0, 1.0, ELASTIC, model=object()))),  # type: ignore[arg-type]
            "model: object has no place in a document",
        ),
    ],
)  # fmt: skip
def test_what_no_reader_would_take_is_not_written(bad: Any, sentence: str) -> None:
    """Better no file than one that cannot be read back."""
    with pytest.raises(InstanceError, match=sentence):
        bad()


def test_topologies_are_documents_of_their_own() -> None:
    """The head says what a file is."""
    document = json.loads(save(CLUSTER))
    assert (document["schema_version"], document["kind"]) == (1, "topology")


@pytest.mark.parametrize("path", sorted({*SHAPES, *DESCRIPTIONS}))
def test_what_differs_from_a_type_is_about_fields_that_it_has(path: str) -> None:
    """Documents follow the types; a field that is renamed must not leave its exceptions behind."""
    record_class = load(path)
    assert path_of(record_class) == path, "a class that has moved would lose its exceptions"
    fields = {field.name for field in dataclasses.fields(record_class)}
    shape = SHAPES.get(path, Shape())
    assert {*shape.first, *shape.last, *shape.always, *shape.fields, *shape.nouns} <= fields
    assert not shape.noun or shape.name in fields
    described = DESCRIPTIONS.get(path, {})
    assert {*described} <= {*fields, ""}
    said = meanings_in_docstring(record_class)
    assert all(said.get(name) != text for name, text in described.items()), "said twice"


ONLY_IN_DOCUMENTS = {"solution": {"type"}, "instance": {"configuration_sets"}}


@pytest.mark.parametrize("kind", KINDS)
def test_documents_of_a_type_have_every_field_of_it(kind: str) -> None:
    """Beside them only what documents alone have: head, tag and shared configurations."""
    head = {"schema_version", "kind"}
    for record_class, model in zip(KINDS[kind].types, format_of(kind).models, strict=True):
        fields = {field.name for field in dataclasses.fields(record_class)}
        assert set(model.model_fields) == fields | head | ONLY_IN_DOCUMENTS.get(kind, set())


def test_an_answer_that_is_an_array_survives_its_document() -> None:
    """And what is the answer of no family has no document: it could not be read back."""
    problem = QuadraticAssignment("pair", np.array([[0, 2], [0, 0]]), np.array([[0, 3], [5, 0]]))
    result = solve(problem)
    again = format_of("result").parse(result.to_json())
    assert np.array_equal(again.solution, result.solution)
    assert again.replace(solution=None) == result.replace(solution=None)
    with pytest.raises(InstanceError, match="a result with a str has no document"):
        result.replace(solution="none").to_json()


def test_the_command_writes_the_schemas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failure of the test above is cured by ``python -m alloc.documents docs/schema``."""
    monkeypatch.setattr(sys, "argv", ["alloc.documents", str(tmp_path)])
    runpy.run_module("alloc.documents", run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        str(tmp_path / f"{kind}.schema.json") for kind in KINDS
    ]


def test_the_command_makes_the_folder_or_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first run names a folder that is not there; a mistake names a file."""
    folder = tmp_path / "new" / "schema"
    monkeypatch.setattr(sys, "argv", ["alloc.documents", str(folder)])
    runpy.run_module("alloc.documents", run_name="__main__")
    assert len(list(folder.iterdir())) == len(KINDS)
    file = folder / f"{next(iter(KINDS))}.schema.json"
    monkeypatch.setattr(sys, "argv", ["alloc.documents", str(file)])
    with pytest.raises(SystemExit, match="cannot be made a folder"):
        runpy.run_module("alloc.documents", run_name="__main__")
