"""Fields of dataclasses: what models, writers and readers of documents ask of them."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_origin


def default_of(member: dataclasses.Field[Any], missing: Any) -> Any:
    """Return the default of a field of a dataclass; `missing` if it has none.

    Parameters
    ----------
    member
        A field of a dataclass.
    missing
        What to return where it has no default.
    """
    if member.default_factory is not dataclasses.MISSING:
        return member.default_factory()
    return missing if member.default is dataclasses.MISSING else member.default


def scalar_of(hint: Any) -> Any:
    """Return the type of the numbers in an array, of a hint such as ``NDArray[np.float64]``."""
    return get_args(get_args(hint)[1])[0]


def is_record(hint: Any) -> bool:
    """Return whether a type is a dataclass, as ``Result[Plan]`` is."""
    return dataclasses.is_dataclass(get_origin(hint) or hint)
