"""Interactive charts: their numbers are those of the figures and of the schedules."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from alloc.comparison import Comparison
from alloc.plotting.gantt import amount_held
from alloc.plotting.utilisation import held_over_time
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, Schedule, TaskPlacement
from alloc.report import explorer
from alloc.report.explorer import explorer_data
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup


def test_interactive_charts_have_the_numbers_of_the_figures(comparison: Comparison):
    """One source: runs, completion times and shares are those of the schedules."""
    instance = comparison.instance("small-01")
    data = explorer_data(comparison, instance, "fifo", 1)
    minute = {"s": 1.0, "min": 60.0}[data["unit"]]
    names = [name for one in data["series"] for name in one["name"].split(" = ")]
    assert sorted(names) == ["drf", "fifo", "optimum"]
    assert "fifo" in data["series"][data["shown"]]["name"]
    for one in data["series"]:
        name = one["name"].partition(" = ")[0]
        schedule = comparison.schedule("small-01", name)
        jcts = sorted(comparison.jcts("small-01", name))
        assert one["jct"][0] == pytest.approx([jct / minute for jct in jcts], rel=1e-4)
        assert one["jct"][1][-1] == 1.0
        edges, held = held_over_time(instance, schedule)
        assert one["use"][0] == pytest.approx([edge / minute for edge in edges], rel=1e-4)
        assert one["use"][1] == pytest.approx(list(held), rel=1e-4)
        bars = one["gantt"]["bars"]
        assert one["gantt"]["by"] == "host"
        assert len(bars) == len(schedule.runs)
        for (_, _, start, end, job, gpus), run in zip(bars, schedule.runs, strict=True):
            assert data["jobs"][job] == run.job
            assert [start, end] == pytest.approx([run.start_s / minute, run.end_s / minute])
            assert gpus == amount_held(instance, run)
        lanes: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for row, lane, start, end, *_ in bars:
            lanes.setdefault((row, lane), []).append((start, end))
        for spans in lanes.values():
            spans.sort()
            assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


def test_a_schedule_without_hosts_is_drawn_by_job(comparison: Comparison):
    instance = comparison.instance("small-01")
    schedule = comparison.schedule("small-01", "fifo")
    bare = Schedule(tuple(replace(run, tasks=()) for run in schedule.runs))
    found = explorer._gantt(instance, bare, 100, 1.0)
    assert found["by"] == "job"
    assert found["rows"] == [job.id for job in instance.jobs]


def many_runs(count: int, num_hosts: int) -> tuple[Instance, Schedule]:
    """Each job holds half of a host for 100 s; a new one arrives every second."""
    ways = (Configuration((TaskGroup("worker", 4, 1000, 1000),), 1.0),)
    jobs = tuple(Job(f"job-{j}", float(j), 100.0, ways) for j in range(count))
    cluster = flat_cluster("many", HostType("host", 8, "a100", 8000, 4096), num_hosts)
    runs = tuple(
        Run(job.id, 0, job.arrival_s, job.arrival_s + 100.0,
            (TaskPlacement(cluster.hosts[j % num_hosts].id, "worker", 4),))
        for j, job in enumerate(jobs)
    )  # fmt: skip
    return Instance("many", cluster, jobs), Schedule(runs)


@pytest.mark.long
def test_a_schedule_of_very_many_runs_is_averaged_and_says_so():
    """The area is kept: means times their steps are the GPU time that is held."""
    instance, schedule = many_runs(20_000, 500)
    found = explorer._gantt(instance, schedule, 2_000, 1.0)
    assert found["aggregated"] == "20,000 bars in 500 rows"
    assert len(found["rows"]) <= 40
    assert len(explorer.to_script(found)) < 40_000
    step_s = found["end"] / len(found["means"][0])
    sizes = [8 * min(13, 500 - 13 * k) for k in range(len(found["means"]))]
    held = sum(
        size * step_s * sum(row) / 100 for size, row in zip(sizes, found["means"], strict=True)
    )
    # Each cell is rounded to a whole percent.
    assert held == pytest.approx(20_000 * 4 * 100.0, abs=0.005 * 8 * 500 * found["end"])


def test_tasks_without_gpus_are_no_share_of_the_gpus():
    """The cluster has GPUs that no job asks for: what is averaged is then tasks."""
    instance, schedule = many_runs(200, 10)
    ways = (Configuration((TaskGroup("worker", 4, cpu_milli=1000),), 1.0),)
    jobs = tuple(replace(job, configurations=ways) for job in instance.jobs)
    found = explorer._gantt(instance.replace(jobs=jobs), schedule, 10, 1.0)
    assert found["whole"] == "of the most that any row holds"
    assert max(max(row) for row in found["means"]) == 100


def test_of_many_instances_only_the_schedules_of_the_figures_are_explored(comparison: Comparison):
    """The curves of all schedulers are there, whose figure they replace."""
    instance = comparison.instance("small-01")
    few, many = (explorer_data(comparison, instance, "fifo", count) for count in (1, 50))
    assert [one["name"] for one in many["series"]] == [one["name"] for one in few["series"]]
    assert all(one["gantt"] for one in few["series"])
    for one in many["series"]:
        shown = {"optimum", "fifo"} & set(one["name"].split(" = "))
        assert bool(one["gantt"]) == bool(shown)
