"""The benchmarks of section "what it must reach" run, and say no when the answer is no."""

import math

import pytest

from alloc.instances import entry
from benchmarks import build_time, malleable, round_allocation, round_scheduler, simulator_stream
from benchmarks.verdict import Verdict, conclude

TINY = ["--jobs", "4", "--hosts", "3"]


def test_a_missed_target_is_said_and_fails(capsys):
    """A benchmark that prints "MISSED" and exits with 0 would pass in CI."""
    assert conclude([Verdict("in 1 s", "0.5 s", True)]) == 0
    assert conclude([Verdict("in 1 s", "0.5 s", True), Verdict("in 2 s", "3 s", False)]) == 1
    out = capsys.readouterr().out
    assert "target: in 1 s: holds (0.5 s)" in out
    assert "target: in 2 s: MISSED (3 s)" in out


def test_alloc_and_pyomo_agree_on_the_round_that_is_timed():
    """A ratio of times means nothing if the two solve different problems."""
    case = round_allocation.shared_tables(4, 3, size=3)
    fast = round_allocation.time_alloc(case)
    pruned = round_allocation.time_pyomo(round_allocation.prune(case), 20.0)
    raw = round_allocation.time_pyomo(round_allocation.raw_data(case), 20.0)
    assert fast.value == pytest.approx(pruned.value, rel=2e-4)
    assert fast.value == pytest.approx(raw.value, rel=2e-4)
    assert max(fast.gap, pruned.gap, raw.gap) <= round_allocation.GAP
    assert raw.columns == 4 * 9
    assert fast.columns == pruned.columns < raw.columns


def test_the_round_has_two_scarce_resources_and_random_work_left():
    """The promise is about two resources; with one the problem is far easier."""
    case = round_allocation.shared_tables(12, 3)
    data = round_allocation.prune(case)
    assert data.rows.names == ("gpu_milli", "cpu_milli")
    assert len({job.work_done / job.work for job in case.jobs}) == 12
    largest = sum(
        data.use[a:b].max(axis=0) * n
        for a, b, n in zip(data.first[:-1], data.first[1:], data.count, strict=True)
    )
    assert (largest > data.rows.capacity).all()


def test_own_tables_differ_from_job_to_job():
    """Otherwise the second case would be the first again."""
    case = round_allocation.own_tables(round_allocation.shared_tables(6, 3, size=3))
    tables = {tuple(c.rate for c in job.configurations) for job in case.jobs}
    assert len(tables) == 6


def test_round_allocation_prints_figures_and_verdicts(capsys):
    """Whoever runs it wants the time, the target and whether it holds."""
    options = [*TINY, "--size", "3", "--repetitions", "1", "--pyomo-limit", "20"]
    assert round_allocation.main(options) in (0, 1)
    out = capsys.readouterr().out
    for line in ("8 shared tables", "4 tables, one a job", "Pyomo on raw", "Pyomo on pruned"):
        assert line in out
    assert out.count("target:") == 6


def test_round_scheduler_times_every_slot(capsys):
    """The median is over decisions of the simulator, placement included."""
    # Whether the times hold is for a quiet machine to say.
    assert round_scheduler.main([*TINY, "--size", "2", "--slots", "3", "--family", ""]) in (0, 1)
    out = capsys.readouterr().out
    assert "4 jobs at once              3" in out
    assert "median decision in 50 ms: " in out


def test_nobody_leaves_the_full_house():
    """All jobs must still be there in the last slot that is timed."""
    crowd = round_scheduler.full_house(8, 2, size=3)
    shortest = min(job.min_run_s for job in crowd.jobs)
    assert shortest > round_scheduler.NUM_SLOTS * crowd.slot_s


@pytest.mark.long
def test_malleable_solves_in_a_process_of_its_own(capsys):
    """Peak memory would otherwise be that of the largest instance before."""
    assert malleable.main(["--family", "elastic-tiny/03", "--json"]) in (0, 1)
    out = capsys.readouterr().out
    assert '"instance": "elastic-tiny/03"' in out
    assert "elastic-tiny/03 proved optimal in 20 s: " in out


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"gap": 0.06}, False),
        ({"gap": None}, False),
        ({"seconds": 700.0}, False),
        ({"gigabytes": 4.5}, False),
        ({"verified": False}, False),
    ],
)
def test_a_promise_is_kept_only_in_all_its_parts(change, holds):
    """Gap, time, memory and the checker's word all count."""
    given = {
        "status": "feasible",
        "upper": 2.0,
        "lower": 1.9,
        "gap": 0.05,
        "verified": True,
        "seconds": 600.0,
        "gigabytes": 3.0,
    }
    answer = malleable.Answer(**given | change)
    promise = malleable.PROMISES["elastic-large"]
    assert malleable.judge(entry("elastic-large/01"), answer, promise).holds is holds


def test_an_unknown_family_is_refused(capsys):
    """Rather than measuring nothing and reporting success."""
    with pytest.raises(SystemExit, match="2"):
        malleable.main(["--family", "elastic-huge"])
    assert "neither a stored instance nor a family" in capsys.readouterr().err


def test_build_time_measures_both_array_drawings(capsys):
    """Sizes come from the model that was built."""
    options = [*TINY, "--time-limit", "5", "--stored", "elastic-tiny/03"]
    assert build_time.main(options) in (0, 1)
    out = capsys.readouterr().out
    assert "malleable  elastic-tiny/03" in out
    timing = build_time.measure("round", build_time.crowd(4, 3, 0), 5.0, repetitions=1)
    assert timing.status == "Optimal"
    assert timing.rows == 4 + 2
    assert math.isclose(timing.share, timing.build_s / timing.solve_s)


def test_the_stream_has_the_load_it_says():
    """At a lower load queues are short and the simulation is easy."""
    instance = simulator_stream.stream(400, 8, seed=1)
    asked = sum(job.work * job.configurations[0].demand[0] / 1000 for job in instance.jobs)
    span_s = max(job.arrival_s for job in instance.jobs)
    assert asked / (span_s * instance.topology.num_gpus) == pytest.approx(0.95, rel=0.05)
    seconds, result = simulator_stream.run(simulator_stream.stream(50, 8, seed=1))
    assert seconds > 0
    assert not result.unfinished


@pytest.mark.long
def test_the_stream_stands_beside_a_heap_with_the_same_waits(capsys):
    """It ends with an error if the mean waits differ."""
    assert simulator_stream.main(["--jobs", "300", "--repeats", "1"]) in (0, 1)
    out = capsys.readouterr().out
    assert "us an event" in out
    assert "times a heap" in out
