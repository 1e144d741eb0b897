"""Confidence intervals of a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from alloc.errors import InstanceError, nearest

Method = Literal["t", "bootstrap"]
CONFIDENCE = 0.95
"""Confidence level of every interval in tables and figures."""
_RESAMPLES = 9999
"""The default of scipy: 2.5% of one more is a whole number."""


@dataclass(frozen=True)
class Interval:
    """A mean and how well it is known.

    Parameters
    ----------
    mean
        Sample mean; NaN of an empty sample, infinite when a value is.
    low, high
        Ends of the 95 % confidence interval of the mean, or None when the sample cannot tell: one
        value, none, or infinite ones.
    count
        Size of the sample.
    """

    mean: float
    low: float | None
    high: float | None
    count: int


def mean_interval(values: Sequence[float], method: Method = "t", *, seed: int = 0) -> Interval:
    """Return the mean of a sample with its 95 % confidence interval.

    Parameters
    ----------
    values
        Independent observations: seeds of one instance, or instances of one family.
    method
        ``t``: Student's interval, exact for normal errors and sensible for a handful of values;
        ``bootstrap``: bias-corrected and accelerated, for larger samples that are skewed.
    seed
        Seed of the resampling of the bootstrap.

    Returns
    -------
    Interval
        Without ends when fewer than two values or infinite ones came.

    Raises
    ------
    InstanceError
        If the method is unknown.

    References
    ----------
    Student (1908), doi:10.2307/2331554. Efron (1987), doi:10.1080/01621459.1987.10478410.

    Examples
    --------
    >>> interval = mean_interval([1.0, 2.0, 3.0])
    >>> round(interval.low, 3), round(interval.high, 3)
    (-0.484, 4.484)
    """
    if method not in ("t", "bootstrap"):
        raise InstanceError(
            f'unknown interval method "{method}"{nearest(method, ("t", "bootstrap"), ".")} '
            "Known: t, bootstrap."
        )
    sample = np.asarray(values, dtype=float)
    if sample.size == 0:
        return Interval(math.nan, None, None, 0)
    mean = float(sample.mean())
    if sample.size < 2 or not np.isfinite(sample).all():
        return Interval(mean, None, None, int(sample.size))
    # Both methods divide by the spread; equal values are known exactly (a rule without chance).
    if np.ptp(sample) <= 1e-12 * abs(mean):
        return Interval(mean, mean, mean, int(sample.size))
    low, high = _student(sample) if method == "t" else _bootstrap(sample, seed)
    return Interval(mean, low, high, int(sample.size))


def _student(sample: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    from scipy import stats

    low, high = stats.t.interval(
        CONFIDENCE, sample.size - 1, loc=sample.mean(), scale=stats.sem(sample)
    )
    return float(low), float(high)


def _bootstrap(
    sample: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int
) -> tuple[float, float]:
    from scipy import stats

    found = stats.bootstrap(
        (sample,),
        np.mean,
        confidence_level=CONFIDENCE,
        n_resamples=_RESAMPLES,
        method="BCa",
        # Since scipy 1.15 also called rng; this name works from 1.11 on.
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)
