"""The turns in which a makespan is proved: limits and Ctrl-C at events, in each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from interrupting import press

import alloc
from alloc.backends import cpsat
from alloc.certificate import Limit
from alloc.errors import OutOfTime
from alloc.instances.projects import generate_dags
from alloc.problems.project import ProjectProblem
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.project import method
from alloc.solving.project.layers import Layers
from alloc.solving.project.method import schedule_project
from alloc.solving.project.rules import plans_by_rule

LONG_S = 600.0
"""Nothing here waits for it: every turn ends by an event."""


def dags(*, one_mode: bool = False) -> ProjectProblem:
    problem = generate_dags(num_jobs=4, num_gpus=4, seed=4, mean_gap_s=20.0)
    if one_mode:
        activities = tuple(replace(a, modes=a.modes[1:2] or a.modes) for a in problem.activities)
        problem = replace(problem, activities=activities)
    return problem


@pytest.fixture(autouse=True)
def _rules_leave_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alloc.models.project.data.ProjectData._work_bound", lambda self: 0.0)


def answer(problem: ProjectProblem, settings: Settings | None = None) -> Outcome[Any]:
    """Return the answer, whose schedule is checked."""
    settings = settings or Settings(LONG_S)  # whose time begins now
    outcome = schedule_project(problem, "makespan", settings, None, lambda line: None)
    assert outcome.solution is not None
    assert alloc.verify(problem, outcome.solution) == []
    assert outcome.bound <= outcome.solution.value(problem, "makespan") * (1 + 1e-9)
    return outcome


class Events:
    """CP-SAT and passes of layers, counted; each does nothing but what its number says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, what: str) -> None:
        self.at, self.what, self.seen = at, what, list[str]()
        solve, sweep = cpsat.solve, Layers.sweep

        def asked(model: Any, options: Any) -> Any:
            self.happen("CP-SAT")
            # As a search that found no more than its hint, and was stopped by its time.
            raw = solve(model, replace(options, time_limit_s=0.01))
            return replace(raw, values=None, status="no_solution", bound=0.0, limit=self.limit())

        def swept(layers: Layers, width: int, value: float, least: Any) -> Any:
            self.happen("layers")
            return sweep(layers, width, value, least)

        monkeypatch.setattr(cpsat, "solve", asked)
        monkeypatch.setattr(Layers, "sweep", swept)

    def happen(self, turn: str) -> None:
        self.seen.append(turn)
        if self.what == "Ctrl-C in Python" and len(self.seen) == self.at:
            press()

    def limit(self) -> Limit:
        is_now = self.what == "Ctrl-C in CP-SAT" and len(self.seen) == self.at
        return "interrupt" if is_now else "time"


@pytest.mark.parametrize("one_mode", [False, True])
def test_without_an_event_layers_have_the_last_word(
    monkeypatch: pytest.MonkeyPatch, one_mode: bool
) -> None:
    events = Events(monkeypatch, 0, "none")
    outcome = answer(dags(one_mode=one_mode))
    assert events.seen[0] == "CP-SAT"
    assert "layers" in events.seen
    assert outcome.limit is None


@pytest.mark.parametrize("one_mode", [False, True])
@pytest.mark.parametrize("at", [1, 2])
def test_ctrl_c_in_any_turn_ends_it_and_keeps_the_schedule(
    monkeypatch: pytest.MonkeyPatch, one_mode: bool, at: int
) -> None:
    events = Events(monkeypatch, at, "Ctrl-C in Python")
    assert answer(dags(one_mode=one_mode)).limit == "interrupt"
    assert len(events.seen) == at


@pytest.mark.parametrize("one_mode", [False, True])
def test_ctrl_c_in_cpsat_begins_no_other_turn(
    monkeypatch: pytest.MonkeyPatch, one_mode: bool
) -> None:
    events = Events(monkeypatch, 1, "Ctrl-C in CP-SAT")
    assert answer(dags(one_mode=one_mode)).limit == "interrupt"
    assert events.seen == ["CP-SAT"]


@pytest.mark.parametrize("one_mode", [False, True])
def test_a_model_that_is_too_long_for_its_turn_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, one_mode: bool
) -> None:
    """The first turn has a quarter of the time or less: it used to end all of them."""

    def too_long(*given: Any) -> Any:
        raise OutOfTime

    monkeypatch.setattr(method, "build_cpsat", too_long)
    events = Events(monkeypatch, 0, "none")
    outcome = answer(dags(one_mode=one_mode))
    assert set(events.seen) == {"layers"}
    assert outcome.limit is None
    assert outcome.bound_proof == "recomputed"


@pytest.mark.parametrize("one_mode", [False, True])
def test_without_time_the_schedule_of_the_rules_is_kept(
    monkeypatch: pytest.MonkeyPatch, one_mode: bool
) -> None:
    problem = dags(one_mode=one_mode)
    first = plans_by_rule
    settings = Settings(LONG_S)

    def last_rule(*given: Any) -> Any:
        plans = list(first(*given))
        object.__setattr__(settings, "time_limit_s", 0.0)  # all of it went by meanwhile
        return plans

    monkeypatch.setattr(method, "plans_by_rule", last_rule)
    events = Events(monkeypatch, 0, "none")
    assert answer(problem, settings).limit == "time"
    assert events.seen == []
