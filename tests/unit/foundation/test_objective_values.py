"""Objectives, certificates and results, against numbers worked out by hand."""

from __future__ import annotations

import math
import re
from typing import Literal

import numpy as np
import pytest

from alloc.certificate import OPTIMALITY_GAP, Certificate, beats, relative_gap
from alloc.errors import AllocError, InstanceError
from alloc.objectives import (
    OBJECTIVES,
    Objective,
    PlacementObjective,
    RoundUtility,
    ScheduleObjective,
    objective,
    round_utility,
)
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, Run, Schedule
from alloc.result import Result
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup

RATES = (1.0, 2.0, 0.0)
SET = tuple(Configuration((TaskGroup("worker", k + 1, 1000),), r) for k, r in enumerate(RATES))
JOBS = (
    Job("a", 0.0, 10.0, SET, weight=3.0, due_date_s=8.0),
    Job("b", 5.0, 20.0, SET, due_date_s=100.0),
    Job("c", 10.0, 4.0, SET),
)
INSTANCE = Instance("i", flat_cluster("c", HostType("h", 8, "v100"), 1), JOBS, slot_s=5.0)
# a completes at 10 (JCT 10), b at 15 (JCT 10), c at 14 (JCT 4).
SCHEDULE = Schedule((Run("a", 0, 0.0, 10.0), Run("b", 1, 5.0, 15.0), Run("c", 0, 10.0, 15.0)), {})
UNFINISHED = Schedule(SCHEDULE.runs[:2])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weighted_jct", 3 * 10 + 10 + 4),
        ("mean_jct", 8.0),
        ("makespan", 15.0),
        ("tardiness", 3 * 2.0),
        ("max_slowdown", max(10 / (10 / 2), 10 / (20 / 2), 4 / (4 / 2))),
        ("makespan + 2 mean_jct", 15.0 + 2 * 8.0),
    ],
)
def test_schedule_objectives(name: str, value: float) -> None:
    """The checker's number is the one that every certificate carries."""
    assert objective(name).evaluate(INSTANCE, SCHEDULE) == pytest.approx(value)


@pytest.mark.parametrize("name", ["weighted_jct", "mean_jct", "makespan", "max_slowdown"])
def test_a_job_that_never_completes_costs_everything(name: str) -> None:
    """Leaving a job out must never look good."""
    assert objective(name).evaluate(INSTANCE, UNFINISHED) == math.inf


def test_tardiness_counts_only_jobs_with_a_due_date() -> None:
    """Job c has none, so that it is missing costs nothing here."""
    assert objective("tardiness").evaluate(INSTANCE, UNFINISHED) == 6.0


def test_tardiness_without_any_due_date_means_nothing() -> None:
    """Nobody can be late then, and 0 would look like an answer."""
    undated = INSTANCE.replace(jobs=tuple(job.replace(due_date_s=None) for job in JOBS))
    with pytest.raises(InstanceError, match="none of the 3 jobs has a due date; set due_date_s"):
        objective("tardiness").evaluate(undated, SCHEDULE)


def test_objectives_of_completions_alone() -> None:
    """Simulator and bounds have completions without runs."""
    measure = objective("weighted_jct")
    assert isinstance(measure, ScheduleObjective)
    assert measure.of_completions(JOBS, [10.0, 15.0, 14.0]) == 44.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Waiting: 5 s slot + 10 / 1 = 15 s. Running: 10 s, 5 s, never.
        ("remaining_time", [3 * 5.0, 3 * 10.0, 0.0]),
        ("progress", [3 * 0.5, 3 * 1.0, 0.0]),
        ("goodput", [3 * 1.0, 3 * 2.0, 0.0]),
    ],
)
def test_round_utilities(name: str, expected: list[float]) -> None:
    """One job of weight 3 and work 10 in a slot of 5 s, at rates 1, 2 and 0."""
    utility = round_utility(name)
    found = utility.of_rates(JOBS[0], np.array(RATES), 5.0)
    assert found.tolist() == pytest.approx(expected)
    alone = [
        utility.evaluate(INSTANCE, Allocation((Assignment("a", c),))) for c in range(len(RATES))
    ]
    assert alone == pytest.approx(expected)


@pytest.mark.parametrize(("name", "value"), [("progress", 1.0), ("goodput", 4.0 / 5.0)])
def test_work_that_is_not_there_is_not_counted(name: str, value: float) -> None:
    """Job c has 4 work units left: 2 a second for 5 s would be 10."""
    found = round_utility(name).evaluate(INSTANCE, Allocation((Assignment("c", 1),)))
    assert found == pytest.approx(value)


