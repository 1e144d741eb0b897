"""The Standard Workload Format: its 18 fields, its header, and its unknowns."""

from __future__ import annotations

import gzip

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers import swf_instance, table_instance

HEADER = "; Version: 2.2\n; Computer: Made up\n; MaxProcs: 32\n;\n"
LINES = """\
  1     100  10  3600   8 -1 -1   8 7200 -1 1 3 1 -1 1 -1 -1 -1
  2     160  -1   100  -1 -1 -1   4 7200 -1 5 4 1 -1 2 -1 -1 -1

  3     170  -1    -1  -1 -1 -1   4 7200 -1 0 4 1 -1 1 -1 -1 -1
  4     180   5  1000  16 -1 -1  -1   -1 -1 2 4 1 -1 1 -1 -1 -1
  4     180   5  3000  16 -1 -1  -1   -1 -1 1 -1 1 -1 1 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "made.swf"
    path.write_text(HEADER + LINES, encoding="utf-8")
    return path


def test_jobs_hold_their_processors_for_their_run_time(log) -> None:
    instance, account = swf_instance(log)
    assert [(j.id, j.arrival_s, j.work, j.tenant) for j in instance.jobs] == [
        ("1", 0.0, 3600.0, "user-3"),
        ("2", 60.0, 100.0, "user-4"),
        ("4", 80.0, 3000.0, None),
    ]
    assert [j.configurations[0].demand[0] for j in instance.jobs] == [8000, 4000, 16_000]
    assert {t.reason: t.examples for t in account.dropped} == {
        "did not run, or it is not known how long and on how many processors": ("3",),
        "a part of a job, whose whole has a line of its own": ("4",),
    }
    assert account.rows_read == len(instance.jobs) + account.num_dropped
    assert instance.topology.num_gpus == 32
    assert "MaxProcs 32" in " ".join(account.notes)
    assert "Made up" in instance.description["source"]
    assert "licence" not in instance.description


def test_it_is_the_instance_of_the_same_table(log) -> None:
    table = {
        "id": [1, 2, 4],
        "submit": [100, 160, 180],
        "duration": [3600, 100, 3000],
        "gpus": [8, 4, 16],
        "user": ["user-3", "user-4", ""],
    }
    as_table, _ = table_instance(table, map="tenant=user", num_hosts=4, name="made")
    assert swf_instance(log)[0].fingerprint == as_table.fingerprint


def test_packing_blanks_and_the_clock_do_not_matter(log) -> None:
    expected = swf_instance(log)[0].fingerprint
    text = log.read_text(encoding="utf-8")
    log.write_bytes(gzip.compress(text.replace("  ", "\t").replace("\n", "\r\n").encode()))
    assert swf_instance(log)[0].fingerprint == expected
    later = [line.split() for line in LINES.splitlines() if line]
    moved = "\n".join(" ".join([a, str(int(b) + 10**6), *rest]) for a, b, *rest in later)
    log.write_text(HEADER + moved, encoding="utf-8")
    assert swf_instance(log)[0].fingerprint == expected


def test_processors_may_be_cores(log) -> None:
    instance, account = swf_instance(log, gpus_per_processor=0.125, tenant="queue")
    assert [j.configurations[0].demand[0] for j in instance.jobs] == [1000, 1000, 2000]
    assert [j.tenant for j in instance.jobs] == ["queue-1", "queue-2", "queue-1"]
    assert "0.125 GPUs" in account.notes[0]
    assert instance.topology.num_gpus == 8
    assert swf_instance(log, num_hosts=3)[0].topology.num_hosts == 3


def test_lines_that_cannot_be_read_are_counted(log) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write("5 1 1\n6 x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n1 0 10 3600 8" + " -1" * 13)
        file.write("\n7 0 0 1e300 8" + " -1" * 13 + "\n8 0 0 9 1e300" + " -1" * 13 + "\n")
    instance, account = swf_instance(log)
    assert len(instance.jobs) == 3
    assert {t.reason for t in account.skipped} == {
        "has 3 fields instead of 18",
        "submit time is not a number",
        "job number appears before",
        "run time is more than a century",
        "asks for more than 1000000 GPUs",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tenant": "users"}, 'tenant is "users"; give one of user, group'),
        ({"gpus_per_processor": 0.0}, "give more than 0 and at most 1000"),
        ({"start_s": 10.0**6}, "move the window"),
    ],
)
def test_mistakes_are_one_sentence(log, options, message) -> None:
    with pytest.raises(InstanceError, match=message):
        swf_instance(log, **options)


def test_a_log_of_nothing_says_so(tmp_path) -> None:
    path = tmp_path / "empty.swf"
    with pytest.raises(InstanceError, match="there is no such file"):
        swf_instance(path)
    path.write_text(HEADER, encoding="utf-8")
    with pytest.raises(InstanceError, match="holds no job that can be read: it has no rows"):
        swf_instance(path)


@pytest.mark.parametrize("processors", [1, 97, 100, 104])
def test_a_job_of_all_processors_fits_the_cluster_of_the_header(tmp_path, processors) -> None:
    path = tmp_path / "whole.swf"
    job = f"1 0 0 100 {processors} -1 -1 {processors} -1 -1 1 1 1 1 1 1 -1 -1\n"
    path.write_text(f"; MaxProcs: {processors}\n{job}", encoding="utf-8")
    instance, _ = swf_instance(path)
    assert len(instance.jobs) == 1
    assert processors <= instance.topology.num_gpus < processors + 8
    with pytest.raises(InstanceError, match="gpus_per_host is 0"):
        swf_instance(path, gpus_per_host=0)
