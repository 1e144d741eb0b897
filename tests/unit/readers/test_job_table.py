"""Job tables of one's own: the same jobs in any layout are the same instance."""

from __future__ import annotations

import gzip
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest
from job_tables import JOBS, START, columns, written

from alloc.errors import BackendUnavailableError, InstanceError
from alloc.instances.readers import table_instance


def fingerprint(table: Any, **options: Any) -> str:
    instance, report = table_instance(table, num_hosts=4, name="same", **options)
    assert (report.rows_read, report.rows_skipped, report.num_dropped) == (len(JOBS), 0, 0), report
    return instance.fingerprint


@pytest.fixture(scope="module")
def expected() -> str:
    return fingerprint(columns())


def test_a_job_is_what_its_row_says() -> None:
    instance, _ = table_instance(columns(), num_hosts=4)
    job = instance.job("c")
    assert (job.arrival_s, job.work, job.tenant, job.elasticity) == (120, 90_061, "speech", "rigid")
    [group] = job.configurations[0].tasks
    assert (group.count, group.gpu_milli) == (2, 8000)
    assert instance.topology.num_gpus == 32
    assert "table" in instance.description["source"]
    assert "licence" not in instance.description


@pytest.mark.parametrize("sign", [",", "\t", "|", ";"])
def test_the_sign_between_fields_does_not_matter(tmp_path, expected, sign) -> None:
    assert fingerprint(written(tmp_path / "jobs.csv", columns(), sign)) == expected


def test_nor_does_the_order_of_the_columns(tmp_path, expected) -> None:
    turned = dict(reversed(columns().items()))
    assert fingerprint(written(tmp_path / "jobs.csv", turned)) == expected


def test_nor_do_other_columns_bytes_and_packing(tmp_path, expected) -> None:
    table = {"user": ["x"] * 4, **columns(), "comment": ["", '"a, b"', "-", "nan"]}
    path = written(tmp_path / "jobs.csv", table)
    assert fingerprint(path) == expected
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert fingerprint(path) == expected
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert fingerprint(path) == expected


def test_renamed_columns_with_a_map_are_the_same_jobs(tmp_path, expected) -> None:
    names = ("col 1", "Abteilung", "t0", "t1", "n", "k")
    table = dict(zip(names, columns().values(), strict=True))
    path = written(tmp_path / "jobs.csv", table)
    text = "id=col 1, tenant=Abteilung, arrival=t0, duration=t1, gpus=n, tasks=k"
    assert fingerprint(path, map=text) == expected
    pairs = dict(pair.strip().split("=") for pair in text.split(","))
    assert fingerprint(table, map=pairs) == expected


@pytest.mark.parametrize(
    "names",
    [
        # Slurm, Helios, Acme, Philly's VC, Kubernetes' style, and a data base's.
        ("JobID", "Account", "Submit", "ElapsedRaw", "AllocTRES", "NNodes"),
        ("job_id", "vc", "submit_time", "duration", "gpu_num", "node_num"),
        ("id", "namespace", "creationTimestamp", "runtime", "gpus", "replicas"),
        ("Job ID", "VC", "Submitted At", "Run Time (s)", "GPU Count", "Node Count"),
    ],
)
def test_the_usual_names_are_known(tmp_path, expected, names) -> None:
    table = dict(zip(names, columns().values(), strict=True))
    assert fingerprint(written(tmp_path / "jobs.csv", table)) == expected


@pytest.mark.parametrize(("unit", "factor"), [("ms", 1000), ("us", 10**6), ("min", 1 / 60)])
def test_units_by_option_or_by_name_are_the_same_jobs(expected, unit, factor) -> None:
    table = columns()
    scaled = {
        **table,
        "submit_time": [repr(t * factor) for t in table["submit_time"]],
        "duration": [repr(t * factor) for t in table["duration"]],
    }
    instance, _ = table_instance(scaled, time_unit=unit, duration_unit=unit, num_hosts=4)
    plain, _ = table_instance(table, num_hosts=4)
    named = {f"{k}_{unit}" if k in ("submit_time", "duration") else k: v for k, v in scaled.items()}
    by_name, report = table_instance(named, num_hosts=4)
    for job, same, also in zip(plain.jobs, instance.jobs, by_name.jobs, strict=True):
        for other in (same, also):
            assert other.arrival_s == pytest.approx(job.arrival_s)
            assert other.work == pytest.approx(job.work)
            assert other.configurations == job.configurations
    assert f"submit_time_{unit} ({unit})" in report.notes[0]


