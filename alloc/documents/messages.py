"""Messages: what is wrong with the structure of a document, in one sentence with the cure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from alloc.documents.models import Part
from alloc.documents.parsing import describe
from alloc.documents.places import Spot, locate
from alloc.errors import InstanceError, nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_WANTED = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


def structure_error(
    details: Sequence[ErrorDetails], raw: Any, models: Sequence[type[Part]], root: str
) -> InstanceError:
    """Return the first error of a document in a sentence, and how many more are known.

    Parameters
    ----------
    details
        What pydantic found.
    raw
        The document, plain JSON values.
    models
        Its model; several if its field ``type`` says which.
    root
        What the document is called.
    """
    spots = [locate(detail["loc"], raw, models, root) for detail in details]
    sentence, others = _first_sentence(details, spots)
    return InstanceError(sentence + (f" (and {others} more)" if others else ""))


def _first_sentence(details: Sequence[ErrorDetails], spots: Sequence[Spot]) -> tuple[str, int]:
    """Return what the first error is, and how many there are beside it.

    Each counts once: a misspelled field is unknown, and the right one is not missing too.
    """
    missing = {
        (spot.owner, spot.field)
        for detail, spot in zip(details, spots, strict=True)
        if detail["type"] == "missing"
    }
    explained: set[tuple[str, str]] = set()
    # Of each error what makes its sentence: hostile documents have hundreds of them.
    found: dict[int, Callable[[], str]] = {}
    for k, (detail, spot) in enumerate(zip(details, spots, strict=True)):
        if detail["type"] == "extra_forbidden":
            known = [] if spot.model is None else list(spot.model.model_fields)
            lacking = [name for name in known if (spot.owner, name) in missing]
            # The field that is missing is the likeliest one to be misspelled.
            guess = nearest(spot.field, lacking)
            explained |= {(spot.owner, name) for name in lacking if f'"{name}"' in guess}
            found[k] = partial(_unknown_sentence, spot, guess, known)
    said = set()
    for k, (detail, spot) in enumerate(zip(details, spots, strict=True)):
        place = (spot.owner, spot.field)
        if k in found or (detail["type"] == "missing" and place in explained):
            continue
        if place not in said:  # each member of a union says that the value is none of its own
            found[k] = partial(_sentence, detail, spot)
            said.add(place)
    # Unknown fields come first within an owner: they often explain the rest.
    first_of = {spot.owner: k for k, spot in reversed(list(enumerate(spots)))}
    first = min(
        found, key=lambda k: (first_of[spots[k].owner], details[k]["type"] != "extra_forbidden", k)
    )
    return found[first](), len(found) - 1


def _unknown_sentence(spot: Spot, guess: str, known: Sequence[str]) -> str:
    cure = guess or nearest(spot.field, known) or f"; known fields: {', '.join(known)}."
    return f"{spot.owner}: unknown field {describe(spot.field)}{cure}"


def _sentence(detail: ErrorDetails, spot: Spot) -> str:
    kind, value = detail["type"], detail.get("input")
    field = f"{spot.owner}: {spot.field}" if spot.field else spot.owner
    if kind == "missing":
        return f'{spot.owner}: field "{spot.field}" is missing; add it{_meaning(spot)}.'
    if kind == "finite_number":
        if value != value:
            return f"{field} is NaN; give a finite number, or leave the field out."
        return f"{field} is infinite or too large; give a finite number, at most 1.8e308."
    if kind == "quoted_infinity":
        return f'{field} is {describe(value)}; give a number, or "inf" or "-inf" in quotes.'
    if kind == "literal_error":
        known = [word.strip("'") for word in _expected(detail)]
        guess = nearest(value, known) if isinstance(value, str) else ""
        return f"{field} is {describe(value)}, which is unknown{guess or ';'} known: " + (
            f"{', '.join(known)}."
        )
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _union_sentence(detail, field)
    if kind in ("greater_than_equal", "less_than_equal"):
        return f"{field} is {describe(value)}, which does not fit 64 bits; give a smaller number."
    if kind == "float_type" and type(value) is int:
        return f"{field} is {describe(value)}, which is too large; numbers end at 1.8e308."
    wanted = _WANTED.get(kind)
    if wanted is None:
        return f"{field} is {describe(value)}: {detail['msg'][0].lower()}{detail['msg'][1:]}."
    cure = f"give {wanted}"
    if isinstance(value, str) and kind in ("float_type", "int_type", "bool_type"):
        cure += " without quotes"
    return f"{field} is {describe(value)}; {cure}."


def _expected(detail: ErrorDetails) -> list[str]:
    expected = str(detail.get("ctx", {}).get("expected", ""))
    return expected.replace(" or ", ", ").split(", ")


def _union_sentence(detail: ErrorDetails, field: str) -> str:
    """Say what is wrong where a document may hold one of several things."""
    value, context = detail.get("input"), detail.get("ctx", {})
    if str(context.get("discriminator")).strip("'") == "type":
        tags = [tag.strip(" '") for tag in str(context.get("expected_tags", "")).split(",")]
        if not isinstance(value, dict) or "type" not in value:
            return f'{field}: field "type" is missing; add "type": "schedule" or "allocation".'
        guess = nearest(str(value["type"]), tags)
        return (
            f"{field}: type is {describe(value['type'])}, which is unknown{guess or ';'} known: "
            f"{', '.join(tags)}."
        )
    return (
        f"{field} is {describe(value)}; give the name of one of configuration_sets, or a list of "
        "configurations."
    )


def _meaning(spot: Spot) -> str:
    """Return what a missing field is for, from its description."""
    field = None if spot.model is None else spot.model.model_fields.get(spot.field)
    text = "" if field is None or field.description is None else field.description.rstrip(".")
    if text[1:2].islower() or text[1:2] == " ":  # not an abbreviation: "GPU type"
        text = text[0].lower() + text[1:]
    return f" ({text})" if text else ""
