"""Fingerprints of what is not a document: a digest of numbers, names and arrays."""

from __future__ import annotations

import hashlib

import numpy as np


def digest(*parts: object) -> str:
    """Return the SHA-256 of parts, hexadecimal.

    Parameters
    ----------
    parts
        Numbers, strings, arrays, and tuples of them; anything else by its ``repr``, which must say
        all there is to it, as a dataclass' does.
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            head, body = f"{part.dtype.str}{part.shape}", np.ascontiguousarray(part).tobytes()
        elif isinstance(part, tuple):
            head, body = f"tuple{len(part)}", digest(*part).encode()
        else:
            head, body = type(part).__name__, repr(part).encode()
        found.update(f"{head}:{len(body)}:".encode() + body)
    return found.hexdigest()
