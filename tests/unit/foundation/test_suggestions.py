"""Messages to users: whole sentences, also where there is no name to suggest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import alloc
from alloc.errors import InstanceError, nearest
from alloc.families import require_family

BARE = re.compile(r"\{nearest\((?:(?!\)\}).)*\)\} ")
"""A suggestion in a message, with a blank behind it."""


def test_a_suggestion_or_the_stop_in_its_place() -> None:
    """A name near enough is suggested; otherwise comes what the caller gave."""
    assert nearest("optimsu", ["optimus", "drf"], ".") == '; did you mean "optimus"?'
    assert nearest("zzzz", ["optimus", "drf"], ".") == "."
    with pytest.raises(InstanceError, match=r'unknown family "zzzz"\. Known: '):
        require_family("zzzz")


def test_no_message_runs_two_sentences_together() -> None:
    """Where no name is near, `nearest` adds nothing: what follows it needs a stop before it."""
    found = [
        f"{path.name}: {call}"
        for path in Path(alloc.__file__).parent.rglob("*.py")
        for call in BARE.findall(path.read_text())
        if not re.search(r"""['"][;.]['"]\)\} $""", call)
    ]
    assert found == []
