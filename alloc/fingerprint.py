"""Fingerprints of what is large: a digest of numbers, names and arrays."""

from __future__ import annotations

import dataclasses
import hashlib
from numbers import Integral, Real

import numpy as np


def digest(*parts: object) -> str:
    """Return the SHA-256 of parts, hexadecimal; equal numbers have one, whatever their type.

    Parameters
    ----------
    parts
        Numbers, strings, arrays of numbers, dataclasses, and tuples or lists of them; anything else
        by its ``repr``, which must say all there is to it.
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            whole = np.issubdtype(part.dtype, np.integer)
            # Of the two zeros the one without a sign.
            plain = np.ascontiguousarray(part + 0, dtype=np.int64 if whole else np.float64)
            head, body = f"{plain.dtype.str}{part.shape}", plain.tobytes()
        elif isinstance(part, tuple | list):
            head, body = f"tuple{len(part)}", digest(*part).encode()
        elif dataclasses.is_dataclass(part) and not isinstance(part, type):
            fields = (getattr(part, field.name) for field in dataclasses.fields(part))
            head, body = type(part).__name__, digest(*fields).encode()
        elif isinstance(part, Real):
            # As documents write it, so that what is saved and loaded has the same: whole numbers
            # of 64 bits as they are, all others as floats.
            short = isinstance(part, Integral) and abs(int(part)) < 2**63
            value = int(part) if isinstance(part, Integral) and short else float(part)
            whole = float(value).is_integer()
            head, body = "number", repr(int(value) if whole else value).encode()
        elif isinstance(part, str):
            head, body = "str", repr(str(part)).encode()
        else:
            head, body = type(part).__name__, repr(part).encode()
        found.update(f"{head}:{len(body)}:".encode() + body)
    return found.hexdigest()
