"""What comes of a training of DL2: held-out results, the policy file, the curve as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from dl2_tiny import tiny
from needs import need_torch

pytestmark = need_torch()

from alloc.errors import InstanceError  # noqa: E402
from alloc.learning.dl2.networks import DenseForward  # noqa: E402
from alloc.learning.dl2.outcome import (  # noqa: E402
    DL2Outcome,
    curve_csv,
    outcome_of,
)
from alloc.learning.dl2.rollout import Player  # noqa: E402
from alloc.learning.dl2.trainer import JCT, DL2Trainer  # noqa: E402
from alloc.learning.export import assert_parity  # noqa: E402
from alloc.learning.publishing import publish  # noqa: E402
from alloc.schedulers import make_scheduler  # noqa: E402
from alloc.simulation import simulate  # noqa: E402


def trained(name: str) -> DL2Trainer:
    trainer = DL2Trainer(tiny(name), seed=3)
    while not trainer.over:
        trainer.advance()
    return trainer


@pytest.fixture(scope="module", params=["released", "paper"])
def trainer(request: pytest.FixtureRequest) -> DL2Trainer:
    return trained(request.param)


def test_the_policy_file_plays_as_the_trained_network(tmp_path: Path) -> None:
    """Through ONNX, the registry and `simulate`: the same completion times as in training.

    Not for the paper's preset: without a first pair, a network trained for a second starts no job.
    """
    trainer = trained("released")
    path = tmp_path / "dl2-test.onnx"
    publish(trainer, path, name="dl2-test", command="alloc train dl2", hours=0.1)
    traces = trainer.dl2.world.held_out(2)
    wanted = outcome_of(trainer, 0.1).likeliest
    scheduler = make_scheduler(str(path))
    for trace, jct in zip(traces, wanted, strict=True):
        result = simulate(trace, scheduler)
        times = [(result.completion_s[job.id] or np.inf) - job.arrival_s for job in trace.jobs]
        assert np.mean(times) / 1200.0 == pytest.approx(jct, rel=1e-9)


def test_the_policy_file_says_what_pytorch_says(trainer: DL2Trainer, tmp_path: Path) -> None:
    """Within 1e-5 on random windows and on empty ones, and its card tells where it comes from."""
    policy = publish(trainer, tmp_path / "d.onnx", name="d", command="c", hours=0.1)
    shape = trainer.dl2.features.shape
    rng = np.random.default_rng(0)
    samples = [(rng.random((5, *shape), dtype=np.float32) * 9,), (np.zeros((1, *shape), "f4"),)]
    assert assert_parity(trainer.best(), policy, samples) <= 1e-5
    assert policy.card.seeds == (3,)
    assert [p.step for p in policy.card.curve] == [16, 24]
    assert min(p.value for p in policy.card.curve) == trainer.best_value


def test_the_outcome_survives_as_json(trainer: DL2Trainer) -> None:
    """It is kept in place of hours of training."""
    outcome = outcome_of(trainer, 0.25)
    assert DL2Outcome.from_dict(outcome.to_dict()) == outcome
    assert len(outcome.drawn) == len(outcome.likeliest) == len(outcome.last_drawn) == 2
    assert outcome.validation_best <= outcome.validation_last
    assert outcome.fingerprint == trainer.dl2.fingerprint
    assert outcome_of(trainer, 0.25) == outcome  # the draws are seeded


def test_the_curve_as_csv_has_every_point(trainer: DL2Trainer) -> None:
    """Numbers come back to the last digit; what a stage does not measure is empty."""
    rows = list(csv.DictReader(io.StringIO(curve_csv(trainer.curve))))
    assert [float(row[JCT]) for row in rows] == trainer.curve.series(JCT)[1]
    assert [int(row["step"]) for row in rows] == [p.step for p in trainer.curve.points]
    assert rows[1]["critic_loss"] == ""
    assert rows[-1]["critic_loss"] != ""


@pytest.mark.parametrize(
    ("ablation", "title", "phases"),
    [
        ("no-supervised", "DL2 rebuilt without its supervised phase: ", "16 updates of actor"),
        ("no-reinforcement", "DL2 rebuilt without reinforcement: ", "8 supervised updates on"),
    ],
)
def test_a_card_says_which_phase_was_left_out(
    tmp_path: Path, ablation: str, title: str, phases: str
) -> None:
    """In a list of policies an ablation must not pass for DL2 itself."""
    trainer = DL2Trainer(tiny("released", ablation), seed=3)
    while not trainer.over:
        trainer.advance()
    card = publish(trainer, tmp_path / "d.onnx", name="d", command="c", hours=0.1).card
    assert card.title.startswith(title)
    assert f"(alloc.learning.dl2.world). {phases}" in card.data
    assert "0 supervised" not in card.data


def test_nothing_trained_is_no_policy(tmp_path: Path) -> None:
    """An untrained network must not become a file that looks like a policy."""
    with pytest.raises(InstanceError, match="nothing has been trained yet"):
        publish(DL2Trainer(tiny()), tmp_path / "d.onnx", name="d", command="c", hours=0.0)


def test_drawn_actions_differ_and_likeliest_do_not(trainer: DL2Trainer) -> None:
    """Side by side or one by one, a policy that takes the likeliest action does the same."""
    forward = DenseForward(trainer.learner.policy)
    traces = trainer.dl2.world.held_out(3)
    features = trainer.dl2.features
    together = Player(features, 3).play(forward, traces, None)
    alone = [Player(features, 1).play(forward, [trace], None)[0] for trace in traces]
    assert together == pytest.approx(alone)
    draws = {
        Player(features, 3).play(forward, traces, np.random.default_rng(seed))[0]
        for seed in range(5)
    }
    assert len(draws) > 1
