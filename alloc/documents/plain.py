"""Plain documents: small ones that need no library to be checked.

To load pydantic and make the models of a document takes longer than to read, solve and print a
small problem. Here the types of fields are looked at one by one, as strictly as the models do, and
the dataclasses are made at once. It is for what is as it should be and in no way special: of
everything else, whatever is wrong included, nothing is said here, and the models of
`alloc.documents.records` read it again from the beginning.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from alloc.documents.constants import version_of
from alloc.documents.fields import default_of, is_record
from alloc.documents.kept import REPEATED, kept
from alloc.documents.shapes import Special, shape_of
from alloc.errors import InstanceError

SMALL = 64 * 1024
"""Bytes of a text up to which it is read here where pydantic is not loaded.

To load it takes as long as to read a megabyte; what is much larger is slower here than by models.
"""
_TINY = 8 * 1024
"""Bytes up to which it is read here even where pydantic is loaded: the models are slower still."""
_WHOLE = 2**63
"""Whole numbers lie below it and not below its negative: what integer arrays hold."""

Read = Callable[[Any, Any], Any]
"""Turns a plain JSON value, given what the document shares, into that of a field."""


def is_worth_trying(size: float) -> bool:
    """Return whether to read a document here; `size` is the length of its text, bytes."""
    return size <= (_TINY if "pydantic" in sys.modules else SMALL)


class _NotPlain(Exception):
    """The document is wrong, or special; which of them is not looked at."""


def plain_record(raw: Mapping[str, Any], record_class: Any, kind: str) -> Any:
    """Return the dataclass that a document describes, or None if it is not plain.

    Parameters
    ----------
    raw
        The document, plain JSON values.
    record_class
        The dataclass.
    kind
        What the documents are called.
    """
    version = raw.get("schema_version")
    if type(version) is not int or version != version_of(kind) or raw.get("kind") != kind:
        return None
    fields = {name: raw[name] for name in raw if name not in ("schema_version", "kind")}
    try:
        return _made(_plan(record_class), fields, None)
    except _NotPlain:
        return None


@dataclasses.dataclass(frozen=True)
class _Plan:
    """How the documents of a dataclass are read; `required` are fields that have no default."""

    record_class: Any
    required: frozenset[str]
    readers: Mapping[str, Read]
    shared: tuple[str, Read] | None
    repeated: bool


@cache
def _plan(record_class: Any) -> _Plan:
    shape, hints = shape_of(record_class), get_type_hints(record_class)
    members = dataclasses.fields(record_class)
    readers = {m.name: _field_reader(hints[m.name], shape.fields.get(m.name)) for m in members}
    shared = None
    if shape.shared is not None:
        shared = (shape.shared.name, _reader(shape.shared.type))
    missing = dataclasses.MISSING
    required = frozenset(m.name for m in members if default_of(m, missing) is missing)
    if shape.tag and shape.typed:
        readers = {}  # it says which class it is
    return _Plan(record_class, required, readers, shared, shape.repeated)


def _made(plan: _Plan, raw: Any, shared: Any) -> Any:
    """Return the dataclass that a plain JSON value describes."""
    if type(raw) is not dict or not plan.required <= raw.keys():
        raise _NotPlain
    readers = plan.readers
    given = {}
    try:
        if plan.shared is not None:
            name, read = plan.shared
            shared = read(raw.get(name, {}), shared)
            raw = {field: raw[field] for field in raw if field != name}
        for name, value in raw.items():
            given[name] = readers[name](value, shared)
        if not plan.repeated:
            return kept(plan.record_class(**given))
        return _repeated(plan.record_class, given)
    except (KeyError, InstanceError):
        raise _NotPlain from None


def _repeated(record_class: Any, given: Mapping[str, Any]) -> Any:
    """Return a record with these fields, the same one for the same fields."""
    key = (record_class, *given, *given.values())
    try:
        known = REPEATED.get(key)
    except TypeError:  # a mapping is no key
        return record_class(**given)
    return REPEATED.setdefault(key, record_class(**given)) if known is None else known


def _field_reader(hint: Any, special: Special | None) -> Read:
    if special is None or (special.type is None and special.read is None):
        return _reader(hint)
    read, usual = special.read, _reader(hint)
    if read is None or not (special.type is None or special.named):
        return _refuse
    named = special.named

    def one(value: Any, shared: Any) -> Any:
        if named and type(value) is str:
            return read(_text(value, shared), shared, usual)
        return read(value, shared, usual)

    return one


def _reader(hint: Any) -> Read:
    """Return what reads a value of a type."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if is_record(hint):
        record_class = origin or hint
        return lambda value, shared: _made(_plan(record_class), value, shared)
    if origin is Literal and {*map(type, arguments)} == {str}:
        return _one_of(frozenset(arguments))
    if origin is Sequence or (origin is tuple and arguments[1:] == (Ellipsis,)):
        return _list_of(_reader(arguments[0]))
    if origin is tuple:
        return _row_of([*map(_reader, arguments)])
    if origin in (Mapping, dict) and arguments[0] is str:
        return _mapping_of(_reader(arguments[1]))
    if origin in (Union, types.UnionType):
        rest = [one for one in arguments if one is not types.NoneType]
        if len(rest) == 1:
            return _optional(_reader(rest[0]))
    return _refuse


def _refuse(value: Any, shared: Any) -> Any:
    raise _NotPlain


def _text(value: Any, shared: Any) -> str:
    if type(value) is not str:
        raise _NotPlain
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # half a character
            raise _NotPlain from None
    return value


def _whole(value: Any, shared: Any) -> int:
    if type(value) is not int or not -_WHOLE <= value < _WHOLE:
        raise _NotPlain
    return value


def _number(value: Any, shared: Any) -> float:
    if type(value) is int and -_WHOLE <= value < _WHOLE:
        return float(value)
    if type(value) is not float or not math.isfinite(value):
        raise _NotPlain
    return value


def _flag(value: Any, shared: Any) -> bool:
    if type(value) is not bool:
        raise _NotPlain
    return value


_SIMPLE: Mapping[Any, Read] = {str: _text, int: _whole, float: _number, bool: _flag}


def _one_of(words: frozenset[str]) -> Read:
    def read(value: Any, shared: Any) -> str:
        if type(value) is not str or value not in words:
            raise _NotPlain
        return value

    return read


def _optional(inner: Read) -> Read:
    return lambda value, shared: None if value is None else inner(value, shared)


def _list_of(inner: Read) -> Read:
    def read(values: Any, shared: Any) -> tuple[Any, ...]:
        if type(values) is not list:
            raise _NotPlain
        return tuple([inner(value, shared) for value in values])

    return read


def _row_of(inner: Sequence[Read]) -> Read:
    def read(values: Any, shared: Any) -> tuple[Any, ...]:
        if type(values) is not list or len(values) != len(inner):
            raise _NotPlain
        return tuple([one(value, shared) for one, value in zip(inner, values, strict=True)])

    return read


def _mapping_of(inner: Read) -> Read:
    def read(mapping: Any, shared: Any) -> dict[str, Any]:
        if type(mapping) is not dict:
            raise _NotPlain
        return {_text(key, None): inner(value, shared) for key, value in mapping.items()}

    return read
