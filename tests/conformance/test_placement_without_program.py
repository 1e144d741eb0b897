"""Goals of placement that no program has: what can be placed at all is decided all the same."""

from __future__ import annotations

from itertools import islice

import pytest
from placement_brute_force import optimum

from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.placement import method
from alloc.verification import verify_placement
from benchmarks.tiny.rules import RULES

pytestmark = pytest.mark.long  # the search for a better placement goes on until its limit

GOALS = ("all_to_all_bandwidth", "mean_bandwidth", "all_to_all_mean_bandwidth then moves")


def drawn(*, possible: bool, number: int) -> list[Instance]:
    """Return tiny problems with running jobs whose rules leave some placement, or none."""
    made = (RULES.problem(seed)[0] for seed in range(1000))
    fit = (i for i in made if i.running and (optimum(i, "moves") is not None) == possible)
    return list(islice(fit, number))


@pytest.mark.parametrize("goal", GOALS)
def test_that_nothing_can_be_placed_is_proved(goal: str) -> None:
    """Rules of thumb that find nothing say nothing: an exact program says that there is nothing."""
    for instance in drawn(possible=False, number=8):
        result = solve(instance, "placement", objective=goal, limits=Limits(seconds=10.0))
        assert result.status == "infeasible"


@pytest.mark.parametrize("goal", GOALS)
def test_what_the_rules_of_thumb_miss_is_placed(goal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method._Solve, "_start", lambda self: None)
    for instance in drawn(possible=True, number=2):
        result = solve(instance, "placement", objective=goal, limits=Limits(seconds=1.0))
        assert result.solution is not None
        assert verify_placement(instance, result.solution) == []


def test_a_level_after_one_without_a_program_has_no_program_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the first level found stands, though the second finds nothing to start from."""
    monkeypatch.setattr(method._Solve, "_start", lambda self: None)
    monkeypatch.setattr(method._Solve, "_improve", lambda self: None)
    for instance in drawn(possible=True, number=2):
        result = solve(instance, "placement", objective=GOALS[-1], limits=Limits(seconds=4.0))
        assert result.solution is not None
        assert verify_placement(instance, result.solution) == []
