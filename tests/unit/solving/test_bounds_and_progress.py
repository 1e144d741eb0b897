"""Bounds beside values: one that a solution beats is an error, never shown; progress in words."""

import math

import pytest

from alloc.certificate import OPTIMALITY_GAP, is_within
from alloc.errors import CertificateError
from alloc.solving.certify import checked_bound
from alloc.solving.progress_line import standing


@pytest.mark.parametrize(("value", "bound", "sense"), [(20.0, 21.0, "min"), (21.0, 20.0, "max")])
def test_a_value_better_than_the_bound_shows_that_the_bound_is_false(value, bound, sense):
    with pytest.raises(CertificateError, match=rf"the bound {bound:g} of highs .* is false"):
        checked_bound(value, bound, sense, 0.0, "highs")


@pytest.mark.parametrize(
    ("value", "bound", "rounding", "proved"),
    [
        (20.0, 20.0, 0.0, True),
        (20.0, 19.0, 0.0, False),
        (0.0, -1e-7, 0.0, False),
        (0.0, -1e-7, 1e-6, True),
    ],
)
def test_the_status_follows_from_value_and_bound(value, bound, rounding, proved):
    found = checked_bound(value, bound, "min", rounding, "highs")
    assert is_within(value, found, OPTIMALITY_GAP) == proved


def test_digits_beyond_the_tolerance_do_not_show_a_gap_below_nothing():
    assert checked_bound(20.0, 20.0 + 1e-6, "min", 0.0, "highs") == 20.0


@pytest.mark.parametrize(
    ("value", "bound", "line"),
    [
        (51_365_613.2, 51_117_313.8, "cost 51,365,613, bound 51,117,314"),
        (51_365_613.2, -math.inf, "cost 51,365,613, no bound yet"),
        (None, -math.inf, "no plan yet, no bound yet"),
    ],
)
def test_progress_is_in_words_and_in_full(value, bound, line):
    assert standing(value, bound) == line
