"""Formats: what it takes to write, parse and load one kind of document, the same for all kinds."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from alloc.collector import collector_paused
from alloc.documents.encoding import header
from alloc.documents.files import read_bytes, write_text
from alloc.documents.heads import parse_document, require_head
from alloc.documents.kinds import KINDS, Kind
from alloc.documents.layout import layout
from alloc.documents.parsing import parse_file
from alloc.documents.plain import is_worth_trying, plain_record
from alloc.documents.shapes import Permutation
from alloc.documents.upgrades import upgraded
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from alloc.documents.models import Part

T = TypeVar("T")
Path = str | PathLike[str]


@dataclass(frozen=True)
class Format(Generic[T]):
    """How values of one type are written and read.

    Parameters
    ----------
    kind
        What the documents are called.
    known
        What they hold.
    """

    kind: str
    known: Kind

    @cached_property
    def models(self) -> tuple[type[Part], ...]:
        """The pydantic models of the documents, one for each type that they may hold."""
        from alloc.documents.records import document_models

        return document_models(self.kind, self.known)

    @cached_property
    def document_type(self) -> Any:
        """What a field of a pydantic model has as its type to hold such a document."""
        from alloc.documents.records import told_apart

        one = len(self.models) == 1
        return self.models[0] if one else told_apart(self.known.types, self.models)

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """What checks the structure of documents, and makes their schema."""
        from pydantic import TypeAdapter

        return TypeAdapter(self.document_type)

    def encode(self, value: T) -> dict[str, Any]:
        """Return a value as a document of plain JSON values.

        Raises
        ------
        InstanceError
            If a name or number in it has no place in a document.
        """
        return {**header(self.kind), **self.known.encode(value)}

    def write(self, value: T, path: Path | None = None) -> str:
        """Return a value as a JSON document, and write it if a path is given.

        Parameters
        ----------
        value
            What the document holds.
        path
            Path of the file, compressed where its name ends in ``.gz``; None writes none.

        Raises
        ------
        InstanceError
            If a name or number in it has no place in a document.
        AllocError
            If the file cannot be written; what was there before is still there.
        """
        with collector_paused():
            text = layout(self.encode(value))
        if path is not None:
            write_text(path, text)
        return text

    def require_structure(self, raw: Any) -> Part:
        """Return the model of a document.

        Raises
        ------
        InstanceError
            If a field is unknown, missing or of the wrong type; one sentence, with the owner.
        """
        from alloc.documents.checked import checked
        from alloc.documents.places import root_name

        raw = upgraded(raw, self.kind)
        return checked(raw, self.adapter, self.models, root_name(raw, self.kind))

    def decode(self, raw: Mapping[str, Any], size: float = math.inf) -> T:
        """Return the value of a document of plain JSON values.

        Parameters
        ----------
        raw
            The document.
        size
            Length of its text, bytes: small ones may need no library to be checked.

        Raises
        ------
        InstanceError
            If the document is malformed or contradicts itself.
        """
        record = None
        if is_worth_trying(size) and len(self.known.types) == 1:
            record = plain_record(upgraded(raw, self.kind), self.known.types[0], self.kind)
        if record is None:
            from alloc.documents.building import built

            record = built(self.require_structure(raw))
        value: T = self.known.decode(record)
        return value

    def fingerprint(self, value: T) -> str:
        """Return the SHA-256 of the problem that a value is, hexadecimal."""
        with collector_paused():
            return hashlib.sha256(self.known.canonical(value)).hexdigest()

    def parse(self, text: str | bytes) -> T:
        """Read a value from the text of a JSON document.

        Raises
        ------
        InstanceError
            If the document is malformed or contradicts itself.
        """
        with collector_paused():
            return self.decode(parse_document(text, self.kind), len(text))

    def load(self, path: Path) -> T:
        """Read a value from a JSON or YAML file; what is wrong is said with the file's name.

        Raises
        ------
        InstanceError
            If there is no such file, or its document is malformed or contradicts itself.
        """
        data = read_bytes(path)
        try:
            with collector_paused():
                raw = parse_file(data, path, f"the {self.kind} document")
                return self.decode(require_head(raw, self.kind), len(data))
        except InstanceError as error:
            raise InstanceError(f"{path}: {error}") from None


@cache
def format_of(kind: str) -> Format[Any]:
    """Return the format of a kind of document with a published schema."""
    return Format(kind, KINDS[kind])


def format_of_type(record_class: type[T]) -> Format[T]:
    """Return the format of the documents with a published schema that hold a type.

    Raises
    ------
    InstanceError
        If it has none.
    """
    wanted: Any = Permutation if record_class is np.ndarray else record_class
    kind = KINDS.of_type(wanted)
    if kind is None:
        raise InstanceError(
            f"{record_class.__name__} has no document; give a problem, a solution or a result of "
            "alloc, or a topology."
        )
    return format_of(kind)


def record_format(record_class: type[T], kind: str) -> Format[T]:
    """Return the format of the documents of any dataclass, of a kind of their own.

    Parameters
    ----------
    record_class
        The dataclass.
    kind
        What the documents are called.
    """
    return Format(kind, Kind((record_class,)))


def record_of(body: Mapping[str, Any], record_class: type[T], where: str) -> T:
    """Return the dataclass that plain JSON values describe.

    Parameters
    ----------
    body
        The fields.
    record_class
        The dataclass.
    where
        What they are the fields of, for messages.

    Raises
    ------
    InstanceError
        If they are malformed or contradict each other; one sentence with place and cure.
    """
    from alloc.documents.building import built
    from alloc.documents.checked import checked
    from alloc.documents.records import adapter_of, model_of

    known = cast(Any, record_class)
    value: T = built(checked(body, adapter_of(known), (model_of(known),), where))
    return value
