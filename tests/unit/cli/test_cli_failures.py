"""``--failures``: drawn or from a table, on every command that simulates, and its wrong uses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Alloc = Callable[..., Any]
DRAWN = "mtbf_s=20000,repair_s=4000,checkpoint_s=120,save_s=1"


def test_simulate_with_failures(run: Alloc) -> None:
    """Failed runs and lost GPU time are told, and more is lost without saves."""
    with_saves, without = (
        json.loads(
            run(
                "simulate", "elastic-tiny/01", "--scheduler", "fifo", "--json", "--failures", asked
            ).stdout
        )
        for asked in (DRAWN, "mtbf_s=20000,repair_s=4000")
    )
    assert with_saves["failures"] >= 1
    assert 0 <= with_saves["lost_gpu_h"] < without["lost_gpu_h"]


def test_a_table_of_outages_and_saves(run: Alloc, tmp_path: Path) -> None:
    """The same outages go into an instance, and from there into a simulation."""
    made = tmp_path / "made.json"
    table = tmp_path / "down.csv"
    table.write_text("host,down,up\nhost-0,500,900\n")
    run(
        "instances",
        "generate",
        "x",
        "--num-hosts",
        "3",
        "--failures",
        f"{table},checkpoint_s=60",
        "-o",
        made,
    )
    shown = run("instances", "show", made)
    assert "outages of hosts" in shown.stdout
    document = json.loads(made.read_text())
    assert document["outages"] == [{"host": "host-0", "start_s": 500.0, "end_s": 900.0}]
    assert {job["checkpoint_s"] for job in document["jobs"]} == {60.0}
    refused = run("solve", made)
    assert refused.exit_code == 2
    assert "does not model outages" in refused.stderr


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("mtbf=3", 'there is no "mtbf"; did you mean "mtbf_s"?'),
        ("nix.csv", "nix.csv: there is no such file"),
        ("mtbf_s=soon", 'mtbf_s is "soon"; give a number'),
        ("nix.csv,mtbf_s=5", "give one CSV file, or how failures are drawn, not both"),
        ("save_s=5", "save_s needs checkpoint_s"),
        ("mtbf_s=0", "mtbf_s is 0"),
        ("level=rack,level_mtbf_s=5", 'level "rack" is not in the topology'),
    ],
)
def test_failures_that_make_no_sense(run: Alloc, asked: str, sentence: str) -> None:
    """One sentence with the cure, and exit code 2."""
    found = run("simulate", "elastic-tiny/01", "--scheduler", "fifo", "--failures", asked)
    assert (found.exit_code, found.stdout) == (2, "")
    assert sentence in found.stderr
