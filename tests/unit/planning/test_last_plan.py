"""The last plan, if the one before missed: nothing new is tried, and nothing is left to luck."""

from __future__ import annotations

import dataclasses
from typing import Any
from unittest.mock import ANY

import pytest
from planning_worlds import small_pools
from pools import FILLER, QUICK, SHORT, pool, problem

from alloc.planning.buffers import Knowledge, learn
from alloc.planning.capacity import holds, reserved_gpus
from alloc.planning.iteration_solves import IterationSolves
from alloc.planning.loop import plan_and_replay
from alloc.planning.replay import Measured, ReplaySettings, replay, replay_all
from alloc.planning.report import solve_plan
from alloc.problems.right_sizing import Plan, PlanningProblem
from alloc.problems.right_sizing.demand import MarginKey
from alloc.problems.right_sizing.headroom import KEPT_OUT
from alloc.result import Limits, Result


def test_for_the_last_plan_what_nearly_missed_is_given_a_host_more() -> None:
    """By other draws it is as likely missed, and no plan comes that could mend it."""
    one = pool(3, (SHORT, 12.0), (FILLER, 4.0))
    every = [(draw, replay(one, QUICK, draw=draw)) for draw in range(1, 40)]
    nearly = [
        (draw, found)
        for draw, found in every
        if all(m.holds for m in found) and not all(m.is_sure for m in found)
    ]
    assert nearly
    for draw, found in nearly[:3]:
        for surely in (False, True):
            knowledge = Knowledge()
            asked = [MarginKey(frozenset({"short"}), "a100", "hall", False)]
            learn(knowledge, problem(), asked, [one], [(one, found)], QUICK, draw, surely=surely)
            given = reserved_gpus(problem(), one) + max(knowledge.buffers.values())
            if surely:
                assert given >= one.gpus + 8 - 1e-6
                parts = {8: int(given + 1e-6) // 8, 1: int(given + 1e-6) % 8}
                more = dataclasses.replace(one, hosts=parts)
                assert all(holds(more, QUICK, by) for by in range(draw + 1))
            else:
                assert given <= one.gpus + 1e-6


@pytest.mark.parametrize("max_iterations", [3, 4])
def test_the_last_plan_that_may_hold_is_of_the_places_of_the_one_before(
    max_iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prices look for other places, where nothing was measured yet; that is for earlier plans."""
    asked: list[list[PlanningProblem]] = []

    def tell(sentence: str) -> None:
        if sentence.endswith("solving the plan"):
            asked.append([])

    def solve(tightened: PlanningProblem, last: Result[Plan] | None, _: object) -> Result[Plan]:
        asked[-1].append(tightened)
        return solve_plan(tightened, Limits(seconds=20.0, gap=1e-6), last)

    def miss(*given: object, draw: int) -> tuple[tuple[Measured, ...], ...]:
        found = replay_all(*given, draw=draw)  # type: ignore[arg-type]
        return tuple(tuple(dataclasses.replace(m, holds=False) for m in each) for each in found)

    monkeypatch.setattr("alloc.planning.verdicts.replay_all", miss)
    ended = plan_and_replay(
        small_pools(),
        solve,
        ReplaySettings(jobs=100, replications=2, regimes=1),
        max_iterations=max_iterations,
        progress=tell,
    )
    assert ended.outcome == "missed"
    at_prices = [
        any(1.0 < part.factor < KEPT_OUT for one in problems for part in one.tightening)
        for problems in asked
    ]
    assert at_prices == [False, *[True] * (max_iterations - 2), False]


def test_where_nothing_would_change_the_next_plan_is_made_sure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same plan again would miss the same goals, and iterations are left."""
    ways: list[bool] = []

    def noted(*given: object, surely: bool) -> None:
        ways.append(surely)
        learn(*given, surely=surely)  # type: ignore[arg-type]

    changed = IterationSolves.tightened

    def unchanged_at_first(*given: Any, anywhere: bool) -> object:
        return changed(*given, anywhere=anywhere) if ways[-1] else ANY

    def miss_at_first(*given: object, draw: int) -> tuple[tuple[Measured, ...], ...]:
        found = replay_all(*given, draw=draw)  # type: ignore[arg-type]
        return tuple(
            tuple(dataclasses.replace(m, holds=m.holds and draw > 2) for m in each)
            for each in found
        )

    monkeypatch.setattr("alloc.planning.loop.learn", noted)
    monkeypatch.setattr(IterationSolves, "tightened", unchanged_at_first)
    monkeypatch.setattr("alloc.planning.verdicts.replay_all", miss_at_first)
    ended = plan_and_replay(
        small_pools(),
        lambda tightened, last, _: solve_plan(tightened, Limits(seconds=20.0, gap=1e-6), last),
        ReplaySettings(jobs=100, replications=2, regimes=1),
        max_iterations=5,
    )
    assert ways[:3] == [False, False, True]
    assert len(ended.iterations) > 2
    assert ended.outcome == "holds"
