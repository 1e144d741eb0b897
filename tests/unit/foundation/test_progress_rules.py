"""Progress: the single rule for how much work runs get done, checked by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run, Schedule, TaskPlacement
from alloc.progress import Progress, completions, follow
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup

RATES = (1.0, 2.0, 0.0)
CONFIGURATIONS = tuple(
    Configuration((TaskGroup("worker", k + 1, 1000),), rate) for k, rate in enumerate(RATES)
)
HERE = (TaskPlacement("h0", "worker", 1), TaskPlacement("h1", "worker", 1))
THERE = (TaskPlacement("h2", "worker", 2),)


def job(cost: float = 0.0, done: float = 0.0, work: float = 10.0) -> Job:
    """Return a job of 10 work units with rates 1, 2 and 0."""
    return Job("a", 0.0, work, CONFIGURATIONS, restart_cost_s=cost, work_done=done)


def run(start: float, end: float, c: int = 0, where: tuple[TaskPlacement, ...] = HERE) -> Run:
    """Return a run of that job."""
    return Run("a", c, start, end, where)


BEFORE = Assignment("a", 0, HERE)


@pytest.mark.parametrize(
    ("the_job", "runs", "running", "expected"),
    [
        (job(), [], None, Progress(10.0, None, 0)),
        (job(), [run(0, 10)], None, Progress(0.0, 10.0, 0)),
        (job(), [run(3, 20)], None, Progress(0.0, 13.0, 0)),  # held on, complete before the end
        (job(), [run(0, 9)], None, Progress(1.0, None, 0)),
        (job(), [run(0, 4), run(4, 7, 1)], None, Progress(0.0, 7.0, 1)),
        (job(), [run(0, 50, 2)], None, Progress(10.0, None, 0)),  # rate 0 never completes
        (job(done=9.0), [run(0, 5)], None, Progress(0.0, 1.0, 1)),  # it ran before: a restart
        # Restart costs of 2 s
        (job(2.0), [run(0, 20)], None, Progress(0.0, 10.0, 0)),
        (job(2.0), [run(0, 4), run(4, 20)], None, Progress(0.0, 10.0, 0)),
        (job(2.0), [run(0, 4), run(5, 20)], None, Progress(0.0, 13.0, 1)),
        (job(2.0), [run(0, 4), run(4, 20, 1)], None, Progress(0.0, 9.0, 1)),
        (job(2.0), [run(0, 4), run(4, 20, 0, THERE)], None, Progress(0.0, 12.0, 1)),
        (job(2.0), [run(0, 4), run(4, 20, 0, HERE[::-1])], None, Progress(0.0, 10.0, 0)),
        # A restart longer than the run goes on in the next one, if nothing changes again ...
        (job(3.0), [run(0, 4), run(5, 7), run(7, 20)], None, Progress(0.0, 14.0, 1)),
        # ... and starts anew if something does.
        (job(3.0), [run(0, 4), run(5, 7), run(7, 20, 0, THERE)], None, Progress(0.0, 16.0, 2)),
        # What ran just before the start of the instance
        (job(2.0), [run(0, 20)], BEFORE, Progress(0.0, 10.0, 0)),
        (job(2.0), [run(1, 20)], BEFORE, Progress(0.0, 13.0, 1)),
        (job(2.0), [run(0, 20, 1)], BEFORE, Progress(0.0, 7.0, 1)),
    ],
)  # fmt: skip
def test_follow(
    the_job: Job, runs: list[Run], running: Assignment | None, expected: Progress
) -> None:
    """Objectives, checker, simulator and report all stand on these numbers."""
    assert follow(the_job, runs, running) == expected


def test_slots_that_round_in_the_last_digit_still_complete() -> None:
    """Ten slots of a tenth are not exactly one, and must do."""
    slots = [Run("a", 0, k * 0.1, (k + 1) * 0.1) for k in range(10)]
    found = follow(job(work=1.0), slots)
    assert found.completion_s == pytest.approx(1.0)
    assert found.work_left == 0.0


def test_completions_of_an_instance() -> None:
    """In the order of the jobs, with what was running taken into account."""
    cluster = flat_cluster("c", HostType("h", 4, "v100"), 3)
    jobs = (job(2.0), Job("b", 0.0, 5.0, CONFIGURATIONS), Job("c", 0.0, 5.0, CONFIGURATIONS))
    instance = Instance("i", cluster, jobs)
    schedule = Schedule((Run("b", 0, 5.0, 9.0), Run("a", 0, 0.0, 30.0), Run("b", 0, 0.0, 3.0)))
    found = completions(instance, schedule)
    assert list(found.items()) == [("a", 10.0), ("b", 7.0), ("c", None)]
    moved = instance.replace(running=(Assignment("a", 1, (TaskPlacement("host-0", "worker", 2),)),))
    assert completions(moved, schedule)["a"] == 12.0


lengths = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 8), st.integers(0, 2), st.booleans()), max_size=6
)


@settings(max_examples=200, deadline=None)
@given(lengths, st.integers(0, 4), st.booleans())
def test_follow_agrees_with_a_count_of_small_steps(
    spans: list[tuple[int, int, int, bool]], cost: int, ran: bool
) -> None:
    """The closed form against one-second steps that know nothing of runs and pauses."""
    clock, runs = 0, []
    for gap, length, c, here in spans:
        runs.append(run(clock + gap, clock + gap + length, c, HERE if here else THERE))
        clock += gap + length
    running = BEFORE if ran else None
    left, completion, pause, started = 10.0, None, 0.0, ran
    last = (0, set(HERE), 0.0) if ran else None
    for r in runs:
        for second in range(int(r.start_s), int(r.end_s)):
            what = (r.configuration, set(r.tasks))
            if last is None or (*what, float(second)) != last:
                pause = float(cost) if started else 0.0
            started = True
            last = (*what, second + 1.0)
            if pause > 0:
                pause -= 1.0
                continue
            rate = RATES[r.configuration]
            if completion is None and rate and rate >= left - 1e-9:
                completion = second + left / rate
            left = max(left - rate, 0.0)
    found = follow(job(float(cost)), runs, running)
    assert found.completion_s == (None if completion is None else pytest.approx(completion))
    assert found.work_left == pytest.approx(left)
    assert math.isfinite(found.work_left)
