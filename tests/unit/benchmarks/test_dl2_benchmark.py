"""The DL2 benchmark in a tiny world: every row is there, and nothing is trained twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from dl2_tiny import SMALL, WORLD
from needs import need_torch

pytestmark = need_torch()

from benchmarks import dl2  # noqa: E402

if TYPE_CHECKING:
    import pytest

CHANGES = [
    "world.num_jobs=4",
    f"world.num_hosts={WORLD.num_hosts}",
    f"world.max_tasks={WORLD.max_tasks}",
    f"world.max_epochs={WORLD.max_epochs}",
    *(f"{name}={json.dumps(SMALL[name])}" for name in ("window", "hidden", "batch", "replay")),
    "supervised_updates=4",
    "supervised_kept=2",
    "updates=4",
    "validation_traces=1",
    "held_out_traces=2",
]


def test_the_table_has_every_row_the_target_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules, exact rounds, even draws, DL2, an ablation and the certified bound, as JSON too."""
    arguments = ["--seeds", "2", "--ablation-seeds", "1", "--variants", "3"]
    arguments += ["--bound-seconds", "10", "--output", str(tmp_path)]
    arguments += [word for change in CHANGES for word in ("--set", change)]
    code = dl2.main(arguments)
    out = capsys.readouterr().out
    wanted = [label for label, _, _ in dl2.RULES]
    wanted += ["even draws with DL2's rules", "DL2", "DL2 without critic", "certified bound"]
    for label in wanted:
        assert any(line.startswith(label) for line in out.splitlines()), label
    assert "-44.1 % against DRF" in out
    assert out.count("target:") == 3
    assert code == (1 if "MISSED" in out else 0)
    document = json.loads((tmp_path / "results.json").read_text())
    rows = {row["label"]: row for row in document["rows"]}
    assert len(rows["DL2"]["jcts"]) == 2
    # The bound is proved: no row can be below it.
    assert all(row["mean"] >= document["bound_slots"] - 1e-9 for row in document["rows"])
    # Again: all is known, so nothing is trained and every number is the same.
    dl2.main(arguments)
    assert "held out, best in validation" not in capsys.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text()) == document
