"""Records: the models of documents, made from the dataclasses themselves.

The fields, their types and defaults are those of the dataclass; what each means is read from the
"Parameters" section of its docstring, or from `alloc.documents.descriptions` where the published
schema says it in other words. So a class is written once, and its documents are strict: no unknown
field, no number in quotes, no NaN.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Mapping, Sequence
from functools import cache, reduce
from operator import or_
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from pydantic import (
    Discriminator,
    Field,
    Strict,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    WrapValidator,
    create_model,
)

from alloc.documents.constants import version_of
from alloc.documents.descriptions import DESCRIPTIONS
from alloc.documents.fields import default_of, is_record, scalar_of
from alloc.documents.kinds import Kind
from alloc.documents.models import Part, Whole
from alloc.documents.shapes import shape_of
from alloc.documents.tables import table_or_models
from alloc.family import path_of
from alloc.workload.configuration import Configuration

CLASSES: dict[type[Part], type[Any]] = {}
"""The dataclass of each model."""


@cache
def adapter_of(record_class: Any) -> TypeAdapter[Any]:
    """Return what checks the fields of a dataclass, and makes its schema."""
    return TypeAdapter(model_of(record_class))


@cache
def model_of(record_class: Any) -> type[Part]:
    """Return the pydantic model of a dataclass."""
    return _new_model(record_class, f"{record_class.__name__}Part", Part, {})


@cache
def typed_model_of(record_class: Any) -> type[Part]:
    """Return the pydantic model of a dataclass that says in a field ``type`` which one it is."""
    if shape_of(record_class).typed:
        return model_of(record_class)
    return _new_model(record_class, f"{record_class.__name__}Solution", Part, {}, typed=True)


def _new_model(
    record_class: Any, name: str, base: type[Part], head: Mapping[str, Any], *, typed: bool = False
) -> type[Part]:
    """Return a pydantic model with the fields of a dataclass after those of `base` and `head`."""
    hints = field_types(record_class)
    meanings = _meanings(record_class)
    shape = shape_of(record_class)
    fields = dict(head)
    if shape.tag and (shape.typed or typed):
        fields["type"] = (Literal[shape.tag], Field(description="Kind of solution."))
    shared = shape.shared
    for member in dataclasses.fields(record_class):
        default = default_of(member, ...)
        if shared is not None and default is not ...:
            fields[shared.name] = (_type(shared.type), _field({}, shared.meaning))
            shared = None
        meaning = meanings.get(member.name)
        fields[member.name] = (_type(hints[member.name]), _field(default, meaning))
    model: type[Part] = create_model(name, __base__=base, __doc__=meanings[""], **fields)
    CLASSES[model] = record_class
    return model


def _field(default: Any, meaning: str | None) -> Any:
    """Return a field; `default` is ... where there is none."""
    if isinstance(default, dict) and not default:
        # Pydantic would make a deep copy of the default for every part of every document.
        return Field(default_factory=dict, json_schema_extra={"default": {}}, description=meaning)
    return Field(default, description=meaning)


def record_class_of(model: type[Part]) -> Any:
    """Return the dataclass of a model, or of the model that a document adds its head to."""
    return next(CLASSES[base] for base in model.__mro__ if base in CLASSES)


@cache
def field_types(record_class: Any) -> Mapping[str, Any]:
    """Return the type of each field of a dataclass as its documents hold it."""
    hints = get_type_hints(record_class)
    specials = shape_of(record_class).fields
    return hints | {name: s.type() for name, s in specials.items() if s.type is not None}


def _type(hint: Any) -> Any:
    """Return the type that a document has for a type of a field."""
    if hint is int:
        return Whole
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is np.ndarray:
        return _array_type(Whole if issubclass(scalar_of(hint), np.integer) else float)
    if is_record(hint):
        return model_of(origin or hint)
    if origin is Sequence:
        return _type(tuple[arguments[0], ...])  # type: ignore[valid-type]
    if origin is tuple:
        # JSON has lists for tuples, Python may give either; what is in them is as strict as ever.
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            listed: Any = Annotated[list[_type(arguments[0])], Strict(False)]  # type: ignore[misc]
            if arguments[0] is Configuration:
                return Annotated[listed, WrapValidator(table_or_models)]
            return listed
        return Annotated[tuple[tuple(map(_type, arguments))], Strict(False)]  # type: ignore[misc]
    if origin is Mapping:
        return dict[tuple(map(_type, arguments))]  # type: ignore[misc]
    if origin is Annotated:
        return Annotated[(_type(arguments[0]), *arguments[1:])]
    if origin in (Union, types.UnionType):
        records = [a for a in arguments if is_record(a)]
        if len(records) > 1:
            rest = [_type(a) for a in arguments if a not in records]
            typed = all(shape_of(record).tag for record in records)
            models = [typed_model_of(r) if typed else model_of(r) for r in records]
            return reduce(or_, rest, told_apart(records, models))
        return reduce(or_, map(_type, arguments))
    return hint


def _array_type(item: Any) -> Any:
    """Return the type of a vector or a matrix, as lists; how large it is its class looks at."""
    row = list[item]
    schema = TypeAdapter(row).json_schema()
    return Annotated[
        Annotated[row, Tag("<row>")] | Annotated[list[row], Tag("<rows>")],
        Discriminator(_rank),
        WithJsonSchema({"anyOf": [schema, {"items": schema, "type": "array"}]}),
    ]


def _rank(value: Any) -> str:
    return "<rows>" if isinstance(value, list) and value and type(value[0]) is list else "<row>"


def told_apart(records: Sequence[Any], models: Sequence[Any]) -> Any:
    """Return a union of models: told apart by their tags, or by the fields that are there.

    Parameters
    ----------
    records
        The dataclasses.
    models
        Their models, in the same order.
    """
    if all(shape_of(record).tag for record in records):
        return Annotated[reduce(or_, models), Discriminator("type")]
    names = {r.__name__: {f.name for f in dataclasses.fields(r)} for r in records}

    def choose(value: Any) -> str:
        given = set(value) if isinstance(value, dict) else set()
        # Of two that have all that is given, the one that lacks less.
        best: str = max(names, key=lambda n: (len(names[n] & given), -len(names[n] - given)))
        return best

    tagged = [Annotated[m, Tag(r.__name__)] for r, m in zip(records, models, strict=True)]
    return Annotated[reduce(or_, tagged), Discriminator(choose)]


@cache
def _meanings(record_class: Any) -> Mapping[str, str]:
    """Return what the schema says of each field, and under "" of the class."""
    return {**meanings_in_docstring(record_class), **DESCRIPTIONS.get(path_of(record_class), {})}


def meanings_in_docstring(record_class: Any) -> dict[str, str]:
    """Return what the docstring of a class says of each field, and under "" its first line."""
    # Python 3.13 and later strip the indentation themselves.
    doc = inspect.cleandoc(record_class.__doc__ or "").replace("``None``", "null")
    _, _, section = doc.partition("Parameters\n----------\n")
    found: dict[str, str] = {"": doc.partition("\n")[0]}
    names: list[str] = []
    for line in section.splitlines():
        if line.startswith(" ") and names:
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip()
        elif line.strip() and not line.startswith("---"):
            names = [name.strip() for name in line.split(",")]
    return found


def document_models(name: str, kind: Kind) -> tuple[type[Part], ...]:
    """Return the pydantic models of the documents of a kind, one for each of its types.

    Parameters
    ----------
    name
        Name of the kind, such as ``instance``.
    kind
        What documents of it hold.
    """
    title = "".join(word.capitalize() for word in name.split("_"))
    titles = [title] if len(kind.types) == 1 else [one.__name__ for one in kind.types]
    version: Any = Literal[version_of(name)]
    head = {
        "schema_version": (version, Field(description="Version of the format of documents.")),
        "kind": (Literal[name], Field(description="What the document holds.")),
    }
    return tuple(
        _document_model(record_class, f"{title}Document", head, kind.descriptions.get(record_class))
        for record_class, title in zip(kind.types, titles, strict=True)
    )


def _document_model(
    record_class: Any, title: str, head: dict[str, Any], description: str | None
) -> type[Part]:
    """Return the model of a dataclass with the head of a document.

    The head of a document that is also a part of others follows its fields, as it was published.
    """
    if description is None:
        return _new_model(record_class, title, Part, head)
    document: type[Part] = create_model("Document", __base__=Part, **head)
    base = (document, model_of(record_class))
    model: type[Part] = create_model(title, __base__=base, __doc__=description)
    return model
