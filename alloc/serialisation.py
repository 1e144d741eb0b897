"""Serialisation: how types reach the JSON documents of themselves, which are made above them.

`alloc.documents` imports every type that it reads and writes, so no type may import it. What a type
needs for its methods `to_json` and `from_json` it asks for here; the front door `alloc`, which is
open before any part of it, says who answers. Tables (`alloc.tabular`) are reached the same way.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""`import alloc` loads this module, and `typing` would take ten times as long as all of it."""

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import Any, Protocol, Self, TypeVar

    T = TypeVar("T")

    class DocumentFormat(Protocol[T]):
        """How values of one type are written and read."""

        @property
        def kind(self) -> str:
            """What the documents are called."""
            ...

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
_table_makers: list[Callable[[], Any]] = []


def answer_with(
    format_of_type: Callable[[Any], DocumentFormat[Any]], tables: Callable[[], Any]
) -> None:
    """Let functions answer `document_format` and `table_maker` from now on.

    Parameters
    ----------
    format_of_type
        Gives the document format of a type.
    tables
        Gives the module that makes tables of values.
    """
    _answers[:] = [format_of_type]
    _table_makers[:] = [tables]


def table_maker() -> Any:
    """Return the module that makes tables of values: `alloc.report.notebook`."""
    return _table_makers[0]()


def document_format(record_class: type[T]) -> DocumentFormat[T]:
    """Return how values of a type are written and read."""
    found: DocumentFormat[T] = _answers[0](record_class)
    return found


class Documented:
    """Base of the dataclasses that have documents of their own."""

    @property
    def kind(self) -> str:
        """What its documents are called."""
        return document_format(type(self)).kind

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        import dataclasses  # here, since it is as slow to load as `typing`
        from typing import cast

        return cast("Self", dataclasses.replace(cast("Any", self), **changes))

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return it as a JSON document, and write it if a path is given.

        Parameters
        ----------
        path
            Path of the file, or None to write none; compressed where its name ends in ``.gz``.

        Raises
        ------
        InstanceError
            If a name or number in it has no place in a document.
        AllocError
            If the file cannot be written; what was there before is still there.
        """
        return document_format(type(self)).write(self, path)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read one from the text of a JSON document.

        Raises
        ------
        InstanceError
            If the document is malformed; the message names the part, the value and the cure.
        """
        return document_format(cls).parse(text)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read one from a JSON file (plain, or gzip when the name ends in ``.gz``)."""
        return document_format(cls).load(path)
