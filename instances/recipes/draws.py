"""Draws for recipes, all from `numpy.random.Generator.random`: its stream never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

K = TypeVar("K")


def pick(rng: np.random.Generator, shares: Mapping[K, float]) -> K:
    """Return a key, each as likely as its share of all shares.

    Parameters
    ----------
    rng
        Source of chance.
    shares
        Shares, more than 0; they need not add up to 1.
    """
    left = rng.random() * sum(shares.values())
    for key, share in shares.items():
        left -= share
        if left < 0:
            return key
    return key  # what rounding leaves is the last one's


def between(rng: np.random.Generator, low: float, high: float, digits: int = 3) -> float:
    """Return a number between two others, rounded.

    Parameters
    ----------
    rng
        Source of chance.
    low, high
        The least and the greatest.
    digits
        Digits after the decimal point.
    """
    return round(low + (high - low) * rng.random(), digits)


def below(rng: np.random.Generator, number: int) -> int:
    """Return a whole number from 0 that is less than another.

    Parameters
    ----------
    rng
        Source of chance.
    number
        The other, 1 or more.
    """
    return min(int(rng.random() * number), number - 1)
