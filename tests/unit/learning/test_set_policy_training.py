"""Training of a set policy: interrupted at any moment, it ends in the same weights."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from needs import need_torch

from alloc.errors import InstanceError
from alloc.instances.learning_worlds import TINY

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.learning import training as shared  # noqa: E402
from alloc.learning.imitation import rollouts  # noqa: E402
from alloc.learning.imitation import training as stages  # noqa: E402
from alloc.learning.imitation.training import Plan, SetPolicyTraining  # noqa: E402
from alloc.learning.publishing import publish  # noqa: E402
from alloc.learning.training import CHECKPOINT, CURVE, load_checkpoint, train  # noqa: E402
from alloc.schedulers.learned import read_policy  # noqa: E402

SMALL = replace(TINY, num_jobs=5, max_tasks=3)
PLAN = Plan(2, 2, 2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few simulations and updates: what is shown here does not depend on their number."""
    for name, value in (("_EPISODES", 2), ("_UPDATES", 12), ("_PAIRS", 2)):
        monkeypatch.setattr(stages, name, value)


def training(folder: Path, seed: int = 0, plan: Plan = PLAN) -> SetPolicyTraining:
    worlds = {"small": SMALL, "error": replace(SMALL, name="error", work_error=0.3)}
    return SetPolicyTraining(folder, plan, seed=seed, worlds=worlds, validation=1)


def outcome(folder: Path) -> tuple[dict[str, torch.Tensor], list[dict[str, float]]]:
    kept = load_checkpoint(folder / CHECKPOINT)
    weights = {
        f"{which}/{k}": v for which in ("network", "best") for k, v in kept["state"][which].items()
    }
    return weights, kept["curve"]


def same(one: Path, other: Path) -> None:
    (ours, our_curve), (theirs, their_curve) = outcome(one), outcome(other)
    assert our_curve == their_curve
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training in one go."""
    folder = tmp_path_factory.mktemp("straight")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_EPISODES", 2), ("_UPDATES", 12), ("_PAIRS", 2)):
            patch.setattr(stages, name, value)
        train(training(folder), folder)
    return folder


@pytest.mark.long
def test_rollouts_on_workers_train_the_same_weights(
    straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels, evolution and validation: each simulation knows nothing of the others."""
    train(training(tmp_path), tmp_path, jobs=2)
    same(straight, tmp_path)


