"""ITP job tables: rows counted, windows cut, clusters sized, gangs kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers import itp_instance, read_itp, read_scaling_tables

DATA = Path(__file__).parents[2] / "data" / "traces"
ITP = DATA / "itp.csv"
ELASTIC = DATA / "itp-elastic.csv"
TABLES = DATA / "elasticflow"


def test_every_row_is_read_or_counted_with_its_reason() -> None:
    """Five good rows, and fourteen that are wrong in thirteen ways, by line number."""
    jobs, report = read_itp(ITP)
    assert [job.id for job in jobs] == ["a", "b", "c", "d", "e"]
    assert report.rows_read == 5
    assert {t.reason: [e.split(":")[0] for e in t.examples] for t in report.skipped} == {
        "duration is empty": ["line 7"],
        "duration is not above 0": ["line 8"],
        "duration is not a number": ["line 9", "line 17"],
        "num_gpu is not between 1 and 1000000": ["line 10"],
        "job_id appears before": ["line 11"],
        "has 3 fields instead of 4": ["line 12"],
        "has 5 fields instead of 4": ["line 13"],
        "num_gpu is not a whole number": ["line 14"],
        "is not comma-separated text": ["line 15"],
        "duration is not finite": ["line 16"],
        "duration is above 3.1536e+09": ["line 18"],
        "job_id is empty": ["line 19"],
        "submission_time is beyond 1e+13 s": ["line 20"],
    }
    assert report.rows_read + report.rows_skipped == len(ITP.read_text().splitlines()) - 1


def test_gangs_keep_arrival_size_and_duration() -> None:
    """At rate 1 the work of a gang is its traced duration, seconds."""
    instance, report = itp_instance(ITP, num_hosts=2, slot_s=600.0)
    assert [(j.id, j.arrival_s, j.work, j.elasticity) for j in instance.jobs] == [
        ("a", 0.0, 3600.0, "rigid"),
        ("b", 600.0, 7200.0, "rigid"),
        ("c", 600.0, 600.0, "rigid"),
        ("d", 4000.0, 1200.0, "rigid"),
        ("e", 89000.0, 100.0, "rigid"),
    ]
    assert [j.configurations[0].demand[0] for j in instance.jobs] == [1000, 8000, 2000, 16000, 1000]
    # Stored once: jobs of one size share the tuple.
    assert instance.jobs[0].configurations is instance.jobs[4].configurations
    assert instance.slot_s == 600.0
    assert instance.topology.num_gpus == 16
    assert report.num_dropped == 0


def test_jobs_larger_than_the_cluster_are_dropped_and_counted() -> None:
    """A gang of 16 on 8 GPUs would never start."""
    instance, report = itp_instance(ITP, cluster_gpus=8, start_s=1000.0, length_s=10_000.0)
    assert [job.id for job in instance.jobs] == ["a", "b", "c"]
    assert {t.reason: t.examples for t in report.dropped} == {
        "submitted outside the window": ("e",),
        "larger than the cluster of 8 GPUs": ("d (16 GPUs)",),
    }
    assert report.rows_read == len(instance.jobs) + report.num_dropped
    assert "1 x larger than the cluster of 8 GPUs" in instance.description["left out"]
    assert instance.description["rows"] == "5 read, 14 unreadable, 2 left out, 3 jobs"
    # Only the published files have a source and a licence: any table may have their columns.
    assert "none of its files" in instance.description["source"]
    assert "licence" not in instance.description


def test_the_cluster_is_sized_by_load() -> None:
    """81,600 GPU seconds in 10,000 s are 8.16 busy GPUs; at load 0.5 that is two hosts of 8."""
    instance, _ = itp_instance(ITP, load=0.5, length_s=10_000.0)
    assert instance.topology.num_gpus == 16
    assert instance.topology.num_hosts == 2


def test_the_default_load_is_near_but_below_one() -> None:
    """8.16 / 0.85 = 9.6 GPUs are nearest to one host of 8."""
    instance, _ = itp_instance(ITP, length_s=10_000.0)
    assert instance.topology.num_gpus == 8


def test_elastic_jobs_keep_the_traced_duration_at_the_traced_size() -> None:
    """Work is rate times duration: 5 iterations/s x 2,000 s and 8 x 1,000."""
    instance, report = itp_instance(ELASTIC, num_hosts=4, scaling=TABLES)
    a, b = instance.job("a"), instance.job("b")
    assert (a.work, b.work) == (10_000.0, 8_000.0)
    assert a.elasticity == "malleable"
    assert [(c.num_tasks("worker"), c.rate) for c in a.configurations] == [
        (1, 3.0),
        (2, 5.0),
        (4, 8.0),
    ]
    assert a.configurations is b.configurations
    assert (a.model, a.due_date_s, a.deadline_s) == ("alpha", 3000.0, None)
    assert {t.reason: t.examples for t in report.skipped} == {
        "deadline is not after submission_time": ("line 8: g,990,1,alpha,980,64,1,1000",),
        "batch_size is not between 1 and 2147483648": ("line 9: h,995,1,alpha,1980,0,1,1000",),
    }
    assert "alpha.csv, beta.csv" in instance.description["scaling"]
    assert report.also[0].rows_read == 3


def test_jobs_without_a_measured_rate_stay_gangs_and_are_counted() -> None:
    """c ran on 8 GPUs, where the table has no rate; d's model has no table; f names no model."""
    instance, report = itp_instance(ELASTIC, num_hosts=4, scaling=TABLES)
    assert [(j.id, j.elasticity) for j in instance.jobs] == [
        ("a", "malleable"),
        ("b", "malleable"),
        ("c", "rigid"),
        ("d", "rigid"),
        ("e", "malleable"),
        ("f", "rigid"),
    ]
    (altered,) = report.altered
    assert (altered.count, altered.examples) == (3, ("c", "d", "f"))
    assert instance.job("c").work == 1000.0


