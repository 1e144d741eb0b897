"""The published JSON Schema of every kind of document.

``python -m alloc.documents docs/schema`` writes the files; a test holds them up to date.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from alloc.documents.constants import version_of
from alloc.documents.files import reason, write_text
from alloc.documents.formats import format_of
from alloc.documents.kinds import KINDS
from alloc.documents.records import adapter_of
from alloc.errors import AllocError, InstanceError, nearest

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of document.

    Parameters
    ----------
    kind
        One of `alloc.documents.kinds.KINDS`: that of a problem, solution or report of a family
        (`alloc.families.Family`), ``result`` or ``topology``.

    Raises
    ------
    InstanceError
        If there is no such kind.
    """
    if kind not in KINDS:
        raise InstanceError(
            f'unknown kind of document "{kind}"{nearest(str(kind), KINDS, ".")} Known: '
            f"{', '.join(KINDS)}."
        )
    if KINDS[kind].brief:
        return record_schema(KINDS[kind].types[0], kind)
    schema = format_of(kind).adapter.json_schema()
    return {
        "$schema": DIALECT,
        "$id": f"urn:alloc:{kind}:{version_of(kind)}",
        "title": f"alloc {kind} document",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def record_schema(record_class: Any, kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the documents of any dataclass.

    Parameters
    ----------
    record_class
        The dataclass.
    kind
        What its documents call their kind.
    """
    schema = adapter_of(record_class).json_schema()
    head = {
        "schema_version": {"const": version_of(kind), "description": "Version of the format."},
        "kind": {"const": kind, "description": "What the document holds."},
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:alloc:{kind}:{version_of(kind)}",
        **schema,
        "title": f"alloc {kind} document",
        "properties": {**head, **schema.get("properties", {})},
        "required": [*head, *schema.get("required", [])],
    }


def write_schemas(folder: str | PathLike[str]) -> list[Path]:
    """Write the schema of every kind to ``KIND.schema.json`` in a folder; return the files.

    A folder that is not there is made.

    Raises
    ------
    AllocError
        If it cannot be made, or a file not be written.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise AllocError(
            f"{folder}: cannot be made a folder ({reason(error)}); name another one."
        ) from None
    paths = []
    for kind in KINDS:
        path = Path(folder) / f"{kind}.schema.json"
        write_text(path, json.dumps(json_schema(kind), indent=2) + "\n")
        paths.append(path)
    return paths
