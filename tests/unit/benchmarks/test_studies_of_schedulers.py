"""The study of schedulers: its tables, and how a front is held against another."""

from __future__ import annotations

import pytest

from alloc.comparison import compare
from alloc.instances.projects import generate_staged
from alloc.problems.project import ProjectPlan
from alloc.problems.project_front import FrontPoint, ProjectFront
from benchmarks import scheduler_study, two_goals
from benchmarks.round_packing import SCHEDULERS, made

NO_PLAN = ProjectPlan(())


def front(*points: tuple[float, int]) -> ProjectFront:
    return ProjectFront("cost", tuple(FrontPoint(m, a, NO_PLAN) for m, a in points))


def test_a_table_has_a_row_for_each_scheduler_and_a_column_for_each_family():
    queues = [
        generate_staged(f"{name} {seed}", num_jobs=2, seed=seed)
        for name in ("one", "two")
        for seed in range(2)
    ]
    found = compare(queues, ["fifo", "critical-path"], time_limit_s=5)
    lines = scheduler_study.show(found, "above the bound", ("mean_jct_s",)).splitlines()
    assert lines[0].count("one: ") == lines[0].count("two: ") == 2
    assert [line.split(" | ")[0] for line in lines[2:5]] == [
        "| best found",
        "| fifo",
        "| critical-path",
    ]
    assert lines[-1].startswith("Of 4 bounds: ")


def test_every_part_of_the_study_has_a_name():
    assert list(scheduler_study.PARTS) == ["gangs", "stages", "deadlines"]


def test_a_front_is_held_against_the_exact_one():
    exact = front((10.0, 8), (20.0, 4), (40.0, 1))
    assert two_goals.covered(exact, exact) == 1.0
    assert two_goals.hits(exact, exact) == 3
    assert two_goals.excess(exact, exact) == 0.0
    other = front((10.0, 8), (30.0, 4))
    assert two_goals.hits(other, exact) == 1
    # Of the third point nothing is said: no answer is as cheap.
    assert two_goals.excess(other, exact) == pytest.approx((0.0 + 0.5) / 2)
    # The corner is (41, 9): 31 by 1, 21 by 4 and 1 by 3 of the exact front.
    assert two_goals.covered(other, exact) == pytest.approx((31 + 11 * 4) / (31 + 21 * 4 + 3))


def test_the_schedulers_of_packing_can_be_made():
    for name, options in SCHEDULERS.items():
        assert made(name, options).name == name.partition("(")[0]
