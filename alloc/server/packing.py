"""Packing: how bodies lie in the database."""

from __future__ import annotations

import zlib

_WORTH_PACKING = 1024
"""Bytes from which compression is worth its time."""


def pack_body(body: bytes) -> bytes:
    """Return a JSON document as it is stored, compressed if it is not small."""
    return zlib.compress(body, 1) if len(body) >= _WORTH_PACKING else body


def unpack_body(body: bytes | None) -> bytes | None:
    """Return what was stored; JSON never begins as a zlib stream does."""
    if body is None or body[:1] != b"\x78":
        return body
    return zlib.decompress(body)
