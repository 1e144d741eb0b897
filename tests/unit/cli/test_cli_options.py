"""One meaning per option: the same name has the same value and help in every command."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from alloc.cli.application import app
from alloc.cli.renamed import RENAMED

EXCEPTIONS = {
    # Model cards of shipped policies print the command that trained them, which has to run.
    *(
        (f"train {name}", "--output")
        for name in (
            *("set-policy", "window-policy", "dl2"),
            *("selector", "two-level", "placement-agent", "decima"),
        )
    ),
    # It writes YAML.
    ("plan init", "--output"),
    # It writes a policy as it is, no JSON.
    ("policies export", "--output"),
}
"""Options that mean something of their own in a command, with the reason."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command and group with its path."""
    yield " ".join(path), command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


ALL = dict(commands(get_command(app)))


def first_sentence(text: str) -> str:
    return re.split(r"\. |; ", text)[0].rstrip(".")


def kind_of(parameter: Any) -> str:
    """Return the type of an option's value, whatever its range and default."""
    found = getattr(parameter, "type_descriptor", None)
    if found is None:  # typer that builds on click
        return type(parameter.type).__name__.replace("Range", "").replace("ParamType", "")
    return str(found.annotation)


def options_of(command: Any) -> Iterator[Any]:
    yield from (p for p in command.params if p.param_type_name == "option")


MEANINGS: dict[str, set[tuple[object, ...]]] = defaultdict(set)
SPELLINGS: dict[str, set[tuple[str, ...]]] = defaultdict(set)
for path, command in ALL.items():
    for option in options_of(command):
        if (path, option.opts[0]) not in EXCEPTIONS:
            help_text = first_sentence(option.help or "")
            MEANINGS[option.opts[0]].add(
                (kind_of(option), option.multiple, option.metavar, help_text)
            )
        for name in option.opts:
            SPELLINGS[name].add(tuple(sorted(option.opts)))


@pytest.mark.parametrize("name", MEANINGS)
def test_an_option_means_the_same_in_every_command(name):
    """Type, placeholder and the first sentence of the help; a command may say more after it."""
    assert len(MEANINGS[name]) == 1, sorted(map(str, MEANINGS[name]))


def test_an_option_is_spelled_in_one_way_and_a_letter_is_one_option():
    assert {name: found for name, found in SPELLINGS.items() if len(found) > 1} == {}
    long = [[n for n in names if n.startswith("--")] for (names, *_) in SPELLINGS.values()]
    assert [names for names in long if len(names) > 1] == []


def test_every_value_has_a_placeholder_in_capitals():
    """`FILE`, `SECONDS` or `a|b`: never the name of a Python type."""
    wrong = [
        f"{path} {parameter.name}: {parameter.metavar}"
        for path, command in ALL.items()
        for parameter in command.params
        if not getattr(parameter, "is_flag", False)
        and not re.fullmatch(r"[A-Z\[][A-Z,|=/\[\].]*|[a-z]+(\|[a-z]+)+", parameter.metavar or "")
    ]
    assert wrong == []


@pytest.mark.parametrize(("path", "old"), RENAMED)
def test_an_old_spelling_is_refused_with_the_new_one(run, path, old):
    """One sentence, and the new spelling is one that the command has."""
    new = RENAMED[path, old]
    named = re.match(r"--[a-z-]+", new)
    assert named is not None
    assert named[0] in {name for o in options_of(ALL[path]) for name in o.opts}
    assert old not in {name for option in options_of(ALL[path]) for name in option.opts}
    done = run(*path.split(), old, "x")
    assert done.exit_code == 2
    assert f"{old} is {new} now" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_old_spelling_is_known_however_the_program_is_called():
    """As ``python -m alloc`` its name is of three words."""
    asked = [sys.executable, "-m", "alloc", "solve", "x", "--method", "highs"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--method is --backend now" in done.stderr


@pytest.mark.parametrize(
    ("words", "need"),
    [
        (("solve", "x", "--time-limit", "60s"), "--time-limit needs a number alone"),
        (("solve", "x", "--gap", "1%"), "--gap needs a number alone, without a unit or %"),
        (("solve", "x", "--seed", "1.5"), "--seed needs a whole number alone"),
    ],
)
def test_a_value_that_is_no_number_is_refused_in_plain_words(run, words, need):
    done = run(*words)
    assert done.exit_code == 2
    assert need in done.stderr
    assert "parse" not in done.stderr


def test_the_help_shows_no_type_behind_a_flag(run):
    """`--json <bool>` reads as if a value had to follow; only the parser's own --help has it."""
    shown = run("solve", "--help").stdout
    assert all("<bool>" not in line for line in shown.splitlines() if "--help" not in line)
