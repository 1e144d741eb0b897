"""Reading and writing any document: the document says what it is."""

from __future__ import annotations

import math
from os import PathLike
from typing import Any

from alloc.collector import collector_paused
from alloc.documents.files import read_bytes
from alloc.documents.formats import format_of, format_of_type
from alloc.documents.heads import require_head
from alloc.documents.kinds import KINDS
from alloc.documents.parsing import describe, parse_file, parse_json
from alloc.documents.upgrades import upgraded
from alloc.errors import InstanceError, nearest


def load(source: str | bytes | PathLike[str]) -> Any:
    """Read a document of alloc: a problem or solution of any family, a result, a topology.

    Parameters
    ----------
    source
        Path of a JSON file, or of a YAML file where its name ends in ``.yaml`` (either gzip where
        it then ends in ``.gz``), or the text of a JSON document, which begins with a brace.

    Raises
    ------
    InstanceError
        If there is no such file, or what it holds is no such document, malformed, or contradicts
        itself.

    Examples
    --------
    >>> load('{"schema_version": 1, "kind": "checkpoint_plan", "after": [1, 3]}')
    CheckpointPlan(after=(1, 3))
    """
    if isinstance(source, bytes) or (isinstance(source, str) and source.lstrip()[:1] == "{"):
        return parse(source)
    try:
        data = read_bytes(source)
        with collector_paused():
            return decode(parse_file(data, source, "the document"), len(data))
    except InstanceError as error:
        if str(error).startswith(f"{source}:"):
            raise
        raise InstanceError(f"{source}: {error}") from None


def parse(text: str | bytes) -> Any:
    """Read a document of any kind from its text.

    Raises
    ------
    InstanceError
        If it is no document of alloc, malformed, or contradicts itself.
    """
    with collector_paused():
        return decode(parse_json(text, "the document"), len(text))


def decode(raw: Any, size: float = math.inf) -> Any:
    """Return the value of a document of any kind, given as plain JSON values.

    Parameters
    ----------
    raw
        The document.
    size
        Length of its text, bytes.

    Raises
    ------
    InstanceError
        If it is no document of alloc, malformed, or contradicts itself.
    """
    kind = require_kind(raw)
    return format_of(kind).decode(require_head(raw, kind), size)


def require_kind(raw: Any) -> str:
    """Return the kind of a document of plain JSON values, in the version of today.

    Raises
    ------
    InstanceError
        If it is of no kind that alloc knows.
    """
    if not isinstance(raw, dict):
        raise InstanceError(
            f"the document is {describe(raw)}; a document is a JSON object, in braces."
        )
    kind = upgraded(raw, "").get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return kind
    said = f"has kind {describe(kind)}" if "kind" in raw else 'has no "kind"'
    raise InstanceError(
        f"the document {said}{nearest(str(kind), KINDS) or ';'} known: {', '.join(KINDS)}."
    )


def save(value: Any, path: str | PathLike[str] | None = None) -> str:
    """Return what `load` reads as a JSON document, and write it if a path is given.

    Parameters
    ----------
    value
        A problem or solution of any family, a result or a topology.
    path
        Path of the file, compressed where its name ends in ``.gz``.

    Raises
    ------
    InstanceError
        If there is no document of such a type, or a name or number in it has no place in one.
    AllocError
        If the file cannot be written; what was there before is still there.
    """
    return format_of_type(type(value)).write(value, path)
