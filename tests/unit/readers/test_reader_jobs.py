"""Traced jobs: demand, cluster sizes and windows, with numbers checked by hand."""

from __future__ import annotations

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers import TracedJob, demand_of, suggest_gpus
from alloc.instances.readers.jobs import select_window
from alloc.instances.readers.report import ReportLog

JOBS = [
    TracedJob("late", 100.0, 50.0, 4, deadline_s=200.0),
    TracedJob("first", 0.0, 100.0, 2),
    TracedJob("second", 50.0, 100.0, 1),
]


def test_demand_is_gpu_time_over_the_window_and_the_peak_without_queues() -> None:
    """`first` ends as `late` starts, so the peak is 1 + 4 and not 2 + 1 + 4."""
    demand = demand_of(JOBS, window_s=200.0)
    assert demand.num_jobs == 3
    assert demand.gpu_hours == pytest.approx((200 + 100 + 200) / 3600)
    assert demand.mean_busy_gpus == 2.5
    assert demand.peak_busy_gpus == 5
    assert demand.largest_gang == 4


def test_demand_by_default_spans_the_submissions() -> None:
    """A trace whose jobs all come at once still has a length: its longest job."""
    assert demand_of(JOBS).window_s == 100.0
    assert demand_of([TracedJob("a", 5.0, 30.0, 1)]).window_s == 30.0


@pytest.mark.parametrize(("load", "gpus"), [(1.25, 2), (0.625, 4), (0.3125, 8), (100.0, 2)])
def test_suggested_gpus_meet_the_load(load: float, gpus: int) -> None:
    """2.5 GPUs busy on average, over the load, in hosts of two."""
    assert suggest_gpus(JOBS, load=load, window_s=200.0, gpus_per_host=2) == gpus


def test_sizing_refuses_what_makes_no_sense() -> None:
    """Loads and windows of zero, and no jobs at all."""
    with pytest.raises(InstanceError, match="load is 0; it must be more than 0"):
        suggest_gpus(JOBS, load=0.0)
    with pytest.raises(InstanceError, match="window_s is 0"):
        demand_of(JOBS, window_s=0.0)
    with pytest.raises(InstanceError, match="no jobs to measure"):
        demand_of([])
    with pytest.raises(InstanceError, match="number of GPUs is inf"):
        suggest_gpus(JOBS, window_s=1e-310)


def test_window_sorts_rebases_and_counts_the_rest() -> None:
    """Arrivals and deadlines start at 0 with the window; nothing is lost without a count."""
    log = ReportLog()
    chosen = select_window(JOBS, log, start_s=40.0, length_s=100.0)
    assert [(job.id, job.submit_s, job.deadline_s) for job in chosen] == [
        ("second", 10.0, None),
        ("late", 60.0, 160.0),
    ]
    (tally,) = log.report().dropped
    assert (tally.reason, tally.examples) == ("submitted outside the window", ("first",))


def test_the_end_of_a_window_is_outside_it() -> None:
    """Two windows in a row share no job."""
    chosen = select_window(JOBS, ReportLog(), length_s=100.0)
    assert [job.id for job in chosen] == ["first", "second"]


def test_most_jobs_are_the_first_ones() -> None:
    """`max_jobs` cuts by arrival, and counts what it cuts."""
    log = ReportLog()
    assert [job.id for job in select_window(JOBS, log, max_jobs=1)] == ["first"]
    assert log.report().dropped[0].count == 2


def test_a_submission_in_another_unit_is_left_out() -> None:
    """One stamp in milliseconds must not take the whole instance down."""
    log = ReportLog()
    jobs = [*JOBS, TracedJob("odd", 1.5e12, 10.0, 1)]
    assert len(select_window(jobs, log)) == 3
    assert log.report().dropped[0].examples == ("odd",)


def test_windows_without_jobs_say_where_the_jobs_are() -> None:
    """The message gives the range to choose from."""
    with pytest.raises(InstanceError, match="submissions run from 0 s to 100 s"):
        select_window(JOBS, ReportLog(), start_s=1000.0, length_s=10.0)
    with pytest.raises(InstanceError, match="no job that can be read"):
        select_window([], ReportLog())
    with pytest.raises(InstanceError, match="length_s is -1"):
        select_window(JOBS, ReportLog(), length_s=-1.0)
    with pytest.raises(InstanceError, match="max_jobs is 0"):
        select_window(JOBS, ReportLog(), max_jobs=0)
