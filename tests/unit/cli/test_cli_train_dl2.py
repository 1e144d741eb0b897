"""`alloc train dl2`: one command trains, writes policy, curve and outcome, and goes on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dl2_tiny import SMALL, WORLD
from needs import need_torch

pytestmark = need_torch()

from alloc.schedulers.learned import read_policy  # noqa: E402

Run = Callable[..., Any]

TINY = [f"{name}={json.dumps(value)}" for name, value in SMALL.items() if name != "world"] + [
    f"world.{name}={value}"
    for name, value in vars(WORLD).items()
    if name in ("num_jobs", "num_hosts", "max_tasks", "max_epochs")
]
OPTIONS = [word for change in TINY for word in ("--set", change)]


def test_one_command_trains_and_says_how_good_it_is(run: Run, tmp_path: Path) -> None:
    """Policy with card, curve as JSON, CSV and picture, and the outcome on held-out traces."""
    folder, picture = tmp_path / "out", tmp_path / "curve.svg"
    arguments = ("--output", folder, "--seed", 4, "--teacher", "fifo", "--plot", picture, "--quiet")
    result = run("train", "dl2", *arguments, *OPTIONS, "--json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    outcome = json.loads((folder / "outcome.json").read_text())
    drawn = said["mean JCT on held-out traces, slots, drawn actions"]
    assert drawn == pytest.approx(sum(outcome["drawn"]) / len(outcome["drawn"]))
    assert said["steps"] == 24
    card = read_policy(folder / "my-dl2.onnx").card
    assert card.seeds == (4,)
    assert "decisions of fifo" in card.data
    assert card.command.startswith("alloc train dl2 --preset released --set")
    assert "--seed 4 --name my-dl2 --output out" in card.command
    assert "--set teacher=fifo" in card.command
    lines = (folder / "curve.csv").read_text().splitlines()
    assert len(lines) == len(json.loads((folder / "curve.json").read_text())) + 1
    assert "<svg" in picture.read_text()


@pytest.mark.long
def test_the_command_on_the_card_trains_the_same_again(run: Run, tmp_path: Path) -> None:
    """Values are written as they are read, quoted for a shell, and the name is not forgotten."""
    changes = ("--set", "critic=false", "--name", "my-dl2", "--quiet")
    done = run("train", "dl2", "--output", tmp_path / "first", *OPTIONS, *changes)
    assert done.exit_code == 0, done.stderr
    words = shlex.split(read_policy(tmp_path / "first" / "my-dl2.onnx").card.command)
    assert words[0] == "alloc"
    again = run(*words[1:-1], tmp_path / "again", "--quiet")
    assert again.exit_code == 0, again.stderr
    assert (tmp_path / "again" / "my-dl2.onnx").exists()
    first, second = ((tmp_path / k / "curve.json").read_text() for k in ("first", "again"))
    assert first == second
    assert "critic_loss" not in json.loads(first)[-1]


def test_the_same_command_goes_on_and_another_is_refused(run: Run, tmp_path: Path) -> None:
    """A finished training is not trained again; other settings do not go on from it."""
    first = run("train", "dl2", "--output", tmp_path, *OPTIONS, "--quiet")
    assert first.exit_code == 0, first.stderr
    policy = (tmp_path / "outcome.json").read_text()
    again = run("train", "dl2", "--output", tmp_path, *OPTIONS, "--quiet")
    assert again.exit_code == 0
    ours, theirs = json.loads(policy), json.loads((tmp_path / "outcome.json").read_text())
    assert {**ours, "cpu_hours": 0} == {**theirs, "cpu_hours": 0}
    other = run("train", "dl2", "--output", tmp_path, *OPTIONS, "--ablation", "no-critic", "-q")
    assert other.exit_code == 2
    assert "belongs to a training of other settings (critic: there True, here False)" in (
        other.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--preset", "papers"], 'preset "papers" is unknown; did you mean "paper"'),
        (["--ablation", "no-critics"], 'ablation "no-critics" is unknown'),
        (["--teacher", "dfr"], 'unknown scheduler "dfr"'),
        (["--set", "discount"], "give FIELD=VALUE, such as discount=0.9"),
        (["--set", "discont=0.9"], 'have no "discont"; did you mean "discount"'),
        (["--set", "encoding=raw"], 'encoding "raw" is unknown'),
        (["--plot", "curve.gif"], "end in .svg or .png"),
    ],
)
def test_bad_input_is_refused_before_training(
    run: Run, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    """In one sentence and at once, exit code 2."""
    result = run("train", "dl2", "--output", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "out").exists()
