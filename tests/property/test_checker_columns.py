"""What the checker asks of all runs at once is what it asks of each."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import instances, runnable

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.run_columns import RunColumns
from alloc.problems.allocation.solution import Allocation, Assignment, Run, Schedule, TaskPlacement
from alloc.progress import ends_of_single_runs, follow
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate
from alloc.topology import HostType, flat_cluster
from alloc.verification import verify
from alloc.verification.placement import check_assignment, plain_assignments
from alloc.verification.time import check_runs, check_times
from alloc.verification.violation import Violation
from alloc.workload import Configuration, Job, TaskGroup
from alloc.workload.stages import Stage

relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def broken(run: Run, how: int) -> Run:
    """Return a run with something changed, mostly for the worse."""
    task = run.tasks[0]
    tasks = {
        0: run.tasks[1:],
        1: (dataclasses.replace(task, host="nowhere"), *run.tasks[1:]),
        2: (dataclasses.replace(task, role="nobody"), *run.tasks[1:]),
        3: (dataclasses.replace(task, count=task.count + 1), *run.tasks[1:]),
        4: (dataclasses.replace(task, count=0), *run.tasks[1:]),
        5: (dataclasses.replace(task, count=10**30), *run.tasks[1:]),
        6: (dataclasses.replace(task, count=-1), *run.tasks),
        15: (dataclasses.replace(task, count=task.count - 0.5), *run.tasks[1:]),  # type: ignore[arg-type]
    }
    changes: dict[int, dict[str, Any]] = {
        7: {"job": "nobody"},
        8: {"configuration": run.configuration + 1},
        9: {"configuration": -1},
        10: {"start_s": run.start_s - 7.0},
        11: {"end_s": run.start_s},
        12: {"end_s": math.nan},
        13: {"end_s": math.inf},
        14: {"end_s": run.end_s / 2},
    }
    if how in tasks:
        return dataclasses.replace(run, tasks=tasks[how])
    return dataclasses.replace(run, **changes.get(how, {}))


@pytest.mark.long
@relaxed
@given(
    instance=instances(quotas=False).map(runnable),
    slot_s=st.sampled_from((None, None, None, 20.0)),
    horizon_s=st.sampled_from((None, 30.0)),
    data=st.data(),
)
def test_at_once_is_one_by_one(
    instance: Instance, slot_s: float | None, horizon_s: float | None, data: st.DataObject
) -> None:
    """For right and wrong runs: placement, times and completions."""
    instance = instance.replace(slot_s=slot_s, horizon_s=horizon_s)
    runs = list(simulate(instance, make_scheduler("fifo")).schedule.runs)
    for k, run in enumerate(runs):
        if data.draw(st.booleans()):
            runs[k] = broken(run, data.draw(st.integers(0, 15)))
    columns, is_plain = RunColumns(instance, runs), plain_assignments(instance)
    jobs = {job.id: job for job in instance.jobs}
    for run, well in zip(runs, columns.well_placed.tolist(), strict=True):
        wrong = list(check_assignment(instance, run.job, run.configuration, run.tasks))
        if well:
            assert not wrong
        elif run.job in jobs and 0 <= run.configuration < len(jobs[run.job].configurations):
            configuration = jobs[run.job].configurations[run.configuration]
            special = configuration.within or any(g.shares_gpu for g in configuration.tasks)
            assert wrong or special, "what is plain and right is seen at once"
        if is_plain(Assignment(run.job, run.configuration, run.tasks)):
            assert not wrong
    known = [run for run, k in zip(runs, columns.kind.tolist(), strict=True) if k >= 0]
    columns = RunColumns(instance, known)
    running = {assignment.job: assignment for assignment in instance.running}
    expected: list[Violation] = []
    for job in instance.jobs:
        own = sorted([run for run in known if run.job == job.id], key=lambda run: run.start_s)
        expected += check_runs(instance, job, own, running.get(job.id))
    told = check_times(instance, known, columns, {}, {})
    assert [str(v) for v in told] == [str(v) for v in expected]
    single, ends_s = ends_of_single_runs(instance, columns)
    for k, end_s in zip(single.tolist(), ends_s.tolist(), strict=True):
        found = follow(jobs[known[k].job], [known[k]], None, instance.downtime).completion_s
        assert found == (None if math.isnan(end_s) else end_s)


PAIR = Configuration((TaskGroup("worker", 2, 1000),), 1.0)
BOX = flat_cluster("two", HostType("h", 3, "v100", 8000, 0), 2)


@pytest.mark.parametrize("count", [2, 2.0, np.int64(2), np.float64(2.0)])
@pytest.mark.parametrize("others", [(), (10**30,), (10**400,), (math.nan,), (-math.inf,)])
def test_counts_of_every_kind_of_number_take_room(count: Any, others: tuple[float, ...]) -> None:
    """Also beside one that is far too large, or no number."""
    jobs = tuple(Job(f"j{k}", 0.0, 5.0, (PAIR,)) for k in range(3))
    full, other = (host.id for host in BOX.hosts)
    placed = [(full, count), (full, count), *[(other, count) for count in others]]
    runs = tuple(
        Run(f"j{k}", 0, 0.0, 5.0, (TaskPlacement(host, "worker", number),))
        for k, (host, number) in enumerate(placed)
    )
    found = verify(Instance("full", BOX, jobs), Schedule(runs))
    assert (full, "gpu_milli", 1000) in {(*v.ids, v.amount) for v in found}


@pytest.mark.parametrize("counts", [(1.5,), (0.5, 0.5), (1.2, 0.8), (1, np.float64(0.5))])
def test_parts_of_tasks_are_no_gang(counts: tuple[Any, ...]) -> None:
    """Neither in a schedule nor in an allocation, though they take the room of whole ones."""
    instance = Instance("parts", BOX, (Job("j", 0.0, 5.0, (PAIR,)),))
    tasks = tuple(
        TaskPlacement(host.id, "worker", count)
        for host, count in zip(BOX.hosts, counts, strict=False)
    )
    answers = (Schedule((Run("j", 0, 0.0, 5.0, tasks),)), Allocation((Assignment("j", 0, tasks),)))
    for answer in answers:
        assert "gang" in {v.code for v in verify(instance, answer)}


@pytest.mark.parametrize("configuration", [-1, 1])
def test_a_stage_in_an_unknown_configuration_is_refused(configuration: int) -> None:
    """It has not run at all for the stages after it."""
    stages = (Stage("a", 5.0, (PAIR,)), Stage("b", 5.0, (PAIR,), ("a",)))
    instance = Instance("staged", BOX, (Job("j", 0.0, stages=stages),))
    tasks = (TaskPlacement(BOX.hosts[0].id, "worker", 2),)
    runs = (Run("j/a", configuration, 0.0, 5.0, tasks), Run("j/b", 0, 5.0, 10.0, tasks))
    codes = [v.code for v in verify(instance, Schedule(runs))]
    assert codes == ["unknown_configuration", "incomplete", "precedence"]
