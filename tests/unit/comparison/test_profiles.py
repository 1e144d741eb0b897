"""Performance profiles by Dolan and Moré's definition."""

import math

import pytest

from alloc.comparison.profiles import profiles


def test_the_profile_of_an_example_by_hand():
    """Ratios to the best of each problem: a is 1, 1, 4; b is 2, 1 and has no third answer."""
    a, b = profiles({"a": [1.0, 3.0, 8.0], "b": [2.0, 3.0, None]})
    assert a.ratios == (1.0, 1.0, 1.0)
    assert b.ratios == (1.0, 2.0, math.inf)
    assert [b.share(f) for f in (1.0, 1.99, 2.0, 1e9)] == [1 / 3, 1 / 3, 2 / 3, 2 / 3]
    assert b.steps() == [(1.0, 1 / 3), (2.0, 2 / 3)]


def test_a_problem_that_nobody_answers_counts_against_all():
    (only,) = profiles({"a": [None, 5.0]})
    assert only.share(1e9) == 0.5


def test_a_cost_of_nothing_is_only_equalled_by_nothing():
    """A shortfall of 0 has no ratio; whoever has it too is as good."""
    a, b = profiles({"a": [0.0, 0.0], "b": [0.0, 1.0]})
    assert a.ratios == (1.0, 1.0)
    assert b.ratios == (1.0, math.inf)


def test_what_differs_by_rounding_is_equal():
    a, b = profiles({"a": [1.0], "b": [1.0 + 1e-12]})
    assert a.share(1.0) == b.share(1.0) == 1.0


def test_without_problems_there_is_no_profile():
    assert profiles({"a": []}) == []
    assert profiles({}) == []
    with pytest.raises(ValueError, match="shorter"):
        profiles({"a": [1.0, 2.0], "b": [1.0]})
