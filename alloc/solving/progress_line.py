"""How far a search is, in words."""

from __future__ import annotations

import math

from alloc.units import in_full


def standing(value: float | None, bound: float, what: str = "cost") -> str:
    """Return how far a search is, for a line of progress."""
    found = "no plan yet" if value is None else f"{what} {in_full(value)}"
    return f"{found}, {f'bound {in_full(bound)}' if math.isfinite(bound) else 'no bound yet'}"
