"""What a plan keeps when it is interrupted, and what it says when nothing was measured."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from planning_worlds import small_pools as problem

from alloc.errors import InstanceError
from alloc.planning import verdicts
from alloc.planning.changes import Demand
from alloc.planning.differences import what_if
from alloc.planning.documents import encode_report, encode_what_if
from alloc.planning.fronts import pareto
from alloc.planning.replay import ReplaySettings, replay_all
from alloc.planning.report import plan
from alloc.problems.right_sizing import ServiceGoal
from alloc.problems.right_sizing.plan_tables import difference_tables
from alloc.result import Limits
from alloc.solving.right_sizing import method as right_sizing
from alloc.solving.right_sizing.decomposition import Decomposition
from alloc.verification.right_sizing import verify_plan

EXACT = Limits(seconds=20.0, gap=1e-6)
REPLAY = ReplaySettings(jobs=100, replications=2, regimes=1)


def test_an_interrupt_keeps_the_plan_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C keeps what was found, as the README says; a front would need the whole answer."""

    search = Decomposition._search

    def interrupted(self: Decomposition) -> str | None:
        search(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(right_sizing, "_FEW_COLUMNS", 0)
    monkeypatch.setattr(Decomposition, "_search", interrupted)
    report = plan(problem(), limits=EXACT)
    certificate = report.result.certificate
    assert certificate.limit == "interrupt"
    assert report.result.solution is not None
    assert not verify_plan(problem(), report.result.solution)
    assert certificate.objective is not None
    assert 0 < certificate.bound <= certificate.objective
    found = what_if(problem(), [Demand(1.5)], limits=EXACT)
    assert found.base.result.solution is not None
    assert found.changed.interrupted
    assert found.cost is None
    document = json.loads(json.dumps(encode_what_if(found), allow_nan=False))
    assert document["base"]["account"] is not None
    assert all(table.title.startswith("Base only: ") for table in difference_tables(document))
    replayed = plan(problem(), limits=EXACT, replay=REPLAY)
    assert replayed.interrupted
    assert replayed.result.solution is not None
    assert not replayed.holds
    assert (
        "the plan of iteration 1 is kept, and it was not replayed yet" in replayed.replayed.sentence
    )
    with pytest.raises(KeyboardInterrupt):
        pareto(problem(), "energy", limits=EXACT)


def test_an_interrupt_of_a_later_iteration_keeps_those_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of plan and replay in turn nothing was kept, though the first iteration had its plan."""
    replays = replay_all
    calls: list[int] = []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        calls.append(named["draw"])
        if named["draw"] == 2:
            raise KeyboardInterrupt
        return replays(*arguments, **named)

    monkeypatch.setattr(verdicts, "replay_all", interrupted)
    report = plan(problem(), limits=EXACT, replay=REPLAY)
    assert calls == [1, 2]
    assert report.interrupted
    assert report.replayed is not None
    assert len(report.replayed.iterations) == 2
    assert "interrupted in iteration 2" in report.replayed.sentence
    assert "run it again to go on" in report.replayed.sentence
    assert report.certified_problem.fingerprint == report.result.certificate.fingerprint
    assert json.dumps(encode_report(report), allow_nan=False)


def test_a_replay_without_goals_is_refused_and_one_that_measures_none_does_not_hold() -> None:
    """ "Nothing to measure" ended with exit code 0, which says that all goals hold."""
    bare = problem(classes=tuple(dataclasses.replace(c, goal=None) for c in problem().classes))
    with pytest.raises(InstanceError, match="has a goal, so there is nothing to measure and"):
        plan(bare, limits=EXACT, replay=REPLAY)
    with pytest.raises(InstanceError, match="give the classes a goal"):
        what_if(bare, [Demand(1.5)], limits=EXACT, replay=REPLAY)
    # A class with a goal of which next to no job comes.
    promised = dataclasses.replace(
        problem().classes[0], name="rare", goal=ServiceGoal("wait", 500.0)
    )
    rare = bare.replace(
        classes=(*bare.classes, promised),
        scenarios=tuple(
            dataclasses.replace(s, arrivals={**s.arrivals, "rare": (1e-7,) * bare.num_quarters})
            for s in bare.scenarios
        ),
    )
    report = plan(rare, limits=EXACT, replay=REPLAY)
    assert report.replayed is not None
    assert report.replayed.outcome == "unmeasured"
    assert not report.holds
    assert "no waiting time is promised" in report.replayed.sentence
