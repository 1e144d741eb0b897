"""Lessening: a plan whose goals hold gives back hosts, and its goals hold still."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest
from planning_worlds import small_pools

from alloc.backends import SolverOptions, highs
from alloc.planning.buffers import Knowledge
from alloc.planning.hosts_program import solved
from alloc.planning.lessening import Judged, lessened
from alloc.planning.pools import Operation, Pool, operations_of, tightest
from alloc.planning.replay import Measured, ReplaySettings
from alloc.planning.report import solve_plan
from alloc.planning.settling import Settling, settled
from alloc.planning.tightenings import with_shared_pools
from alloc.planning.verdicts import Verdicts
from alloc.problems.right_sizing import PlanningProblem
from alloc.problems.right_sizing.accounting import account
from alloc.problems.right_sizing.plan import Plan
from alloc.result import Limits, Result
from alloc.solving.outcome import Progress

REPLAY = ReplaySettings(jobs=100, replications=2)
POOLS = [Pool(gpu_type, "hall", False) for gpu_type in ("a100", "h100")]


def say(sentence: str) -> None:
    """Take what a step does."""


def generous(spreads: float) -> tuple[PlanningProblem, Knowledge, Result[Plan]]:
    """Return a plan whose pools have so many spreads of their load more than the formula says."""
    problem = with_shared_pools(small_pools())
    knowledge = Knowledge(corrections=dict.fromkeys(POOLS, 1.0 + spreads))
    first = solve_plan(problem, Limits(seconds=20.0, gap=1e-6))
    found = settled(problem, knowledge, first, 20.0)
    assert found is not None
    return problem, knowledge, found


def judged(verdicts: Verdicts, problem: PlanningProblem, result: Result[Plan]) -> Judged:
    every = operations_of(problem, result.require_solution())
    operations = tightest(every, REPLAY.regimes)
    return tuple(zip(operations, verdicts.of(operations, 1, say), strict=True))


@pytest.mark.long
def test_a_plan_with_hosts_to_spare_gives_them_back() -> None:
    """Its jobs stay, it costs less, and its goals hold by draws that it was not made by."""
    problem, knowledge, held = generous(3.0)
    verdicts = Verdicts(REPLAY)
    found = lessened(
        problem, knowledge, held, judged(verdicts, problem, held), verdicts, 1, 20.0, say
    )
    assert found is not None
    less, seen = found
    assert less.require_solution().shares == held.require_solution().shares
    costs = [account(problem, one.require_solution()).costs.total for one in (less, held)]
    assert costs[0] < 0.9 * costs[1]
    assert all(one.holds for _, goals in seen for one in goals)
    again = Verdicts(REPLAY)
    operations = [operation for operation, _ in seen]
    assert again.of(operations, 1001, say) == tuple(goals for _, goals in seen)


@pytest.mark.long
def test_what_misses_with_fewer_hosts_gets_back_what_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a plan all of whose pools miss with less, half is given back, and replayed, then all."""
    problem, knowledge, held = generous(3.0)
    verdicts = Verdicts(REPLAY)
    seen = judged(verdicts, problem, held)
    given: list[int] = []
    monkeypatch.setattr(Verdicts, "of", _missing(given))
    assert lessened(problem, knowledge, held, seen, verdicts, 1, 20.0, say) is None
    assert given == [len(seen)] * 2


def _missing(given: list[int]) -> Callable[..., tuple[tuple[Measured, ...], ...]]:
    real = Verdicts.of

    def of(
        self: Verdicts, operations: Sequence[Operation], draw: int, tell: Progress
    ) -> tuple[tuple[Measured, ...], ...]:
        given.append(len(operations))
        found: list[tuple[Measured, ...]] = []
        for measured in real(self, operations, draw, tell):
            found.append(tuple(dataclasses.replace(one, holds=False) for one in measured))
        return tuple(found)

    return of


@pytest.mark.long
@pytest.mark.parametrize("spreads", [0.0, 0.5, 1.0, 2.0])
def test_hosts_cost_no_more_than_a_hundredth_above_the_least(spreads: float) -> None:
    """By whole numbers near the linear program, or all of them where these are poor."""
    problem, knowledge, held = generous(spreads)
    plan = held.require_solution()
    settling = Settling(problem, knowledge)
    needs = settling.required(operations_of(problem, plan))
    model = settling.hosts_program(plan, needs, {}).model
    least = highs.solve(model, SolverOptions(20.0, gap=0.0)).objective
    found = solved(model, 20.0)
    assert least is not None
    assert found is not None
    assert found.values is not None
    assert found.objective is not None
    assert least * (1 - 1e-9) <= found.objective <= 1.01 * least
    whole = found.values[model.integer]
    assert abs(whole - whole.round()).max() < 1e-6