def test_elastic_jobs_lose_sizes_that_the_cluster_lacks() -> None:
    """On 2 GPUs job b, traced on 4, still runs; the gangs of 8 and 32 cannot."""
    tables, _ = read_scaling_tables(TABLES)
    instance, report = itp_instance(
        ELASTIC, num_hosts=1, gpus_per_host=2, scaling=tables, elasticity="moldable"
    )
    assert [c.num_tasks("worker") for c in instance.job("b").configurations] == [1, 2]
    assert instance.job("b").work == 8_000.0
    assert instance.job("b").elasticity == "moldable"
    assert {t.reason: t.count for t in report.dropped} == {"larger than the cluster of 2 GPUs": 2}
    assert report.rows_read == len(instance.jobs) + report.num_dropped
    one, _ = itp_instance(ELASTIC, num_hosts=1, gpus_per_host=1, scaling=tables)
    assert one.job("b").elasticity == "rigid"


def test_elastic_jobs_of_which_no_size_fits_are_dropped(tmp_path: Path) -> None:
    """A model measured on four GPUs and more cannot run on a cluster of two, at any size."""
    (tmp_path / "alpha.csv").write_text("global_batch_size,2,4\n64,0,8.0\n")
    (tmp_path / "beta.csv").write_text("global_batch_size,1\n32,0.5\n")
    instance, report = itp_instance(ELASTIC, num_hosts=1, gpus_per_host=2, scaling=tmp_path)
    assert [job.id for job in instance.jobs] == ["a", "d", "e"]
    assert report.dropped[0].examples == ("b (4 GPUs)", "c (8 GPUs)", "f (32 GPUs)")


@pytest.mark.parametrize(
    ("deadlines", "due", "deadline"),
    [("soft", 3000.0, None), ("hard", None, 3000.0), ("none", None, None)],
)
def test_deadlines_become_what_is_asked(
    deadlines: Any, due: float | None, deadline: float | None
) -> None:
    """Half of the published deadlines cannot be met, so hard ones are a choice."""
    instance, _ = itp_instance(ELASTIC, num_hosts=4, deadlines=deadlines, restart_cost_s=30.0)
    job = instance.job("a")
    assert (job.due_date_s, job.deadline_s) == (due, deadline)
    assert job.restart_cost_s == 30.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster_gpus": 12}, "12, which is not a multiple of gpus_per_host 8"),
        ({"cluster_gpus": 0}, "cluster_gpus is 0"),
        ({"cluster_gpus": 8, "load": 0.8}, "more than one of cluster_gpus, num_hosts and load"),
        ({"num_hosts": 0}, "num_hosts is 0"),
        ({"num_hosts": 10**9}, "give at most 1000000"),
        ({"num_hosts": 1, "gpus_per_host": 10**12}, "gpus_per_host is 1000000000000"),
        ({"gpus_per_host": 0}, "gpus_per_host is 0"),
        ({"deadlines": "sotf"}, 'deadlines is "sotf"; did you mean "soft"'),
        ({"scaling": TABLES, "start_s": 1.0}, "names no model and batch size"),
        ({"scaling": TABLES, "elasticity": "rigid"}, "elastic jobs are malleable or moldable"),
        (
            {"start_s": 5000.0, "length_s": 10.0, "num_hosts": 1},
            "no job is left for it; .*1 x larg",
        ),
        ({"slot_s": -1.0}, "slot_s is -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    """Each in a sentence with the value and the cure."""
    with pytest.raises(InstanceError, match=message):
        itp_instance(ITP, **options)