@pytest.mark.long
def test_interrupted_at_random_moments_it_ends_in_the_same_weights(
    straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt in the middle of a simulation, a fit or a write costs one step and no more."""
    rng = np.random.default_rng(5)
    left = 0

    def interrupted(function):
        def call(*args, **options):
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
            return function(*args, **options)

        return call

    monkeypatch.setattr(rollouts, "simulate", interrupted(rollouts.simulate))  # type: ignore[attr-defined]
    monkeypatch.setattr(stages, "imitation_loss", interrupted(stages.imitation_loss))  # type: ignore[attr-defined]
    monkeypatch.setattr(stages, "save_rounds", interrupted(stages.save_rounds))  # type: ignore[attr-defined]
    monkeypatch.setattr(shared, "write_bytes", interrupted(shared.write_bytes))  # type: ignore[attr-defined]
    interruptions = 0
    while True:
        left = int(rng.integers(5, 45))
        try:
            train(training(tmp_path), tmp_path)
            break
        except KeyboardInterrupt:
            interruptions += 1
            assert interruptions < 100
    assert interruptions >= 4
    same(straight, tmp_path)


@pytest.mark.slow
def test_killed_outright_it_ends_in_the_same_weights(straight: Path, tmp_path: Path) -> None:
    """As machines do; after a few of its steps, somewhere in the next one."""
    code = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[2]);"
        "import test_set_policy_training as t; from alloc.learning.training import train;"
        "[setattr(t.stages, n, v) for n, v in (('_EPISODES', 2), ('_UPDATES', 12), ('_PAIRS', 2))];"
        "folder = pathlib.Path(sys.argv[1]); print('ready', flush=True);"
        "step = lambda *_: print('step', flush=True);"
        "train(t.training(folder), folder, report=step); print('done', flush=True)"
    )
    here = Path(__file__)
    path = os.pathsep.join([str(here.parents[2]), *sys.path])
    for steps in (0, 1, 1, None):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(here.parent)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            text=True,
        )
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == "ready\n"
            if steps is None:
                assert process.stdout.read().endswith("done\n")
            else:
                assert [process.stdout.readline() for _ in range(steps)] == ["step\n"] * steps
                process.send_signal(signal.SIGKILL)
        process.wait()
    same(straight, tmp_path)


def test_another_seed_ends_elsewhere(straight: Path, tmp_path: Path) -> None:
    """Or the test above would show nothing."""
    train(training(tmp_path, seed=1), tmp_path)
    with pytest.raises(AssertionError):
        same(straight, tmp_path)


def test_a_finished_training_is_left_as_it_is(straight: Path) -> None:
    """Running it again does nothing and says the same."""
    before = (straight / CHECKPOINT).read_bytes()
    told: list[str] = []
    again = training(straight)
    train(again, straight, report=lambda done, total, said: told.append(said))
    assert told == []
    assert again.step == again.steps == PLAN.steps
    assert (straight / CHECKPOINT).read_bytes() == before


def test_every_stage_is_in_the_curve_and_the_best_is_kept(straight: Path) -> None:
    """The curve as data: losses, labels, validation; the policy is that of its lowest point."""
    rows = json.loads((straight / CURVE).read_text())
    assert [row["stage"] for row in rows] == ["round"] * 2 + ["horizon"] * 2 + ["reward"]
    assert all(row["stretch"] >= 1 for row in rows)
    assert rows[1]["labels"] > rows[0]["labels"] > 0
    done = training(straight)
    train(done, straight)
    assert done.best_value == min(row["stretch"] for row in rows)


def test_the_policy_file_has_a_card_and_says_what_the_training_says(
    straight: Path, tmp_path: Path
) -> None:
    """Publishing compares the file with PyTorch before it is written."""
    done = training(straight)
    train(done, straight)
    policy = publish(done, tmp_path / "p.onnx", name="tiny-set", command="alloc train", hours=0.5)
    card = read_policy(policy.path).card
    assert card.name == "tiny-set"
    assert card.training_hours == 0.5
    assert min(point.value for point in card.curve) == done.best_value
    assert "small, error" in card.data
    with pytest.raises(InstanceError, match="nothing has been trained"):
        publish(training(tmp_path), tmp_path / "q.onnx", name="q", command="", hours=0.0)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_a_truncated_checkpoint_is_refused_in_a_sentence(
    share: float, straight: Path, tmp_path: Path
) -> None:
    """Whatever is cut off."""
    whole = (straight / CHECKPOINT).read_bytes()
    (tmp_path / CHECKPOINT).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InstanceError, match=r"damaged or cut short|is not a checkpoint of alloc"):
        train(training(tmp_path), tmp_path)


def test_a_flipped_bit_and_a_foreign_file_are_refused(straight: Path, tmp_path: Path) -> None:
    """Nothing of it is executed: not even a pickle with a right checksum."""
    whole = bytearray((straight / CHECKPOINT).read_bytes())
    whole[len(whole) // 2] ^= 1
    (tmp_path / CHECKPOINT).write_bytes(whole)
    with pytest.raises(InstanceError, match="damaged or cut short"):
        train(training(tmp_path), tmp_path)
    (tmp_path / CHECKPOINT).write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(InstanceError, match="is not a checkpoint of alloc"):
        train(training(tmp_path), tmp_path)
    with pytest.raises(TypeError, match="tensors and plain values only"):
        shared.save_checkpoint(tmp_path / CHECKPOINT, {"weights": Path("here")})
    buffer = io.BytesIO()
    torch.save({"weights": Path("here")}, buffer)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest().encode()
    forged = b"alloc checkpoint 1\n" + digest + b"\n" + buffer.getvalue()
    (tmp_path / CHECKPOINT).write_bytes(forged)
    with pytest.raises(InstanceError, match="nothing in it was executed"):
        train(training(tmp_path), tmp_path)
    shared.save_checkpoint(tmp_path / CHECKPOINT, {"kind": "set-policy"})
    with pytest.raises(InstanceError, match="is not a checkpoint of alloc"):
        train(training(tmp_path), tmp_path)


@pytest.mark.parametrize("change", ["no curve", "no network", "another network", "no number"])
def test_a_checkpoint_of_another_alloc_is_refused_in_a_sentence(
    change: str, straight: Path, tmp_path: Path
) -> None:
    """Whole, and of the same training, but not in the form that is read: no traceback."""
    kept = shared.load_checkpoint(straight / CHECKPOINT)
    if change == "no curve":
        del kept["curve"]
    elif change == "no network":
        del kept["state"]["network"]
    elif change == "another network":
        kept["state"]["network"] = {"weight": torch.zeros(3)}
    else:
        kept["step"] = "some"
    shared.save_checkpoint(tmp_path / CHECKPOINT, kept)
    with pytest.raises(InstanceError, match="does not hold the state of this training"):
        train(training(tmp_path), tmp_path)


def test_a_checkpoint_of_other_settings_is_refused(straight: Path) -> None:
    """With what differs: a seed, a plan; or if a new run is wanted in its place."""
    with pytest.raises(InstanceError, match=r"other settings \(seed: there 0, here 7\)"):
        train(training(straight, seed=7), straight)
    with pytest.raises(InstanceError, match=r"rewards: there 2, here 9"):
        train(training(straight, plan=Plan(2, 2, 9)), straight)
    with pytest.raises(InstanceError, match="is there already; resume it"):
        train(training(straight), straight, resume=False)


def test_plans_follow_from_minutes_not_from_the_clock() -> None:
    """The same command gives the same policy on any machine."""
    assert Plan.of_minutes(30) == Plan(6, 18, 120)
    assert Plan.of_minutes(0.01) == Plan(1, 1, 1)
    with pytest.raises(InstanceError, match="minutes"):
        Plan.of_minutes(0)
    with pytest.raises(InstanceError, match="no worlds"):
        SetPolicyTraining("x", PLAN, worlds={})
