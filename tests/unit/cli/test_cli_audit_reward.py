"""`alloc audit-reward`: the table, the document and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_the_document_holds_all_rows_and_the_verdict(run: Run, instance_file: Path) -> None:
    done = run(
        *("audit-reward", "--reward", "discounted-progress", "--gamma", 0.9),
        *("--instances", instance_file, "--agent", "fifo", "--ties", "--json"),
    )
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    roles = [row["role"] for row in document["rows"]]
    assert roles == [
        "optimum",
        "maximiser",
        "maximiser, best ties",
        "maximiser, worst ties",
        "exact per round",
        "agent",
        "teacher",
    ]
    optimum = document["rows"][0]
    assert optimum["mean_jct_slots"] == pytest.approx([3.0])  # 2 and 4 slots
    assert optimum["proved"] == 1
    assert document["gamma"] == 0.9
    assert document["blame"] == "nobody"


def test_the_table_ends_in_the_verdict(run: Run, instance_file: Path) -> None:
    done = run("audit-reward", "--instances", instance_file, "--agent", "drf")
    assert done.exit_code == 0, done.stderr
    assert "clairvoyant optimum" in done.stdout
    assert "1 of 1" in done.stdout
    assert done.stdout.strip().splitlines()[-1].startswith(("REWARD", "NOBODY", "NETWORK"))


def test_an_unknown_reward_and_a_discount_out_of_range_are_refused(run: Run) -> None:
    assert "cannot be audited" in run("audit-reward", "--reward", "joy").stderr
    done = run("audit-reward", "--gamma", 2)
    assert done.exit_code == 2
    assert "from 0" in done.stderr
