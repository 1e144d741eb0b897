"""Checked documents: the models of those that are well formed, a sentence for the others."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from alloc.documents.first_errors import first_errors
from alloc.documents.messages import structure_error
from alloc.documents.models import Part


def checked(raw: Any, adapter: TypeAdapter[Any], models: tuple[type[Part], ...], root: str) -> Part:
    """Return the model of plain JSON values, one of `models`; `root` is what messages call them.

    Parameters
    ----------
    raw
        Plain JSON values.
    adapter
        Checks them against the models.
    models
        The models that they may be of.
    root
        What messages call the document.

    Raises
    ------
    InstanceError
        If a field is unknown, missing or of the wrong type; one sentence, with the owner.
    """
    try:
        part: Part = adapter.validate_python(raw)
        return part
    except ValidationError as error:
        details, raw = first_errors(error, raw, adapter.validate_python)
    # Outside: an error raised in there would hold on to the first, which may be large.
    raise structure_error(details, raw, models, root)
