"""`alloc train AGENT`: one command from nothing to a policy that runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import need_torch

pytestmark = need_torch()

from alloc.instances.projects import generate_staged  # noqa: E402
from alloc.learning.environments import GangEpisodes  # noqa: E402
from alloc.schedulers.learned import read_policy  # noqa: E402

Run = Callable[..., Any]


@pytest.mark.slow
def test_a_two_level_scheduler_is_trained_and_simulated(run: Run, tmp_path: Path) -> None:
    """The whole way of a user: train, then put the file beside other schedulers."""
    folder = tmp_path / "agent"
    words = ("train", "two-level", "--minutes", 0.01, "--output", folder, "--json", "--quiet")
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 1
    policy = read_policy(folder / "my-two-level.onnx")
    assert policy.spec.kind == "pick-backfill/1"
    assert "alloc train two-level --minutes 0.01 --seed 0" in policy.card.command
    stream = tmp_path / "stream.json"
    GangEpisodes(num_jobs=6)(np.random.default_rng(0)).to_json(stream)
    shown = run("simulate", stream, "--scheduler", policy.path, "--json", "--quiet")
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout)["unfinished"] == []


@pytest.mark.slow
def test_a_placement_agent_is_trained_and_simulated(run: Run, tmp_path: Path) -> None:
    """The same for jobs that slow each other; the error of the learned rewards is said."""
    folder = tmp_path / "agent"
    words = ("train", "placement-agent", "--minutes", 0.01, "--output", folder, "--json", "--quiet")
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert 0 < said["reward model: error of a speed, mixes not measured"] < 0.1
    policy = read_policy(folder / "my-placement-agent.onnx")
    assert policy.spec.kind == "host-choice/1"
    stream = tmp_path / "stream.json"
    instance = GangEpisodes(num_jobs=6, leaves=1)(np.random.default_rng(0))
    room = int(instance.topology.capacity[:, 0].max())
    jobs = tuple(job for job in instance.jobs if job.configurations[0].demand[0] <= room)
    instance.replace(jobs=jobs).to_json(stream)
    shown = run("simulate", stream, "--scheduler", policy.path, "--json", "--quiet")
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout)["unfinished"] == []


@pytest.mark.slow
def test_a_decima_agent_and_its_tree_are_trained_and_simulated(run: Run, tmp_path: Path) -> None:
    """Two files, each of which is a scheduler of graphs of stages."""
    folder = tmp_path / "agent"
    words = ("train", "decima", "--minutes", 0.01, "--output", folder, "--json", "--quiet")
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["steps"], said["tree"]) == (1, str(folder / "my-decima-tree.json"))
    assert read_policy(folder / "my-decima.onnx").spec.kind == "stage-graph/1"
    stream = tmp_path / "stages.json"
    generate_staged(num_jobs=3, seed=1).to_json(stream)
    for scheduler in (str(folder / "my-decima.onnx"), f"decima-tree(tree={said['tree']})"):
        shown = run("simulate", stream, "--scheduler", scheduler, "--json", "--quiet")
        assert shown.exit_code == 0, shown.stderr
        assert json.loads(shown.stdout)["unfinished"] == []


@pytest.mark.parametrize("name", ["selector", "two-level", "placement-agent", "decima"])
def test_a_checkpoint_of_another_agent_is_refused(run: Run, tmp_path: Path, name: str) -> None:
    """Two agents in one folder would overwrite each other."""
    other = "two-level" if name == "selector" else "selector"
    from alloc.learning.training import CHECKPOINT, save_checkpoint

    save_checkpoint(
        tmp_path / CHECKPOINT,
        {"kind": other, "settings": {}, "step": 0, "state": {}, "curve": [], "cpu_s": 0.0},
    )
    done = run("train", name, "--minutes", 0.01, "--output", tmp_path, "--quiet")
    assert done.exit_code == 2
    assert "other kind" in done.stderr


@pytest.mark.parametrize(
    "command",
    ["set-policy", "window-policy", "dl2", "selector", "two-level", "placement-agent", "decima"],
)
def test_a_name_that_no_policy_can_have_is_refused_before_training(
    run: Run, tmp_path: Path, command: str
) -> None:
    """Found out at the end, it would cost the hours of the training."""
    for name in ("No Good", "trailing\n", "", "a.onnx"):
        done = run("train", command, "--name", name, "--output", tmp_path / "out", "--quiet")
        assert done.exit_code == 2
        assert "is not a name of a policy" in done.stderr
        assert not (tmp_path / "out").exists()
