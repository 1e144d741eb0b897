"""Peaks: the most that is used at the same time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MAX_DEMANDS = 50_000
"""Demands that are sorted at a time, some: 2 MB an array."""


def peaks_of(
    keys: npt.NDArray[np.int64],
    spans: npt.NDArray[np.float64],
    demands: npt.NDArray[np.int64],
    num_keys: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the largest simultaneous use per key and resource, and when it is reached.

    Parameters
    ----------
    keys
        Whose use each demand is, from 0, shape (n,).
    spans
        Start and end of each demand, end excluded, shape (n, 2).
    demands
        Amounts, shape (n, resources).
    num_keys
        Number of keys.
    """
    peaks = np.zeros((num_keys, demands.shape[1]), dtype=np.int64)
    times = np.zeros((num_keys, demands.shape[1]))
    # So many keys at a time: of long schedules that takes less memory, and no more time.
    width = max(num_keys * _MAX_DEMANDS // max(len(keys), 1), 1)
    for first in range(0, num_keys, width):
        own = slice(first, first + width)
        some = (keys >= own.start) & (keys < own.stop)
        peaks[own], times[own] = _peaks_of_some(
            keys[some] - first, spans[some], demands[some], len(peaks[own])
        )
    return peaks, times


def _peaks_of_some(
    keys: npt.NDArray[np.int64],
    spans: npt.NDArray[np.float64],
    demands: npt.NDArray[np.int64],
    num_keys: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return what `peaks_of` does, for some of the keys."""
    # What ends at a moment is given back before what starts then takes it: sorts keep the order.
    order = np.argsort(np.concatenate([spans[:, 1], spans[:, 0]]), kind="stable")
    key = np.concatenate([keys, keys])[order]
    narrow = num_keys <= np.iinfo(np.int16).max  # short numbers are sorted by their digits
    by_key = np.argsort(key.astype(np.int16) if narrow else key, kind="stable")
    order, key = order[by_key], key[by_key]
    peaks = np.zeros((num_keys, demands.shape[1]), dtype=np.int64)
    times = np.zeros((num_keys, demands.shape[1]))
    if not len(key):
        return peaks, times
    time = np.concatenate([spans[:, 1], spans[:, 0]])[order]
    first = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
    own = key[first]
    for r in range(demands.shape[1]):
        amount = demands[:, r]
        # Every key's changes sum to zero, so that keys do not mix.
        level = np.cumsum(np.concatenate([-amount, amount])[order])
        peaks[own, r] = np.maximum(np.maximum.reduceat(level, first), 0)
        at_peak = level == peaks[key, r]
        times[key[at_peak], r] = time[at_peak]
    return peaks, times
