"""Settings: KEY=VALUE pairs on the command line."""

import json
from collections.abc import Iterable
from typing import Any

from alloc.errors import InstanceError


def split_settings(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Return KEY=VALUE pairs as text by key; ``slot-s`` is the same key as ``slot_s``.

    Parameters
    ----------
    pairs
        What the user wrote, each KEY=VALUE.
    option
        Name of the option, for messages.

    Raises
    ------
    InstanceError
        If a pair has no ``=`` or no key, or a key comes twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise InstanceError(f'{option} "{pair}": write KEY=VALUE, for example slot_s=1200.')
        if key in found:
            raise InstanceError(f'{option}: "{key}" is set twice; set it once.')
        found[key] = value.strip()
    return found


def parse_settings(pairs: Iterable[str], option: str) -> dict[str, Any]:
    """Return KEY=VALUE pairs with each value read as JSON, or as text if it is none.

    Parameters
    ----------
    pairs
        What the user wrote, each KEY=VALUE.
    option
        Name of the option, for messages.
    """
    return {key: _value(text) for key, text in split_settings(pairs, option).items()}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
