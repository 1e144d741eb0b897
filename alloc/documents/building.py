"""Building: from checked models of documents to the dataclasses, whose own checks then speak."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import numpy as np

from alloc.documents.fields import is_record, scalar_of
from alloc.documents.kept import REPEATED, kept
from alloc.documents.models import Part
from alloc.documents.places import place_of
from alloc.documents.records import field_types, record_class_of
from alloc.documents.shapes import Convert, Special, shape_of
from alloc.documents.tables import Table
from alloc.errors import InstanceError


class _Wrong(Exception):
    """What a dataclass, or the hook of a field, says is wrong; `path` leads to it, from below."""

    def __init__(self, sentence: str, by_field: bool) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.by_field = by_field
        self.path: list[str | int] = []


def built(part: Part) -> Any:
    """Return the dataclass that a checked model of a document describes.

    Raises
    ------
    InstanceError
        If it contradicts itself; a sentence with what the wrong part is a part of.
    """
    try:
        return _build(part, None)
    except _Wrong as wrong:
        place, joint = place_of(part, wrong.path[::-1], wrong.by_field)
        sentence = f"{place}{joint}{wrong.sentence}" if place else wrong.sentence
    raise InstanceError(sentence)


def _build(part: Part, shared: Any) -> Any:
    record_class, common, plain, converted, repeated = _plan(type(part))
    values, stated = part.__dict__, part.__pydantic_fields_set__
    key = None
    if repeated:
        try:
            # A set that was filled in another order makes another key, which only costs time.
            key = (record_class, *stated, *[values[name] for name in stated])
            if (known := REPEATED.get(key)) is not None:
                return known
        except TypeError:  # a mapping is no key
            key = None
    given = {name: values[name] for name in plain & stated}
    name = ""
    try:
        if common is not None:
            name, convert = common
            shared = convert(values[name], shared)
        for name, convert in converted:
            if name in stated:
                given[name] = convert(values[name], shared)
    except _Wrong as wrong:
        wrong.path.append(name)
        raise
    except InstanceError as error:
        raise _Wrong(str(error), by_field=True) from None
    try:
        found = record_class(**given)
    except InstanceError as error:
        raise _Wrong(str(error), by_field=False) from None
    if key is not None:
        return REPEATED.setdefault(key, found)
    return kept(found)


@cache
def _plan(
    model: type[Part],
) -> tuple[Any, tuple[str, Convert] | None, frozenset[str], tuple[tuple[str, Convert], ...], bool]:
    """Return the dataclass of a model, what its parts share, and how its fields are read.

    First the names of the fields that are taken as they are, then the others; last whether
    documents repeat it.
    """
    record_class = record_class_of(model)
    shape, hints = shape_of(record_class), field_types(record_class)
    common = None
    if shape.shared is not None:
        common = (shape.shared.name, _conversion(shape.shared.type) or _as_it_is)
    fields = {
        member.name: _special(member.name, hints[member.name], shape.fields.get(member.name))
        for member in dataclasses.fields(record_class)
    }
    converted = tuple((name, convert) for name, convert in fields.items() if convert is not None)
    plain = frozenset(fields) - dict(converted).keys()
    return record_class, common, plain, converted, shape.repeated


def _special(name: str, hint: Any, special: Special | None) -> Convert | None:
    convert = _array(name, hint) if get_origin(hint) is np.ndarray else _conversion(hint)
    if special is None or special.read is None:
        return convert
    read, usual = special.read, convert or _as_it_is
    return lambda value, shared: read(value, shared, usual)


def _array(name: str, hint: Any) -> Convert:
    def read(values: Any, shared: Any) -> Any:
        try:
            return np.array(values, dtype=scalar_of(hint))
        except ValueError:
            raise InstanceError(
                f"{name} has rows of different lengths; give as many numbers in each."
            ) from None

    return read


def _as_it_is(value: Any, shared: Any) -> Any:
    return value


def _conversion(hint: Any) -> Convert | None:
    """Return how a value of a type is read; None: as it is."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _conversion(arguments[0])
    if is_record(hint):
        return _build
    if origin is Sequence:
        return _conversion(tuple[arguments[0], ...])  # type: ignore[valid-type]
    if origin is tuple:
        inner = [_conversion(a) for a in arguments if a is not Ellipsis]
        if not any(inner):
            return lambda values, shared: tuple(values)
        return _items((len(inner) == 1 and inner[0]) or _any)
    if origin is Mapping:
        convert = _conversion(arguments[1])
        return None if convert is None else _entries(convert)
    if origin in (Union, types.UnionType):
        return _any if any(map(_conversion, arguments)) else None
    return None


def _items(convert: Convert) -> Convert:
    def read(values: Any, shared: Any) -> tuple[Any, ...]:
        if type(values) is Table:
            made = values.made(lambda part: convert(part, shared))
            if made is not None:
                return made
        found: list[Any] = []
        try:
            for value in values:
                found.append(convert(value, shared))
        except _Wrong as wrong:
            wrong.path.append(len(found))
            raise
        return tuple(found)

    return read


def _entries(convert: Convert) -> Convert:
    def read(mapping: Any, shared: Any) -> dict[str, Any]:
        found = {}
        key = ""
        try:
            for key, value in mapping.items():
                found[key] = convert(value, shared)
        except _Wrong as wrong:
            wrong.path.append(key)
            raise
        return found

    return read


def _any(value: Any, shared: Any) -> Any:
    """Read a value by what it is: in a union, the check has chosen already."""
    if isinstance(value, Part):
        return _build(value, shared)
    if isinstance(value, dict):
        return _entries(_any)(value, shared)
    return _items(_any)(value, shared) if isinstance(value, list | tuple) else value
