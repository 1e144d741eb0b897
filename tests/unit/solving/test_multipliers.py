"""Cutting planes for the dual: known minima, boxes, and bounds that hold whenever they stop."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.algorithms.multipliers import minimise_dual


def pieces(slopes, offsets):
    """Return the maximum of linear pieces as a function with a subgradient."""
    slopes, offsets = np.array(slopes, dtype=float), np.array(offsets, dtype=float)

    def function(point):
        values = slopes @ point + offsets
        best = int(values.argmax())
        return float(values[best]), slopes[best]

    return function


def test_a_kink_in_one_dimension_is_found_exactly():
    found = minimise_dual(pieces([[-1], [2]], [4, -2]), np.array([10.0]))
    assert found.value == pytest.approx(2.0)
    assert found.multipliers == pytest.approx([2.0])
    assert found.gap <= 1e-6


def test_a_kink_in_three_dimensions_is_found():
    """max(6 - a - 2b - 3c, a, b, c): all four meet at 6/7."""
    function = pieces([[-1, -2, -3], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [6, 0, 0, 0])
    found = minimise_dual(function, np.full(3, 5.0))
    assert found.value == pytest.approx(6 / 7)


def test_the_box_binds_where_the_function_still_falls():
    found = minimise_dual(pieces([[-1, 0]], [5]), np.array([3.0, 1.0]))
    assert found.value == pytest.approx(2.0)
    assert found.multipliers[0] == pytest.approx(3.0)


def test_the_minimum_at_zero_takes_one_evaluation():
    """Capacity to spare has no price, and needs no search."""
    found = minimise_dual(pieces([[2.0]], [7.0]), np.array([9.0]))
    assert found.evaluations == 1
    assert found.value == 7.0
    assert found.multipliers.tolist() == [0.0]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_stopping_early_still_gives_a_value_of_the_function_and_an_honest_gap(most):
    """Every evaluation is a valid bound; the gap must cover the distance to the true minimum."""
    function = pieces([[-1, -2, -3], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [6, 0, 0, 0])
    found = minimise_dual(function, np.full(3, 5.0), max_evaluations=most)
    assert found.evaluations == most
    assert found.value == pytest.approx(function(found.multipliers)[0])
    assert found.value - found.gap <= 6 / 7 + 1e-9 <= found.value + 1e-9


def test_the_knapsack_dual_equals_its_linear_relaxation():
    """Values 10, 6, 4 of sizes 5, 4, 3 in 7: the linear relaxation takes 1 and 2/4: 13."""
    value, size = np.array([10.0, 6.0, 4.0]), np.array([5.0, 4.0, 3.0])

    def function(price):
        gain = value - price[0] * size
        return float(7 * price[0] + gain.clip(0).sum()), np.array([7 - size[gain > 0].sum()])

    found = minimise_dual(function, np.array([2.0]))
    assert found.value == pytest.approx(13.0)
    assert found.multipliers == pytest.approx([1.5])


def test_the_first_evaluation_is_a_bound_where_no_time_is_left():
    function = pieces([[-1], [2]], [4, -2])
    found = minimise_dual(function, np.array([10.0]), is_over=lambda: True)
    assert found.evaluations == 1
    assert found.value == function(found.multipliers)[0]
    assert found.value >= minimise_dual(function, np.array([10.0])).value
