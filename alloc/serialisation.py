"""Serialisation: how types reach the JSON documents of themselves, which are made above them.

`alloc.documents` imports every type that it reads and writes, so no type may import it. What a type
needs for its methods `to_json` and `from_json` it asks for here; the front door `alloc`, which is
open before any part of it, says who answers.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class DocumentFormat(Protocol[T]):
    """How values of one type are written and read."""

    def write(self, value: T, path: str | PathLike[str] | None = None) -> str:
        """Return a value as a JSON document, and write it if a path is given."""
        ...

    def parse(self, text: str | bytes) -> T:
        """Read a value from the text of a JSON document."""
        ...

    def load(self, path: str | PathLike[str]) -> T:
        """Read a value from a JSON file."""
        ...

    def fingerprint(self, value: T) -> str:
        """Return the SHA-256 of the problem that a value is, hexadecimal."""
        ...


_answers: list[Callable[[Any], DocumentFormat[Any]]] = []


def answer_with(format_of_type: Callable[[Any], DocumentFormat[Any]]) -> None:
    """Let a function answer `document_format` from now on."""
    _answers[:] = [format_of_type]


def document_format(record_class: type[T]) -> DocumentFormat[T]:
    """Return how values of a type are written and read."""
    found: DocumentFormat[T] = _answers[0](record_class)
    return found
