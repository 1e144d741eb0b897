"""Formats: what it takes to write, parse and load one kind of document, the same for all kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Generic, TypeVar

from alloc.documents.files import read_bytes, write_text
from alloc.documents.layout import layout
from alloc.documents.models import Kind
from alloc.documents.parsing import parse_document
from alloc.errors import InstanceError

T = TypeVar("T")
Path = str | PathLike[str]


@dataclass(frozen=True)
class Format(Generic[T]):
    """How values of one type are written and read.

    Parameters
    ----------
    encode
        Returns a value as plain JSON values.
    read
        Returns the value of a document's text.
    """

    encode: Callable[[T], dict[str, Any]]
    read: Callable[[str | bytes], T]

    def write(self, value: T, path: Path | None = None) -> str:
        """Return a value as a JSON document, and write it if a path is given.

        Raises
        ------
        InstanceError
            If a name or number in it has no place in a document.
        AllocError
            If the file cannot be written; what was there before is still there.
        """
        text = layout(self.encode(value))
        if path is not None:
            write_text(path, text)
        return text

    def parse(self, text: str | bytes) -> T:
        """Read a value from the text of a JSON document.

        Raises
        ------
        InstanceError
            If the document is malformed or contradicts itself.
        """
        return self.read(text)

    def load(self, path: Path) -> T:
        """Read a value from a JSON file; what is wrong in it is said with the file's name.

        Raises
        ------
        InstanceError
            If there is no such file, or its document is malformed or contradicts itself.
        """
        data = read_bytes(path)
        try:
            return self.read(data)
        except InstanceError as error:
            raise InstanceError(f"{path}: {error}") from None


def format_of(
    kind: Kind,
    encode: Callable[[T], dict[str, Any]],
    decode: Callable[[Mapping[str, Any]], T],
) -> Format[T]:
    """Return the format of a kind of document with a published schema."""
    return Format(encode, lambda text: decode(parse_document(text, kind)))
