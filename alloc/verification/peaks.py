"""Peaks: the most that is used at the same time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


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
    # What ends at a moment is given back before what starts then takes it: sorts keep the order.
    order = np.argsort(np.concatenate([spans[:, 1], spans[:, 0]]), kind="stable")
    key = np.concatenate([keys, keys])[order]
    narrow = num_keys <= np.iinfo(np.int16).max  # short numbers are sorted by their digits
    by_key = np.argsort(key.astype(np.int16) if narrow else key, kind="stable")
    order, key = order[by_key], key[by_key]
    level = np.concatenate([-demands, demands])[order]
    np.cumsum(level, axis=0, out=level)  # every key's changes sum to zero, so keys do not mix
    peaks = np.zeros((num_keys, demands.shape[1]), dtype=np.int64)
    times = np.zeros((num_keys, demands.shape[1]))
    if not len(key):
        return peaks, times
    first = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
    peaks[key[first]] = np.maximum(np.maximum.reduceat(level, first, axis=0), 0)
    time = np.concatenate([spans[:, 1], spans[:, 0]])[order]
    for r in range(demands.shape[1]):
        at_peak = level[:, r] == peaks[key, r]
        times[key[at_peak], r] = time[at_peak]
    return peaks, times
