"""Training DL2: its course, what it keeps, and that an interruption changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dl2_tiny import tiny
from needs import need_torch

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.errors import InstanceError  # noqa: E402
from alloc.learning.dl2.settings import ABLATIONS, PRESETS  # noqa: E402
from alloc.learning.dl2.trainer import JCT, DL2Trainer  # noqa: E402
from alloc.learning.training import CHECKPOINT, CURVE, train, weights_of  # noqa: E402

VALID = [
    (name, ablation)
    for name in PRESETS
    for ablation in ("", *ABLATIONS)
    if (name, ablation) != ("paper", "no-critic")
    and (name != "released-experiment" or not ablation)
]


@pytest.mark.parametrize(("name", "ablation"), VALID)
def test_every_preset_and_ablation_trains(name: str, ablation: str, tmp_path: Path) -> None:
    """Each takes all its updates, learns something, and measures what its curve promises."""
    settings = tiny(name, *([ablation] if ablation else []))
    trainer = DL2Trainer(settings, seed=1)
    before = weights_of(trainer.network)
    train(trainer, tmp_path)
    assert trainer.step == settings.supervised_updates + settings.updates
    after = trainer.network.state_dict()
    assert any(not torch.equal(before[k], after[k]) for k in after)
    assert all(torch.isfinite(tensor).all() for tensor in after.values())
    steps, values = trainer.curve.series(JCT)
    wanted = [0]
    wanted += [8] if settings.supervised_updates else []
    wanted += [settings.supervised_updates + k for k in (8, 16)] if settings.updates else []
    assert steps == wanted
    assert all(np.isfinite(values))
    losses = trainer.curve.points[-1].values
    assert ("critic_loss" in losses) == (settings.critic and settings.updates > 0)
    assert ("supervised_loss" in losses) == (settings.updates == 0)
    # Killed while the policy is judged, after the last step: nothing is left to do.
    again = DL2Trainer(settings, seed=1)
    train(again, tmp_path)
    assert again.over
    assert again.curve.to_list() == trainer.curve.to_list()
    best = trainer.best().state_dict()
    assert all(torch.equal(mine, best[k]) for k, mine in again.best().state_dict().items())


def test_reinforcement_goes_on_from_the_weights_kept() -> None:
    """The released code starts from the file of update 100, though it trains to 200."""
    settings = tiny(updates=0, supervised_updates=5, supervised_kept=5)
    kept = DL2Trainer(settings, seed=2)
    while not kept.over:
        kept.advance()
    longer = DL2Trainer(tiny(), seed=2)
    while longer.stage == "supervised":
        longer.advance()
    weights = longer.network.state_dict()
    for name, tensor in kept.network.state_dict().items():
        assert torch.equal(tensor, weights[name])


def test_the_best_weights_of_reinforcement_are_kept() -> None:
    """Chosen on validation, among its own checkpoints: not those of the supervised phase."""
    trainer = DL2Trainer(tiny(updates=40), seed=0)
    while not trainer.over:
        trainer.advance()
    values = {p.step: p.values[JCT] for p in trainer.curve.points if p.stage == "reinforcement"}
    assert trainer.best_value == min(values.values())
    assert values[trainer.best_step] == trainer.best_value
    assert trainer.best_step > trainer.dl2.supervised_updates


@pytest.mark.parametrize(("name", "ablation"), [("released", ""), ("paper", "")])
def test_stopped_anywhere_it_ends_in_the_same_weights(
    name: str, ablation: str, tmp_path: Path
) -> None:
    """After every trace a new process takes over: curve and weights equal to the last bit."""
    whole = DL2Trainer(tiny(name), seed=5)
    train(whole, tmp_path / "whole")
    parts = 0
    while True:
        trainer = DL2Trainer(tiny(name), seed=5, traces_at_a_time=1)
        asked = iter((False, True))
        train(trainer, tmp_path / "parts", stop=asked.__next__)
        parts += 1
        if trainer.over:
            break
    assert parts > 3
    assert trainer.curve.to_list() == whole.curve.to_list()
    assert (trainer.best_step, trainer.best_value) == (whole.best_step, whole.best_value)
    for mine, theirs in (
        (trainer.best().state_dict(), whole.best().state_dict()),
        (trainer.network.state_dict(), whole.network.state_dict()),
    ):
        for key, tensor in mine.items():
            assert torch.equal(tensor, theirs[key])


def test_seeds_lead_to_different_trainings() -> None:
    """Ten seeds that were one would have no spread."""
    first, second = (DL2Trainer(tiny(), seed) for seed in (0, 1))
    for trainer in (first, second):
        while not trainer.over:
            trainer.advance()
    assert first.curve.to_list() != second.curve.to_list()


def test_an_unknown_teacher_is_refused_before_any_work() -> None:
    """Not after the first traces have been played."""
    with pytest.raises(InstanceError, match='unknown scheduler "drff"; did you mean "drf"'):
        DL2Trainer(tiny(teacher="drff"))


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    """In one sentence that says what differs."""
    train(DL2Trainer(tiny(updates=2), seed=1), tmp_path)
    with pytest.raises(InstanceError, match=r"belongs to a training of other settings .*seed"):
        train(DL2Trainer(tiny(updates=2), seed=2), tmp_path)
    with pytest.raises(InstanceError, match=r"belongs to a training of other settings .*critic"):
        train(DL2Trainer(tiny("released", "no-critic", updates=2), seed=1), tmp_path)


@pytest.mark.parametrize("length", [0, 10, 60, 1000, -1])
def test_a_truncated_checkpoint_is_refused(length: int, tmp_path: Path) -> None:
    """Wherever the cut is, nothing is taken up from it."""
    train(DL2Trainer(tiny(updates=2), seed=1), tmp_path)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InstanceError, match="damaged or cut short"):
        train(DL2Trainer(tiny(updates=2), seed=1), tmp_path)


KILLED = """
import sys
sys.path[:0] = {path!r}
from dl2_tiny import tiny
from alloc.learning.dl2.trainer import DL2Trainer
from alloc.learning.training import train
print("begun", flush=True)
trainer = DL2Trainer(tiny(updates=400, validate_every=50), seed=7, traces_at_a_time=1)
train(trainer, {folder!r}, report=lambda *_: print("step", flush=True))
print("done", flush=True)
"""


@pytest.mark.slow
def test_killed_outright_it_ends_in_the_same_curve(tmp_path: Path) -> None:
    """SIGKILL lets nothing be tidied up; what is on disk must do, also in the middle of a write."""
    whole = DL2Trainer(tiny(updates=400, validate_every=50), seed=7)
    train(whole, tmp_path / "whole")
    folder = tmp_path / "killed"
    script = KILLED.format(path=[p for p in sys.path if p.endswith("helpers")], folder=str(folder))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for attempt in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "begun\n"
        if attempt < 3:
            for _ in range(attempt):
                assert process.stdout.readline() == "step\n"
            process.send_signal(signal.SIGKILL)
        said, complaints = process.communicate()
        assert not complaints
    assert said.endswith("done\n")
    kept = json.loads((folder / CURVE).read_text())
    assert kept == json.loads((tmp_path / "whole" / CURVE).read_text())
    taken_up = DL2Trainer(tiny(updates=400, validate_every=50), seed=7)
    train(taken_up, folder)
    for key, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, taken_up.network.state_dict()[key])
