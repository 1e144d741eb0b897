"""The unit in which a problem counts its GPUs, so that they are neither huge nor tiny."""

from __future__ import annotations

import math

_MAX_GPUS = 2.0**26
"""GPUs of demand up to which they are counted one by one, and hosts as whole numbers: with more, a
host is next to nothing, a search over whole numbers of them never ends, and the rounding of double
precision reaches a solver's tolerances."""
_GPUS_IN_UNITS = 2.0**10
"""Units that a larger demand comes to: neither one host nor all of them is extreme beside these."""
_LEAST_UNIT = 2.0**-900
"""GPUs; one over it times a price is still finite."""


def unit_of(gpus: float) -> float:
    """Return the unit in which so many GPUs are neither huge nor tiny."""
    if gpus == 0 or 1 <= gpus <= _MAX_GPUS:
        return 1.0
    about = 2.0 ** math.floor(math.log2(gpus))
    return max(about / (_GPUS_IN_UNITS if gpus > 1 else 1.0), _LEAST_UNIT)
