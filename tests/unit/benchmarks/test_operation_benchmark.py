"""The benchmark of operation runs on a small cluster and says whether its targets hold."""

import pytest

from benchmarks import cluster_operation


@pytest.mark.long
def test_decisions_streams_and_verdicts_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every verdict is there, the proof holds, and the exit code says what the lines say."""
    code = cluster_operation.main(["--quick"])
    out = capsys.readouterr().out
    assert "target: 10 nodes and 50 jobs: gap <= 1% in 10 s: holds" in out
    assert "never dearer than greedy, randomised greedy and our path relinking: holds" in out
    assert out.count("target:") == 5
    for name in ("edf", "sts", "exact, first completion", "exact-expected"):
        assert sum(line.startswith(f"    {name} ") for line in out.splitlines()) == 6
    assert code == (1 if "MISSED" in out else 0)
