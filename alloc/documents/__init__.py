"""JSON documents: reading and writing problems, solutions, results and topologies.

Every document is a JSON object that starts with ``schema_version`` and ``kind``; `json_schema`
gives the published schema. `alloc.load` and `alloc.save` read and write any of them; a `Format`, by
kind (`format_of`) or by type (`format_of_type`), only its own: ``write`` returns the text and
writes it if a path is given, as a whole or not at all; ``parse`` takes text, ``load`` a path. A
path that ends in ``.gz`` is compressed. Whatever is wrong with a document is an `InstanceError` of
one sentence that names the job, the field, the value and the cure.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alloc.documents.constants import SCHEMA_VERSION
    from alloc.documents.files import MAX_BYTES
    from alloc.documents.formats import Format, format_of, format_of_type
    from alloc.documents.instances import canonical_json
    from alloc.documents.schema import json_schema, write_schemas

__all__ = [
    "MAX_BYTES",
    "SCHEMA_VERSION",
    "Format",
    "canonical_json",
    "format_of",
    "format_of_type",
    "json_schema",
    "write_schemas",
]
_HOMES = {
    "MAX_BYTES": "files",
    "SCHEMA_VERSION": "constants",
    "Format": "formats",
    "canonical_json": "instances",
    "format_of": "formats",
    "format_of_type": "formats",
    "json_schema": "schema",
    "write_schemas": "schema",
}
"""Modules of the names: who reads a plain file needs no model of a document, and those are many."""


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