def test_an_allocation_is_the_sum_of_its_jobs() -> None:
    """And an empty one is worth nothing."""
    both = Allocation((Assignment("a", 0), Assignment("c", 1)))
    assert round_utility("progress").evaluate(INSTANCE, both) == pytest.approx(1.5 + 1.0)
    assert round_utility("progress").evaluate(INSTANCE, Allocation(())) == 0.0


def test_each_objective_names_itself() -> None:
    """Tables and certificates print these."""
    for name, measure in OBJECTIVES.items():
        assert measure.name == name
        if not isinstance(measure, PlacementObjective):
            gains = isinstance(measure, RoundUtility) or name == "value"
            assert measure.sense == ("max" if gains else "min")
        assert measure.unit
        assert measure.meaning.endswith(".")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: objective("mean_jtc"),
            'unknown objective "mean_jtc"; did you mean "mean_jct"? known: weighted_jct, mean_jct',
        ),
        (lambda: objective("profit"), 'unknown objective "profit"; known: weighted_jct, mean_jct'),
        (
            lambda: round_utility("makespan"),
            '"makespan" is not a round utility. Known: remaining_time, progress, goodput.',
        ),
        (
            lambda: objective("makespan").evaluate(INSTANCE, Allocation(())),
            "makespan needs a schedule, not Allocation.",
        ),
        (
            lambda: objective("progress").evaluate(INSTANCE, SCHEDULE),
            "progress needs an allocation, not Schedule.",
        ),
        (
            lambda: objective("progress").evaluate(INSTANCE.replace(slot_s=None), Allocation(())),
            'instance "i" has no slots; set slot_s to allocate in rounds.',
        ),
    ],
)
def test_objectives_that_do_not_apply(call: object, sentence: str) -> None:
    """Each sentence says what to ask for instead."""
    with pytest.raises(InstanceError, match=re.escape(sentence)):
        call()  # type: ignore[operator]


def test_the_base_class_measures_nothing() -> None:
    """A registry entry that forgot its function must not return a number."""
    with pytest.raises(TypeError, match="Objective is abstract; take one from OBJECTIVES"):
        Objective("x", "min", "s", "Nothing.").evaluate(INSTANCE, SCHEDULE)


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [
        (100.0, 99.0, 0.01),
        (100.0, 101.0, 0.01),
        (-100.0, -101.0, 0.01),
        (0.0, 0.0, 0.0),
        (0.0, -1e-9, math.inf),
        (1e-12, 0.5e-12, 0.5),
        (100.0, -math.inf, math.inf),
        (None, 99.0, None),
        (None, math.inf, None),
    ],
)
def test_the_gap_has_one_definition(value: float | None, bound: float, gap: float | None) -> None:
    """HiGHS and CP-SAT divide by different things; a table must not."""
    assert relative_gap(value, bound) == (None if gap is None else pytest.approx(gap))


@pytest.mark.parametrize(
    ("value", "bound", "sense", "beaten"),
    [
        (5.0, -math.inf, "max", True),
        (5.0, math.inf, "min", True),
        (0.0, math.inf, "min", True),
        (5.0, math.inf, "max", False),
        (math.inf, -math.inf, "min", False),
        (math.inf, 3.0, "min", False),
        (math.inf, math.inf, "min", False),
        (5.0, 4.0, "max", True),
        (5.0, 5.0 - 1e-9, "max", False),
    ],
)
def test_a_solution_beats_a_bound_that_says_there_is_none(
    value: float, bound: float, sense: Literal["min", "max"], beaten: bool
) -> None:
    """Infinity times a tolerance is infinity: no difference exceeds it."""
    assert beats(value, bound, sense) is beaten


CERTIFICATE = Certificate(
    "feasible", 100.0, 98.0, "min", "mean_jct", "f", "highs", "1.13", 0, 1, 2.0, "ab"
)


def test_a_certificate_knows_its_gap() -> None:
    """And a copy with another bound has another."""
    assert CERTIFICATE.gap == pytest.approx(0.02)
    assert CERTIFICATE.replace(bound=100.0).gap == 0.0
    assert OPTIMALITY_GAP < 1e-5


def test_a_result_without_a_solution_says_why() -> None:
    """The requirements in conflict if they are known, otherwise the status."""
    assert Result(SCHEDULE, CERTIFICATE).require_solution() is SCHEDULE
    conflict = "jobs a and b both need host h-0 before 5 s"
    with pytest.raises(AllocError, match=f"there is no solution: {conflict}"):
        Result(None, CERTIFICATE, conflict=conflict).require_solution()
    with pytest.raises(AllocError, match="there is no solution: status no_solution"):
        Result(None, CERTIFICATE.replace(status="no_solution")).require_solution()
