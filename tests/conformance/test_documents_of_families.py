"""Every family of the registry keeps its problems and answers in documents of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems_of_families import answered, tiny_problems

import alloc
from alloc.documents.descriptions import DESCRIPTIONS
from alloc.documents.kinds import _SAID, KINDS
from alloc.documents.shapes import SHAPES
from alloc.errors import InstanceError
from alloc.families import FAMILIES, load
from alloc.family import path_of
from alloc.problems.rank_mapping import RankMappingProblem
from alloc.report.answers import _IN_OTHER_WORDS
from alloc.topology.communication import CommunicationGraph
from alloc.workload.parallelism import Parallelism


@pytest.mark.parametrize("name", FAMILIES)
def test_a_problem_survives_its_document(name: str, tmp_path: Path) -> None:
    """Name, kind, fingerprint, `replace` and JSON are there whatever the family."""
    path = tmp_path / "problem.json"
    problems = list(tiny_problems(name))
    assert problems, "a family without tiny problems"
    for problem in problems:
        assert problem.kind == FAMILIES[name].kind
        assert json.loads(problem.to_json())["kind"] == problem.kind
        alloc.save(problem, path)
        for again in (
            alloc.load(path),
            alloc.load(path.read_text()),
            type(problem).from_json(path.read_bytes()),
            type(problem).load(path),
        ):
            assert type(again) is type(problem)
            assert again == problem
            assert again.fingerprint == problem.fingerprint
        assert problem.replace(name="another").name == "another"
        assert problem.replace() == problem


@pytest.mark.parametrize("name", FAMILIES)
def test_a_field_of_a_wrong_type_is_refused_in_one_sentence(name: str) -> None:
    """Whoever wrote the file is told which field, and no class of a library is named."""
    problem = next(tiny_problems(name))
    raw = json.loads(problem.to_json())
    for field in raw.keys() - {"schema_version", "kind"}:
        for wrong in ({"unheard_of": 1}, 3 if isinstance(raw[field], str) else "three", True):
            with pytest.raises(InstanceError) as refused:
                alloc.load(json.dumps({**raw, field: wrong}))
            sentence = str(refused.value)
            assert field in sentence
            assert "\n" not in sentence
            assert not re.search(
                r"pydantic|Part\b|validation|[Ii]nput should|Sequence|'str'", sentence
            )


@pytest.mark.parametrize("name", FAMILIES)
def test_an_answer_survives_its_document(name: str) -> None:
    """A solution alone, and in a result."""
    family = FAMILIES[name]
    for problem, result in answered(name, 3):
        document = alloc.save(result.solution)
        assert json.loads(document)["kind"] == family.solution_kind
        again = alloc.load(document)
        assert type(again) is load(family.solution)
        assert np.array_equal(again, result.solution) or again == result.solution
        assert alloc.verify(problem, again) == []
        assert alloc.load(result.to_json()).certificate == result.certificate


def test_equal_numbers_are_one_problem() -> None:
    """A user writes 60, a document 60.0, a reader of a matrix numpy's own numbers."""
    flow, distance = [[0, 2], [0, 0]], [[0, 3], [5, 0]]
    kind = load(FAMILIES["quadratic_assignment"].problem)
    whole = kind("pair", np.array(flow), np.array(distance))
    assert whole == kind("pair", np.array(flow, dtype=float), -0.0 + np.array(distance, float))
    assert whole != kind("pair", np.array(flow), np.array(flow))
    assert len({whole, kind("pair", flow, distance)}) == 1


@pytest.mark.parametrize("number", [int, float, np.int64, np.float64, np.float32])
def test_a_mapping_of_any_numbers_is_that_of_its_document(number: Any) -> None:
    """What a program takes from an array or a list has the fingerprint that a file of it has."""

    def made(gpus: Any, degree: Any, size: Any) -> Any:
        width = np.full((2, 2), number(10))
        job = Parallelism(tensor=degree, tensor_bytes=size)
        return RankMappingProblem(CommunicationGraph(gpus, width, number(0)), job)

    whole = np.int64 if issubclass(number, np.generic) else int
    plain = made(("a", "b"), 2, 6)
    for gpus in (("a", "b"), ["a", "b"], tuple(np.array(["a", "b"]))):
        problem = made(gpus, whole(2), number(6))
        assert problem == plain
        assert alloc.load(alloc.save(problem)) == problem
    assert made(("a", "b"), 2, number(7)) != plain
    half = made(("a", "b"), 2, 6 + number(1) / 2)
    assert alloc.load(alloc.save(half)) == half != plain
    huge = made(("a", "b"), 2, 10**30)
    assert alloc.load(alloc.save(huge)) == huge == made(("a", "b"), 2, 1e30)


