"""The benchmark of the environments runs, and judges what it measured."""

from __future__ import annotations

import pytest

from benchmarks import environment_steps
from benchmarks.environment_steps import Pace


def test_windows_are_as_crowded_as_the_target_says(capsys: pytest.CaptureFixture[str]) -> None:
    """A small run: windows of 20 are mostly full, and slots take many steps."""
    alone = environment_steps.run_single(600)
    together = environment_steps.run_vector(600, num_envs=3)
    assert alone.steps_per_s > 0
    assert together.steps_per_s > 0
    assert alone.steps_per_slot > 5
    assert alone.jobs_in_view > 8


@pytest.mark.parametrize(("steps_per_s", "code"), [(25_000.0, 0), (15_000.0, 1)])
def test_missed_target_fails(
    steps_per_s: float,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pace = Pace(steps_per_s, 20.0, 15.0)
    monkeypatch.setattr(environment_steps, "run_single", lambda *a, **k: pace)
    monkeypatch.setattr(environment_steps, "run_vector", lambda *a, **k: pace)
    assert environment_steps.main() == code
    out = capsys.readouterr().out
    assert f"{steps_per_s:,.0f} steps/s in the slowest row" in out
    assert ("holds" in out) is (code == 0)
