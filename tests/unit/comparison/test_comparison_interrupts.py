"""Comparisons that are interrupted or killed: what was done is kept, and they go on."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from alloc import solving
from alloc.comparison import Comparison, compare
from alloc.comparison.settings import OPTIMUM
from alloc.problems.allocation.instance import Instance
from alloc.result import Result

LIMIT_S = 20.0


def test_ctrl_c_in_a_solve_stops_the_comparison(
    queue: Instance, other: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`solve` turns Ctrl-C into a result; a comparison must not go on with the next instance."""
    true_solve = solving.solve
    calls = []

    def interrupted(*args, **kwargs) -> Result:
        calls.append(args)
        result = true_solve(*args, **kwargs)
        return dataclasses.replace(
            result, certificate=result.certificate.replace(limit="interrupt")
        )

    path = tmp_path / "runs.db"
    with monkeypatch.context() as patch:
        patch.setattr(solving, "solve", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compare([queue, other], ["fifo"], time_limit_s=LIMIT_S, store=path)
    assert len(calls) == 1
    unfinished = Comparison.from_store(path)
    # The rows were done before, and the best schedule of the solve is kept beside them.
    assert unfinished.missing == 0
    assert unfinished.unbounded == ("queue-02",)
    assert [row.scheduler for row in unfinished.rows] == [OPTIMUM, "fifo", "fifo"]
    finished = compare([queue, other], ["fifo"], time_limit_s=LIMIT_S, store=path)
    assert finished.missing == 0
    assert finished.bound("queue-01").certificate.limit is None


SCRIPT = """
    import os, signal, sys
    from alloc.comparison import compare
    from alloc.problems.allocation.instance import Instance

    def progress(event):
        print(event.kind, event.stored, flush=True)
        if event.done == int(sys.argv[3]):
            os.kill(os.getpid(), getattr(signal, sys.argv[4]))

    if __name__ == "__main__":
        instance = Instance.load(sys.argv[1])
        compare([instance], ["fifo", "drf"], seeds=range(3), store=sys.argv[2],
                time_limit_s=20, jobs=int(sys.argv[5]), progress=progress)
"""


@pytest.mark.long
@pytest.mark.parametrize(("kind", "jobs"), [("SIGKILL", 1), ("SIGINT", 1), ("SIGINT", 2)])
def test_killed_in_the_middle_nothing_is_lost(
    queue: Instance, tmp_path: Path, kind: str, jobs: int
):
    """After a kill or Ctrl-C all that was reported is in the store, and the next run goes on."""
    script, path, file = tmp_path / "run.py", tmp_path / "runs.db", tmp_path / "queue.json"
    script.write_text(textwrap.dedent(SCRIPT))
    queue.to_json(file)
    died = subprocess.run(
        [sys.executable, script, file, path, "4", kind, str(jobs)],
        capture_output=True,
        text=True,
        timeout=300,
        # Without programs beside Python, as in a small container.
        env={**os.environ, "JOBLIB_MULTIPROCESSING": "1", "PATH": str(tmp_path)},
    )
    assert died.returncode in (-getattr(signal, kind), 130, 1), died.stderr
    reported = died.stdout.splitlines()
    assert reported[:4] == ["cell False"] * 4, died.stderr
    unfinished = Comparison.from_store(path)
    assert 0 < unfinished.missing <= 2
    assert unfinished.unbounded == ("queue-01",)
    events: list[Any] = []
    finished = compare(
        [queue],
        ["fifo", "drf"],
        seeds=range(3),
        store=path,
        time_limit_s=20,
        progress=events.append,
    )
    assert sum(event.stored for event in events) == 6 - unfinished.missing >= len(reported)
    assert finished.missing == 0
    assert len(finished.rows) == 7
