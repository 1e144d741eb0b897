"""Kinds: what each kind of document holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from alloc.documents.canonical import canonical_record
from alloc.documents.encoding import encode_part
from alloc.documents.instances import canonical_json, encode_instance
from alloc.documents.shapes import as_record, from_record, paths_of_families
from alloc.family import load, path_of


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


_OTHERS: Mapping[str, tuple[str, ...]] = {
    "result": ("alloc.result:Result",),
    "topology": ("alloc.topology.topology:Topology",),
}
"""Documents that are not a family's own."""

_SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "instance": {"encode": encode_instance, "canonical": canonical_json},
    "planning": {"canonical": partial(canonical_record, leave_out=("description",))},
    "permutation": {
        "encode": lambda array: encode_part(as_record(array, "")),
        "decode": from_record,
    },
}
"""Kinds whose documents are read or written in a way of their own."""

_SAID: Mapping[str, str] = {
    "alloc.problems.allocation.solution:Allocation": "A solution of alloc: the decision of one "
    "round.",
    "alloc.problems.allocation.solution:Schedule": "A solution of alloc: a plan over time.",
    "alloc.topology.topology:Topology": "A cluster of alloc: hosts in nested domains, joined by "
    "links.",
    "alloc.problems.right_sizing.plan:Plan": "A plan of alloc.",
    "alloc.problems.operation.problem:OperationPlan": "A plan of alloc for a decision in "
    "operation.",
}
"""What published schemas say of a document in other words than its dataclass, by path."""

_BRIEF = ("inference_problem", "inference_report", "quota_problem", "quota_report")
"""Kinds whose schema says little of the head of a document, as it was published."""

_TITLES = {"planning": "a planning problem", "operation": "an operation problem"}
"""Kinds that are not called as their documents are."""


def title_of(kind: str) -> str:
    """Return what a document of a kind is called in a sentence, with its article."""
    words = kind.replace("_", " ")
    return _TITLES.get(kind, f"{'an' if words[0] in 'aeiou' else 'a'} {words}")


class Kinds(Mapping[str, Kind]):
    """Kinds by name; the types of one are loaded when it is looked at.

    Parameters
    ----------
    paths
        Where the dataclasses of each are, ``module:name``.
    """

    def __init__(self, paths: Mapping[str, tuple[str, ...]]) -> None:
        self._paths = paths
        self._known: dict[str, Kind] = {}

    def __getitem__(self, name: str) -> Kind:
        """Return a kind."""
        if name not in self._known:
            types = tuple(map(load, self._paths[name]))
            said = {one: _SAID[path_of(one)] for one in types if path_of(one) in _SAID}
            special = _SPECIAL.get(name, {})
            self._known[name] = Kind(types, said, brief=name in _BRIEF, **special)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._paths)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._paths)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a kind of a name, without loading its types."""
        return name in self._paths

    def of_type(self, record_class: Any) -> str | None:
        """Return the kind whose documents hold a dataclass, None if there is none."""
        wanted = path_of(record_class)
        return next((name for name, paths in self._paths.items() if wanted in paths), None)


KINDS = Kinds({**paths_of_families(), **_OTHERS})
"""Every kind of document: those of the families (`alloc.families`), and a few others."""
