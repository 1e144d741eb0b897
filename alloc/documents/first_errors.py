"""The first errors of a malformed document, at a cost that does not grow with their number."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")

MAX_ERRORS = 200
"""Errors that are looked at. More come only from an object with that many unknown fields, a file
in another format; the first ones say it all."""
_DEEPEST = 50
"""Levels of a document that are looked at: those of alloc have 8, hostile ones up to 1,000."""
_HOLDERS = (dict, list)
_SMALL = 8 * 1024
"""Bytes of a text up to which nobody looks how wide its document is: it has room for a thousand
unknown fields, which are refused in a third of a millisecond, and to look takes a tenth of that for
each of the thousands of requests that are well formed."""


def validated(raw: Any, validate: Callable[[Any], T], size: int) -> T:
    """Return the validated document.

    Of a document with a wide object, such as one of a hundred thousand unknown fields, each an
    error of 200 bytes, only the first fields are validated at first.

    Parameters
    ----------
    raw
        The document, plain JSON values.
    validate
        Validates plain JSON values.
    size
        Length of its text, bytes.

    Raises
    ------
    ValidationError
        If it is malformed; for a wide one with the errors of its first fields.
    """
    if size > _SMALL and _is_wide(raw):
        validate(_narrow(raw))
    return validate(raw)


def first_errors(
    error: ValidationError, raw: Any, validate: Callable[[Any], object]
) -> tuple[list[ErrorDetails], Any]:
    """Return the first errors of a document, and as much of the document as they are about.

    Pydantic makes the details of all errors or of none, a kilobyte each.

    Parameters
    ----------
    error
        What `validate` raised.
    raw
        The document, plain JSON values.
    validate
        Validates plain JSON values.
    """
    if error.error_count() > MAX_ERRORS:
        raw = _narrow(raw)
        try:
            validate(raw)
        except ValidationError as fewer:
            error = fewer
    return error.errors(include_url=False), raw


def _is_wide(value: Any) -> bool:
    """Return whether there is an object with more than `MAX_ERRORS` fields in it."""
    left = [value]  # and no recursion: a hostile document is as deep as JSON readers allow
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if len(one) > MAX_ERRORS:
                return True
            one = one.values()
        elif not isinstance(one, list):
            continue
        # A hostile document has many empty ones, which are the quickest to tell.
        left += [inner for inner in one if inner and isinstance(inner, _HOLDERS)]
    return False


def _narrow(value: Any, depth: int = 0) -> Any:
    """Return a copy whose objects have no more than the first `MAX_ERRORS` fields."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        first = itertools.islice(value.items(), MAX_ERRORS)
        return {name: _narrow(inner, depth + 1) for name, inner in first}
    if isinstance(value, list):
        return [_narrow(inner, depth + 1) for inner in value]
    return value
