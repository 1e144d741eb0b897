"""JSON with lines: read at the speed of the library, and again when a message needs a line."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, NoReturn

from alloc.documents.yaml_events import OpenContainer, Path
from alloc.instances.topologies.entries import Entry, Lines
from alloc.instances.topologies.place import Place, shown

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


def json_entry(file: str, text: str) -> Entry:
    """Return the value of a JSON text.

    Parameters
    ----------
    file
        Name of the file, for messages.
    text
        Its content.

    Raises
    ------
    InstanceError
        If it is not JSON, is nested too deep or names a key twice.
    """
    place = Place(file)
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Place(file, error.lineno).error(
            f"is not JSON ({error.msg}, column {error.colno}); correct it there."
        ) from None
    except _DoubleKeyError as error:
        line = _line_of_double(text, error.key)
        raise Place(file, line).error(
            f"names {shown(error.key)} twice in one object; name every key once."
        ) from None
    except RecursionError:
        raise place.error("is nested too deep; this is not a topology.") from None
    except ValueError as error:
        raise place.error(f"holds a number that cannot be read ({error}).") from None
    return Entry(value, (), file, Lines(lambda: _json_lines(text)))


class _DoubleKeyError(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DoubleKeyError(key)
            seen.add(key)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _json_lines(text: str) -> dict[Path, int]:
    """Return the line of every value of a JSON text that can be read."""
    lines: dict[Path, int] = {}
    stack: list[OpenContainer] = []
    line, last = 1, 0
    for token in _JSON_TOKEN.finditer(text):
        line += text.count("\n", last, token.start())
        last = token.start()
        word = token[0]
        top = stack[-1] if stack else None
        if word in (",", ":"):
            continue
        if word in ("]", "}"):
            stack.pop()
            continue
        if top is not None and isinstance(top.container, dict) and top.key is None:
            top.key = json.loads(word)
            lines[top.next_path()] = line
            continue
        path = () if top is None else top.next_path()
        lines.setdefault(path, line)
        if top is not None:
            top.add(None)
        if word in ("[", "{"):
            stack.append(OpenContainer(path, [] if word == "[" else {}))
    return lines


def _line_of_double(text: str, key: str) -> int | None:
    """Return the line where an object names a key for the second time."""
    keys: list[set[str] | None] = []
    tokens = list(_JSON_TOKEN.finditer(text))
    for token, after in pairwise(tokens):
        if token[0] in ("[", "{"):
            keys.append(set() if token[0] == "{" else None)
        elif token[0] in ("]", "}"):
            keys.pop()
        elif after[0] == ":" and token[0] not in (",", ":") and keys:
            seen, name = keys[-1], json.loads(token[0])
            if seen is not None and name == key and name in seen:
                return text.count("\n", 0, token.start()) + 1
            if seen is not None:
                seen.add(name)
    return None
