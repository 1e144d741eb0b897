"""What a replay found of a pool counts as long as the same jobs meet the same hosts."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from alloc.instances.stored_planning import load_stored_planning
from alloc.planning import loop, verdicts
from alloc.planning.pools import Operation, Pool, Regime
from alloc.planning.replay import ReplaySettings, replay_all
from alloc.planning.report import solve_plan
from alloc.problems.right_sizing import Plan, PlanningProblem
from alloc.result import Limits, Result

if TYPE_CHECKING:
    import pytest

QUICK = Limits(seconds=20.0, gap=1e-2)
REPLAY = ReplaySettings(jobs=300, replications=2)


def test_a_pool_that_kept_its_goals_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a plan that stays the same only what missed a goal is."""
    drawn: list[set[tuple[Pool, Regime]]] = []
    missed: list[set[tuple[Pool, Regime]]] = []
    plans: list[tuple[PlanningProblem, Result[Plan]]] = []
    solved = loop._solved

    def judge(operations: list[Operation], settings: ReplaySettings, *, draw: int) -> object:
        found = replay_all(operations, settings, draw=draw)
        at = [(one.pool, one.regime) for one in operations]
        drawn.append(set(at))
        missed.append(
            {
                where
                for where, goals in zip(at, found, strict=True)
                if not all(m.holds for m in goals)
            }
        )
        return found

    def same(*given: object) -> tuple[PlanningProblem, Result[Plan]]:
        if not plans:
            plans.append(solved(*given))  # type: ignore[arg-type]
        return plans[0]

    monkeypatch.setattr(verdicts, "replay_all", judge)
    monkeypatch.setattr(loop, "_solved", same)
    problem = load_stored_planning("planning-tiny/01")
    ended = loop.plan_and_replay(problem, lambda now, last, s: solve_plan(now, QUICK, last), REPLAY)
    assert set() < missed[0] < drawn[0]
    assert len(drawn) > 1
    for before, after in itertools.pairwise(zip(drawn, missed, strict=True)):
        assert after[0] == before[1]
    # Every iteration says of all pools how their goals are kept.
    first = {(m.pool, m.regime) for m in ended.iterations[0].measured}
    assert all({(m.pool, m.regime) for m in one.measured} == first for one in ended.iterations)
