"""Documents of plain dataclasses: structure, sentences and schema made from the classes themselves.

The fields, their types and defaults are those of the dataclass; what each means is read from the
"Parameters" section of its docstring. So a class is written once, and its documents are as strict
as all others: no unknown field, no number in quotes, no NaN.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import types
from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    Discriminator,
    Field,
    Strict,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
)

from alloc.certificate import Certificate
from alloc.documents.encoding import encode, encode_certificate, header
from alloc.documents.first_errors import first_errors, validated
from alloc.documents.formats import Format
from alloc.documents.models import SCHEMA_VERSION, CertificatePart, Part, Whole
from alloc.documents.parsing import describe, parse_json
from alloc.documents.schema import DIALECT
from alloc.errors import InstanceError, nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")

_WANTED = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_CLASSES: dict[type[Part], type[Any]] = {CertificatePart: Certificate}
"""The dataclass of each model."""


def record_format(record_class: type[T], kind: str) -> Format[T]:
    """Return the format of the documents of a dataclass, of a kind of their own."""

    def encoded(record: T) -> dict[str, Any]:
        return {**header(kind), **_plain(record)}

    return Format(encoded, lambda text: _parsed(text, record_class, kind))


def record_of(body: Mapping[str, Any], record_class: type[T], where: str) -> T:
    """Return the dataclass that plain JSON values describe.

    Parameters
    ----------
    body
        The fields.
    record_class
        The dataclass.
    where
        What they are the fields of, for messages.

    Raises
    ------
    InstanceError
        If they are malformed or contradict each other; one sentence with place and cure.
    """
    validate = _adapter(cast(Any, record_class)).validate_python
    try:
        return cast(T, _built(validated(body, validate)))
    except ValidationError as error:
        details, body = first_errors(error, body, validate)
    raise _structure_error(details, body, record_class, where)


def record_schema(record_class: type[Any], kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the documents of a dataclass."""
    schema = _adapter(cast(Any, record_class)).json_schema()
    head = {
        "schema_version": {"const": SCHEMA_VERSION, "description": "Version of the format."},
        "kind": {"const": kind, "description": "What the document holds."},
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:alloc:{kind}:{SCHEMA_VERSION}",
        **schema,
        "title": f"alloc {kind} document",
        "properties": {**head, **schema.get("properties", {})},
        "required": [*head, *schema.get("required", [])],
    }


