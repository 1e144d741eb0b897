"""Tables: any line ends and packing read the same, and what is broken is named or counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers import ReadReport, Tally, read_itp, read_philly
from alloc.instances.readers import table as table_module
from alloc.instances.readers.report import ReportLog
from alloc.instances.readers.table import read_header, read_table

DATA = Path(__file__).parents[2] / "data" / "traces"
PLAIN = (DATA / "itp.csv").read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(PLAIN.replace(b"\n", b"\r\n"), id="crlf"),
        pytest.param(b"\xef\xbb\xbf" + PLAIN, id="byte-order-mark"),
        pytest.param(PLAIN.rstrip(b"\n"), id="no-last-line-end"),
        pytest.param(PLAIN + b"\n  \n\n", id="blank-last-lines"),
        pytest.param(gzip.compress(PLAIN), id="gzip"),
        pytest.param(gzip.compress(b"\xef\xbb\xbf" + PLAIN.replace(b"\n", b"\r\n")), id="all"),
    ],
)
def test_layout_of_the_text_does_not_matter(content: bytes, tmp_path: Path) -> None:
    """The same table was published with other line ends, marks and packing."""
    path = tmp_path / "itp.csv"
    path.write_bytes(content)
    jobs, report = read_itp(path)
    expected_jobs, expected_report = read_itp(DATA / "itp.csv")
    assert jobs == expected_jobs
    assert report == expected_report


def test_columns_may_come_in_any_order_with_others_between(tmp_path: Path) -> None:
    """Columns are found by name: a re-exported table has an index column and another order."""
    path = tmp_path / "t.csv"
    path.write_text(",num_gpu,duration,user,submission_time,job_id\n0, 4 ,60,x,10,a\n")
    (job,), _ = read_itp(path)
    assert (job.id, job.num_gpus, job.duration_s, job.submit_s) == ("a", 4, 60.0, 10.0)


def test_a_row_that_is_not_utf8_spoils_itself_only(tmp_path: Path) -> None:
    """One damaged byte must not make 80,000 rows unreadable."""
    path = tmp_path / "itp.csv"
    path.write_bytes(b"job_id,submission_time,duration,num_gpu\na,1,2,3\n\xff,1,2,3\nb,1,2,3\n")
    jobs, report = read_itp(path)
    assert [job.id for job in jobs] == ["a", "b"]
    assert [(t.reason, t.count) for t in report.skipped] == [("is not UTF-8 text", 1)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is empty; its first line must name job_id", id="empty"),
        pytest.param(b"\n\n", "is empty; its first line must name job_id", id="blank"),
        pytest.param(
            b"job,submission_time,duration,num_gpu\n",
            '"job_id" is not in "job,submission_time',
            id="other-column",
        ),
        pytest.param(PLAIN.split(b"\n", 1)[1], 'line 1: .*"job_id" is not in', id="no-header"),
        pytest.param(
            b"job_id,submission_time,duration,num_gpu,num_gpu\n",
            'column "num_gpu" twice',
            id="column-twice",
        ),
        pytest.param(b'"job_id,x\n', "line 1: is not comma-separated text", id="quote"),
        pytest.param(gzip.compress(PLAIN)[:-20], "gzip file ends too early", id="truncated"),
        pytest.param(gzip.compress(PLAIN)[:2], "gzip file ends too early", id="two-bytes"),
        pytest.param(b"\x1f\x8bnot gzip at all", "damaged as a gzip file", id="no-gzip"),
        pytest.param(
            gzip.compress(PLAIN)[:-8] + b"12345678", "damaged as a gzip file", id="checksum"
        ),
        pytest.param(b"x" * 70_000, "longer than 65536 characters", id="one-long-line"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused_by_name(
    content: bytes, message: str, tmp_path: Path
) -> None:
    """The sentence names the file and what to do, instead of a traceback or an empty result."""
    path = tmp_path / "jobs.csv"
    path.write_bytes(content)
    with pytest.raises(InstanceError, match=message) as caught:
        read_itp(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    """The most common mistakes of all."""
    with pytest.raises(InstanceError, match=r"nowhere\.csv: there is no such file"):
        read_itp(tmp_path / "nowhere.csv")
    with pytest.raises(InstanceError, match="cannot be read"):
        read_itp(tmp_path)
    with pytest.raises(InstanceError, match="is not a path"):
        read_itp("a\0b")


def test_endless_tables_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A packed file of a few kilobytes can hold gigabytes of rows."""
    monkeypatch.setattr(table_module, "_MAX_LINES", 4)
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submission_time,duration,num_gpu\n" + "\n" * 5)
    with pytest.raises(InstanceError, match="more than 4 lines"):
        read_itp(path)
    # Before the first row is read.
    header, row = "job_id,submission_time,duration,num_gpu", "a,2020-01-01 00:00:00,60,1"
    for ends in ("\n", "\r\n", "\r"):
        path.write_bytes(gzip.compress((ends.join([header, *[row] * 5]) + ends).encode()))
        log = ReportLog()
        with pytest.raises(InstanceError, match="more than 4 lines"):
            read_table(path, ("job_id",), lambda row: pytest.fail("a row was read"), log)
        path.write_bytes((ends.join([header, *[row] * 3]) + ends).encode())
        assert len(read_table(path, ("job_id",), lambda row: row, log)) == 3


def test_a_wrong_kind_of_trace_says_which_column_is_missing() -> None:
    """Handing an ITP table to the Philly reader is found out at the header."""
    with pytest.raises(InstanceError, match='"timestamp" is not in "job_id,submission_time'):
        read_philly(DATA / "itp.csv")


def test_reports_keep_few_short_examples_and_exact_counts(tmp_path: Path) -> None:
    """A million bad rows must not fill the screen, but be counted to the last."""
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "y" * 300 + "\n" + "bad\n" * 8)
    log = ReportLog()
    records = read_table(path, ("x",), lambda row: row.integer("x"), log)
    report = log.report()
    assert records == []
    (tally,) = report.skipped
    assert (tally.reason, tally.count) == ("x is not a number", 9)
    assert len(tally.examples) == 5
    assert tally.examples[0].startswith("line 2: yyy")
    assert tally.examples[0].endswith("...")
    assert tally.examples[1] == "line 3: bad"
    assert "9 x x is not a number (line 2" in str(report)
    assert read_header(path) == ("x",)


def test_reports_add_up() -> None:
    """A folder of tables gives one account; equal reasons are one line of it."""
    one = ReadReport(("a",), 3, skipped=(Tally("broken", 2, ("line 2: x",)),))
    two = ReadReport(
        ("b",),
        4,
        skipped=(Tally("broken", 1, ("line 9: y",)),),
        dropped=(Tally("late", 1, ("j",)),),
        also=(one,),
    )
    both = one + two
    assert both.files == ("a", "b")
    assert both.rows_read == 7
    assert both.skipped == (Tally("broken", 3, ("line 2: x", "line 9: y")),)
    assert both.num_dropped == 1
    assert "left out: 1 x late (j)" in str(both)
    assert str(both).splitlines()[-2:] == str(one).splitlines()
    assert both.as_dict()["rows_skipped"] == 3
    assert both.as_dict()["also"][0]["rows_skipped"] == 2
