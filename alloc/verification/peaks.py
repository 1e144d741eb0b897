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
    most: npt.NDArray[np.int64] | None = None,
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
    most
        Amounts that are not too much, 0 or more, shape (keys, resources): only of what is above is
        it said when. None: of all.
    """
    peaks = np.zeros((num_keys, demands.shape[1]), dtype=np.int64)
    times = np.zeros((num_keys, demands.shape[1]))
    # So many keys at a time: of long schedules that takes less memory, and no more time.
    width = max(num_keys * _MAX_DEMANDS // max(len(keys), 1), 1)
    if width < num_keys:
        by_key = _sorted_by(keys, num_keys)
        keys = keys[by_key]
    for first in range(0, num_keys, width):
        own = slice(first, first + width)
        if width < num_keys:
            begin, end = np.searchsorted(keys, (own.start, own.stop))
            some = by_key[begin:end]
            its = keys[begin:end] - first, spans[some], demands[some]
        else:
            its = keys, spans, demands
        limits = None if most is None else most[own]
        peaks[own], times[own] = _peaks_of_some(*its, len(peaks[own]), limits)
    return peaks, times


def _sorted_by(keys: npt.NDArray[np.int64], num_keys: int) -> npt.NDArray[np.int64]:
    """Return the order by key, equals as they were."""
    narrow = num_keys <= np.iinfo(np.int16).max  # short numbers are sorted by their digits
    return np.argsort(keys.astype(np.int16) if narrow else keys, kind="stable")


def _peaks_of_some(
    keys: npt.NDArray[np.int64],
    spans: npt.NDArray[np.float64],
    demands: npt.NDArray[np.int64],
    num_keys: int,
    most: npt.NDArray[np.int64] | None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return what `peaks_of` does, for some of the keys."""
    if len(spans) and (demands >= 0).all() and _is_one_span(spans):
        return _peaks_of_one_span(keys, float(spans[0, 0]), demands, num_keys)
    # What ends at a moment is given back before what starts then takes it: sorts keep the order.
    order = np.argsort(np.concatenate([spans[:, 1], spans[:, 0]]), kind="stable")
    key = np.concatenate([keys, keys])[order]
    by_key = _sorted_by(key, num_keys)
    order, key = order[by_key], key[by_key]
    peaks = np.zeros((num_keys, demands.shape[1]), dtype=np.int64)
    times = np.zeros((num_keys, demands.shape[1]))
    if not len(key):
        return peaks, times
    first = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
    own = key[first]
    for r in range(demands.shape[1]):
        amount = demands[:, r]
        if most is not None and not amount.any():
            continue
        # Every key's changes sum to zero, so that keys do not mix.
        level = np.cumsum(np.concatenate([-amount, amount])[order])
        peaks[own, r] = np.maximum(np.maximum.reduceat(level, first), 0)
        if most is not None and (peaks[:, r] <= most[:, r]).all():
            continue
        # At a start, for between two ends of one moment nothing is held at that level.
        at_peak = (level == peaks[key, r]) & (order >= len(keys))
        time = np.concatenate([spans[:, 1], spans[:, 0]])[order]
        times[key[at_peak], r] = time[at_peak]
    return peaks, times


def _is_one_span(spans: npt.NDArray[np.float64]) -> bool:
    """Return whether all demands are held from one moment to a later one, as in a round."""
    begin, end = spans[0].tolist()
    return begin < end and bool((spans == spans[0]).all())


def _peaks_of_one_span(
    keys: npt.NDArray[np.int64], begin: float, demands: npt.NDArray[np.int64], num_keys: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return peaks and times where all is held together: the sums, and when it begins."""
    peaks = np.zeros((num_keys, demands.shape[1]), dtype=np.int64)
    np.add.at(peaks, keys, demands)
    times = np.zeros(peaks.shape)
    times[keys] = begin
    return peaks, times
