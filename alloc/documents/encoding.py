"""Encoding: dataclasses as plain JSON values, with defaults left out."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from alloc.documents.constants import version_of
from alloc.documents.fields import default_of
from alloc.documents.shapes import Special, shape_of
from alloc.errors import InstanceError

MAX_WHOLE = 2**63
"""Whole numbers from here on, beyond 64 bits, are written as floats."""
_AS_THEY_ARE = frozenset({str, bool, type(None)})


def header(kind: str) -> dict[str, Any]:
    """Return what every document starts with."""
    return {"schema_version": version_of(kind), "kind": kind}


@cache
def field_writers(kind: Any) -> tuple[tuple[str, Any, Callable[[Any, str], Any] | None], ...]:
    """Return names, defaults and writers of a dataclass's fields, in the order of its documents.

    The default is MISSING where there is none, or where it is written all the same.
    """
    shape, found = shape_of(kind), {}
    for field in dataclasses.fields(kind):
        always = field.name in shape.always
        default = dataclasses.MISSING if always else default_of(field, dataclasses.MISSING)
        found[field.name] = (field.name, default, _writer(shape.fields.get(field.name)))
    middle = [name for name in found if name not in (*shape.first, *shape.last)]
    return tuple(found[name] for name in (*shape.first, *middle, *shape.last))


def _writer(special: Special | None) -> Callable[[Any, str], Any] | None:
    """Return what writes a field that documents hold in another form; None: as any other."""
    if special is None or special.write is None:
        return None
    write, typed = special.write, special.typed

    def written(value: Any, name: str) -> Any:
        other = write(value, name)
        plain = encode(other, name)
        if not typed or other is None:
            return plain
        kind: Any = type(other)
        return {"type": shape_of(kind).tag, **plain}

    return written


def encode_part(part: Any, leave_out: Sequence[str] = ()) -> dict[str, Any]:
    """Return a dataclass as a JSON object without the fields that have their default.

    Parameters
    ----------
    part
        A dataclass.
    leave_out
        Names of fields to leave out whatever their value.
    """
    kind: Any = type(part)
    shape = shape_of(kind)
    plain: dict[str, Any] = {"type": shape.tag} if shape.tag and shape.typed else {}
    for name, default, write in field_writers(kind):
        value = getattr(part, name)
        # What is not the default may still be equal to it, but an array has no one answer.
        if value is default or (leave_out and name in leave_out):
            continue
        if default is dataclasses.MISSING or isinstance(value, np.ndarray) or value != default:
            plain[name] = encode(value, name) if write is None else write(value, name)
    return plain


def encode(value: Any, field: str = "value") -> Any:
    """Return a value as a plain JSON value.

    Parameters
    ----------
    value
        A value of a dataclass's field.
    field
        Name of the field, for messages.

    Raises
    ------
    InstanceError
        If a number is not finite, or the value has no place in a document.
    """
    # Most values, told apart by their exact types before the slower questions to abstract ones.
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if -MAX_WHOLE < value < MAX_WHOLE else float(value)
    if kind is float:
        return finite(value, field)
    if kind is tuple:
        return [encode(item, field) for item in value]
    if dataclasses.is_dataclass(value):
        return encode_part(value)
    if isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value) if abs(int(value)) < MAX_WHOLE else float(value)
    if isinstance(value, numbers.Real):
        return finite(float(value), field)
    if isinstance(value, Mapping):
        return {name: encode(item, field) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [encode(item, field) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return encode(value.tolist(), field)
    raise InstanceError(
        f"{field}: {type(value).__name__} has no place in a document; use the types of alloc."
    )


def finite(value: float, field: str) -> float | int:
    """Return a finite number; whole ones as integers, which also writes -0.0 as 0.

    Parameters
    ----------
    value
        A number.
    field
        Name of the field, for the message.
    """
    if not math.isfinite(value):
        raise InstanceError(f"{field} is {value}; documents hold finite numbers only.")
    if value.is_integer() and abs(value) < MAX_WHOLE:
        return int(value)
    return value
