"""YAML: every document may be written in it, with the same values, rules and sentences as JSON."""

from __future__ import annotations

import gzip
import json
import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.documents.parsing import MAX_YAML_VALUES, parse_json, parse_yaml
from alloc.documents.reading import load
from alloc.documents.yaml_events import YamlReader
from alloc.errors import InstanceError
from alloc.instances import load as load_stored
from alloc.instances.stored_planning import load_stored_planning
from alloc.problems.allocation.instance import Instance
from alloc.problems.right_sizing import PlanningProblem

# Line separators and byte order marks inside of quotes are the one thing that YAML reads otherwise.
TEXTS = st.text(
    st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="\ufeff"), max_size=8
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def as_yaml(plain: object) -> str:
    """Return plain values as YAML in blocks, as people write it."""
    return str(yaml.safe_dump(plain, allow_unicode=True, sort_keys=False))


@pytest.mark.parametrize(
    "value",
    [load_stored("elastic-tiny/01"), load_stored_planning("planning-chance")],
    ids=["instance", "planning"],
)
@pytest.mark.parametrize("ending", [".yaml", ".yml", ".yaml.gz"])
def test_a_document_says_the_same_in_yaml(value, ending, tmp_path):
    data = as_yaml(json.loads(value.to_json())).encode()
    path = tmp_path / f"mine{ending}"
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    assert load(path) == type(value).load(path) == value


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_what_json_writes_yaml_reads(value):
    """JSON is YAML, so a document that a program wrote may get the other name."""
    text = json.dumps({"a": value}, ensure_ascii=False)
    assert parse_yaml(text, "it") == parse_json(text, "it")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-0.5", -0.5),
        ("1e6", 1e6),
        ("5.", 5.0),
        ("0012", "0012"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("2024-05-31", "2024-05-31"),
        (".inf", ".inf"),
        ("12:30:00", "12:30:00"),
        ("'1'", "1"),
        ("~", None),
    ],
)
def test_a_scalar_is_what_it_looks_like_in_json_and_otherwise_text(text, value):
    found = parse_yaml(f"a: {text}", "it")["a"]
    assert found == value
    assert type(found) is type(value)


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3", 'line 3: "a" is named twice'),
        ("a: [1,\n2: {\n", "line 3: is not YAML"),
        ("a: !!python/object/apply:os.system [x]", "line 1: uses the tag"),
        ("a: !secret x", "leave tags out"),
        ("", "is empty"),
        ("# only a comment", "is empty"),
        ("a: 1\n---\nb: 1", "is 2 YAML documents"),
        ("a: *b", "has no anchor before it"),
        ("? [a]\n: 1", "as a key"),
        ("- " * 200, "nested deeper than 100 levels"),
        (BOMB, f"unfolds to more than {MAX_YAML_VALUES:,} values"),
        (b"a: \xff", "is not UTF-8"),
        ("a: \x07", "a character that YAML does not allow"),
    ],
)
def test_what_is_no_document_is_refused_in_one_sentence(text, words):
    with pytest.raises(InstanceError) as caught:
        parse_yaml(text, "mine")
    assert str(caught.value).startswith("mine")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("num_quarters: 2", "num_quarters: two"), "num_quarters"),
        (("num_quarters: 2", "num_quarter: 2"), "num_quarter"),
        (("currency: EUR", "currency: ''"), "currency is empty"),
    ],
)
def test_rules_and_sentences_are_those_of_json(change, words, tmp_path):
    plain = json.loads(load_stored_planning("planning-tiny").to_json())
    text = as_yaml(plain)
    assert change[0] in text
    wrong = text.replace(change[0], change[1])
    as_json, path = tmp_path / "mine.json", tmp_path / "mine.yaml"
    path.write_text(wrong)
    as_json.write_text(json.dumps(parse_yaml(wrong, "it")))
    said = []
    for file in (as_json, path):
        with pytest.raises(InstanceError) as caught:
            PlanningProblem.load(file)
        said.append(str(caught.value).removeprefix(f"{file}: "))
    assert said[0] == said[1]
    assert words in said[0]


@pytest.mark.parametrize("text", ["[x,[x,[x,[x", "x\n---\n" * 4], ids=["open", "documents"])
def test_values_count_before_their_containers_end_and_in_every_document(text):
    """Else each of a hundred open lists could hold the most values."""

    def error(line, sentence):
        return InstanceError(sentence)

    with pytest.raises(InstanceError, match="unfolds to more than 3 values"):
        YamlReader(text, error, str, 3)


def test_json_stays_json_whatever_is_in_it(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text("kind: instance\n")
    with pytest.raises(InstanceError, match="is not valid JSON"):
        Instance.load(path)
    assert math.isnan(parse_json('{"a": NaN}', "it")["a"])
