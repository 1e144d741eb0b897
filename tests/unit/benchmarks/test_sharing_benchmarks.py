"""The benchmarks of GPU sharing run on small cases and say whether their targets hold."""

import numpy as np
import pytest

from alloc.problems.colocation import ColocationProblem
from alloc.solving import solve
from benchmarks import colocation, mig


def test_mig_prints_values_bounds_and_verdicts(capsys, monkeypatch, tmp_path):
    """A hundred requests on sixteen GPUs: all four questions are answered and proved."""
    monkeypatch.setenv("ALLOC_TRACES", str(tmp_path))
    assert mig.main(["--requests", "120", "--gpus", "16"]) == 0
    out = capsys.readouterr().out
    assert out.count("holds (optimal in") == 4
    assert "set ALLOC_TRACES" in out


def test_slices_run_on_many_gpus_before_the_fourth_question():
    """Otherwise no GPU would have to be cut anew, and it would be the first question again."""
    running = mig.cases(120, 16)[3].instance.running
    assert len({(t.host, g) for a in running for t in a.tasks for g in t.gpus}) >= 8


@pytest.mark.long
def test_colocation_prints_values_bounds_and_verdicts(capsys, monkeypatch, tmp_path):
    """Without the extracts the speeds are random, and that is said."""
    monkeypatch.setenv("ALLOC_TRACES", str(tmp_path))
    assert colocation.main(["--jobs", "60", "--matching", "20"]) in (0, 1)
    out = capsys.readouterr().out
    assert "drawn at random" in out
    assert out.count("target:") == 4


def test_the_greedy_pairs_are_a_packing():
    """The value it is compared with must be one that can be had."""
    table = colocation.random_table(5)
    kinds = np.random.default_rng(1).choice(table.kinds, 12).tolist()
    ones = [1.0] * len(kinds)
    best = solve(ColocationProblem(kinds, table, 5))
    assert best.status == "optimal"
    assert 0 < colocation.greedy_pairs(kinds, ones, table, 5) <= best.objective + 1e-9
    assert (
        colocation.by_blossoms(kinds, ones, table)
        <= solve(ColocationProblem(kinds, table, 6)).objective + 1e-9
    )


def test_mixes_are_shares():
    assert all(sum(mix) == pytest.approx(1) for mix in mig.MIX.values())
