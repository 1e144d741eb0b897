"""The benchmark of the online scheduler: its rows, its store, its verdicts."""

from __future__ import annotations

from pathlib import Path

from alloc.instances.learning_worlds import TINY
from benchmarks.online import Outcomes, measure, run, verdicts
from benchmarks.online_cases import Case, cases

ROW = Case("tiny / 1", "tiny", True, lambda traces: TINY.make(1))


def test_no_row_is_both_tuned_on_and_held_out():
    tuned, held_out = ({case.name for case in cases(held)} for held in (False, True))
    assert tuned
    assert held_out
    assert not tuned & held_out


def test_what_was_measured_is_not_measured_again(tmp_path: Path):
    store = tmp_path / "outcomes"
    run([ROW], ["fifo", "set-rule"], tmp_path, Outcomes(store), 1)
    lines = store.read_text()
    assert len(lines.splitlines()) == 2
    again = Outcomes(store)
    run([ROW], ["fifo", "set-rule"], tmp_path, again, 1)
    assert store.read_text() == lines
    assert again.best(ROW) == min((again.jct_s(ROW, n), n) for n in ("fifo", "set-rule"))


def test_a_row_lost_by_more_than_the_target_is_a_missed_target(tmp_path: Path):
    outcomes = Outcomes(tmp_path / "outcomes")
    outcomes.add({**measure(ROW, "fifo", tmp_path), "jct_s": 100.0})
    for jct_s, holds in ((101.0, True), (101.1, False)):
        outcomes.add({**measure(ROW, "set-rule", tmp_path), "scheduler": "rollout", "jct_s": jct_s})
        assert verdicts([ROW], "rollout", outcomes)[0].holds is holds