def stamps(shift: timedelta = timedelta(), form: str = "%Y-%m-%d %H:%M:%S") -> list[str]:
    return [(START + timedelta(seconds=j[2]) + shift).strftime(form) for j in JOBS]


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        (stamps(), {}),
        (stamps(form="%Y-%m-%dT%H:%M:%S"), {}),
        (stamps(form="%Y/%m/%d %H:%M:%S"), {}),
        (stamps(form="%Y-%m-%d %H:%M:%SZ"), {}),
        (stamps(form="%Y-%m-%d %H:%M:%S UTC"), {}),
        (stamps(timedelta(hours=8), "%Y-%m-%d %H:%M:%S+08:00"), {}),
        (stamps(timedelta(hours=-7), "%Y-%m-%dT%H:%M:%S.0000000-0700"), {}),
        (stamps(timedelta(hours=2)), {"timezone": "Europe/Berlin"}),
        (stamps(timedelta(days=200)), {"timezone": "UTC"}),
        ([str(1_700_000_000 + j[2]) for j in JOBS], {}),
    ],
)
def test_the_zone_and_the_way_to_write_times_do_not_matter(expected, texts, options) -> None:
    assert fingerprint({**columns(), "submit_time": texts}, **options) == expected


@pytest.mark.parametrize(
    "texts",
    [
        ["01:00:00", "01:30:00", "1-01:01:01", "00:00:10"],
        ["1:00:00", "1:30:00.000", "1 day, 1:01:01", "0:00:10"],
        ["0 days 01:00:00", "0 days 01:30:00", "1 days 01:01:01", "0 days 00:00:10"],
        ["1h", "1h30m", "25h1m1s", "10s"],
        ["60m", "1.5h", "1d1h1min1s", "10000ms"],
        ["3600.0", "5.4e3", "90061", "10"],
    ],
)
def test_durations_in_any_notation(expected, texts) -> None:
    assert fingerprint({**columns(), "duration": texts}) == expected


def test_start_and_end_are_as_good_as_a_duration(expected) -> None:
    table = columns()
    del table["duration"]
    table["start_time"] = [j[2] + j[3] for j in JOBS]
    table["end_time"] = [j[2] + j[3] + j[4] for j in JOBS]
    assert fingerprint(table) == expected
    # A duration that includes waiting, as in one published trace, is seen through.
    table["duration"] = [j[3] + j[4] for j in JOBS]
    assert fingerprint(table) == expected


@pytest.mark.parametrize(
    "texts",
    [
        ["gpu:1", "gpu:8", "gpu:16", "gpu:4"],
        ["gres/gpu=1", "gres/gpu=8", "gres/gpu=16", "gres/gpu=4"],
        ["GPU", "GPU:8", "nvidia.com/gpu=16", "amd.com/gpu=4"],
        [f"billing=8,cpu=8,gres/gpu={n},mem=0,node=1" for n in (1, 8, 16, 4)],
        ["1.0", "8.0", "16.0", "4.0"],
    ],
)
def test_gpus_in_any_notation(expected, texts) -> None:
    assert fingerprint({**columns(), "num_gpus": texts}) == expected


