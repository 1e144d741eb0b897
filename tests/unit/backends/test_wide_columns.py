"""Whole columns that count billions: refused in a sentence, or solved right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.errors import UnsupportedFeatureError
from alloc.formulation import ArrayModel


def wide(count: float) -> ArrayModel:
    """Two whole columns, of which one or `count` of the other do the same for 1.0 or 0.5."""
    return ArrayModel(
        sense="min",
        cost=np.array([1.0, 0.5 / count]),
        matrix=sparse.csr_array(np.array([[count, 1.0]])),
        row_lower=np.array([count]),
        row_upper=np.array([np.inf]),
        lower=np.zeros(2),
        upper=np.array([1.0, 2.0 * count]),
        integer=np.array([True, True]),
        rows={"work": slice(0, 1)},
    )


@pytest.mark.parametrize("count", [1e3, 1e5, 5e5])
def test_a_whole_column_of_half_a_million_is_solved_right(count: float) -> None:
    raw = highs.solve(wide(count), SolverOptions(time_limit_s=10.0))
    assert raw.objective == pytest.approx(0.5, rel=1e-6)
    assert raw.bound <= 0.5 * (1 + 1e-6)


@pytest.mark.parametrize("count", [1e7, 1e8, 1e9, 4e9, 1e12])
def test_a_whole_column_that_tolerances_would_hide_is_refused(count: float) -> None:
    """Of 30 random programs with columns of up to 4e9, 18 had false optima, by up to 100 %."""
    with pytest.raises(UnsupportedFeatureError, match="count it in larger units") as refusal:
        highs.solve(wide(count), SolverOptions(time_limit_s=10.0))
    assert 'whole column 1, in rows "work", may take' in str(refusal.value)


@pytest.mark.parametrize("upper", [1e7, 1e10])
def test_a_wide_column_of_ordinary_cost_is_solved(upper: float) -> None:
    """Bounds that are derived for open columns may be as wide as this, and hide nothing."""
    model = replace(wide(20.0), upper=np.array([1.0, upper]))
    assert highs.solve(model, SolverOptions(time_limit_s=10.0)).objective == pytest.approx(0.5)


def test_a_narrow_column_whose_entries_are_left_out_is_refused() -> None:
    """10 was proved, with 1.0 to be had: HiGHS left the entry of a million tasks out."""
    model = ArrayModel(
        sense="min",
        cost=np.array([10.0, 1e-6]),
        matrix=sparse.csr_array(np.array([[2e9, 1.0]])),
        row_lower=np.array([1e6]),
        row_upper=np.array([np.inf]),
        lower=np.zeros(2),
        upper=np.array([1.0, 1.04e6]),
        integer=np.array([True, True]),
        rows={"work": slice(0, 1)},
    )
    with pytest.raises(UnsupportedFeatureError, match="whole column 1"):
        highs.solve(model, SolverOptions(time_limit_s=10.0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cost", [0.0, 1e-9])
def test_a_column_without_limits_hides_something_only_if_it_costs(cost: float) -> None:
    model = ArrayModel(
        sense="min",
        cost=np.array([1.0, -cost]),
        matrix=sparse.csr_array(np.array([[1.0, 1.0], [1.0, -1.0]])),
        row_lower=np.array([3.0, -np.inf]),
        row_upper=np.array([np.inf, 8.0]),
        lower=np.array([0.0, -np.inf]),
        upper=np.array([10.0, np.inf]),
        integer=np.array([True, True]),
        rows={"work": slice(0, 2)},
    )
    options = SolverOptions(time_limit_s=10.0)
    if cost:
        with pytest.raises(UnsupportedFeatureError, match="may take any number of values"):
            highs.solve(model, options)
    else:
        assert highs.solve(model, options).objective == 0.0