@pytest.mark.parametrize("cost", [1e308, 1e299])
def test_costs_beyond_all_numbers_are_refused(cost: float) -> None:
    """Below, the answer is proved as any other; above, no method would have a number to prove."""
    raw = {"schema_version": 1, "kind": "quadratic_assignment", "name": "pair"}
    document = {**raw, "flow": [[0, cost], [0.5, 0]], "distance": [[0, 1], [1.5, 0]]}
    if cost > 1e300:
        with pytest.raises(InstanceError, match=r'"pair": flows up to 1e\+308 times'):
            alloc.load(json.dumps(document))
        return
    certificate = alloc.solve(alloc.load(json.dumps(document))).certificate
    assert certificate.status == "optimal"
    assert certificate.objective == pytest.approx(cost)


@pytest.mark.parametrize(
    ("flow", "sentence"),
    [
        ([[0, 1], [2]], "flow has rows of different lengths; give as many"),
        ([0, 1], "flow has shape (2,); it must be a square matrix"),
        ([[0, "1"], [2, 3]], 'flow[0][1] is "1"; give a number without quotes'),
        (3, "flow is 3; give a list"),
        ([], "flow has shape (0,)"),
    ],
)
def test_an_array_is_refused_as_any_field_is(flow: Any, sentence: str) -> None:
    """Lists of numbers are a vector or a matrix; which of them its class says."""
    raw = {"schema_version": 1, "kind": "quadratic_assignment", "name": "pair"}
    with pytest.raises(InstanceError, match=re.escape(sentence)):
        alloc.load(json.dumps({**raw, "flow": flow, "distance": [[0, 1], [2, 0]]}))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", 'the document has no "kind"; known: instance, solution'),
        ('{"kind": "instanze"}', 'has kind "instanze"; did you mean "instance"?'),
        ('{"kind": ["instance"]}', "has kind a list"),
        ('{"kind": "instance"}', 'has no "schema_version"; add "schema_version": 1.'),
        (b"[1]", "the document is a list; a document is a JSON object"),
        ("{", "the document ends too early"),
        ("nowhere.json", "nowhere.json: there is no such file"),
    ],
)
def test_what_is_no_document_is_refused(text: Any, sentence: str) -> None:
    """Said before anything else is looked at."""
    with pytest.raises(InstanceError, match=re.escape(sentence)):
        alloc.load(text)


def test_what_has_no_document_is_refused(tmp_path: Path) -> None:
    """And the file that is wrong is named once."""
    with pytest.raises(InstanceError, match="int has no document; give a problem"):
        alloc.save(3)
    path = tmp_path / "wrong.json"
    path.write_text('{"kind": "round"}')
    with pytest.raises(InstanceError, match=rf'^{path}: the document has kind "round"'):
        alloc.load(path)


def test_every_kind_of_document_is_a_familys_or_no_familys() -> None:
    """No list by hand: a family that is registered brings its kinds."""
    theirs = {kind for family in FAMILIES.values() for kind in family.documents}
    assert set(KINDS) == theirs | {"result", "topology"}


def test_documents_find_every_class_by_the_path_that_its_family_names() -> None:
    """A kind is loaded when it is looked at, and a class from elsewhere would not be found."""
    for kind in KINDS:
        for one in KINDS[kind].types:
            assert KINDS.of_type(one) == kind
            assert load(path_of(one)) is one
    for family in FAMILIES.values():
        for path in (family.problem, family.solution):
            assert path == "numpy:ndarray" or path_of(load(path)) == path


@pytest.mark.parametrize("table", [SHAPES, DESCRIPTIONS, _SAID])
def test_every_class_that_documents_treat_in_its_own_way_is_there(table: Mapping[str, Any]) -> None:
    """They go by paths, and a class that has moved would lose its noun in messages, and words."""
    assert [path for path in table if path_of(load(path)) != path] == []


def test_every_class_whose_answers_are_told_in_other_words_is_there() -> None:
    """They go by paths, and a class that has moved would be shown field by field."""
    solutions = {family.solution for family in FAMILIES.values()}
    assert set(_IN_OTHER_WORDS) <= solutions
