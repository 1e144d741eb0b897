"""Heads: what a document says of itself, its kind and the version of the format."""

from __future__ import annotations

from typing import Any

from alloc.documents.constants import version_of
from alloc.documents.kinds import KINDS, title_of
from alloc.documents.parsing import describe, parse_json
from alloc.documents.upgrades import upgraded
from alloc.errors import InstanceError, nearest
from alloc.release import alloc_version

READ_SINCE = {1: "0.1.0", 2: "0.1.0"}
"""The first version of alloc that reads each schema version."""


def parse_document(text: str | bytes, kind: str) -> dict[str, Any]:
    """Parse a JSON document and check its head: what it is, and in which version of the format.

    Parameters
    ----------
    text
        The document.
    kind
        The kind that it must be of, such as ``instance``.

    Raises
    ------
    InstanceError
        If the text is not one JSON object of that kind that this version of alloc reads.
    """
    return require_head(parse_json(text, f"the {kind} document"), kind)


def require_head(raw: Any, kind: str) -> dict[str, Any]:
    """Return a document of plain JSON values in the version of today, if it is of a kind.

    Parameters
    ----------
    raw
        The document as plain JSON values.
    kind
        The kind that it must be of, such as ``instance``.

    Raises
    ------
    InstanceError
        If it is no object, of another kind, or of a version that this alloc does not read.
    """
    if not isinstance(raw, dict):
        raise InstanceError(
            f"the {kind} document is {describe(raw)}; a document is a JSON object, in braces."
        )
    document: dict[str, Any] = upgraded(raw, kind)
    _check_kind(document, kind)
    _check_version(document, kind)
    return document


def _check_kind(raw: dict[str, Any], kind: str) -> None:
    found = raw.get("kind")
    if "kind" not in raw:
        raise InstanceError(f'the {kind} document has no "kind"; add "kind": "{kind}".')
    if found == kind:
        return
    wanted = title_of(kind)
    if isinstance(found, str) and found in KINDS:
        raise InstanceError(f"this is {title_of(found)}, and {wanted} was expected; give {wanted}.")
    raise InstanceError(
        f"the document has kind {describe(found)}{nearest(str(found), KINDS) or ';'} "
        f'{wanted} has "kind": "{kind}".'
    )


def _check_version(raw: dict[str, Any], kind: str) -> None:
    newest = version_of(kind)
    if "schema_version" not in raw:
        raise InstanceError(
            f'the {kind} document has no "schema_version"; add "schema_version": {newest}.'
        )
    found = raw["schema_version"]
    if type(found) is not int or found < 1:
        raise InstanceError(
            f"the {kind} document has schema_version {describe(found)}; this alloc writes {newest}."
        )
    if found > newest:
        raise InstanceError(
            f"the {kind} document has schema_version {describe(found)}, and this alloc "
            f"{alloc_version()} reads up to {newest} (read since alloc "
            f"{READ_SINCE[newest]}); upgrade alloc, or write the document with this one."
        )
