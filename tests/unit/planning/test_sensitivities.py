"""What a little more of something changes: the range that two certificates prove."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alloc.certificate import Certificate
from alloc.planning.resolves import Changed, solve_again
from alloc.result import Sensitivity
from alloc.solving.outcome import Settings

NUMBERS = st.integers(-1000, 1000).map(float)


def certificate(objective: float | None, bound: float, sense: Any, status: Any) -> Certificate:
    return Certificate(status, objective, bound, sense, "v", "f", "b", "1", 0, 1, 0.0, "p")


def more(before: Certificate, after: Certificate) -> Sensitivity:
    change = Changed("host", "pool", 1.0, "hosts", lambda: None)
    found, interrupted = solve_again([change], before, lambda *_: after, Settings(), lambda _: None)
    assert not interrupted
    return found[0]


@given(sense=st.sampled_from(["min", "max"]), data=st.data())
def test_the_change_of_the_optimum_lies_in_the_proved_range(sense, data):
    """Wherever the two optima are between what was found and what is proved."""
    optima, certificates = [], []
    for _ in range(2):
        optimum = data.draw(NUMBERS)
        worse, better = (data.draw(st.integers(0, 50)) for _ in range(2))
        sign = 1 if sense == "min" else -1
        optima.append(optimum)
        certificates.append(
            certificate(optimum + sign * worse, optimum - sign * better, sense, "feasible")
        )
    found = more(*certificates)
    assert found.lower <= optima[1] - optima[0] <= found.upper
    assert found.lower <= found.value <= found.upper
    assert not found.is_exact


def test_two_optima_prove_the_value():
    found = more(certificate(5.0, 5.0, "min", "optimal"), certificate(3.0, 3.0, "min", "optimal"))
    assert (found.value, found.lower, found.upper, found.is_exact) == (-2.0, -2.0, -2.0, True)


def test_without_a_bound_nothing_is_proved():
    before = certificate(5.0, 5.0, "min", "optimal")
    found = more(before, certificate(4.0, -math.inf, "min", "feasible"))
    assert (found.value, found.lower, found.upper) == (-1.0, None, -1.0)


@pytest.mark.parametrize(("status", "proved"), [("infeasible", True), ("no_solution", False)])
def test_that_there_is_no_solution_is_proved_or_only_not_found(status, proved):
    before = certificate(5.0, 5.0, "min", "optimal")
    found = more(before, certificate(None, -math.inf, "min", status))
    assert (found.value, found.is_exact) == (None, proved)
