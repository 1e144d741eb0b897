"""`alloc train set-policy`: from a command to a policy that takes part in comparisons."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alloc.instances.learning_worlds import TINY
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate

Run = Callable[..., Any]

WORLD = replace(TINY, num_jobs=4, max_tasks=2)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train on one tiny world, with few updates."""
    from alloc.learning.imitation import training

    for name, value in (("_EPISODES", 1), ("_UPDATES", 5), ("_PAIRS", 1)):
        monkeypatch.setattr(training, name, value)
    tiny = functools.partial(training.SetPolicyTraining, worlds={"tiny": WORLD}, validation=1)
    monkeypatch.setattr(training, "SetPolicyTraining", tiny)


@pytest.mark.torch
@pytest.mark.usefixtures("quick")
def test_training_ends_in_a_policy_a_curve_and_its_plot(run: Run, tmp_path: Path) -> None:
    """The file is a scheduler at once; the same command again has nothing left to do."""
    folder, plot = tmp_path / "run", tmp_path / "curve.svg"
    command = ("train", "set-policy", "--minutes", 0.01, "--output", folder, "--name", "mine")
    done = run(*command, "--plot", plot)
    assert done.exit_code == 0, done.stderr
    assert "best validation" in done.stdout
    assert "alloc policies add" in done.stderr
    assert plot.read_text().startswith("<?xml")
    assert (folder / "curve.json").exists()
    again = run(*command, "--json")
    answer = json.loads(again.stdout)
    assert answer["policy"] == "mine"
    assert answer["steps"] == 3
    assert [row["stage"] for row in answer["curve"]] == ["round", "horizon", "reward"]
    shown = run("policies", "show", folder / "mine.onnx")
    assert "alloc train set-policy --minutes 0.01 --seed 0 --name mine" in shown.stdout
    result = simulate(WORLD.make(1), make_scheduler(str(folder / "mine.onnx")))
    assert result.unfinished == ()


@pytest.mark.torch
@pytest.mark.usefixtures("quick")
def test_an_interrupted_training_says_how_to_go_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C: exit 130, what was done is kept, and the same command ends it."""
    from alloc.learning.imitation import training

    folder = tmp_path / "run"
    command = ("train", "set-policy", "--minutes", 0.01, "--output", folder, "--quiet")

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "estimate_gradient", interrupted)
        stopped = run(*command)
    assert stopped.exit_code == 130
    assert "2 of 3 steps are kept; repeat the command" in stopped.stderr
    assert run(*command).exit_code == 0
    other = run(*command, "--seed", 5)
    assert other.exit_code == 2
    assert "seed: there 0, here 5" in other.stderr


@pytest.mark.torch
def test_wrong_options_are_refused_before_any_training(run: Run, tmp_path: Path) -> None:
    """An hour of training must not end in a file that cannot be written."""
    base = ("train", "set-policy", "--output", tmp_path / "run")
    for options, sentence in (
        (("--plot", tmp_path / "curve.pdf"), "end in .svg or .png"),
        (("--minutes", 0), "0.01"),
        (("--name", "No Good"), "name"),
    ):
        refused = run(*base, *options)
        assert refused.exit_code == 2, options
        assert sentence in refused.stderr
        assert not (tmp_path / "run").exists()
    (tmp_path / "file").write_text("x")
    refused = run("train", "set-policy", "--output", tmp_path / "file")
    assert refused.exit_code == 2
    assert "cannot be made" in refused.stderr


def test_without_pytorch_one_sentence_names_the_extra(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base install has the command and says what it needs."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "alloc.learning.pytorch", raising=False)
    refused = run("train", "set-policy", "--output", tmp_path / "run")
    assert refused.exit_code == 2
    assert 'pip install ".[learn]"' in refused.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.torch
def test_the_window_network_is_trained_from_the_optimum_by_one_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DL2's own network: its file stands beside the others, and says who taught it."""
    from alloc.learning.dl2 import DL2World
    from alloc.learning.dl2 import settings as dl2
    from alloc.learning.imitation import windowed

    small = dl2.preset(
        "released",
        world=DL2World(num_jobs=4, num_hosts=3, max_tasks=3, max_epochs=600),
        window=4,
        hidden=(8,),
        validation_traces=1,
    )
    monkeypatch.setattr(dl2, "preset", lambda name: small)
    quick_plan = functools.partial(windowed.WindowPlan, traces=1, updates=5, max_slots=10)
    monkeypatch.setattr(windowed, "WindowPlan", quick_plan)
    folder = tmp_path / "run"
    command = ("train", "window-policy", "--teacher", "set-rule", "--iterations", 2)
    done = run(*command, "--output", folder, "--json")
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["steps"] == 2
    assert [row["step"] for row in answer["curve"]] == [1, 2]
    shown = run("policies", "show", folder / "my-window-policy.onnx")
    assert "2 iterations of DAgger on the decisions of set-rule" in " ".join(shown.stdout.split())
    refused = run("train", "window-policy", "--teacher", "exakt", "--output", tmp_path / "x")
    assert refused.exit_code == 2
    assert "unknown scheduler" in refused.stderr
