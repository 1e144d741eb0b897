"""The library: stored instances by id."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from alloc.documents.files import read_bytes
from alloc.errors import InstanceError, nearest
from alloc.instances.catalogue import Entry, Manifest, read_manifest
from alloc.instances.generators import GENERATORS
from alloc.problems.allocation.instance import Instance

ROOT = Path(__file__).resolve().parent
"""Where the manifest and the documents are."""

MANIFEST = "manifest.json"


@functools.cache
def _manifest() -> Manifest:
    return read_manifest(ROOT / MANIFEST)


def manifest() -> tuple[Entry, ...]:
    """Return the entries of the stored instances, family by family."""
    return _manifest().instances


def entry(instance_id: str) -> Entry:
    """Return what the manifest says about a stored instance.

    Raises
    ------
    InstanceError
        If there is none of that id.
    """
    return _manifest().entry(instance_id)


def families() -> dict[str, tuple[str, ...]]:
    """Return the families with the ids of their instances."""
    found: dict[str, tuple[str, ...]] = {}
    for known in manifest():
        found[known.family] = (*found.get(known.family, ()), known.id)
    return found


def load(instance_id: str) -> Instance:
    """Return a stored instance.

    Large families are left out of the wheel: there the instance is generated again, and must have
    the fingerprint that the manifest names.

    Parameters
    ----------
    instance_id
        For example ``"elastic-small/01"``.

    Raises
    ------
    InstanceError
        If there is no such instance, its file was changed, or it cannot be generated as it was.

    Examples
    --------
    >>> load("elastic-small/01").topology.num_gpus
    12
    """
    return load_entry(entry(instance_id), ROOT)


def load_entry(known: Entry, root: Path) -> Instance:
    """Return the instance of a manifest's entry whose files lie below `root`; see `load`."""
    path = root / known.file
    if not path.exists():
        return regenerate(known)
    return Instance.from_json(read_stored(path, known.id, known.sha256, "Instance.load"))


def read_stored(path: Path, stored_id: str, sha256: str, reader: str) -> bytes:
    """Return the bytes of a stored document, which are those that its manifest names.

    Raises
    ------
    InstanceError
        If the file was changed; `reader` is how to read a copy of one's own.
    """
    data = read_bytes(path)
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise InstanceError(
            f"{path}: has SHA-256 {found[:12]}..., but the manifest says {sha256[:12]}...; the "
            f"file of {stored_id} was changed, so restore it (git checkout, or install alloc "
            f"again), or load a changed copy of your own with {reader}."
        )
    return data


def regenerate(known: Entry) -> Instance:
    """Return an instance generated from the parameters in its manifest entry.

    Raises
    ------
    InstanceError
        If the generator is unknown, or makes another instance than the one in the manifest.
    """
    if known.generator not in GENERATORS:
        raise InstanceError(
            f'{known.id}: generator "{known.generator}" is unknown'
            f"{nearest(known.generator, GENERATORS) or ';'} known: {', '.join(GENERATORS)}."
        )
    instance = GENERATORS[known.generator](known.id, **known.parameters)
    if instance.fingerprint != known.fingerprint:
        raise InstanceError(
            f"{known.id}: the generator makes fingerprint {instance.fingerprint[:12]}..., but the "
            f"manifest says {known.fingerprint[:12]}...; take {known.file} from a checkout of "
            "alloc and read it with Instance.load."
        )
    return instance
