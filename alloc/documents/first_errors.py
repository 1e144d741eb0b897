"""The first errors of a malformed document, at a cost that does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MOST_ERRORS = 200
"""Errors that are looked at. More come only from an object with that many unknown fields, a file
in another format; the first ones say it all."""


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
    if error.error_count() > MOST_ERRORS:
        raw = _narrow(raw)
        try:
            validate(raw)
        except ValidationError as fewer:
            error = fewer
    return error.errors(include_url=False), raw


def _narrow(value: Any) -> Any:
    """Return a copy whose objects have no more than the first `MOST_ERRORS` fields."""
    if isinstance(value, dict):
        first = list(value.items())[:MOST_ERRORS]
        return {name: _narrow(inner) for name, inner in first}
    if isinstance(value, list):
        return [_narrow(inner) for inner in value]
    return value