def test_gpus_of_each_task_are_multiplied(expected) -> None:
    table = columns()
    each = [n // k for n, k in zip(table.pop("num_gpus"), table["num_nodes"], strict=True)]
    assert fingerprint({**table, "gpus_per_node": each}) == expected
    assert fingerprint({**table, "gpu_request": each}) == expected
    assert fingerprint({**table, "plan_gpu": [100 * n for n in each]}) == expected
    milli = [1000 * n for n in each]
    assert fingerprint({**table, "x": milli}, map="gpus_per_task=x", gpu_unit="milli") == expected


def test_data_frames_are_the_same_jobs(expected) -> None:
    frame = pd.DataFrame(columns())
    assert fingerprint(frame) == expected
    stamped = frame.assign(
        submit_time=[START + timedelta(seconds=j[2]) for j in JOBS],
        duration=pd.to_timedelta(frame["duration"], unit="s"),
        num_gpus=frame["num_gpus"].astype("float64"),
    )
    assert fingerprint(stamped) == expected
    assert fingerprint(stamped, time_unit="ms", duration_unit="h") == expected
    assert fingerprint(frame.to_dict("records")) == expected
    polars_like = type("Frame", (), {"columns": list(frame), "__getitem__": lambda _, k: frame[k]})
    assert fingerprint(polars_like()) == expected


def test_parquet_is_the_same_jobs_or_says_what_to_install(tmp_path, expected) -> None:
    path = tmp_path / "jobs.parquet"
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        path.write_bytes(b"PAR1 and so on")
        with pytest.raises(BackendUnavailableError, match=r'pip install "\.\[parquet\]"'):
            table_instance(path)
        return
    pd.DataFrame(columns()).to_parquet(path)
    assert fingerprint(path) == expected
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InstanceError, match="cannot be read as Parquet"):
        table_instance(path)


@pytest.mark.parametrize(
    "text",
    [
        *("four", "gres/gpu:a100=+", "billing=8,gres/gpu=", "gpu:a100:x", "cpu=4,gpu+", "4 GPUs"),
        *("GPUs=4", "example.com/gpu=4", "nvidia.com/gpu: 4", "1e306", "[1 2]"),
    ],
)
def test_gpus_that_cannot_be_told_are_never_none(text) -> None:
    """A list that was cut off is no list without GPUs."""
    table = {"submit": [0, 1], "duration": [9, 9], "gres": ["gpu:1", text]}
    instance, report = table_instance(table, num_hosts=1)
    assert (len(instance.jobs), report.num_dropped, report.rows_skipped) == (1, 0, 1)


def test_ids_that_are_numbers_with_a_point_are_no_steps() -> None:
    """As a DataFrame has them where a row had none."""
    table = {**columns(), "job_id": [1.0, 2.0, float("nan"), 10.0]}
    instance, _ = table_instance(table, num_hosts=4)
    assert [job.id for job in instance.jobs] == ["1.0", "2.0", "line-3", "10.0"]


def test_shares_of_a_gpu_stay_shares() -> None:
    instance, report = table_instance(
        {"submit": [0, 1, 2], "duration": [9, 9, 9], "gpus": ["0.5", "2.5", "1"]}, num_hosts=1
    )
    assert [j.configurations[0].tasks[0].gpu_milli for j in instance.jobs] == [500, 1000]
    assert [t.reason for t in report.skipped] == ["gpus is a share of several GPUs"]


