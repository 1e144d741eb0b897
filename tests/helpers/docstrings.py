"""What docstrings say, by section."""

from __future__ import annotations

import inspect
import re


def named(doc: str | None) -> set[str]:
    """The names under `Parameters`, or under what a class says of its own."""
    found = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}|\Z)", inspect.cleandoc(doc or ""), re.M | re.S
    )
    lines = found[1].splitlines() if found else []
    heads = [line.partition(" : ")[0] for line in lines if line and not line[0].isspace()]
    return {word.strip().lstrip("*") for head in heads for word in head.split(",")}
