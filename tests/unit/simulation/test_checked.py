"""The last word is the checker's: a simulator that disagrees with it must not go unnoticed."""

from __future__ import annotations

import pytest

from alloc.errors import SimulationError
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate, simulator
from alloc.topology import HostType, flat_cluster
from alloc.verification import Violation
from alloc.workload import Job, rigid_gang
from benchmarks.simulator_stream import run, stream

INSTANCE = Instance(
    "judged",
    flat_cluster("one", HostType("h", 2, "generic", 8000, 0), 1),
    (Job("a", 0.0, 5.0, (rigid_gang(1),)),),
)


def test_judge_refuses_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A violation found only in the end names the scheduler and counts the others."""
    found = [Violation("x", ("a",), 1, "s", "first rule."), Violation("y", (), 1, "s", "second.")]
    monkeypatch.setattr(simulator, "check_schedule", lambda *_: found)
    with pytest.raises(SimulationError, match=r"fifo: the checker refuses.*first rule\. \(2 rules"):
        simulate(INSTANCE, make_scheduler("fifo"))
    unchecked = simulate(INSTANCE, make_scheduler("fifo"), check=False)
    assert not unchecked.verified
    assert unchecked.completion_s == {"a": 5.0}


def test_completions_are_compared_with_the_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two accounts of one job's end that differ are a bug, not a rounding."""
    monkeypatch.setattr(simulator, "completions", lambda *_: {"a": 6.0})
    with pytest.raises(SimulationError, match=r'job "a": the simulator completes it at 5\.0 s'):
        simulate(INSTANCE, make_scheduler("fifo"))


def test_stream_benchmark_runs_small() -> None:
    """The benchmark's stream, a hundredth of its size: every job completes and is checked."""
    seconds, result = run(stream(num_jobs=800, num_hosts=20))
    assert result.unfinished == ()
    assert result.verified
    assert seconds > 0
