"""Units of alloc and the checks that catch confused ones.

Time is in seconds (``_s``), memory in MiB (``_mib``), CPU in milli-cores (``_milli``), GPU shares in
milli-GPU (1,000 = one whole GPU), bandwidth in GB/s, money and energy with the unit in the name.
"""

from __future__ import annotations

import math

from alloc.errors import InstanceError

MILLI = 1000
"""Milli-units in one CPU core or one GPU."""

RESOURCES = ("gpu_milli", "cpu_milli", "memory_mib")
"""The resources a host offers and a task asks for, in the order of every resource vector."""

# A century. Anything later is a Unix time stamp or a time in milliseconds.
_LATEST_S = 100 * 365 * 86400.0
# 64 TiB in MiB. No server has more; bytes and KiB do exceed it.
_MOST_MEMORY_MIB = 64 * 1024 * 1024
# Smallest believable share; a smaller positive number is a count of GPUs or cores.
_LEAST_MILLI = 10


def require_finite(value: float, where: str, field: str) -> None:
    """Refuse NaN and infinities."""
    if not math.isfinite(value):
        raise InstanceError(f"{where}: {field} is {value}; give a finite number.")


def require_non_negative(value: float, where: str, field: str) -> None:
    """Refuse NaN, infinities and negative numbers."""
    require_finite(value, where, field)
    if value < 0:
        raise InstanceError(f"{where}: {field} is {value:g}; it must be 0 or more.")


def require_positive(value: float, where: str, field: str) -> None:
    """Refuse NaN, infinities, zero and negative numbers."""
    require_finite(value, where, field)
    if value <= 0:
        raise InstanceError(f"{where}: {field} is {value:g}; it must be more than 0.")


def require_time(value: float, where: str, field: str) -> None:
    """Refuse times that are negative or surely not in seconds since the instance's start."""
    require_non_negative(value, where, field)
    if value > _LATEST_S:
        raise InstanceError(
            f"{where}: {field} is {value:g} s, more than a century; times are seconds since the "
            "start of the instance, so convert milliseconds and subtract Unix epochs first."
        )


def require_share(value: int, where: str, field: str) -> None:
    """Refuse negative shares and counts mistaken for milli-units."""
    require_non_negative(value, where, field)
    if 0 < value < _LEAST_MILLI:
        unit = "GPU" if field.startswith("gpu") else "core"
        raise InstanceError(
            f"{where}: {field} is {value}, less than 1 % of a {unit}; "
            f"the unit is a thousandth, so write {value * MILLI} for {value} {unit}(s)."
        )


def require_memory(value: int, where: str, field: str) -> None:
    """Refuse negative memory and bytes mistaken for MiB."""
    require_non_negative(value, where, field)
    if value > _MOST_MEMORY_MIB:
        raise InstanceError(
            f"{where}: {field} is {value} MiB, more than 64 TiB; the unit is MiB, "
            "so divide bytes by 1,048,576."
        )
