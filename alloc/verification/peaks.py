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
    key = np.concatenate([keys, keys])
    time = np.concatenate([spans[:, 0], spans[:, 1]])
    change = np.concatenate([demands, -demands])
    starts = np.concatenate([np.ones(len(keys)), np.zeros(len(keys))])
    # What ends at a moment is given back before what starts then takes it.
    order = np.lexsort((starts, time, key))
    key, time, change = key[order], time[order], change[order]
    level = np.cumsum(change, axis=0)  # every key's changes sum to zero, so keys do not mix
    peaks = np.zeros((num_keys, demands.shape[1]), dtype=np.int64)
    times = np.zeros((num_keys, demands.shape[1]))
    for r in range(demands.shape[1]):
        np.maximum.at(peaks[:, r], key, level[:, r])
        at_peak = level[:, r] == peaks[key, r]
        times[key[at_peak], r] = time[at_peak]
    return peaks, times
