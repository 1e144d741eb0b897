"""Canonical JSON: keys sorted, defaults left out, equal numbers alike; what fingerprints are of.

The text is written straight from the dataclasses: to make plain values of them first, and to hand
those to a general JSON writer, takes four times as long, and may take longer than the solve. Many
records of a type are written field by field, each field for all of them: most hold few different
values, and many hold their default everywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from functools import cache
from itertools import chain, islice, repeat
from json.encoder import encode_basestring_ascii
from operator import attrgetter, is_
from typing import Any

import numpy as np

from alloc.documents.encoding import MAX_WHOLE, encode, field_writers, finite
from alloc.documents.shapes import shape_of

_NOTHING: Mapping[str, Any] = {}
_NUMBERS = (int, float, bool)
"""Types of which equal values have equal texts."""
_MANY = 16
"""Values of a tuple from which they are written together: of fewer, one by one is as quick."""
Known = dict[int, tuple[Any, str]]
"""Each tuple with its text, by its id: jobs share many. The value is kept, since the id of what is
gone may be that of another."""
_OWN_TEXT = "_canonical_text"
"""Where a record that documents repeat keeps its text."""


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
        if (leave_out and name in leave_out) or _is_default(value, default):
            continue
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
            one_by_one = len(value) < _MANY
            items = [text_of(v, known, field) for v in value] if one_by_one else ()
            text = f"[{','.join(items or texts_of(value, known, field))}]"
            found = known[id(value)] = value, text
        return found[1]
    if kind is int and -MAX_WHOLE < value < MAX_WHOLE:
        return repr(value)
    if is_dataclass(value):
        if not shape_of(kind).repeated:
            return text_of_record(value, known)
        return _kept_texts((value,), known)[0]
    return _dumped(encode(value, field))


def texts_of(values: Sequence[Any], known: Known, field: str = "value") -> list[str]:
    """Return many values as canonical JSON: what `text_of` says of each.

    Parameters
    ----------
    values, known, field
        As in `text_of`.
    """
    kinds = {*map(type, values)}
    kind: Any = kinds.pop() if len(kinds) == 1 else None
    is_record = is_dataclass(kind)
    if kind is str:
        return [*map(encode_basestring_ascii, values)]
    if kind in _NUMBERS:
        table = {value: text_of(value, known, field) for value in {*values}}
        return [*map(table.__getitem__, values)]
    if kind is tuple:
        return _told_once(values, known, _texts_of_tuples)
    if not is_record:
        return [text_of(value, known, field) for value in values]
    if shape_of(kind).repeated:
        return _kept_texts(values, known)
    return texts_of_records(values, known)


def _told_once(
    values: Sequence[Any], known: Known, write: Callable[[Sequence[Any], Known], list[str]]
) -> list[str]:
    """Return texts of which each is written once, however often its value comes."""
    by_id = dict(zip(map(id, values), values, strict=True))
    if len(by_id) == len(values) and known.keys().isdisjoint(by_id):
        return write(values, known)
    new = [value for key, value in by_id.items() if key not in known]
    texts = write(new, known)
    known.update(zip(map(id, new), zip(new, texts, strict=True), strict=True))
    return [known[id(value)][1] for value in values]


def _kept_texts(records: Sequence[Any], known: Known) -> list[str]:
    """Return texts that are kept with their records, as cached properties are.

    Documents, and one document after the other, hold the same few of these (`repeated`).
    """
    texts = [record.__dict__.get(_OWN_TEXT) for record in records]
    if None in texts:
        new = {id(record): record for record, text in zip(records, texts, strict=True) if not text}
        for record, text in zip(
            new.values(), texts_of_records([*new.values()], known), strict=True
        ):
            record.__dict__[_OWN_TEXT] = text
        texts = [record.__dict__[_OWN_TEXT] for record in records]
    return texts


def _texts_of_tuples(tuples: Sequence[tuple[Any, ...]], known: Known) -> list[str]:
    items = texts_of([*chain.from_iterable(tuples)], known)
    if len(items) == len(tuples) and all(tuples):
        return [f"[{item}]" for item in items]
    left = iter(items)
    return [f"[{','.join([*islice(left, len(own))])}]" for own in tuples]


def texts_of_records(
    records: Sequence[Any], known: Known, given: Mapping[str, Sequence[str]] = _NOTHING
) -> list[str]:
    """Return dataclasses of one type as canonical JSON: what `text_of_record` says of each.

    Parameters
    ----------
    records
        The dataclasses.
    known
        Texts of tuples; those of these are added.
    given
        Texts of fields that are written in another way, one for each record, by name.
    """
    columns: list[Iterable[str]] = []
    is_full = True  # Else "" stands for what is left out.
    kind: Any = type(records[0]) if records else None
    for name, head, default, write in _fields(kind) if records else ():
        if name in given:
            columns.append([head + text for text in given[name]])
            continue
        values = [*map(attrgetter(name), records)]
        if all(map(is_, values, repeat(values[0]))):
            if not _is_default(values[0], default):
                columns.append(
                    repeat(head + _texts(values[:1], known, name, write)[0], len(values))
                )
        elif default is MISSING:
            columns.append([head + text for text in _texts(values, known, name, write)])
        else:
            by_id = dict(zip(map(id, values), values, strict=True))
            told = {key: v for key, v in by_id.items() if not _is_default(v, default)}
            texts = _texts([*told.values()], known, name, write)
            members = dict.fromkeys(by_id, "")
            members.update(zip(told, [head + text for text in texts], strict=True))
            is_full = is_full and len(told) == len(by_id)
            columns.append([*map(members.__getitem__, map(id, values))])
    if not columns:
        return ["{}"] * len(records)
    rows: Any = zip(*columns, strict=True)
    if is_full:
        return [f"{{{','.join(row)}}}" for row in rows]
    return [f"{{{','.join(filter(None, row))}}}" for row in rows]


def _texts(
    values: Sequence[Any], known: Known, name: str, write: Callable[[Any, str], Any] | None
) -> list[str]:
    """Return values of a field, which may have a form of its own."""
    if write is None:
        return texts_of(values, known, name)
    return [_dumped(write(value, name)) for value in values]


def _is_default(value: Any, default: Any) -> bool:
    """Return whether a value is left out. What is not the default may still be equal to it."""
    if value is default:
        return True
    # An array has no one answer.
    return not (default is MISSING or isinstance(value, np.ndarray) or value != default)


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
