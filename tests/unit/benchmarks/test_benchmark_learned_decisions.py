"""The benchmark of learned decisions runs on small crowds and says whether its targets hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from policy_files import write_short_first

from alloc.schedulers.shelf import add_policy
from benchmarks import learned_decisions


@pytest.fixture(autouse=True)
def own_shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOC_POLICIES", str(tmp_path / "shelf"))
    monkeypatch.setattr("alloc.schedulers.shelf._SHIPPED", tmp_path / "none")


def test_every_policy_on_the_shelf_is_timed_beside_the_exact_round(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row each at each size, and a verdict at the sizes that a target is about."""
    write_short_first(tmp_path / "mine.onnx", "mine")
    add_policy(tmp_path / "mine.onnx", ())
    monkeypatch.setattr(learned_decisions, "TARGET_SIZE", 12)
    monkeypatch.setattr(learned_decisions, "LARGE_SIZE", 24)
    code = learned_decisions.main(["--sizes", "12", "24", "--hosts", "6", "--slots", "2"])
    out = capsys.readouterr().out
    for name in ("exact-progress", "mine", "stand-in-job-priority", "stand-in-dl2-window"):
        assert sum(line.startswith(f"{name} ") for line in out.splitlines()) == 2
    assert "target: mine: median decision for 12 jobs in 20 ms: " in out
    assert "target: mine: 5 times faster than exact-progress for 24 jobs: " in out
    assert out.count("target:") == 2
    assert code == (1 if "MISSED" in out else 0)
