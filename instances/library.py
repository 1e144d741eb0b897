"""The library: stored instances by id."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from alloc.documents.files import read_bytes
from alloc.errors import InstanceError, nearest
from alloc.instance import Instance
from alloc.instances.catalogue import Entry, Manifest, read_manifest
from alloc.instances.generators import GENERATORS

ROOT = Path(__file__).resolve().parent
"""Where the manifest and the documents are."""

MANIFEST = "manifest.json"


@functools.cache
def manifest() -> Manifest:
    """Return the manifest of the stored instances."""
    return read_manifest(ROOT / MANIFEST)


def families() -> dict[str, tuple[str, ...]]:
    """Return the families with the ids of their instances."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in manifest().instances:
        found[entry.family] = (*found.get(entry.family, ()), entry.id)
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
    return load_entry(manifest().entry(instance_id), ROOT)


def load_entry(entry: Entry, root: Path) -> Instance:
    """Return the instance of a manifest's entry whose files lie below `root`; see `load`."""
    path = root / entry.file
    if not path.exists():
        return regenerate(entry)
    data = read_bytes(path)
    found = hashlib.sha256(data).hexdigest()
    if found != entry.sha256:
        raise InstanceError(
            f"{path}: has SHA-256 {found[:12]}..., but the manifest says {entry.sha256[:12]}...; "
            f"the file of {entry.id} was changed, so restore it (git checkout, or install alloc "
            "again), or load a changed copy of your own with Instance.load."
        )
    return Instance.from_json(data)


def regenerate(entry: Entry) -> Instance:
    """Return an instance generated from the parameters in its manifest entry.

    Raises
    ------
    InstanceError
        If the generator is unknown, or makes another instance than the one in the manifest.
    """
    if entry.generator not in GENERATORS:
        raise InstanceError(
            f'{entry.id}: generator "{entry.generator}" is unknown'
            f"{nearest(entry.generator, GENERATORS) or ';'} known: {', '.join(GENERATORS)}."
        )
    instance = GENERATORS[entry.generator](entry.id, **entry.parameters)
    if instance.fingerprint != entry.fingerprint:
        raise InstanceError(
            f"{entry.id}: the generator makes fingerprint {instance.fingerprint[:12]}..., but the "
            f"manifest says {entry.fingerprint[:12]}...; take {entry.file} from a checkout of "
            "alloc and read it with Instance.load."
        )
    return instance
