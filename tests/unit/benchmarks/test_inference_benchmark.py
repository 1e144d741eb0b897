"""The benchmark of inference sizing runs on a small case and says whether its targets hold."""

import pytest

from benchmarks import inference_sizing


@pytest.mark.long
def test_inference_prints_costs_bounds_and_verdicts(capsys, monkeypatch, tmp_path):
    """Without the extracts the options are made up, and that is said."""
    monkeypatch.setenv("ALLOC_TRACES", str(tmp_path))
    sizes = ["--models", "1", "--hours", "2", "--tenants", "3", "--scenarios", "2"]
    assert inference_sizing.main([*sizes, "--time-limit", "20"]) in (0, 1)
    out = capsys.readouterr().out
    assert "Options are made up" in out
    assert out.count("target:") == 4
    assert "gap <= 1% in 60 s: holds" in out
