"""How far a search is, in words."""

from __future__ import annotations

import math

from alloc.units import format_number


def standing(value: float | None, bound: float, what: str = "cost") -> str:
    """Return how far a search is, for a line of progress.

    Parameters
    ----------
    value
        Value of the best plan, or None while there is none.
    bound
        Best bound, infinite while there is none.
    what
        What the value is called.
    """
    found = "no plan yet" if value is None else f"{what} {format_number(value)}"
    return f"{found}, {f'bound {format_number(bound)}' if math.isfinite(bound) else 'no bound yet'}"
