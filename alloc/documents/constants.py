"""Versions of the formats, and how documents write what JSON has no number for."""

from __future__ import annotations

import math

SCHEMA_VERSION = 1
"""Version of most documents; a change that older readers would misread raises it."""
_VERSIONS = {"result": 2, "operation_report": 2, "inference_report": 2, "quota_report": 2}
"""Kinds of documents whose version is another: since 2 all families have one kind of result."""


def version_of(kind: str) -> int:
    """Return the version in which documents of a kind are written."""
    return _VERSIONS.get(kind, SCHEMA_VERSION)


INFINITIES = {"inf": math.inf, "-inf": -math.inf}
"""How documents write the infinities that a certificate may hold; JSON has no number for them."""
