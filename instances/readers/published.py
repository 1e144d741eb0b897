"""Which files are those that a trace's publishers gave out: only their instances name them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from alloc.instances.readers.table import open_bytes

# The first 16 digits of the SHA-256 of each published table, unpacked. A file with another digest
# may be a part of one, or one's own jobs in the same columns: nothing in it tells.
_DIGESTS = {
    "itp": (
        "27d707f576fce563 7a5849e73aff9f9b 282d765c5289ab0b 247850e4265f3574 1553359ddd673a0f "
        "52c0d9247d1de9b1 d4f46f32e2965c22 d60c20d0cd05ddf4 da4047d6f09cc417 139abea485b52090 "
        "80eb7ae03ba5b19c 599c2b80cea7b3d4 40c46447fb4738b4 c8ddeebae6a586b4 b999cbdb8a773b58 "
        "10be53b70dca8052 36442e0b06ced83b e0fa937ebfab3f6e deac8ab3f9710f1a ca5e83a973c0c104 "
        "e54ba1d74228d02d"
    ),
    "philly": ("ebffb3dd1589bdf4"),
    "openb": (
        "5a85c2af79c66a1e 2beca64b4d3dfa34 8ed554026d041b15 747f43247bffc2b0 f8a2b031461b54d7 "
        "bec1c33fbdde61fd b7e9d8a1a601da84 87bebd4d012faa83 134c21ff96d57533 76528825f40ee662 "
        "1ee7ed79c27a3b08 12dbc07d6a49bf86 9be2d0efb52e242c d83ce79a4eb69875 d31809628128a1f2 "
        "88b6649369ced40d 8f1c0ef7e4e511e9 2dc7e4cb9480484f 6b9b89ab8913c1c0 9d030679a2ccd7e2 "
        "eca4f746db1e5b25 d9ec6f6c74fb980c a5e479c6444b1d83 32c9e8731ca07ef9 206f2f5959db30ec"
    ),
}
_CHUNK = 2**20
"""Bytes read at once: 1 MiB, so that files of any size take no more memory."""
_KNOWN = {trace: frozenset(digests.split()) for trace, digests in _DIGESTS.items()}


def source_of(
    trace: str, source: Mapping[str, str], *paths: str | PathLike[str]
) -> Mapping[str, str]:
    """Return where tables come from, as far as that can be known.

    Parameters
    ----------
    trace
        The trace whose columns they have: ``itp``, ``philly`` or ``openb``.
    source
        What holds of the published files.
    paths
        The files.

    Returns
    -------
    mapping
        `source` if every file is one that was published, and otherwise what they are called.
    """
    if all(_digest(path) in _KNOWN[trace] for path in paths):
        return source
    names = ", ".join(Path(path).name for path in paths)
    return {"source": f"{names}, in the columns of the {trace} trace but none of its files"}


def _digest(path: str | PathLike[str]) -> str:
    found = hashlib.sha256()
    with open_bytes(Path(path)) as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()[:16]
