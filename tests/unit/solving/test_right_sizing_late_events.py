"""While blocks are late: the death of a worker, and Ctrl-C."""

import os
import signal
import threading
from pathlib import Path

import pytest
from interrupting import press
from late_workers import wait_for_workers
from server_harness import processes_of

from alloc.errors import SolverError
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


def test_the_death_of_a_worker_while_blocks_are_late_is_a_sentence(at_late_blocks):
    """Nothing is waited for that nobody solves any more, and the next run has workers again."""
    before = worker_processes()

    def kill() -> None:
        for process in worker_processes() - before:
            os.kill(process, signal.SIGKILL)

    happened = at_late_blocks(kill)
    with pytest.raises(SolverError, match="right-sizing: a worker process died"):
        right_size(problem(), method="decomposition", limits=Limits(seconds=600, workers=2))
    assert happened == ["late"]
    assert worker_processes() <= before
    limits = Limits(seconds=600, gap=0.05, workers=2)
    again = right_size(problem(), method="decomposition", limits=limits)
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
