"""Every kind of document, with one thing wrong in it: refused where its schema says so, by name."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from document_samples import SAMPLES, mutants
from jsonschema import Draft202012Validator

from alloc.documents import format_of, json_schema
from alloc.documents.kinds import KINDS
from alloc.errors import InstanceError
from alloc.families import FAMILIES, load

PYDANTIC = re.compile(r"pydantic|function-|constrained|Input should|\[type=|Part\b|<list>|<name>")
BROKEN_ABBREVIATION = re.compile(r"\b[a-z][A-Z]{2}")
"""A small letter made of the first of an abbreviation, as in "gPU type"."""


def test_there_is_a_sample_of_every_familys_solution() -> None:
    """A family that is registered has documents without anybody having to think of it."""
    known = {type(result.solution) for result in SAMPLES["result"]} | {np.ndarray}
    assert known == {load(family.solution) for family in FAMILIES.values()}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_schema_refuses_is_refused_by_name(kind: str) -> None:
    """The reader and the published schema come from one class, and neither is the laxer.

    The sentence names the field, and never speaks of what the reader is made of.
    """
    own, schema = format_of(kind), Draft202012Validator(json_schema(kind))
    for sample in SAMPLES[kind]:
        text = own.write(sample)
        again = own.parse(text)
        same = np.array_equal(again, sample) if kind == "permutation" else again == sample
        assert same
        assert own.write(own.parse(text)) == text
        raw = json.loads(text)
        assert schema.is_valid(raw)
        for path, name, changed in mutants(raw):
            try:
                own.parse(json.dumps(changed))
            except InstanceError as error:
                sentence = str(error)
                assert not PYDANTIC.search(sentence), (path, name, sentence)
                assert not BROKEN_ABBREVIATION.search(sentence), (path, name, sentence)
                assert "\n" not in sentence
                # A discriminator that is wrong leaves everything else unread.
                if name in ("dropped", "quoted", "misspelled") and not schema.is_valid(changed):
                    field = next(step for step in reversed(path) if isinstance(step, str))
                    assert field in sentence, (path, name, sentence)
            else:
                assert schema.is_valid(changed), (path, name)
