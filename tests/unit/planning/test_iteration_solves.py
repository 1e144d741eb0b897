"""The solves of an iteration of planning and replaying keep to its time."""

from __future__ import annotations

import pytest
from planning_worlds import small_pools as problem

from alloc.planning.loop import plan_and_replay
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import solve_plan
from alloc.problems.right_sizing import Plan, PlanningProblem
from alloc.result import Limits, Result

EXACT = Limits(seconds=20.0, gap=1e-6)
REPLAY = ReplaySettings(jobs=100, replications=2, regimes=1)


@pytest.mark.long
@pytest.mark.parametrize("part", [0.6, 1.0])
def test_the_solves_of_an_iteration_share_its_time(
    monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    """However many there are, and also where each of them takes all that it is given."""
    clock = [0.0]
    monkeypatch.setattr("alloc.planning.iteration_solves.time.monotonic", lambda: clock[0])
    # What the solves of each iteration are given; a class is always short of something.
    given: list[list[float]] = []
    monkeypatch.setattr("alloc.planning.iteration_solves.raise_buffers", lambda *known: True)

    def solve(
        tightened: PlanningProblem, last: Result[Plan] | None, seconds: float | None
    ) -> Result[Plan]:
        assert seconds is not None
        given[-1].append(seconds)
        clock[0] += part * seconds
        return solve_plan(tightened, EXACT, last)

    def tell(sentence: str) -> None:
        if "solving the plan" in sentence:
            given.append([])

    plan_and_replay(problem(), solve, REPLAY, seconds=10.0, progress=tell, max_iterations=3)
    first, *others = given
    assert first == [10.0]
    for each in others:
        # A plan that takes all that it may leaves time for one that has what it lacks.
        assert len(each) > 2
        assert max(each) <= 5.0
        assert part * sum(each) <= 10.0 * (1 + 1e-9)
