"""Bodies: from the bytes of a request to its model, or to the problem with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from alloc.documents import format_of
from alloc.documents.first_errors import first_errors, validated
from alloc.documents.kinds import title_of
from alloc.documents.parsing import parse_json
from alloc.documents.reading import require_kind
from alloc.errors import InstanceError
from alloc.server.problems import refuse
from alloc.server.requests import Request

_MAX_ERRORS = 20
"""Errors of one body that are told: nobody mends more at once, and a wrong list has one in each
entry."""
R = TypeVar("R", bound=Request)

_DOCUMENTS: Mapping[str, str] = {
    "instance": "instance",
    "topology": "topology",
    "warm_start": "solution",
}


def read_request(body: bytes, model: type[R]) -> R:
    """Return the request in a body.

    Parameters
    ----------
    body
        The body, as it came.
    model
        What it is to be.

    Raises
    ------
    ProblemError
        If it is not JSON, a key comes twice, or it does not fit the model.
    """
    try:
        raw = parse_json(body, "the body")
    except InstanceError as error:
        raise refuse("malformed-json", str(error)) from None
    try:
        return validated(raw, model.model_validate, len(body))
    except ValidationError as error:
        details, raw = first_errors(error, raw, model.model_validate)
    errors = [
        {"pointer": pointer(detail["loc"], raw), "detail": str(detail["msg"])}
        for detail in details[:_MAX_ERRORS]
    ]
    sentence = _document_sentence(raw, model.OPEN)
    if sentence is None:
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        where = errors[0]["pointer"] or "the body"
        sentence = f"{where}: {errors[0]['detail']}{more}; see /v1/openapi.json."
    raise refuse("invalid-request", sentence, errors=errors)


def pointer(location: Sequence[str | int], raw: Any) -> str:
    """Return the JSON pointer (RFC 6901) of a place in a body, without pydantic's tags.

    Parameters
    ----------
    location
        Keys and numbers from the root to the place, as pydantic's errors have them.
    raw
        The body, plain JSON values.
    """
    found = ""
    value = raw
    for step in location:
        inside = (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and step < len(value)
        )
        if not inside and _is_tag(step, value):
            continue
        found += "/" + str(step).replace("~", "~0").replace("/", "~1")
        value = value[step] if inside else None
    return found


def _is_tag(step: str | int, value: Any) -> bool:
    """Return whether a step is what pydantic adds for a member of a union.

    It is in angle brackets, the type that a solution says, or the name of a class.
    """
    if not isinstance(step, str):
        return False
    typed = isinstance(value, dict) and value.get("type") == step
    return typed or step[:1] == "<" or step[:1].isupper()


def _document_sentence(raw: Any, open_fields: Mapping[str, Sequence[str]]) -> str | None:
    """Return what alloc itself says of the first document in a body that is malformed.

    Parameters
    ----------
    raw
        The body, plain JSON values.
    open_fields
        Fields whose document says itself of which kind it is, and the kinds that they take.
    """
    if not isinstance(raw, dict):
        return None
    documents = [(raw.get(name), kind, open_fields.get(name)) for name, kind in _DOCUMENTS.items()]
    several = raw.get("instances")
    if isinstance(several, list):
        documents += [(one, "instance", None) for one in several]
    for document, kind, kinds in documents:
        if isinstance(document, dict):
            try:
                found = require_kind(document) if kinds and "kind" in document else kind
                if kinds and found not in kinds:
                    return f"this is {title_of(found)}; give one of: {', '.join(kinds)}."
                format_of(found).require_structure(document)
            except InstanceError as error:
                return str(error)
    return None
