"""Canonical JSON: keys sorted, defaults left out, equal numbers alike; what fingerprints are of.

The text is written straight from the dataclasses: to make plain values of them first, and to hand
those to a general JSON writer, takes four times as long, and may take longer than the solve.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, is_dataclass
from functools import cache
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np

from alloc.documents.encoding import MAX_WHOLE, encode, field_writers, finite
from alloc.documents.shapes import shape_of

_NOTHING: Mapping[str, str] = {}
Known = dict[int, tuple[Any, str]]
"""Each tuple, and what documents repeat, with its text, by its id: jobs share many. The value is
kept, since the id of what is gone may be that of another."""


def canonical_record(record: Any, leave_out: Collection[str] = ()) -> bytes:
    """Return a dataclass as canonical JSON, without the fields that have their default.

    Parameters
    ----------
    record
        The dataclass.
    leave_out
        Names of fields that are left out.

    Raises
    ------
    InstanceError
        If a number is not finite, or a value has no place in a document.
    """
    return text_of_record(record, {}, leave_out).encode("ascii")


def fingerprint(record: Any) -> str:
    """Return the SHA-256 of a dataclass in canonical JSON, hexadecimal."""
    return hashlib.sha256(canonical_record(record)).hexdigest()


def text_of_record(
    record: Any, known: Known, leave_out: Collection[str] = (), more: Mapping[str, str] = _NOTHING
) -> str:
    """Return a dataclass as canonical JSON.

    Parameters
    ----------
    record
        The dataclass.
    known
        Texts of tuples; those of this one are added.
    leave_out
        Names of fields that are left out.
    more
        Texts of other members, by name.
    """
    members = []
    kind: Any = type(record)
    for name, head, default, write in _fields(kind):
        value = getattr(record, name)
        # What is not the default may still be equal to it, but an array has no one answer.
        if value is default or (leave_out and name in leave_out):
            continue
        if default is MISSING or isinstance(value, np.ndarray) or value != default:
            text = text_of(value, known, name) if write is None else _dumped(write(value, name))
            members.append(head + text)
    if more:
        members = sorted([*members, *(f'"{name}":{text}' for name, text in more.items())])
    return "{" + ",".join(members) + "}"


def text_of(value: Any, known: Known, field: str = "value") -> str:
    """Return a value as canonical JSON.

    Parameters
    ----------
    value
        What documents may hold.
    known
        Texts of tuples; those of this value are added.
    field
        What it is the value of, for messages.
    """
    kind: Any = type(value)
    if kind is float:
        return repr(finite(value, field))
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is tuple:
        found = known.get(id(value))
        if found is None:
            text = "[" + ",".join([text_of(item, known, field) for item in value]) + "]"
            found = known[id(value)] = value, text
        return found[1]
    if kind is int and -MAX_WHOLE < value < MAX_WHOLE:
        return repr(value)
    if is_dataclass(value):
        if not shape_of(kind).repeated:
            return text_of_record(value, known)
        found = known.get(id(value))
        if found is None:
            found = known[id(value)] = value, text_of_record(value, known)
        return found[1]
    return _dumped(encode(value, field))


@cache
def _fields(kind: Any) -> tuple[tuple[str, str, Any, Callable[[Any, str], Any] | None], ...]:
    """Return names, keys, defaults and writers of what is written of a dataclass, by name."""
    shape, found = shape_of(kind), list(field_writers(kind))
    heads = {name: f'"{name}":' for name, _, _ in found}
    if shape.tag and shape.typed:
        found.append(("__class__", MISSING, lambda kind, name: shape.tag))
        heads["__class__"] = '"type":'
    return tuple(
        (name, heads[name], default, write)
        for name, default, write in sorted(found, key=lambda field: heads[field[0]])
    )


def _dumped(plain: Any) -> str:
    return json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
