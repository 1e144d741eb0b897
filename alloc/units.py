"""Units of alloc and the checks that catch confused ones.

Time is in seconds (``_s``), memory in MiB (``_mib``), CPU in milli-cores (``_milli``), GPU shares
in milli-GPU (1,000 = one whole GPU), bandwidth in GB/s, money and energy with the unit in the name.

Parameters
----------
value
    The number to be checked.
where, field
    Whose number it is and what it is called, for the message.
"""

from __future__ import annotations

import math
import sys

from alloc.errors import InstanceError

MILLI = 1000
"""Milli-units in one CPU core or one GPU."""

HOUR_S = 3600.0
"""Seconds in one hour."""

GB_PER_MIB = 1024**2 / 10**9
"""GB (as links count) in one MiB (as memory counts)."""

RESOURCES = ("gpu_milli", "cpu_milli", "memory_mib")
"""The resources a host offers and a task asks for, in the order of every resource vector."""

# A century. Anything later is a Unix time stamp or a time in milliseconds.
_LATEST_S = 100 * 365 * 86400.0
# 64 TiB in MiB. No server has more; bytes and KiB do exceed it.
_MAX_MEMORY_MIB = 64 * 1024 * 1024
# Smallest believable share; a smaller positive number is a count of GPUs or cores.
LEAST_MILLI = 10
# A million GPUs or cores on one host or for one task: also a model with the whole cluster as one
# host fits, and sums over many hosts stay within 64 bits.
_MAX_COUNT = 1_000_000
_MAX_MILLI = _MAX_COUNT * MILLI
# Slots are seconds to hours; a smaller number is a mistake, and times are compared to 1e-6 s.
SHORTEST_SLOT_S = 0.001


_PLAIN = (float, int)
_LARGEST = sys.float_info.max


def require_finite(value: float, where: str, field: str) -> None:
    """Refuse NaN, infinities and arrays of one number, which can change."""
    if type(value) in _PLAIN and -_LARGEST <= value <= _LARGEST:
        return  # at once, here and below: an instance has a million numbers
    _require_immutable(value, where, field)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an integer too large to become a float
        finite = False
    if not finite:
        raise InstanceError(f"{where}: {field} is {value}; give a finite number.")


def require_non_negative(value: float, where: str, field: str) -> None:
    """Refuse NaN, infinities and negative numbers."""
    if type(value) in _PLAIN and 0 <= value <= _LARGEST:
        return
    require_finite(value, where, field)
    if value < 0:
        raise InstanceError(f"{where}: {field} is {value:g}; it must be 0 or more.")


def require_positive(value: float, where: str, field: str) -> None:
    """Refuse NaN, infinities, zero and negative numbers."""
    if type(value) in _PLAIN and 0 < value <= _LARGEST:
        return
    require_finite(value, where, field)
    if value <= 0:
        raise InstanceError(f"{where}: {field} is {value:g}; it must be more than 0.")


def require_time(value: float, where: str, field: str) -> None:
    """Refuse times that are negative or surely not in seconds since the instance's start."""
    if type(value) in _PLAIN and 0 <= value <= _LATEST_S:
        return
    require_non_negative(value, where, field)
    if value > _LATEST_S:
        raise InstanceError(
            f"{where}: {field} is {value:g} s, more than a century; times are seconds since the "
            "start of the instance, so convert milliseconds and subtract Unix epochs first."
        )


def require_slot_length(value: float, where: str, field: str) -> None:
    """Refuse slots that are no believable number of seconds."""
    require_positive(value, where, field)
    require_time(value, where, field)
    if value < SHORTEST_SLOT_S:
        raise InstanceError(
            f"{where}: {field} is {value:g} s, less than a millisecond; slots are given in seconds."
        )


def require_count(value: int, where: str, field: str, least: int = 0) -> None:
    """Refuse counts below `least` and beyond a million.

    Parameters
    ----------
    least
        Smallest count that is right.
    """
    _require_immutable(value, where, field)
    if not value >= least:
        raise InstanceError(f"{where}: {field} is {value}; it must be {least} or more.")
    if value > _MAX_COUNT:
        raise InstanceError(
            f"{where}: {field} is {_shown(value)}, more than a million; counts are whole things, "
            "not thousandths."
        )


def require_share(value: int, where: str, field: str) -> None:
    """Refuse negative or absurd shares and counts mistaken for milli-units."""
    require_non_negative(value, where, field)
    if 0 < value < LEAST_MILLI:
        unit = "core" if field.startswith("cpu") else "GPU"
        raise InstanceError(
            f"{where}: {field} is {value}, less than 1 % of a {unit}; "
            f"the unit is a thousandth, so write {value * MILLI} for {value} {unit}(s)."
        )
    if value > _MAX_MILLI:
        unit = "cores" if field.startswith("cpu") else "GPUs"
        raise InstanceError(
            f"{where}: {field} is {_shown(value)}, more than a million {unit}; the unit is a "
            "thousandth of one."
        )


def require_memory(value: int, where: str, field: str) -> None:
    """Refuse negative memory and bytes mistaken for MiB."""
    require_non_negative(value, where, field)
    if value > _MAX_MEMORY_MIB:
        raise InstanceError(
            f"{where}: {field} is {_shown(value)} MiB, more than 64 TiB; the unit is MiB, "
            "so divide bytes by 1,048,576."
        )


def _require_immutable(value: object, where: str, field: str) -> None:
    try:
        hash(value)
    except TypeError:
        raise InstanceError(f"{where}: {field} is {value!r}; give a plain number.") from None


def _shown(value: float) -> str:
    """Return a number too large to be right in few characters."""
    return str(value) if value < 10**18 else f"{value:g}"


def format_number(value: float, digits: int = 6, *, up: bool = False) -> str:
    """Return a number for a sentence: thousands apart, never as a power of ten.

    Parameters
    ----------
    value
        The number.
    digits
        Significant digits; digits before the point are all there.
    up
        Whether to round so that so much is enough.
    """
    if not value or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    if up:
        # Less the noise of a float, which is not to cost a digit - nor, of a large one, more.
        scaled = value * 10.0**decimals
        value = math.ceil(scaled - min(1e-9 * abs(scaled), 1e-3)) / 10.0**decimals
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text
