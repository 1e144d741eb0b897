"""Documents made from dataclasses: structure, meaning and schema come from the class itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import jsonschema
import pytest
from inference_problems import a_problem
from quota_problems import a_quota_problem

from alloc.documents.canonical import fingerprint
from alloc.documents.formats import record_format, record_of
from alloc.documents.schema import record_schema
from alloc.errors import InstanceError
from alloc.planning.inference import read_inference_problem, write_inference_problem
from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.problems.quota_planning.problem import QuotaProblem, QuotaTenant


@dataclass(frozen=True)
class Part:
    """A part.

    Parameters
    ----------
    name
        Its name.
    sizes
        Pairs of a number and
        a weight.
    """

    name: str
    sizes: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Whole:
    """A whole.

    Parameters
    ----------
    parts
        What it is made of.
    limit, other
        Two numbers.
    """

    parts: tuple[Part, ...]
    limit: float | None = None
    other: int | tuple[int, ...] = 1


@dataclass(frozen=True)
class Named:
    """What has names.

    Parameters
    ----------
    series
        Numbers of each name.
    parts
        A part of each name.
    """

    series: Mapping[str, tuple[int, ...]]
    parts: Mapping[str, Part]


WHOLES = record_format(Whole, "whole")
WHOLE = Whole((Part("a", ((1, 0.5), (2, 1.0))), Part("b")), 2.5, (1, 2))


def test_what_stands_under_names_is_built_as_everywhere():
    """Lists become tuples, whole numbers may have a point, and records are made."""
    given = {"series": {"a": [1, 2.0]}, "parts": {"b": {"name": "x", "sizes": [[1, 0.5]]}}}
    named = record_of(given, Named, "names")
    assert named == Named({"a": (1, 2)}, {"b": Part("x", ((1, 0.5),))})
    with pytest.raises(InstanceError, match=r'series.* is "1"; give a whole number without quotes'):
        record_of({**given, "series": {"a": ["1"]}}, Named, "names")


def test_a_record_comes_back_as_it_was(tmp_path):
    text = WHOLES.write(WHOLE, tmp_path / "w.json")
    assert WHOLES.parse(text) == WHOLE
    assert WHOLES.load(tmp_path / "w.json") == WHOLE
    assert "limit" not in WHOLES.write(Whole((Part("a"),)))


def test_whole_floats_are_numbers_of_either_kind():
    assert WHOLES.parse(
        '{"schema_version": 1, "kind": "whole", "parts": [], "limit": 3, "other": 4.0}'
    ) == Whole((), 3.0, 4)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("[]", "is a list; a document is a JSON object"),
        ('{"kind": "x"}', 'kind "x"; a whole has "kind": "whole"'),
        ('{"kind": "whole"}', 'has no "schema_version"; add "schema_version": 1'),
        ({"partz": []}, 'unknown field "partz"; did you mean "parts"'),
        ({}, 'field "parts" is missing; add it .what it is made of.'),
        ({"parts": 3}, "parts is 3; give a list"),
        ({"parts": [{"name": 3}]}, r"parts\[0\]: name is 3; give text in quotes"),
        ({"parts": [{"name": "n", "sizes": [[1]]}]}, r'parts\[0\] "n"'),
        ({"parts": [{"name": "n", "sizes": [[1.5, 2]]}]}, r"sizes\[0\]\[0\] is 1.5; give a whole"),
        ({"parts": [{"name": "n", "weight": 1}, {}]}, r'"weight".*known fields: name, sizes\.$'),
        ({"parts": [], "limit": "3"}, "limit is \"3\"; give a number without quotes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place_and_cure(body, message):
    if not isinstance(body, str):
        body = json.dumps({"schema_version": 1, "kind": "whole", **body})
    with pytest.raises(InstanceError, match=message):
        WHOLES.parse(body)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("ttft", "percentile"), 0.95,
         r'^models\[0\] "chatbot", classes\[0\] "chat", ttft: latency goal: percentile is 0.95'),
        (("rate_per_s",), [-1.0],
         r'^models\[0\] "chatbot": request class "chat": rate_per_s is -1'),
    ],
)  # fmt: skip
def test_what_a_part_says_of_itself_comes_with_what_it_is_a_part_of(place, value, message):
    """A goal has no name, and two models may each have a class "chat"."""
    document = json.loads(write_inference_problem(a_problem(1.0)))
    path = ["models", 0, "classes", 0, *place]
    field = path.pop()
    part = document
    for step in path:
        part = part[step]
    part[field] = value
    with pytest.raises(InstanceError, match=message):
        read_inference_problem(json.dumps(document))


def test_a_file_is_named_in_what_is_wrong_in_it(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(InstanceError, match=r"x\.json: the whole document"):
        WHOLES.load(tmp_path / "x.json")


def test_the_fingerprint_is_that_of_the_content():
    assert fingerprint(WHOLE) == fingerprint(Whole(WHOLE.parts, 2.5, (1, 2)))
    assert fingerprint(WHOLE) != fingerprint(Whole(WHOLE.parts, 2.5, (1, 3)))


@pytest.mark.parametrize(
    ("record", "record_class", "kind"),
    [
        (a_problem(1.0, failures=1), InferenceProblem, "inference_problem"),
        (a_quota_problem([QuotaTenant("a")], [[2]], 4), QuotaProblem, "quota_problem"),
    ],
)
def test_documents_keep_their_published_schema(record, record_class, kind):
    schema = record_schema(record_class, kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(record_format(record_class, kind).write(record))
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "surplus": 1}, schema)
    described = schema["properties"]["name"]["description"]
    assert described == "Name for people."
