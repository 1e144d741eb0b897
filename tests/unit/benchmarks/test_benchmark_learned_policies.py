"""The benchmark of learned policies: paired, honest about what the interval says."""

from __future__ import annotations

import pytest

from benchmarks import learned_policies
from benchmarks.learned_policies import Cell, best_exact, ratio, verdicts


def cells(scheduler: str, *values: float, family: str = "f") -> list[Cell]:
    return [Cell(family, scheduler, k, value, 1.0) for k, value in enumerate(values)]


def test_it_runs_on_a_tiny_world_and_prints_every_target(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two instances of eight jobs: the table, the intervals and the verdicts."""
    code = learned_policies.main(["--families", "tiny", "--seeds", "2"])
    out = capsys.readouterr().out
    assert code in (0, 1)
    assert "set-policy over each, with the 95 % interval" in out
    assert out.count("target: ") >= 2
    assert "better than optimus on every family" in out
    assert "within 5 % of exact-" in out
    # Every policy with DL2's window, whatever it is called.
    for rival in ("dl2", "dl2-rl-only", "window-policy"):
        assert f"better than {rival} on every family" in out


def test_ratios_are_paired() -> None:
    """Instances that differ tenfold do not hide a steady gain of a tenth."""
    middle, low, high = ratio(cells("a", 0.9, 9.0, 90.0, 0.91), cells("b", 1.0, 10.0, 100.0, 1.0))
    assert middle == pytest.approx(0.9, abs=0.01)
    assert low <= middle <= high < 0.95


def test_a_gain_that_may_be_chance_does_not_count() -> None:
    """Better on the mean, but not at the 95 % level: the target is missed."""
    found = {
        ("f", "set-policy"): cells("set-policy", 0.5, 1.1, 1.2),
        ("f", "exact-progress"): cells("exact-progress", 1.0, 1.0, 1.0),
        ("f", "exact-remaining-time"): cells("exact-remaining-time", 2.0, 2.0, 2.0),
        ("f", "optimus"): cells("optimus", 1.0, 1.0, 1.0),
    }
    assert best_exact(found, ["f"]) == "exact-progress"
    gap, optimus = verdicts(found, ["f"], [])
    assert gap.holds
    assert not optimus.holds


def test_the_worst_family_decides() -> None:
    """One family beyond 5 % is enough to miss."""
    found = {}
    for family, ours in (("good", 0.8), ("bad", 1.06)):
        found[family, "set-policy"] = cells("set-policy", ours, ours, family=family)
        for name in ("exact-progress", "exact-remaining-time", "optimus", "dl2"):
            found[family, name] = cells(name, 1.0, 1.001, family=family)
    gap, optimus, dl2 = verdicts(found, ["good", "bad"], ["dl2"])
    assert not gap.holds
    assert "worst on bad: +" in gap.measured
    assert not optimus.holds
    assert "on 1 of 2" in dl2.measured
