"""The published JSON Schema of every kind of document.

``python -m alloc.documents docs/schema`` writes the files; a test holds them up to date.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from alloc.documents.adapters import ADAPTERS
from alloc.documents.files import write_text
from alloc.documents.models import SCHEMA_VERSION, Kind
from alloc.errors import InstanceError, nearest

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of document.

    Parameters
    ----------
    kind
        ``instance``, ``solution``, ``result``, ``topology``, ``planning``, ``plan``,
        ``plan_result``, ``operation``, ``operation_plan`` or ``operation_result``.

    Raises
    ------
    InstanceError
        If there is no such kind.
    """
    if kind not in ADAPTERS:
        known = get_args(Kind)
        raise InstanceError(
            f'unknown kind of document "{kind}"{nearest(str(kind), known, ".")} Known: '
            f"{', '.join(known)}."
        )
    schema = ADAPTERS[kind].json_schema()
    return {
        "$schema": DIALECT,
        "$id": f"urn:alloc:{kind}:{SCHEMA_VERSION}",
        "title": f"alloc {kind} document",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def write_schemas(folder: str | PathLike[str]) -> list[Path]:
    """Write the schema of every kind to ``KIND.schema.json`` in a folder; return the files."""
    paths = []
    for kind in get_args(Kind):
        path = Path(folder) / f"{kind}.schema.json"
        write_text(path, json.dumps(json_schema(kind), indent=2) + "\n")
        paths.append(path)
    return paths
