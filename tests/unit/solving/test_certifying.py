"""Certificates by a solver's word: a bound that the plan itself passes is an error, never shown."""

import math

import pytest
from quota_problems import a_quota_problem

from alloc.capacity.quotas import QuotaTenant
from alloc.errors import CertificateError
from alloc.solving.capacity.certifying import certified, standing
from alloc.solving.outcome import Settings

PROBLEM = a_quota_problem([QuotaTenant("a")], [[2]], 4)


def a_certificate(value, bound, **changes):
    words = {"objective_name": "cost", "formulation": "f", "backend_name": "highs"}
    return certified(PROBLEM, value, bound, Settings(), **words, **changes)


@pytest.mark.parametrize(("value", "bound", "sense"), [(20.0, 21.0, "min"), (21.0, 20.0, "max")])
def test_a_plan_better_than_the_bound_shows_that_the_bound_is_false(value, bound, sense):
    with pytest.raises(CertificateError, match=rf"highs claims the bound {bound:g}.* is false"):
        a_certificate(value, bound, sense=sense)


@pytest.mark.parametrize(
    ("value", "bound", "changes", "status"),
    [
        (20.0, 20.0, {}, "optimal"),
        (20.0, 19.0, {}, "feasible"),
        (0.0, -1e-7, {}, "feasible"),
        (0.0, -1e-7, {"rounding": 1e-6}, "optimal"),
        (None, math.inf, {"infeasible": True}, "infeasible"),
        (None, 3.0, {"limit": "time"}, "no_solution"),
    ],
)
def test_the_status_follows_from_value_and_bound(value, bound, changes, status):
    found = a_certificate(value, bound, **changes)
    assert found.status == status
    assert found.verified == (value is not None)


def test_digits_beyond_the_tolerance_do_not_show_a_gap_below_nothing():
    found = a_certificate(20.0, 20.0 + 1e-6)
    assert found.bound == found.objective == 20.0


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
