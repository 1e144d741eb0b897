"""The placement benchmark: it says no when there is a reason, and says so when there is no data."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import placement

TASK = placement.TASKS[0]
GOOD = placement.Answer(9.4, 9.2, 0.02, True, 0.2, 0.2, 0.1)


def test_verdicts_hold_and_miss() -> None:
    """Value, time, gap, memory and the checker: each alone is enough to miss."""
    assert placement.judge_quick(TASK, GOOD).holds
    assert placement.judge_value(TASK, GOOD).holds
    assert placement.judge_gap(TASK, GOOD).holds
    assert not placement.judge_quick(TASK, replace(GOOD, value=9.6)).holds
    assert not placement.judge_quick(TASK, replace(GOOD, seconds=0.3)).holds
    assert not placement.judge_value(TASK, replace(GOOD, value=None)).holds
    assert not placement.judge_value(TASK, replace(GOOD, verified=False)).holds
    assert not placement.judge_gap(TASK, replace(GOOD, gap=0.031)).holds
    large = next(task for task in placement.TASKS if task.gigabytes is not None)
    assert not placement.judge_gap(large, replace(GOOD, gigabytes=4.1)).holds


def test_more_gpus_are_better() -> None:
    """Admission is maximised: 80 GPUs beat 79 and 78 do not."""
    task = next(task for task in placement.TASKS if task.name == "C-500")
    assert placement.judge_value(task, replace(GOOD, value=269.0)).holds
    assert not placement.judge_value(task, replace(GOOD, value=268.0)).holds


def test_absent_sets_are_said_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A benchmark without its data must not look like one that passed."""
    monkeypatch.setenv("ALLOC_PLACEMENT", str(tmp_path / "none"))
    assert placement.main([]) == 2
    assert "NOTHING IS MEASURED" in capsys.readouterr().err


def test_solves_a_set_of_its_own(tmp_path: Path) -> None:
    """End to end on a set of two hosts, in this process."""
    pod = {"gpu": 1, "cpu": 8, "mem": 64}
    raw = {
        "hosts": [
            {"id": f"h{k}", "rack": "r0", "gpu": 8, "cpu": 128, "mem": 1024} for k in range(2)
        ],
        "jobs": [{"id": f"j{k}", "pods": [f"p{k}"]} for k in range(4)],
        "pods": [{"id": f"p{k}", **pod, "initial": "h0"} for k in range(4)],
    }
    file = tmp_path / "two.json.gz"
    file.write_bytes(gzip.compress(json.dumps(raw).encode()))
    answer = placement.solve(replace(TASK, file="two"), tmp_path, 10.0, 0)
    # Two pods move: both hosts are at the mean.
    assert answer.value == pytest.approx(0.1)
    assert answer.gap == pytest.approx(0.0, abs=1e-6)
    assert answer.verified
