"""The anytime benchmark: what it reads of a run, and what it holds runs to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from alloc.problems.allocation.solution import Allocation
from alloc.verification import verify
from benchmarks.anytime import Run, judge, read_story, run_all, table
from benchmarks.rebalancing_sets import rebalancing_set
from benchmarks.single_exchanges import single_exchanges


def write(folder: Path, run: Run, events: list[tuple[float, float, float]], ended: bool) -> Path:
    """Write what a run of wall times, values and bounds would have written."""
    rows: list[dict[str, object]] = [{"kind": "plain", "value": 100.0}]
    for wall, value, bound in events:
        rows.append({"kind": "event", "wall": wall, "cpu": wall, "value": value, "bound": bound})
    if ended:
        rows[-1] |= {"kind": "end", "verified": True}
    file = folder / f"{run.name}.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows) + '\n{"kind": "ev')
    return file


def test_a_run_that_is_cut_off_shows_what_it_had_reached(tmp_path: Path) -> None:
    """The end of a session must not lose the runs under way."""
    run = Run(50, 1, "A", 60.0, -1.0)
    story = read_story(run, write(tmp_path, run, [(1.0, 99.0, 90.0), (5.0, 95.0, 94.0)], False))
    assert story is not None
    assert story.at(2.0) == (99.0, 90.0)
    assert any("cut" in line and "1.05%" in line for line in table([story]))
    assert read_story(run, tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("long_end", "broken"),
    [
        ((60.5, 95.0, 94.9), []),
        ((60.5, 98.0, 97.9), ["more time"]),
        ((66.0, 95.0, 94.9), ["limits kept"]),
        ((60.5, 95.0, 91.0), ["gap", "more time"]),
    ],
)
def test_every_promise_can_be_missed(
    tmp_path: Path, long_end: tuple[float, float, float], broken: list[str]
) -> None:
    """A verdict that always holds says nothing."""
    short, long = Run(50, 1, "A", 10.0, -1.0), Run(50, 1, "A", 60.0, -1.0)
    first = (1.0, 99.0, 90.0)
    stories = [
        read_story(short, write(tmp_path, short, [first, (10.0, 97.0, 94.0)], True)),
        read_story(long, write(tmp_path, long, [first, long_end], True)),
    ]
    missed = [v.target for v in judge([s for s in stories if s]) if not v.holds]
    assert len(missed) == len(broken)
    assert all(word in target for word, target in zip(broken, missed, strict=True))


@pytest.mark.long
def test_runs_in_processes_of_their_own(tmp_path: Path) -> None:
    """A small run from end to end."""
    run = Run(10, 1, "A", 0.5, -1.0)
    run_all([run], 1, 120.0, tmp_path)
    story = read_story(run, tmp_path / f"{run.name}.jsonl")
    assert story is not None
    assert story.end is not None
    assert story.verified


@pytest.mark.long
def test_sets_are_valid_full_and_fragmented() -> None:
    """What runs keeps every rule; four fifths of the GPUs are used, unevenly over the racks."""
    instance = rebalancing_set(200, 1)
    assert verify(instance, Allocation(instance.running)) == []
    gpus = np.zeros(200)
    for running in instance.running:
        demand = instance.job(running.job).configurations[0].tasks[0].demand[0] / 1000
        for tasks in running.tasks:
            gpus[instance.topology.host_index[tasks.host]] += demand * tasks.count
    assert 0.75 < gpus.sum() / (8 * 200) <= 0.8
    assert np.ptp(gpus.reshape(20, 10).mean(axis=1)) > 2
    assert rebalancing_set(200, 1).fingerprint == instance.fingerprint
    assert rebalancing_set(200, 2).fingerprint != instance.fingerprint


@pytest.mark.parametrize("goal", ["A", "B"])
def test_single_exchanges_only_gain(goal: str) -> None:
    """The yardstick must be better than doing nothing."""
    instance = rebalancing_set(20, 1)
    assert single_exchanges(instance, goal, 10.0) < single_exchanges(instance, goal, 0.0)
