"""While blocks are late: the death of a worker, and Ctrl-C."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from interrupting import press
from late_workers import wait_for_workers
from server_harness import processes_of, wait_until_gone

from alloc.instances.planning import generate_planning
from alloc.problems.right_sizing import PlanningProblem
from alloc.result import Limits
from alloc.solving.right_sizing import block_values
from alloc.solving.right_sizing.block_values import BlockValues
from alloc.solving.right_sizing.method import right_size
from alloc.verification.right_sizing import verify_plan

pytestmark = pytest.mark.long


def problem() -> PlanningProblem:
    return generate_planning("late", num_host_types=3, num_sites=2, num_quarters=4,
                             num_classes=5, num_scenarios=6, failures=1, seed=5)  # fmt: skip


def is_worker(process: int) -> bool:
    """Return whether a process works for joblib; one that has ended has no command any more."""
    try:
        return b"popen_loky" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def worker_processes() -> set[int]:
    """Return the ids of the workers that this process has."""
    return {process for process in processes_of(os.getpid()) if is_worker(process)}


@pytest.fixture
def at_late_blocks(monkeypatch):
    """Do something once, when blocks are first left to the workers and a plan is known."""
    happened: list[str] = []
    solve = BlockValues.solve

    def set_up(what) -> list[str]:
        def watched(self, tasks, *given, **named):
            wait_for_workers(self)
            tasks = list(tasks)
            found = solve(self, tasks, *given, **named)
            if len(found) < len(tasks) and not happened:
                happened.append("late")
                what()
            return found

        monkeypatch.setattr(BlockValues, "solve", watched)
        return happened

    return set_up


def test_ctrl_c_while_blocks_are_late_keeps_the_plan_and_ends_the_workers(at_late_blocks):
    happened = at_late_blocks(press)
    before = worker_processes()
    result = right_size(problem(), method="decomposition", limits=Limits(seconds=600, workers=2))
    assert happened == ["late"]
    assert result.certificate.limit == "interrupt"
    assert verify_plan(problem(), result.require_solution()) == []
    assert result.certificate.bound <= result.certificate.objective
    assert worker_processes() <= before


@pytest.mark.parametrize("when", ["late", "starting", "asked"])
def test_the_death_of_a_worker_is_a_line_and_the_search_goes_on_alone(
    at_late_blocks, monkeypatch, when
):
    """The plan was lost with it; and nothing is waited for that nobody solves any more."""
    before = worker_processes()
    lines: list[str] = []

    def kill() -> None:
        for process in worker_processes() - before:
            os.kill(process, signal.SIGKILL)
            if when == "asked":
                wait_until_gone([process])

    limits = Limits(seconds=600, gap=1e-4, workers=2)
    if when == "starting":
        start = BlockValues._start

        def started(self, stack):
            start(self, stack)
            kill()

        monkeypatch.setattr(BlockValues, "_start", started)
        happened = []
    else:
        happened = at_late_blocks(kill)
    result = right_size(problem(), limits=limits, method="decomposition", progress=lines.append)
    assert happened == ([] if when == "starting" else ["late"])
    assert result.certificate.gap <= 1e-4
    assert (
        sum("a worker process died; the search goes on in this one alone" in s for s in lines) == 1
    )
    assert worker_processes() <= before
    again = right_size(problem(), limits=replace(limits, gap=0.05), method="decomposition")
    assert again.certificate.gap <= 0.05


def never_starts(file):
    """Stand for a machine so busy that its processes do not come up."""
    threading.Event().wait()


def test_the_search_goes_on_alone_until_the_workers_have_started(monkeypatch):
    """It waited for them, however short its limit was: 27 s with one of 3 s."""
    monkeypatch.setattr(block_values, "_get_ready", never_starts)
    lines: list[str] = []
    limits = Limits(seconds=600, gap=0.05, workers=2)
    result = right_size(problem(), method="decomposition", limits=limits, progress=lines.append)
    assert result.certificate.gap <= 0.05
    assert any("the other workers: 0 turns with blocks" in line for line in lines)
