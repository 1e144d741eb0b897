"""Values of YAML and JSON that know where in the file they stand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from alloc.documents.yaml_events import Path
from alloc.errors import InstanceError, nearest
from alloc.instances.topologies.place import Place, shown

_MAX_COUNT = 10**9
"""Above it a count of nodes, GPUs or links is a mistake, and sums stay within 64 bits."""
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


class Lines:
    """Finds the line of a value when a message needs it: good files never pay for it."""

    def __init__(self, find: Callable[[], dict[Path, int]]) -> None:
        self._find = find

    @cached_property
    def _found(self) -> dict[Path, int]:
        return self._find()

    def of(self, path: Path) -> int | None:
        """Return the line of a value, or None."""
        # What an alias unfolds to stands where the alias stands.
        while path and path not in self._found:
            path = path[:-1]
        return self._found.get(path)


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in a YAML or JSON file.

    Attributes
    ----------
    value
        The plain value: dict, list, str, int, float, bool or None.
    path
        The keys and positions that lead to it; in YAML the number of the document comes first.
    """

    value: Any
    path: Path
    _file: str
    _lines: Lines
    _root: int = 0

    @property
    def where(self) -> Place:
        """Its place in the file."""
        return Place(self._file, lambda: self._lines.of(self.path))

    @property
    def label(self) -> str:
        """What it is called in messages: ``spec.levels[2].nodeLabel``."""
        parts = [
            f"[{part}]" if isinstance(part, int) else f".{shown(part)[1:-1]}"
            for part in self.path[self._root :]
        ]
        label = "".join(parts).lstrip(".")
        return label if len(label) <= 80 else f"...{label[-77:]}"

    def error(self, sentence: str) -> InstanceError:
        """Return the error that says a sentence about this place."""
        return self.where.error(sentence)

    def get(self, key: str) -> Entry | None:
        """Return the value under a key, or None where there is none or it is null."""
        value = self._mapping().get(key)
        return None if value is None else self._child(key, value)

    def need(self, key: str) -> Entry:
        """Return the value under a key that must be there.

        Raises
        ------
        InstanceError
            If this is not a mapping or has no such key.
        """
        found = self.get(key)
        if found is None:
            if key in self._mapping():
                child = self._child(key, None)
                raise child.error(f"{child.label} is empty; fill it in.")
            what = self.label or "the document"
            raise self.error(f'{what} has no "{key}"{nearest(key, self._mapping(), "; add it.")}')
        return found

    def items(self) -> Iterator[tuple[str, Entry]]:
        """Yield the keys of a mapping with their values.

        Raises
        ------
        InstanceError
            If this is not a mapping.
        """
        return ((key, self._child(key, value)) for key, value in self._mapping().items())

    def elements(self) -> Iterator[Entry]:
        """Yield the elements of a list.

        Raises
        ------
        InstanceError
            If this is not a list.
        """
        if not isinstance(self.value, list):
            self._refuse("a list")
        return (self._child(k, value) for k, value in enumerate(self.value))

    def text(self) -> str:
        """Return a text that is not empty.

        Raises
        ------
        InstanceError
            If this is something else.
        """
        if not isinstance(self.value, str) or not self.value:
            self._refuse("a text")
        return self.value

    def count(self, least: int = 0) -> int:
        """Return a whole number of `least` or more.

        Raises
        ------
        InstanceError
            If this is something else.
        """
        value = self.value
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self._refuse("a whole number")
        if value < least:
            raise self.error(f"{self.label} is {value}; it must be {least} or more.")
        if value > _MAX_COUNT:
            raise self.error(f"{self.label} is {value}; it must be at most {_MAX_COUNT}.")
        return value

    def flag(self) -> bool:
        """Return true or false.

        Raises
        ------
        InstanceError
            If this is something else.
        """
        word = str(self.value).lower()
        if word not in _TRUE + _FALSE:
            self._refuse("true or false")
        return word in _TRUE

    def _mapping(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            self._refuse("a mapping")
        return self.value

    def _child(self, key: str | int, value: Any) -> Entry:
        return Entry(value, (*self.path, key), self._file, self._lines, self._root)

    def _refuse(self, expected: str) -> NoReturn:
        value = self.value
        if isinstance(value, dict | list):
            came = "a list" if isinstance(value, list) else "a mapping"
        elif value is None or value == "":
            came = "empty"
        else:
            came = shown(value) if isinstance(value, str) else json.dumps(value)
        raise self.error(f"{self.label or 'the document'} is {came}; give {expected}.")
