"""The benchmark of two trees: its verdict, its interval, and workloads that run."""

import json
import math
from pathlib import Path

import pytest

from benchmarks import before_after, before_after_workloads
from benchmarks.before_after import Row, ends_left_out, run_in, table, verdicts, write_record
from benchmarks.before_after_workloads import WORKLOADS, Workload, run

HERE = Path(__file__).parents[3]


def row(name="work", *, after=(1.0, 1.0, 1.0), before=(1.0, 1.0, 1.0)):
    return Row(name, before, after, ("optimal 1", "optimal 1"))


def test_slower_is_what_is_beyond_the_target_and_beyond_noise():
    assert not row(after=(1.04, 1.04, 1.04)).is_slower
    assert row(after=(1.06, 1.2, 1.01)).is_slower
    # One turn that was faster than before: the interval holds 1.
    assert not row(after=(1.06, 1.2, 0.99)).is_slower
    assert "SLOWER" in str(row(after=(1.06, 1.2, 1.01)))


def test_ratios_pair_what_ran_side_by_side():
    drifting = row(before=(1.0, 10.0, 100.0), after=(1.1, 11.0, 110.0))
    assert drifting.ratios == pytest.approx([1.1, 1.1, 1.1])


@pytest.mark.parametrize("count", range(1, 40))
def test_the_interval_of_the_median_has_its_confidence(count):
    """Against the binomial distribution, summed: each value is above the median or below it."""
    left_out = ends_left_out(count)

    def covered(k):
        return sum(math.comb(count, i) for i in range(k + 1, count - k)) / 2**count

    assert 0 <= left_out < (count + 1) / 2
    if left_out:
        assert covered(left_out) >= 0.9
    if 2 * (left_out + 1) < count:
        assert covered(left_out + 1) < 0.9


def test_one_that_is_slower_fails_and_so_does_a_slow_import():
    assert all(verdict.holds for verdict in verdicts([row()]))
    assert not verdicts([row(), row(after=(2.0, 2.0, 2.0))])[0].holds
    slow = row("import alloc", before=(0.04,) * 3, after=(0.031,) * 3)
    assert [verdict.holds for verdict in verdicts([slow])] == [True, False]


def test_a_record_takes_groups_one_after_the_other(tmp_path):
    path = tmp_path / "record.json"
    write_record(path, HERE, [row("one"), row("two")])
    write_record(path, HERE, [row("two", after=(2.0, 2.0, 2.0))])
    rows = json.loads(path.read_text())["rows"]
    assert {name: found["ratio"] for name, found in rows.items()} == {"one": 1.0, "two": 2.0}


def test_the_page_shows_the_record_as_it_is():
    record = json.loads((HERE / "benchmarks/records/before_after.json").read_text())
    page = (HERE / "docs/speed.md").read_text(encoding="utf-8")
    assert table(record) in page
    assert record["date"] in page
    assert record["before"][:7] in page
    assert all(record["environment"][name] in page for name in ("cpu", "commit"))
    # What is not in the record the page names.
    missing = {name for group in WORKLOADS.values() for name in group} - {*record["rows"]}
    flowing = " ".join(page.split())
    assert all(name in flowing for name in missing)


@pytest.mark.parametrize("part", ["before", "environment"])
def test_a_record_holds_no_rows_of_another_commit_or_machine(tmp_path, part):
    path = tmp_path / "record.json"
    write_record(path, HERE, [row("one")])
    known = json.loads(path.read_text())
    path.write_text(json.dumps(known | {part: {"before": "1234567", "environment": {}}[part]}))
    write_record(path, HERE, [row("two")])
    assert [*json.loads(path.read_text())["rows"]] == ["two"]


@pytest.mark.long
def test_a_workload_prepares_each_input_off_the_clock(monkeypatch):
    """By a clock that preparing moves by 100 s and working by 3."""
    seen, passed = [], [0.0]
    monkeypatch.setattr(before_after_workloads, "cpu_s", lambda: passed[0])

    def prepare(case):
        passed[0] += 100.0
        return [case]

    def work(made):
        passed[0] += 3.0
        seen.append(made)
        return "done"

    assert run(Workload(prepare, work, "case", "warm", 2)) == (3.0, "done")
    assert seen == [["warm"], ["case"], ["case"]]
    assert run(Workload(str, lambda made: 0.25, "case", "warm", 2))[0] == 0.25


@pytest.mark.long
def test_a_group_runs_in_a_process_of_a_tree():
    found = run_in(HERE, "placement")
    assert {*found} == {*WORKLOADS["placement"]}
    assert all(seconds > 0 and answer.startswith("optimal") for seconds, answer in found.values())


def test_what_fails_or_runs_elsewhere_is_no_figure(tmp_path):
    with pytest.raises(SystemExit, match="the workloads of verifying fail in"):
        run_in(HERE, "verifying")
    with pytest.raises(SystemExit, match="alloc comes from"):
        run_in(tmp_path, "verification")


def test_a_folder_that_is_no_checkout_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        before_after.main(["--before", str(tmp_path)])
    assert "is not a checkout of alloc" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        before_after.main(["--before", str(HERE), "--only", "rounds"])
    assert 'did you mean "round"' in capsys.readouterr().err.lower()
