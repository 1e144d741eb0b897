"""Intervals against numbers worked out by hand and against what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from alloc.comparison import mean_interval
from alloc.errors import InstanceError


def test_t_interval_matches_the_textbook():
    """1, 2, 3: mean 2, standard error 1/sqrt(3), t(0.975, 2) = 4.302653, half width 2.484138."""
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval.mean == 2.0
    assert interval.low == pytest.approx(2 - 2.484138, abs=1e-5)
    assert interval.high == pytest.approx(2 + 2.484138, abs=1e-5)
    assert interval.count == 3


def test_t_interval_of_two_values():
    """0 and 2: standard error 1, t(0.975, 1) = 12.7062. Two seeds say very little, and look it."""
    interval = mean_interval([0.0, 2.0])
    assert interval.high == pytest.approx(1 + 12.7062, abs=1e-3)


def test_one_value_has_no_interval():
    """One run must not look like a certainty."""
    interval = mean_interval([5.0])
    assert (interval.mean, interval.low, interval.high) == (5.0, None, None)


def test_nothing_has_no_mean():
    interval = mean_interval([])
    assert math.isnan(interval.mean)
    assert interval.count == 0


def test_equal_values_are_known_exactly():
    """A rule without chance gives equal numbers; scipy alone would answer NaN."""
    interval = mean_interval([0.1 + 0.2, 0.3, 0.3])
    assert interval.low == interval.high == interval.mean


def test_infinite_values_have_no_interval():
    """A job that never completes has an infinite JCT in one seed: no spread can be computed."""
    interval = mean_interval([1.0, math.inf])
    assert (interval.mean, interval.low) == (math.inf, None)


def test_bootstrap_is_near_the_t_interval_and_repeats():
    """On 40 normal values both methods agree within a fifth; the same seed gives the same ends."""
    sample = np.random.default_rng(1).normal(10.0, 2.0, 40).tolist()
    student, boot = mean_interval(sample), mean_interval(sample, "bootstrap")
    width = student.high - student.low
    assert boot.low == pytest.approx(student.low, abs=0.2 * width)
    assert boot.high == pytest.approx(student.high, abs=0.2 * width)
    assert boot == mean_interval(sample, "bootstrap")
    assert boot.low < boot.mean < boot.high


def test_intervals_cover_as_promised():
    """A 95 % interval holds the truth in about 95 % of samples: here 500 of five values."""
    rng = np.random.default_rng(2)
    hits = sum(
        interval.low <= 3.0 <= interval.high
        for interval in (mean_interval(rng.normal(3.0, 1.0, 5).tolist()) for _ in range(500))
    )
    assert 0.92 <= hits / 500 <= 0.98


def test_unknown_method_names_the_known_ones():
    with pytest.raises(InstanceError, match=r'"bootstrp"; did you mean "bootstrap".*Known: t'):
        mean_interval([1.0, 2.0], "bootstrp")  # type: ignore[arg-type]