def fingerprint(record: Any) -> str:
    """Return the SHA-256 of a dataclass in canonical JSON, hexadecimal."""
    text = json.dumps(_plain(record), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _parsed(text: str | bytes, record_class: type[T], kind: str) -> T:
    where = f"the {kind} document"
    raw = parse_json(text, where)
    if not isinstance(raw, dict):
        raise InstanceError(f"{where} is {describe(raw)}; a document is a JSON object, in braces.")
    for field, wanted in (("kind", kind), ("schema_version", SCHEMA_VERSION)):
        if raw.get(field) != wanted:
            found = describe(raw[field]) if field in raw else "missing"
            raise InstanceError(
                f'{where}: "{field}" is {found}; this alloc reads "{field}": {describe(wanted)}.'
            )
    body = {k: v for k, v in raw.items() if k not in ("kind", "schema_version")}
    return record_of(body, record_class, where)


def _plain(value: Any, field: str = "value") -> Any:
    """Return a dataclass as plain JSON values, fields with their default left out."""
    if isinstance(value, Certificate):
        return encode_certificate(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {}
        for member in dataclasses.fields(value):
            item = getattr(value, member.name)
            if member.default is dataclasses.MISSING or item != member.default:
                found[member.name] = _plain(item, member.name)
        return found
    if isinstance(value, list | tuple):
        return [_plain(item, field) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item, field) for name, item in value.items()}
    return encode(value, field)


@cache
def _adapter(record_class: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_model(record_class))


@cache
def _model(record_class: Any) -> type[Part]:
    """Return the pydantic model of a dataclass."""
    if record_class is Certificate:
        return CertificatePart
    hints = get_type_hints(record_class)
    meanings = _meanings(record_class)
    fields: dict[str, Any] = {}
    for member in dataclasses.fields(record_class):
        default: Any = ... if member.default is dataclasses.MISSING else member.default
        fields[member.name] = (
            _type(hints[member.name]),
            Field(default, description=meanings.get(member.name)),
        )
    name = f"{record_class.__name__}Part"
    first_line = (record_class.__doc__ or "").strip().partition("\n")[0]
    model: type[Part] = create_model(name, __base__=Part, __doc__=first_line, **fields)
    _CLASSES[model] = record_class
    return model


def _type(hint: Any) -> Any:
    """Return the type that a document has for a type of a field."""
    if hint is int:
        return Whole
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _model(hint)  # type: ignore[arg-type]
    if origin is tuple:
        # JSON has lists for tuples, Python may give either; what is in them is as strict as ever.
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return Annotated[list[_type(arguments[0])], Strict(False)]  # type: ignore[misc]
        return Annotated[tuple[tuple(map(_type, arguments))], Strict(False)]  # type: ignore[misc]
    if origin is Mapping:
        return dict[tuple(map(_type, arguments))]  # type: ignore[misc]
    if origin in (Union, types.UnionType):
        records = [a for a in arguments if dataclasses.is_dataclass(a)]
        if len(records) > 1:
            return _either(records)
        return reduce(or_, map(_type, arguments))
    return hint


def _either(records: list[Any]) -> Any:
    """Return a union of dataclasses, told apart by the fields that are there."""
    names = {r.__name__: {f.name for f in dataclasses.fields(r)} for r in records}

    def choose(value: Any) -> str:
        given = set(value) if isinstance(value, dict) else set()
        best: str = max(names, key=lambda name: len(names[name] & given))
        return best

    tagged = [Annotated[_model(r), Tag(r.__name__)] for r in records]
    return Annotated[reduce(or_, tagged), Discriminator(choose)]


@cache
def _meanings(record_class: Any) -> dict[str, str]:
    """Return what each field means, from the "Parameters" of the docstring."""
    # Python 3.13 and later strip the indentation themselves.
    doc = inspect.cleandoc(record_class.__doc__ or "")
    _, _, section = doc.partition("Parameters\n----------\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line.startswith(" ") and names:
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip()
        elif line.strip() and not line.startswith("---"):
            names = [name.strip() for name in line.split(",")]
    return found


def _built(value: Any, owner: str = "", label: str = "") -> Any:
    """Turn a validated document into the dataclasses that it describes.

    What a dataclass says is wrong with it names it, but not what it is a part of: `owner`. In that
    it is the field or the item `label`.
    """
    if isinstance(value, list | tuple):
        return tuple(_built(item, owner, f"{label}[{k}]") for k, item in enumerate(value))
    if isinstance(value, dict):
        return {key: _built(item, owner, f"{label}[{key!r}]") for key, item in value.items()}
    if not isinstance(value, Part):
        return value
    name = getattr(value, "name", None)
    here = f"{label} {describe(name)}" if label and isinstance(name, str) else label
    place = ", ".join(filter(None, (owner, here)))
    given = {field: _built(getattr(value, field), place, field) for field in value.model_fields_set}
    try:
        return _CLASSES[type(value)](**given)
    except InstanceError as error:
        where = owner if label.endswith("]") else place
        raise InstanceError(f"{where}: {error}" if where else str(error)) from None


def _structure_error(
    details: list[ErrorDetails], body: Mapping[str, Any], record_class: type[Any], where: str
) -> InstanceError:
    """Return the first error of a document in a sentence, and how many more places have one."""
    sentences: dict[tuple[str, ...], str] = {}
    # Unknown fields first: they often explain why another is missing.
    for detail in sorted(details, key=lambda detail: detail["type"] != "extra_forbidden"):
        place, owner, model = _locate(detail["loc"], body, record_class, where)
        sentences.setdefault(tuple(place), _sentence(detail, place, owner, model))
    first, more = next(iter(sentences.values())), len(sentences) - 1
    return InstanceError(first + (f" (and {more} more)" if more else ""))


def _locate(
    location: tuple[int | str, ...], body: Any, record_class: type[Any], where: str
) -> tuple[list[str], str, type[Part]]:
    """Walk to the innermost named object; steps that lead nowhere are tags of unions."""
    value, model, owner = body, _model(cast(Any, record_class)), where
    place: list[str] = []
    field = ""
    for step in location:
        if isinstance(value, dict) and (step in value or step in model.model_fields):
            field = str(step)
            place.append(field)
            value = value.get(field)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            place[-1] += f"[{step}]"
            value = value[step]
        else:
            named = _model_named(model, str(step))
            if named is not None:
                model = named
            elif isinstance(value, dict) and step == location[-1]:
                place.append(str(step))
            continue
        if isinstance(value, dict):
            outer = model.model_fields.get(field)
            model = (_model_in(outer.annotation) if outer else None) or model
            name = value.get("name")
            label = place[-1] if not isinstance(name, str) else f"{place[-1]} {describe(name)}"
            owner = label if owner == where else f"{owner}, {label}"
            place = [label]
            field = ""
    return [owner, *place[-1:]], owner, model


def _model_named(model: type[Part], name: str) -> type[Part] | None:
    """Return the model that a tag of a union names, if it is one."""
    for found, record_class in _CLASSES.items():
        if record_class.__name__ == name and found is not model:
            return found
    return None


def _model_in(annotation: Any) -> type[Part] | None:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    for inner in get_args(annotation):
        found = _model_in(inner)
        if found is not None:
            return found
    return None


def _sentence(detail: Any, place: list[str], owner: str, model: type[Part]) -> str:
    kind, value = detail["type"], detail.get("input")
    last = place[-1] if len(place) > 1 else ""
    field = f"{owner}: {last}" if last and not owner.endswith(last) else owner
    if kind == "missing":
        info = model.model_fields.get(str(detail["loc"][-1]))
        meaning = f" ({info.description.rstrip('.')})" if info and info.description else ""
        return f'{owner}: field "{detail["loc"][-1]}" is missing; add it{meaning}.'
    if kind == "extra_forbidden":
        name, known = str(detail["loc"][-1]), list(model.model_fields)
        cure = nearest(name, known, f"; known fields: {', '.join(known)}.")
        return f"{owner}: unknown field {describe(name)}{cure}"
    if kind == "finite_number":
        return f"{field} is {value}; give a finite number."
    if kind == "literal_error":
        known = [str(word).strip("'") for word in _words(detail)]
        guess = nearest(value, known) if isinstance(value, str) else ""
        return f"{field} is {describe(value)}{guess or ';'} known: {', '.join(known)}."
    wanted = _WANTED.get(kind)
    if wanted is None:
        return f"{field} is {describe(value)}: {detail['msg'][0].lower()}{detail['msg'][1:]}."
    quotes = isinstance(value, str) and wanted in ("a number", "a whole number", "true or false")
    return f"{field} is {describe(value)}; give {wanted}{' without quotes' if quotes else ''}."


def _words(detail: Any) -> list[str]:
    return str(detail.get("ctx", {}).get("expected", "")).replace(" or ", ", ").split(", ")
