"""Kinds: what each kind of document holds, and the models of whole documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from pydantic import Field, create_model

from alloc.documents.canonical import canonical_record
from alloc.documents.encoding import encode_part
from alloc.documents.instances import canonical_json, encode_instance
from alloc.documents.models import Part, version_of
from alloc.documents.records import model_of, new_model
from alloc.documents.shapes import Permutation, as_record, classes_of_families, from_record
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Schedule
from alloc.problems.operation.problem import OperationPlan
from alloc.problems.right_sizing import Plan, PlanningProblem
from alloc.result import Result
from alloc.topology import Topology


@dataclass(frozen=True)
class Kind:
    """A kind of document.

    Parameters
    ----------
    types
        The dataclasses whose documents these are; several if a field ``type`` tells them apart.
    descriptions
        What the schema says of the document of each; of others, what it says of the dataclass.
    encode
        Returns a value's fields as plain JSON values.
    decode
        Returns the value that a program gets, given the dataclass of a document.
    canonical
        Returns the problem that a value is as canonical JSON, the same bytes for the same problem.
    brief
        Whether the schema says little of the head of a document, as it was published.
    """

    types: tuple[Any, ...]
    descriptions: Mapping[Any, str] = field(default_factory=dict)
    encode: Callable[[Any], dict[str, Any]] = encode_part
    decode: Callable[[Any], Any] = lambda value: value
    canonical: Callable[[Any], bytes] = canonical_record
    brief: bool = False


_OTHERS: Mapping[str, tuple[Any, ...]] = {"result": (Result,), "topology": (Topology,)}
"""Documents that are not a family's own."""

_SPECIAL: Mapping[Any, Mapping[str, Any]] = {
    Instance: {"encode": encode_instance, "canonical": canonical_json},
    PlanningProblem: {"canonical": partial(canonical_record, leave_out=("description",))},
    Permutation: {"encode": lambda array: encode_part(as_record(array, "")), "decode": from_record},
}
"""Types whose documents are read or written in a way of their own."""

_SAID: Mapping[Any, str] = {
    Allocation: "A solution of alloc: the decision of one round.",
    Schedule: "A solution of alloc: a plan over time.",
    Topology: "A cluster of alloc: hosts in nested domains, joined by links.",
    Plan: "A plan of alloc.",
    OperationPlan: "A plan of alloc for a decision in operation.",
}
"""What published schemas say of a document in other words than its dataclass."""

_BRIEF = ("inference_problem", "inference_report", "quota_problem", "quota_report")
"""Kinds whose schema says little of the head of a document, as it was published."""

_TITLES = {"planning": "a planning problem", "operation": "an operation problem"}
"""Kinds that are not called as their documents are."""


def title_of(kind: str) -> str:
    """Return what a document of a kind is called in a sentence, with its article."""
    words = kind.replace("_", " ")
    return _TITLES.get(kind, f"{'an' if words[0] in 'aeiou' else 'a'} {words}")


def _kind(name: str, types: tuple[Any, ...]) -> Kind:
    said = {one: _SAID[one] for one in types if one in _SAID}
    return Kind(types, said, brief=name in _BRIEF, **_SPECIAL.get(types[0], {}))


KINDS: Mapping[str, Kind] = {
    name: _kind(name, types) for name, types in {**classes_of_families(), **_OTHERS}.items()
}
"""Every kind of document: those of the families (`alloc.families`), and a few others."""


def document_models(name: str, kind: Kind) -> tuple[type[Part], ...]:
    """Return the pydantic models of the documents of a kind, one for each of its types."""
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
        return new_model(record_class, title, Part, head)
    document: type[Part] = create_model("Document", __base__=Part, **head)
    base = (document, model_of(record_class))
    model: type[Part] = create_model(title, __base__=base, __doc__=description)
    return model
