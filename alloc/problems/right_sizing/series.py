"""Series: numbers by hour of the day or week, or by quarter, without gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from alloc.errors import InstanceError

HOURS_OF_WEEK = 168
"""Hours in the week over which hourly series repeat."""

HOURLY_LENGTHS = (1, 24, HOURS_OF_WEEK)
"""Lengths an hourly series may have: the same all the time, by hour of the day, of the week."""

Series = tuple[float, ...]


def require_hourly(values: Sequence[float], where: str, field: str, what: str = "price") -> None:
    """Refuse an hourly series of a wrong length, with gaps, or with negative numbers.

    Parameters
    ----------
    values
        The series.
    where, field
        Owner and name of the series, for the message.
    what
        What a number of it is, for the message.

    Raises
    ------
    InstanceError
        If it is none; the message names the hour.
    """
    if len(values) not in HOURLY_LENGTHS:
        raise InstanceError(
            f"{where}: {field} has {len(values)} values; give 1 (always the same), 24 (hours of "
            "the day) or 168 (hours of the week, from Monday 00:00)."
        )
    for hour, value in enumerate(values):
        _require_number(value, f"{where}: {field}", f"hour {hour}", what)


def require_quarterly(
    values: Sequence[float], num_quarters: int, where: str, field: str, what: str = "value"
) -> None:
    """Refuse a series that has not one number, 0 or more, for every quarter of the plan.

    Parameters
    ----------
    values
        The series.
    num_quarters
        Quarters of the plan, 1 or more.
    where, field
        Whose series it is and what it is called, for the message.
    what
        What one of its numbers is, for the message.

    Raises
    ------
    InstanceError
        If it has not; the message names the quarter, counted from 0.
    """
    if len(values) != num_quarters:
        if len(values) < num_quarters:
            cure = f"give a number for quarter {len(values)} and every later one"
        else:
            cure = "leave the later ones out, or plan more quarters"
        raise InstanceError(
            f"{where}: {field} has {len(values)} values, and the plan has {num_quarters} quarters; "
            f"{cure}."
        )
    for quarter, value in enumerate(values):
        _require_number(value, f"{where}: {field}", f"quarter {quarter}", what)


def hours_of_week(values: Sequence[float]) -> Series:
    """Return an hourly series by hour of the week, length 168."""
    return tuple(float(v) for v in values) * (HOURS_OF_WEEK // len(values))


def _require_number(value: float | None, owner: str, when: str, what: str) -> None:
    if value is None or math.isnan(value):
        raise InstanceError(f"{owner} has a gap at {when}; give a number for it.")
    if math.isinf(value):
        raise InstanceError(f"{owner} is infinite at {when}; give a finite number.")
    if value < 0:
        raise InstanceError(f"{owner} is {value:g} at {when}; a {what} is 0 or more.")
