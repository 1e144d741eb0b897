"""One word, one meaning: the words that the glossary gave up stay given up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIVEN_UP = {
    "whiteboard": ".*",
    "fast lane": ".*",
    # A figure is drawn, and a report has drawings; a random number comes by drawing it.
    "(?-i:Drawing)|drawings|(a|the|each|one|this) drawing|drawing of": (
        r"alloc/(?!report|plotting|server).*|models/.*|benchmarks/.*"
    ),
    "the judge|judge of": ".*",
    "draw_(arrays|pyomo|cpsat)": ".*",
    # A limit is `max_`; English says "at most", and a superlative of another word is not one.
    "_?most_(?!common|filled|on_empty|stable|work|hosts|share)[a-z_]+": (
        "(alloc|models|instances|benchmarks)/.*"
    ),
    "squeezed?": r"alloc/(?!learning).*|models/.*",
    "_natural": ".*",
}
"""Patterns of words, small letters or large, and the files that may not have them."""
KEEPS_THEM = {"docs/glossary.md", "CHANGELOG.md", "tests/docs/test_words.py"}


def texts():
    for folder in ("alloc", "models", "instances", "benchmarks", "docs", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".md", ".j2", ".js"}:
                yield path.relative_to(ROOT).as_posix(), path
    yield "README.md", ROOT / "README.md"
    yield "CONTRIBUTING.md", ROOT / "CONTRIBUTING.md"


@pytest.mark.parametrize("word", GIVEN_UP)
def test_a_word_that_was_given_up_is_nowhere(word):
    there = [
        name
        for name, path in texts()
        if name not in KEEPS_THEM
        and re.fullmatch(GIVEN_UP[word], name)
        and re.search(rf"\b({word})\b", path.read_text(encoding="utf-8"), re.IGNORECASE)
    ]
    assert not there, "docs/glossary.md says what to write instead"


def test_the_words_of_the_documents_of_results_are_in_the_glossary():
    """What a certificate and a result are made of is said once, for everybody."""
    words = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").lower()
    for word in ("certificate", "bound", "gap", "incumbent", "repair", "sensitivity", "stage"):
        assert f"**{word}" in words