def test_every_row_is_read_or_counted_with_its_reason(tmp_path) -> None:
    path = tmp_path / "jobs.csv"
    rows = """JobID,State,Submit,Start,End,Elapsed,AllocTRES
1,COMPLETED,2024-05-31T10:00:00,2024-05-31T10:05:00,2024-05-31T11:05:00,01:00:00,gres/gpu=4
2,COMPLETED,2024-05-31T10:00:00,2024-05-31T10:05:00,2024-05-31T09:05:00,01:00:00,gres/gpu=4
3,PENDING,2024-05-31T10:00:00,Unknown,Unknown,,gres/gpu=4
4,CANCELLED by 1000,2024-05-31T10:00:00,None,2024-05-31T10:05:00,00:00:00,gres/gpu=4
5,COMPLETED,2024-05-31T10:00:00,2024-05-31T10:05:00,2024-05-31T11:05:00,01:00:00,cpu=4
6,COMPLETED,2024-05-31T10:00:00,2024-05-31T10:05:00,2024-05-31T11:05:00,01:00:00,
1,COMPLETED,2024-05-31T10:00:00,2024-05-31T10:05:00,2024-05-31T11:05:00,01:00:00,gres/gpu=4
8,COMPLETED,,2024-05-31T10:05:00,2024-05-31T11:05:00,01:00:00,gres/gpu=4
9,COMPLETED,31.05.2024 10:00,2024-05-31T10:05:00,2024-05-31T11:05:00,01:00:00,gres/gpu=4
10,COMPLETED,2024-02-30T10:00:00,2024-05-31T10:05:00,2024-05-31T11:05:00,01:00:00,gres/gpu=4
11,COMPLETED,2024-05-31T10:00:00,,,05:00,gres/gpu=4
12,COMPLETED,2024-05-31T10:00:00,,,01:75:00,gres/gpu=4
13,COMPLETED,2024-05-31T10:00:00,,,-3,gres/gpu=4
14,COMPLETED,2024-05-31T10:00:00,,,01:00:00,four
15,COMPLETED,2024-05-31T10:00:00,,,01:00:00,"gres/gpu:a100=2,gres/gpu:h100=2"
16,COMPLETED,1717149600,,,01:00:00,gres/gpu=4
17,COMPLETED,2024-05-31T10:00:00Z,,,01:00:00,gres/gpu=4
18,COMPLETED,2024-05-31T10:00:00,,
19,RUNNING,2024-05-31T10:00:00,2024-05-31T10:00:00,Unknown,02:00:00,gres/gpu:a100=4
20,COMPLETED,2024-05-31T10:06:00,2024-05-31T10:05:00,2024-05-31T11:05:00,00:30:00,gres/gpu=4
"""
    path.write_text(rows, encoding="utf-8")
    instance, report = table_instance(path, num_hosts=1)
    assert {t.reason: t.count for t in report.skipped} == {
        "ends before it starts": 1,
        "JobID appears before": 1,
        "Submit is empty": 1,
        "Submit is not a time such as 1700000000, 2024-05-31 14:00:00 or "
        "2024-05-31T14:00:00+02:00": 1,
        "Submit is a date or time that does not exist": 1,
        "Elapsed has two parts, hours and minutes or minutes and seconds; write HH:MM:SS": 1,
        "Elapsed has more than 59 minutes or seconds": 1,
        "Elapsed is below 0": 1,
        "AllocTRES is not a count of GPUs such as 4, gpu:a100:4 or gres/gpu=4": 1,
        "AllocTRES asks for GPUs of several types": 1,
        "Submit is a number, not a time without zone as others": 1,
        "Submit is a time with a zone, not a time without zone as others": 1,
        "has 5 fields instead of 7": 1,
    }
    assert {t.reason: t.examples for t in report.dropped} == {
        "has no run time: it has not run, or not ended": ("3",),
        "ran for no time": ("4",),
        "asks for no GPU": ("5", "6"),
    }
    assert {t.reason: t.examples for t in report.altered} == {
        "still ran when the table was taken; its run time so far": ("19",),
        "starts before its submission, which stays its arrival": ("20",),
        "Elapsed is not end less start, and is taken": ("20",),
        "asks for a GPU type, of which the cluster made here has only one": ("19",),
    }
    assert [job.id for job in instance.jobs] == ["1", "19", "20"]
    assert report.rows_read + report.rows_skipped == len(rows.splitlines()) - 1
    assert report.rows_read == len(instance.jobs) + report.num_dropped


def test_a_clock_change_is_seen_where_the_zone_is_said() -> None:
    """On 27 October 2024 the hour from 2 to 3 came twice in Berlin, on 31 March not at all."""
    table = {
        "id": ["before", "twice", "after", "never"],
        "submit": [
            *("2024-10-27 01:30:00", "2024-10-27 02:30:00", "2024-10-27 03:30:00"),
            "2024-03-31 02:30:00",
        ],
        "duration": [60] * 4,
        "gpus": [1] * 4,
    }
    instance, report = table_instance(table, timezone="Europe/Berlin", num_hosts=1)
    assert [job.arrival_s for job in instance.jobs] == [0, 3600, 3 * 3600]
    assert [t.examples for t in report.altered] == [("twice",)]
    assert "clock change in Europe/Berlin left out" in report.skipped[0].reason
    assert not any("no zone" in note for note in report.notes)
    as_it_stands, report = table_instance(table, num_hosts=1)
    assert len(as_it_stands.jobs) == 4
    assert any("no zone" in note for note in report.notes)
