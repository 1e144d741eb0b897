"""What is asked and what answers it, one folder a problem: types and measures, numpy only."""

from __future__ import annotations

from functools import cached_property

from alloc.serialisation import Documented, document_format


class Problem(Documented):
    """Base of what is asked: a frozen dataclass with a name, a fingerprint and documents."""

    name: str

    @property
    def is_immutable(self) -> bool:
        """Whether nothing in it can change, arrays and mappings included.

        Its fingerprint may then be worked out later (`alloc.certificate.Certificate.about`).
        """
        return False

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the problem in canonical JSON, hexadecimal; a description is left out."""
        return document_format(type(self)).fingerprint(self)

    def __eq__(self, other: object) -> bool:
        """Compare dataclasses that hold arrays, which have no equality of their own."""
        if type(other) is not type(self) or not isinstance(other, Problem):
            return NotImplemented
        return (self.name, self.fingerprint) == (other.name, other.fingerprint)

    def __hash__(self) -> int:
        return hash(self.fingerprint)
