"""What is where in the library: all that loading a problem needs of the manifest.

The models of the whole manifest (`alloc.instances.catalogue`) take longer than most small solves.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from alloc.documents.files import read_bytes
from alloc.documents.parsing import parse_json
from alloc.errors import InstanceError

ROOT = Path(__file__).resolve().parent
"""Where the manifest and the documents are."""

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Listed:
    """A problem of the library, as far as loading it goes.

    Parameters
    ----------
    id
        ``family/NN``.
    kind
        Kind of its document.
    fingerprint
        Fingerprint of the problem.
    sha256
        Checksum of its stored document, or None if it is generated on demand.
    """

    id: str
    kind: str
    fingerprint: str
    sha256: str | None = None

    @property
    def file(self) -> str:
        """Path of its document, if it is stored, relative to the manifest."""
        return file_of(self.id)


def file_of(instance_id: str) -> str:
    """Return the path of a problem's document, if it is stored, relative to the manifest."""
    return f"data/{instance_id}.json"


@functools.cache
def listing() -> Mapping[str, Listed]:
    """Return the problems of the library by id, in the order of the manifest."""
    path = ROOT / MANIFEST
    raw = parse_json(read_bytes(path), str(path))
    try:
        return {
            one["id"]: Listed(one["id"], one["kind"], one["fingerprint"], one.get("sha256"))
            for one in raw["instances"]
        }
    except (KeyError, TypeError, AttributeError):
        raise InstanceError(
            f"{path}: is no manifest of the library; install alloc again."
        ) from None


def ids(kind: str) -> tuple[str, ...]:
    """Return the ids of the problems whose documents are of a kind."""
    return tuple(one.id for one in listing().values() if one.kind == kind)
