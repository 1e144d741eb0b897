"""Layout: JSON with one line per job, host, configuration or run.

A reader sees the shape at a glance, a diff shows the jobs that changed, and files stay small.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from alloc.errors import InstanceError

# Their members are spread over lines too.
_ROOMS = ("topology", "configuration_sets", "solution", "result")
# Lists of plain values that have one line each all the same.
_LONG = ("log", "assumptions")


def layout(document: dict[str, Any]) -> str:
    """Return a document as JSON text that ends in a newline.

    Raises
    ------
    InstanceError
        If a name in it cannot be written as UTF-8.
    """
    text = _spread(document, _top(document), "") + "\n"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        before = text[max(error.start - 20, 0) : error.end].rpartition("\n")[2]
        bad = before.encode("ascii", "backslashreplace")
        raise InstanceError(
            f"the document holds half a character ({bad.decode()}), which no file can hold; "
            "rename what is named so."
        ) from None
    return text


def _top(document: dict[str, Any]) -> Iterable[str]:
    for key, value in document.items():
        if key in _ROOMS and isinstance(value, dict) and value:
            members = (f"{_line(name)}: {_member(name, item)}" for name, item in value.items())
            yield f"{_line(key)}: {_spread(value, members, '  ')}"
        else:
            yield f"{_line(key)}: {_member(key, value, '  ')}"


def _member(key: str, value: Any, indent: str = "    ") -> str:
    """Return a value, one line per item if the items are objects."""
    if isinstance(value, dict) and value:
        items = (f"{_line(name)}: {_line(item)}" for name, item in value.items())
        return _spread(value, items, indent)
    if isinstance(value, list) and value and (isinstance(value[0], dict | list) or key in _LONG):
        return _spread(value, map(_line, value), indent)
    return _line(value)


def _spread(value: Any, lines: Iterable[str], indent: str) -> str:
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = f",\n{indent}  ".join(lines)
    return f"{opening}\n{indent}  {inner}\n{indent}{closing}"


# Made once: `json.dumps` makes one a line, which takes longer than to write a short line.
_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
