"""The published JSON Schema of every kind of document.

``python -m alloc.documents docs/schema`` writes the files; a test holds them up to date.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, cast, get_args

from alloc.documents.adapters import ADAPTERS
from alloc.documents.files import reason, write_text
from alloc.documents.models import SCHEMA_VERSION, Kind
from alloc.errors import AllocError, InstanceError, nearest

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_RECORDS: Mapping[str, str] = {
    "inference_problem": "alloc.capacity.inference:InferenceProblem",
    "inference_result": "alloc.capacity.inference_result:InferenceResult",
    "quota_problem": "alloc.capacity.quotas:QuotaProblem",
    "quota_result": "alloc.capacity.quota_result:QuotaResult",
}
"""The dataclass of each kind whose documents have the fields of a dataclass."""

KINDS: tuple[str, ...] = (*get_args(Kind), *_RECORDS)
"""Every kind of document that has a schema."""


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of document.

    Parameters
    ----------
    kind
        ``instance``, ``solution``, ``result``, ``topology``, ``planning``, ``plan``,
        ``plan_result``, ``operation``, ``operation_plan``, ``operation_result``,
        ``inference_problem``, ``inference_result``, ``quota_problem`` or ``quota_result``.

    Raises
    ------
    InstanceError
        If there is no such kind.
    """
    if kind in _RECORDS:
        from alloc.documents.records import record_schema

        module, _, name = _RECORDS[kind].partition(":")
        return record_schema(getattr(import_module(module), name), kind)
    if kind not in KINDS:
        raise InstanceError(
            f'unknown kind of document "{kind}"{nearest(str(kind), KINDS, ".")} Known: '
            f"{', '.join(KINDS)}."
        )
    schema = ADAPTERS[cast(Kind, kind)].json_schema()
    return {
        "$schema": DIALECT,
        "$id": f"urn:alloc:{kind}:{SCHEMA_VERSION}",
        "title": f"alloc {kind} document",
        **{key: value for key, value in schema.items() if key != "title"},
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
