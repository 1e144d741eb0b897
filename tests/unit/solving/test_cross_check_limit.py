"""An answer that stays open because a second model had no time says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import alloc
from alloc.formulation import RawResult
from alloc.solving import cross_check
from benchmarks.tiny.families import FAMILIES

if TYPE_CHECKING:
    import pytest


def test_what_is_left_open_for_want_of_time_names_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CP-SAT does not prove it alone; the array model would have."""
    instance, goal = FAMILIES["malleable-scaled"].problem(7301309)
    late = RawResult("no_solution", None, None, -math.inf, "time", "Time limit reached")
    monkeypatch.setattr(cross_check, "solve_and_prove", lambda model, options: late)
    result = alloc.solve(
        instance, "malleable", "cpsat", objective=goal, limits=alloc.Limits(seconds=20)
    )
    assert result.certificate.status == "feasible"
    assert result.certificate.limit == "time"
