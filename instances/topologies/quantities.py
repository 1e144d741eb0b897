"""Quantities of Kubernetes: ``"127500m"``, ``"1056Gi"``, ``"2e3"``."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from alloc.instances.topologies.markup import Entry
from alloc.instances.topologies.place import shown

_QUANTITY = re.compile(
    r"(?P<number>[0-9]{1,30}(?:\.[0-9]{0,30})?)"
    r"(?:(?P<unit>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
)
_UNITS = {
    **{unit: Fraction(1000**k) for k, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**k) for k, unit in enumerate("KMGTPE", start=1)},
    **{unit: Fraction(1, 1000**k) for k, unit in enumerate("mun", start=1)},
}


def quantity(entry: Entry) -> Fraction:
    """Return a quantity in its own unit: cores, bytes or pieces.

    Raises
    ------
    InstanceError
        If it is not a quantity of 0 or more.

    References
    ----------
    Kubernetes API, "Quantity".
    """
    text = str(entry.value) if not isinstance(entry.value, bool | dict | list) else ""
    value = amount_in(text)
    if value is None:
        raise entry.error(
            f"{entry.label} is {shown(text)}; give a quantity of Kubernetes, for example 64, 500m "
            "or 1024Gi."
        )
    return value


# A dump says the same few quantities over and over.
@lru_cache(maxsize=4096)
def amount_in(text: str) -> Fraction | None:
    """Return the quantity that a text means, in its own unit, or None if it is none of 0 or more.

    Parameters
    ----------
    text
        For example ``"1500m"``, ``"64Gi"`` or ``"1e3"``.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    value = Fraction(found["number"])
    if found["exponent"]:
        return value * Fraction(10) ** int(found["exponent"])
    return value * _UNITS.get(found["unit"] or "", Fraction(1))
